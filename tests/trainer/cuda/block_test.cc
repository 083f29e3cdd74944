// The emulated GPU's blocks: what threads do together, in every order, and what aborts.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "tests/trainer/cuda/emulation/facts.h"

namespace regatta::tests {
namespace {

template <typename... Parameters, typename... Arguments>
cudaError_t launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, std::size_t shared_bytes,
                   Arguments... arguments) {
  const cudaLaunchConfig_t config{grid, block, shared_bytes, nullptr, nullptr, 0};
  return cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...);
}

class EmulatedBlock : public testing::TestWithParam<const char*> {
 protected:
  EmulatedBlock() : before_(emulation::order()) {
    emulation::set_order(emulation::parse_order(GetParam()));
  }
  ~EmulatedBlock() override { emulation::set_order(before_); }

 private:
  emulation::Order before_;
};

__global__ void indexes_kernel(int* counts, dim3 grid, dim3 block) {
  EXPECT_EQ(gridDim.x, grid.x);
  EXPECT_EQ(gridDim.z, grid.z);
  EXPECT_EQ(blockDim.y, block.y);
  const unsigned block_rank = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  const unsigned thread_rank = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  EXPECT_EQ(static_cast<int>(thread_rank), emulation::thread_rank());
  ++counts[block_rank * blockDim.x * blockDim.y * blockDim.z + thread_rank];
}

TEST_P(EmulatedBlock, EveryThreadOfEveryBlockRunsOnce) {
  for (const dim3 grid : {dim3(1), dim3(7), dim3(2, 3, 4), dim3(1, 12)}) {
    for (const dim3 block : {dim3(1), dim3(33), dim3(32, 2, 2), dim3(1024), dim3(4, 4, 64)}) {
      std::vector<int> counts(grid.x * grid.y * grid.z * block.x * block.y * block.z);
      ASSERT_EQ(launch(indexes_kernel, grid, block, 0, counts.data(), grid, block), cudaSuccess);
      EXPECT_EQ(counts, std::vector<int>(counts.size(), 1));
    }
  }
}

// Every thread must see what every other wrote before the barrier, and nothing of later rounds.
__global__ void rounds_kernel(int rounds, int* wrong) {
  auto* values = reinterpret_cast<int*>(emulation::dynamic_shared());
  const int threads = static_cast<int>(blockDim.x);
  const int me = static_cast<int>(threadIdx.x);
  for (int round = 0; round < rounds; ++round) {
    values[me] = 1000 * round + me;
    __syncthreads();
    for (const int other : {(me + 1) % threads, (me + 31) % threads, threads - 1 - me}) {
      if (values[other] != 1000 * round + other) ++*wrong;
    }
    __syncthreads();
  }
}

TEST_P(EmulatedBlock, BarriersOrderTheBlock) {
  for (const unsigned threads : {32U, 96U, 256U, 1024U}) {
    int wrong = 0;
    ASSERT_EQ(launch(rounds_kernel, 3, threads, 4 * threads, 5, &wrong), cudaSuccess);
    EXPECT_EQ(wrong, 0) << threads;
  }
}

__global__ void shuffles_kernel(int* wrong) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const unsigned all = 0xFFFFFFFFU;
  const int value = 100 * warp + lane;
  const auto expect = [&](bool right) { *wrong += right ? 0 : 1; };
  expect(__shfl_xor_sync(all, value, 5) == 100 * warp + (lane ^ 5));
  expect(__shfl_sync(all, value, 7) == 100 * warp + 7);
  expect(__shfl_sync(all, value, 7 + lane) == 100 * warp + (7 + lane) % 32);
  expect(__shfl_sync(all, value, 1, 8) == 100 * warp + lane / 8 * 8 + 1);
  expect(__shfl_down_sync(all, value, 3) == (lane + 3 < 32 ? value + 3 : value));
  expect(__shfl_down_sync(all, value, 3, 8) == (lane % 8 + 3 < 8 ? value + 3 : value));
  expect(__shfl_up_sync(all, value, 3U) == (lane >= 3 ? value - 3 : value));
  expect(__shfl_up_sync(all, value, 1U, 4) == (lane % 4 >= 1 ? value - 1 : value));
  expect(__shfl_xor_sync(all, 0.5F + static_cast<float>(lane), 1) ==
         0.5F + static_cast<float>(lane ^ 1));
  const double large = 1e300 * lane;
  expect(__shfl_xor_sync(all, large, 16) == 1e300 * (lane ^ 16));
  const std::uint64_t wide = 0x100000001U * static_cast<unsigned>(lane);
  expect(__shfl_xor_sync(all, wide, 2) == 0x100000001U * static_cast<unsigned>(lane ^ 2));
  expect(__ballot_sync(all, lane % 3 == 0 ? 1 : 0) == 0x49249249U);
  expect(__any_sync(all, lane == 5 ? 1 : 0) == 1);
  expect(__any_sync(all, 0) == 0);
  expect(__all_sync(all, lane == 5 ? 1 : 0) == 0);
  expect(__all_sync(all, 1) == 1);
}

TEST_P(EmulatedBlock, WarpCollectives) {
  int wrong = 0;
  ASSERT_EQ(launch(shuffles_kernel, 2, 128, 0, &wrong), cudaSuccess);
  EXPECT_EQ(wrong, 0);
}

__global__ void ended_warps_kernel(float* sums) {
  if (threadIdx.x >= 64) return;  // whole warps may end while others go on without the block
  float x = static_cast<float>(threadIdx.x);
  for (int step = 16; step > 0; step /= 2) x += __shfl_xor_sync(0xFFFFFFFFU, x, step);
  sums[threadIdx.x] = x;
}

TEST_P(EmulatedBlock, WarpsMayEndEarly) {
  std::vector<float> sums(64);
  ASSERT_EQ(launch(ended_warps_kernel, 1, 256, 0, sums.data()), cudaSuccess);
  for (int i = 0; i < 64; ++i) EXPECT_EQ(sums[static_cast<std::size_t>(i)], i < 32 ? 496 : 1520);
}

__global__ void poison_kernel(int* wrong) {
  __shared__ float fixed[64];
  const auto* dynamic = reinterpret_cast<float*>(emulation::dynamic_shared());
  if (!std::isnan(fixed[threadIdx.x]) || !std::isnan(dynamic[threadIdx.x])) ++*wrong;
  __syncthreads();
  fixed[threadIdx.x] = 1;
  reinterpret_cast<float*>(emulation::dynamic_shared())[threadIdx.x] = 1;
}

TEST_P(EmulatedBlock, SharedMemoryStartsAsNan) {
  int wrong = 0;
  ASSERT_EQ(launch(poison_kernel, 4, 64, 256, &wrong), cudaSuccess);
  EXPECT_EQ(wrong, 0);
}

INSTANTIATE_TEST_SUITE_P(Orders, EmulatedBlock,
                         testing::Values("forward", "reverse", "random:1", "random:77"),
                         [](const auto& order) {
                           std::string name = order.param;
                           std::erase(name, ':');
                           return name;
                         });

struct Fatal {
  const char* name;
  const char* words;
  void (*kernel)(int* memory);
  unsigned threads;
};

const Fatal kFatal[] = {
    {"thread ends before a barrier", "threads have ended|ends while",
     [](int*) {
       if (threadIdx.x != 3) __syncthreads();
     },
     64},
    {"barriers of two places", "wait at another one",
     [](int*) {
       if (threadIdx.x < 32) {
         __syncthreads();
       } else {
         __syncthreads();
       }
     },
     64},
    {"lane ends before a shuffle", "has ended|ends while",
     [](int* memory) {
       if (threadIdx.x != 9) *memory += __shfl_sync(0xFFFFFFFFU, 1, 0);
     },
     32},
    {"two collectives in one warp", "waits in __any_sync|waits in __shfl_sync",
     [](int* memory) {
       if (threadIdx.x < 16) {
         *memory += __shfl_sync(0xFFFFFFFFU, 1, 0);
       } else {
         *memory += __any_sync(0xFFFFFFFFU, 1);
       }
     },
     32},
    {"shuffle and barrier in one warp", "barrier",
     [](int* memory) {
       if (threadIdx.x < 16) {
         *memory += __shfl_sync(0xFFFFFFFFU, 1, 0);
       } else {
         __syncthreads();
       }
     },
     32},
    {"part of a warp", "mask 0x0000ffff",
     [](int* memory) { *memory += __shfl_sync(0xFFFFU, 1, 0); }, 32},
    {"small warp", "fewer than 32 lanes",
     [](int* memory) { *memory += __shfl_sync(0xFFFFFFFFU, 1, 0); }, 48},
    {"write past shared memory", "past its dynamic shared memory|use-after-poison",
     [](int*) { emulation::dynamic_shared()[100] = 1; }, 1},
    {"write before shared memory", "before its dynamic shared memory|use-after-poison",
     [](int*) { emulation::dynamic_shared()[-1] = 1; }, 1},
    {"waiting for nobody", "waits for something that no thread does",
     [](int* memory) {
       while (*static_cast<volatile int*>(memory) == 0) emulation::let_others_run({"here", 1});
     },
     64},
};

TEST(EmulatedBlockDeathTest, WhatAGpuWouldNotForgiveAborts) {
  for (const Fatal& row : kFatal) {
    for (const char* order : {"forward", "reverse", "random:3"}) {
      EXPECT_DEATH(
          {
            emulation::set_order(emulation::parse_order(order));
            int memory = 0;
            (void)launch(row.kernel, 1, row.threads, 100, &memory);
          },
          row.words)
          << row.name << ", " << order;
    }
  }
}

TEST(EmulatedBlockDeathTest, OrdersAreSpelled) {
  for (const char* text : {"", "backward", "random", "random:", "random:x", "random:-1", "Forward",
                           "random:123456789012345678901234"}) {
    EXPECT_DEATH((void)emulation::parse_order(text), "use forward, reverse or random:SEED") << text;
  }
  EXPECT_EQ(emulation::parse_order("random:42").seed, 42U);
}

// A kernel without its barrier: forward order hides it, the others must not.
__global__ void missing_barrier_kernel(int* out) {
  auto* values = reinterpret_cast<int*>(emulation::dynamic_shared());
  values[threadIdx.x] = static_cast<int>(threadIdx.x);
  const unsigned lower = threadIdx.x >= 32 ? threadIdx.x - 32 : 0;
  out[threadIdx.x] = values[lower];
}

TEST(EmulatedOrder, AnotherOrderShowsAMissingBarrier) {
  const auto right = [](const char* order) {
    const emulation::Order before = emulation::order();
    emulation::set_order(emulation::parse_order(order));
    std::vector<int> out(256);
    (void)launch(missing_barrier_kernel, 1, 256, 1024, out.data());
    emulation::set_order(before);
    int count = 0;
    for (int i = 0; i < 256; ++i)
      count += out[static_cast<std::size_t>(i)] == (i >= 32 ? i - 32 : 0);
    return count;
  };
  EXPECT_EQ(right("forward"), 256);
  EXPECT_LT(right("reverse"), 256);
  EXPECT_LT(right("random:5"), 256);
}

}  // namespace
}  // namespace regatta::tests
