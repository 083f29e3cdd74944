#include "trainer/cuda/plugin.h"

using namespace regatta::trainer;  // this file only

const char* regatta_cuda_plugin_version() { return cuda::kCudaPluginVersion; }

device::Device* regatta_make_cuda_device(const cuda::CudaOptions* options,
                                         device::PluginError* error) {
  return device::made_or_null([&] { return cuda::make_cuda_device(*options); }, error);
}
