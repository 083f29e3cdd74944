#include "trainer/cuda_plugin.h"

#include "trainer/cuda/plugin.h"

namespace regatta::trainer {

std::unique_ptr<Device> load_cuda_device(const PluginPlace& place, const CudaOptions& options) {
  const Plugin plugin(place,
                      {kCudaPluginFile, "the CUDA device",
                       "build and install it with the CMake preset cuda, name its directory in "
                       "REGATTA_PLUGIN_DIR, or use device cpu",
                       "CUDA's own libraries", kCudaVersionFunction, kCudaPluginVersion});
  PluginError error;
  return owned_or_throw(plugin.entry<CudaMakeFunction>(kCudaMakeFunction)(&options, &error), error);
}

}  // namespace regatta::trainer
