// Between regatta-train and libregatta-cuda.so: three functions, found by name. Both sides are
// built from one source tree, which the version assures, so a Device, a Communicator and their
// options may cross as C++; exceptions of the factories do not.
#pragma once

#include "trainer/cuda/cuda_device.h"
#include "trainer/device/plugin_entry.h"
#include "trainer/nccl/nccl_options.h"
#include "trainer/ranks/communicator.h"

namespace regatta::trainer::cuda {

// Counts up with every change to Device, Communicator, their options or these functions.
#define REGATTA_CUDA_INTERFACE "5"
constexpr const char* kCudaPluginVersion =
    "regatta-cuda " REGATTA_CUDA_INTERFACE " of " REGATTA_VERSION;
constexpr const char* kCudaPluginFile = "libregatta-cuda.so";
constexpr const char* kCudaVersionFunction = "regatta_cuda_plugin_version";
constexpr const char* kCudaMakeFunction = "regatta_make_cuda_device";
constexpr const char* kNcclMakeFunction = "regatta_make_nccl_communicator";

using CudaMakeFunction = device::Device*(const CudaOptions*, device::PluginError*);
using NcclMakeFunction = ranks::Communicator*(device::Device*, nccl::NcclHost*,
                                              const nccl::NcclOptions*, device::PluginError*);

}  // namespace regatta::trainer::cuda

extern "C" {
// The plug-in's kCudaPluginVersion. Static.
[[gnu::visibility("default")]] const char* regatta_cuda_plugin_version();
// A new device that the caller deletes, or null with the error filled in.
[[gnu::visibility("default")]] regatta::trainer::device::Device* regatta_make_cuda_device(
    const regatta::trainer::cuda::CudaOptions* options,
    regatta::trainer::device::PluginError* error);
// The same of communicators. `device` is of the function above, and outlives what is made; `host`
// is moved from.
[[gnu::visibility("default")]] regatta::trainer::ranks::Communicator*
regatta_make_nccl_communicator(regatta::trainer::device::Device* device,
                               regatta::trainer::nccl::NcclHost* host,
                               const regatta::trainer::nccl::NcclOptions* options,
                               regatta::trainer::device::PluginError* error);
}
