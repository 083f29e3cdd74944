// Loads the CUDA device from its plug-in, so that one program runs with and without CUDA.
#pragma once

#include <memory>

#include "trainer/cuda/cuda_device.h"
#include "trainer/plugin_loader.h"

namespace regatta::trainer {

// The device of make_cuda_device. Throws what that throws, and what Plugin throws.
[[nodiscard]] std::unique_ptr<Device> load_cuda_device(const PluginPlace& place,
                                                       const CudaOptions& options);

}  // namespace regatta::trainer
