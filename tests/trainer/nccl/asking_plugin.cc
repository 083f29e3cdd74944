// EMULATED: a libregatta-cuda.so whose NCCL gets no further than to ask what comes before it.
#include "base/error.h"
#include "trainer/cuda/plugin.h"

using namespace regatta::trainer;  // this file only

const char* regatta_cuda_plugin_version() { return cuda::kCudaPluginVersion; }

device::Device* regatta_make_cuda_device(const cuda::CudaOptions*, device::PluginError*) {
  return nullptr;
}

ranks::Communicator* regatta_make_nccl_communicator(device::Device*, nccl::NcclHost* host,
                                                    const nccl::NcclOptions* options,
                                                    device::PluginError* error) {
  return device::made_or_null(
      [&]() -> std::unique_ptr<ranks::Communicator> {
        options->before_first(*host->values, 22809);
        throw regatta::base::Error(regatta::base::Code::Operator, "asked, and no more");
      },
      error);
}
