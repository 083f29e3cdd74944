#include "trainer/plugins/cuda_plugin.h"

#include "trainer/cuda/plugin.h"

namespace regatta::trainer {
namespace {

Plugin load_cuda_plugin(const PluginPlace& place) {
  return Plugin(place, {kCudaPluginFile, "the CUDA device",
                        "build and install it with the CMake preset cuda, name its directory in "
                        "REGATTA_PLUGIN_DIR, or use device cpu",
                        "CUDA's own libraries", kCudaVersionFunction, kCudaPluginVersion});
}

}  // namespace

std::unique_ptr<Device> load_cuda_device(const PluginPlace& place, const CudaOptions& options) {
  const Plugin plugin = load_cuda_plugin(place);
  PluginError error;
  return owned_or_throw(plugin.entry<CudaMakeFunction>(kCudaMakeFunction)(&options, &error), error);
}

std::unique_ptr<Communicator> load_nccl_communicator(const PluginPlace& place, Device& device,
                                                     NcclHost host, const NcclOptions& options) {
  const Plugin plugin = load_cuda_plugin(place);
  PluginError error;
  auto* make = plugin.entry<NcclMakeFunction>(kNcclMakeFunction);
  return owned_or_throw(make(&device, &host, &options, &error), error);
}

}  // namespace regatta::trainer
