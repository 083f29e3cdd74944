#include "trainer/plugins/mpi_plugin.h"

#include "trainer/mpi/plugin.h"

namespace regatta::trainer {

std::unique_ptr<Communicator> load_mpi_communicator(const PluginPlace& place,
                                                    const MpiOptions& options) {
  const Plugin plugin(place, {kMpiPluginFile, "the MPI communicator",
                              "build with Open MPI (Debian: libopenmpi-dev), name its directory in "
                              "REGATTA_PLUGIN_DIR, or set ranks: 1",
                              "MPI's own libraries", kMpiVersionFunction, kMpiPluginVersion});
  PluginError error;
  return owned_or_throw(plugin.entry<MpiMakeFunction>(kMpiMakeFunction)(&options, &error), error);
}

}  // namespace regatta::trainer
