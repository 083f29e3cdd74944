#include "trainer/plugins/mpi_plugin.h"

#include "trainer/mpi/plugin.h"

namespace regatta::trainer::plugins {

std::unique_ptr<ranks::Communicator> load_mpi_communicator(const PluginPlace& place,
                                                           const mpi::MpiOptions& options) {
  const Plugin plugin(place,
                      {mpi::kMpiPluginFile, "the MPI communicator",
                       "build with Open MPI (Debian: libopenmpi-dev), name its directory in "
                       "REGATTA_PLUGIN_DIR, or set ranks: 1",
                       "MPI's own libraries", mpi::kMpiVersionFunction, mpi::kMpiPluginVersion});
  device::PluginError error;
  return device::owned_or_throw(
      plugin.entry<mpi::MpiMakeFunction>(mpi::kMpiMakeFunction)(&options, &error), error);
}

}  // namespace regatta::trainer::plugins
