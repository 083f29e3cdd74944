#include "trainer/cuda/plugin.h"

using namespace regatta::trainer;  // this file only

const char* regatta_cuda_plugin_version() { return kCudaPluginVersion; }

Device* regatta_make_cuda_device(const CudaOptions* options, PluginError* error) {
  return made_or_null([&] { return make_cuda_device(*options); }, error);
}
