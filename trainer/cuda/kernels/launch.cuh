// Launching kernels: errors become exceptions, large shared memory is asked for, and no <<< >>>, so
// that the same source also compiles as plain C++ for the emulated device of the tests.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <utility>

#include "trainer/cuda/check.h"

namespace regatta::trainer::cuda {

// Enqueues kernel<<<grid, block, shared_bytes, stream>>>(arguments…). Nothing for an empty grid.
template <typename... Parameters, typename... Arguments>
void launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, std::size_t shared_bytes,
            cudaStream_t stream, Arguments&&... arguments) {
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return;
  if (shared_bytes > 48 * 1024) {
    check(cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                               cudaFuncAttributeMaxDynamicSharedMemorySize,
                               static_cast<int>(shared_bytes)),
          "asking for shared memory");
  }
  cudaLaunchConfig_t config = {};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  check(cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...),
        "launching a kernel");
}

// The block's dynamic shared memory, aligned to 1024 bytes.
__device__ inline unsigned char* dynamic_shared() {
#if defined(REGATTA_CUDA_EMULATION)
  return emulation::dynamic_shared();
#else
  extern __shared__ __align__(1024) unsigned char regatta_dynamic_shared[];
  return regatta_dynamic_shared;
#endif
}

}  // namespace regatta::trainer::cuda
