// Sums over a block, and what kernels of the optimizer share.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "trainer/device/device.h"

namespace regatta::trainer::cuda {

constexpr int kThreads = 256;
constexpr std::int64_t kMostBlocks = 1024;  // 8 for each of 132 multiprocessors, nearly

// Thread 0 gets the block's sum of x; `partial` is kThreads doubles of shared memory, free again
// after the call's last barrier.
__device__ inline double block_sum(double x, double* partial) {
  const int t = static_cast<int>(threadIdx.x);
  partial[t] = x;
  __syncthreads();
  for (int half = kThreads / 2; half > 0; half /= 2) {
    if (t < half) partial[t] += partial[t + half];
    __syncthreads();
  }
  return partial[0];
}

// What keeps the norm of a step's gradient within the clip norm.
__device__ inline float limit_of(const float* scalars, float squared_norm) {
  const float norm = sqrtf(squared_norm) * scalars[device::kInverseLossScale];
  const float most = scalars[device::kClipNorm];
  return most > 0 && norm > most ? most / norm : 1.0F;
}

}  // namespace regatta::trainer::cuda
