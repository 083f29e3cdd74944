// The GPU under test: the machine's own through the plug-in, as regatta-train uses it
// (plugin_gpu.cc), or an emulated one (tests/trainer/cuda/emulated_gpu.cc).
#pragma once

#include <memory>

#include "trainer/cuda/cuda_device.h"

namespace regatta::tests {

// Throws what make_cuda_device throws.
[[nodiscard]] std::unique_ptr<trainer::device::Device> make_gpu(
    const trainer::cuda::CudaOptions& options);

// An emulated GPU is some ten thousand times slower: tests of training take a smaller model and
// fewer steps.
[[nodiscard]] bool gpu_is_emulated();

// How a program ends whose GPU a kernel has made unusable (gpu_main.cc): whoever started it goes on
// with the rest in a new process. No exit code of GoogleTest, a shell or a signal.
constexpr int kGpuFaultExit = 86;

}  // namespace regatta::tests
