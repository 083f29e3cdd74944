// Between regatta-train and libregatta-cuda.so: two functions, found by name. Both sides are built
// from one source tree, which the version assures, so a Device and its options may cross as C++;
// exceptions of the factory do not.
#pragma once

#include "trainer/cuda/cuda_device.h"
#include "trainer/plugin_entry.h"

namespace regatta::trainer {

// Counts up with every change to Device, CudaOptions or these functions.
#define REGATTA_CUDA_INTERFACE "1"
constexpr const char* kCudaPluginVersion =
    "regatta-cuda " REGATTA_CUDA_INTERFACE " of " REGATTA_VERSION;
constexpr const char* kCudaPluginFile = "libregatta-cuda.so";
constexpr const char* kCudaVersionFunction = "regatta_cuda_plugin_version";
constexpr const char* kCudaMakeFunction = "regatta_make_cuda_device";

using CudaMakeFunction = Device*(const CudaOptions*, PluginError*);

}  // namespace regatta::trainer

extern "C" {
// The plug-in's kCudaPluginVersion. Static.
[[gnu::visibility("default")]] const char* regatta_cuda_plugin_version();
// A new device that the caller deletes, or null with the error filled in.
[[gnu::visibility("default")]] regatta::trainer::Device* regatta_make_cuda_device(
    const regatta::trainer::CudaOptions* options, regatta::trainer::PluginError* error);
}
