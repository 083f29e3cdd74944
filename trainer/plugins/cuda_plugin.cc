#include "trainer/plugins/cuda_plugin.h"

#include "trainer/cuda/plugin.h"

namespace regatta::trainer::plugins {
namespace {

Plugin load_cuda_plugin(const PluginPlace& place) {
  return Plugin(place,
                {cuda::kCudaPluginFile, "the CUDA device",
                 "build and install it with the CMake preset cuda, name its directory in "
                 "REGATTA_PLUGIN_DIR, or use device cpu",
                 "CUDA's own libraries", cuda::kCudaVersionFunction, cuda::kCudaPluginVersion});
}

}  // namespace

std::unique_ptr<device::Device> load_cuda_device(const PluginPlace& place,
                                                 const cuda::CudaOptions& options) {
  const Plugin plugin = load_cuda_plugin(place);
  device::PluginError error;
  return device::owned_or_throw(
      plugin.entry<cuda::CudaMakeFunction>(cuda::kCudaMakeFunction)(&options, &error), error);
}

std::unique_ptr<ranks::Communicator> load_nccl_communicator(const PluginPlace& place,
                                                            device::Device& device,
                                                            nccl::NcclHost host,
                                                            const nccl::NcclOptions& options) {
  const Plugin plugin = load_cuda_plugin(place);
  device::PluginError error;
  auto* make = plugin.entry<cuda::NcclMakeFunction>(cuda::kNcclMakeFunction);
  return device::owned_or_throw(make(&device, &host, &options, &error), error);
}

}  // namespace regatta::trainer::plugins
