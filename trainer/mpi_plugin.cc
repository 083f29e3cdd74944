#include "trainer/mpi_plugin.h"

#include "base/error.h"
#include "trainer/mpi/plugin.h"

namespace regatta::trainer {

std::unique_ptr<Communicator> load_mpi_communicator(const PluginPlace& place) {
  const Plugin plugin(place, {kMpiPluginFile, "the MPI communicator",
                              "build with Open MPI (Debian: libopenmpi-dev), name its directory in "
                              "REGATTA_PLUGIN_DIR, or set ranks: 1",
                              "MPI's own libraries", kMpiVersionFunction, kMpiPluginVersion});
  MpiPluginError error;
  std::unique_ptr<Communicator> communicator(
      plugin.entry<MpiMakeFunction>(kMpiMakeFunction)(&error));
  if (communicator == nullptr) {
    throw base::Error(static_cast<base::Code>(error.code), error.message);
  }
  return communicator;
}

}  // namespace regatta::trainer
