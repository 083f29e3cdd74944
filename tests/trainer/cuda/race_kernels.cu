#include <cuda_runtime.h>

#include <cstdlib>

#include "tests/trainer/cuda/race_kernels.h"
#include "trainer/cuda/kernels/launch.cuh"
#include "trainer/cuda/kernels/numeric.cuh"

namespace regatta::tests {
namespace {

using trainer::cuda::dynamic_shared;

__device__ float* shared() { return reinterpret_cast<float*>(dynamic_shared()); }
__device__ float* slice(float* memory) { return memory + blockIdx.x * blockDim.x; }

__global__ void own_elements_kernel(float* memory) {
  slice(memory)[threadIdx.x] = 1;
  slice(memory)[threadIdx.x] += 1;
}
__global__ void barrier_kernel(float* memory) {
  shared()[threadIdx.x] = static_cast<float>(threadIdx.x);
  __syncthreads();
  slice(memory)[threadIdx.x] = shared()[63 - threadIdx.x];
  __syncthreads();
  shared()[threadIdx.x] = 0;
}
__global__ void no_barrier_kernel(float* memory) {
  shared()[threadIdx.x] = static_cast<float>(threadIdx.x);
  slice(memory)[threadIdx.x] = shared()[63 - threadIdx.x];
}
__global__ void no_second_barrier_kernel(float* memory) {
  shared()[threadIdx.x] = static_cast<float>(threadIdx.x);
  __syncthreads();
  slice(memory)[threadIdx.x] = shared()[63 - threadIdx.x];
  shared()[threadIdx.x] = 0;
}
__global__ void static_shared_kernel(float* memory) {
  __shared__ float values[64];
  values[threadIdx.x] = 1;
  slice(memory)[threadIdx.x] = values[63 - threadIdx.x];
}
__global__ void same_place_kernel(float* memory) {
  shared()[0] = 1;
  __syncthreads();
  slice(memory)[threadIdx.x] = shared()[0];
}
__global__ void syncwarp_kernel(float* memory) {
  const unsigned other = threadIdx.x ^ 1U;
  shared()[threadIdx.x] = 1;
  __syncwarp();
  slice(memory)[threadIdx.x] = shared()[other];
  __syncwarp();
  shared()[threadIdx.x] = 2;
}
__global__ void syncwarp_of_two_warps_kernel(float* memory) {
  shared()[threadIdx.x] = 1;
  __syncwarp();
  slice(memory)[threadIdx.x] = shared()[threadIdx.x ^ 32U];
}
__global__ void shuffle_is_no_barrier_kernel(float* memory) {
  shared()[threadIdx.x] = trainer::cuda::warp_sum(1);
  const float sum = trainer::cuda::warp_sum(1);
  slice(memory)[threadIdx.x] = shared()[threadIdx.x ^ 1U] + sum;
}
__global__ void block_sums_kernel(float* memory) {
  __shared__ float first[32];
  __shared__ float second[32];
  const float x = trainer::cuda::block_sum(1, first);
  slice(memory)[threadIdx.x] = trainer::cuda::block_sum(x, second);
}
__global__ void scratch_used_again_kernel(float* memory) {
  __shared__ float partial[2];
  for (int round = 0; round < 2; ++round) {
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = 1;
    __syncthreads();
    slice(memory)[threadIdx.x] = partial[0] + partial[1];
  }
}
__global__ void block_sums_in_one_place_kernel(float* memory) {
  __shared__ float partial[32];
  const float x = trainer::cuda::block_sum(1, partial);
  slice(memory)[threadIdx.x] = trainer::cuda::block_sum(x, partial);
}
__global__ void two_blocks_write_kernel(float* memory) {
  if (threadIdx.x == 0) memory[0] = 1;
}
__global__ void one_block_reads_kernel(float* memory) {
  if (blockIdx.x == 0) {
    memory[threadIdx.x] = 1;
  } else {
    memory[64 + threadIdx.x] = memory[threadIdx.x];
  }
}
__global__ void halves_kernel(float* memory) {  // neighbours of 2 bytes do not disturb each other
  reinterpret_cast<trainer::cuda::bf16*>(slice(memory))[threadIdx.x] =
      trainer::cuda::from_float<trainer::cuda::bf16>(1);
}
__global__ void wide_kernel(float* memory) {
  float4* const wide = reinterpret_cast<float4*>(memory + 64 * 4 * blockIdx.x);
  wide[threadIdx.x] = make_float4(1, 2, 3, 4);
  if (threadIdx.x == 7) memory[64 * 4 * blockIdx.x + 8 * 4 + 3] = 1;
}

}  // namespace

std::vector<RaceCase> race_cases() {
  return {
      {"own_elements", "", own_elements_kernel},
      {"barrier", "", barrier_kernel},
      {"no_barrier", "race_kernels.cu", no_barrier_kernel},
      {"no_second_barrier", "race_kernels.cu", no_second_barrier_kernel},
      {"static_shared", "race_kernels.cu", static_shared_kernel},
      {"same_place", "race_kernels.cu", same_place_kernel},
      {"syncwarp", "", syncwarp_kernel},
      {"syncwarp_of_two_warps", "race_kernels.cu", syncwarp_of_two_warps_kernel},
      {"shuffle_is_no_barrier", "race_kernels.cu", shuffle_is_no_barrier_kernel},
      {"block_sums", "", block_sums_kernel},
      {"block_sums_in_one_place", "numeric.cuh", block_sums_in_one_place_kernel},
      {"scratch_used_again", "race_kernels.cu", scratch_used_again_kernel},
      {"two_blocks_write", "another block's write", two_blocks_write_kernel},
      {"one_block_reads", "another block's", one_block_reads_kernel},
      {"halves", "", halves_kernel},
      {"wide", "race_kernels.cu", wide_kernel},
  };
}

void run_race_case(const RaceCase& race_case) {
  float* memory = nullptr;
  trainer::cuda::check(cudaMalloc(&memory, 4096), "allocating");
  trainer::cuda::launch(race_case.kernel, 2, 64, 256, nullptr, memory);
  trainer::cuda::check(cudaFree(memory), "freeing");
}

}  // namespace regatta::tests
