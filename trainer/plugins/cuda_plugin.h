// Loads the CUDA device and the NCCL communicator from their plug-in, so that one program runs with
// and without CUDA.
#pragma once

#include <memory>

#include "trainer/cuda/cuda_device.h"
#include "trainer/nccl/nccl_options.h"
#include "trainer/plugins/plugin_loader.h"
#include "trainer/ranks/communicator.h"

namespace regatta::trainer::plugins {

// The device of make_cuda_device. Throws what that throws, and what Plugin throws.
[[nodiscard]] std::unique_ptr<device::Device> load_cuda_device(const PluginPlace& place,
                                                               const cuda::CudaOptions& options);

// Collective: the communicator of make_nccl_communicator (trainer/nccl/nccl_communicator.h) for the
// streams of `device`, which is of load_cuda_device and outlives it. Throws what that throws, what
// Plugin throws, and Code::Operator where there is no NCCL, or none that is new enough.
[[nodiscard]] std::unique_ptr<ranks::Communicator> load_nccl_communicator(
    const PluginPlace& place, device::Device& device, nccl::NcclHost host,
    const nccl::NcclOptions& options);

}  // namespace regatta::trainer::plugins
