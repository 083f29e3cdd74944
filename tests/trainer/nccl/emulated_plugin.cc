// EMULATED: a libregatta-cuda.so without CUDA, whose communicators have an emulated NCCL.
#include <memory>

#include "tests/trainer/nccl/emulated_nccl.h"
#include "trainer/cuda/plugin.h"
#include "trainer/nccl/nccl_communicator.h"

using namespace regatta::trainer;  // this file only

const char* regatta_cuda_plugin_version() { return cuda::kCudaPluginVersion; }

device::Device* regatta_make_cuda_device(const cuda::CudaOptions*, device::PluginError*) {
  return nullptr;
}

ranks::Communicator* regatta_make_nccl_communicator(device::Device*, nccl::NcclHost* host,
                                                    const nccl::NcclOptions* options,
                                                    device::PluginError* error) {
  return device::made_or_null(
      [&] {
        // One rank in each process; lives until the process ends, as streams of a device would.
        static regatta::tests::EmulatedNccl nccl(1);
        return nccl::make_nccl_communicator(nccl.table(0), std::move(*host), *options);
      },
      error);
}
