#include "trainer/mpi/plugin.h"

#include "trainer/mpi/mpi_communicator.h"

using namespace regatta::trainer;  // this file only

const char* regatta_mpi_plugin_version() { return kMpiPluginVersion; }

Communicator* regatta_make_mpi_communicator(PluginError* error) {
  return made_or_null([] { return make_mpi_communicator(); }, error);
}
