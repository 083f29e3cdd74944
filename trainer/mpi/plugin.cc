#include "trainer/mpi/plugin.h"

using namespace regatta::trainer;  // this file only

const char* regatta_mpi_plugin_version() { return kMpiPluginVersion; }

Communicator* regatta_make_mpi_communicator(const MpiOptions* options, PluginError* error) {
  return made_or_null([options] { return make_mpi_communicator(*options); }, error);
}
