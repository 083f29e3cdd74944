#include "trainer/mpi/plugin.h"

using namespace regatta::trainer;  // this file only

const char* regatta_mpi_plugin_version() { return mpi::kMpiPluginVersion; }

ranks::Communicator* regatta_make_mpi_communicator(const mpi::MpiOptions* options,
                                                   device::PluginError* error) {
  return device::made_or_null([options] { return mpi::make_mpi_communicator(*options); }, error);
}
