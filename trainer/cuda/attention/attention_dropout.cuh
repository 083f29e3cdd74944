// Dropout of attention probabilities in the registers of tensor-core fragments.
//
// One philox call draws for eight neighbouring keys of one query. In an accumulator of mma.sync
// whose rows are queries and whose columns are keys (ptx.cuh) those eight are one row of a 16×8
// tile and lie in the four lanes of a quad, two each. So over four neighbouring tiles (32 keys)
// lane q of a quad makes the call of tile q, and the quad transposes its 4×4 words: one call for
// every eight probabilities, 4 shuffles, 16 selects.
//
// The draws are those of philox.cuh, but what does not depend on the block of keys is done once:
// the ten keys are kernel parameters (constant memory, free operands), and of the first two rounds
// only one product each is left per call: 18 wide multiplications and 17 xors of three.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "trainer/cuda/kernels/numeric.cuh"
#include "trainer/cuda/kernels/philox.cuh"
#include "trainer/device/device.h"

namespace regatta::trainer::cuda {

constexpr std::uint32_t kPhiloxMultiplier0 = 0xD2511F53U;
constexpr std::uint32_t kPhiloxMultiplier1 = 0xCD9E8D57U;

// A kernel parameter.
struct AttentionDropout {
  std::uint32_t key0[10] = {};
  std::uint32_t key1[10] = {};
  std::uint32_t bar = 0;   // threshold · 2¹⁶
  std::uint32_t site = 0;  // mixed with key1[0]
  float scale = 1;
};
inline AttentionDropout attention_dropout_of(const device::Dropout& dropout) {
  AttentionDropout result;
  for (std::uint32_t round = 0; round < 10; ++round) {
    result.key0[round] = static_cast<std::uint32_t>(dropout.seed) + round * 0x9E3779B9U;
    result.key1[round] = static_cast<std::uint32_t>(dropout.seed >> 32) + round * 0xBB67AE85U;
  }
  result.bar = dropout.threshold << 16;
  result.site = dropout.site ^ result.key1[0];
  result.scale = parameters_of(dropout).scale;
  return result;
}

// Whether the pair of draws in a word keeps its lower (higher) element: draw ≥ threshold.
__device__ inline bool keeps_low(std::uint32_t word, std::uint32_t bar) {
  return word << 16 >= bar;
}
__device__ inline bool keeps_high(std::uint32_t word, std::uint32_t bar) { return word >= bar; }

// attention_block() of trainer/contract/random_site.h, for device code.
__host__ __device__ constexpr std::uint32_t attention_draws_block(int head, int query, int key) {
  return (static_cast<std::uint32_t>(head) * 4096U + static_cast<std::uint32_t>(query)) * 512U +
         static_cast<std::uint32_t>(key) / 8U;
}

// The draws of one sample at one step and site.
class SampleDraws {
 public:
  __device__ SampleDraws(const AttentionDropout& dropout, std::uint32_t ordinal,
                         std::uint32_t step) {
    const std::uint32_t first = __umulhi(kPhiloxMultiplier1, step) ^ ordinal ^ dropout.key0[0];
    mixed0_ = kPhiloxMultiplier1 * step ^ dropout.key0[1];
    mixed2_ = __umulhi(kPhiloxMultiplier0, first) ^ dropout.key1[1];
    mixed3_ = kPhiloxMultiplier0 * first;
  }
  // philox(seed, {block, ordinal, step, site}).
  __device__ Draws operator()(const AttentionDropout& dropout, std::uint32_t block) const {
    const std::uint32_t second = __umulhi(kPhiloxMultiplier0, block) ^ dropout.site;
    std::uint32_t c0 = __umulhi(kPhiloxMultiplier1, second) ^ mixed0_;
    std::uint32_t c1 = kPhiloxMultiplier1 * second;
    std::uint32_t c2 = kPhiloxMultiplier0 * block ^ mixed2_;
    std::uint32_t c3 = mixed3_;
#pragma unroll
    for (int round = 2; round < 10; ++round) {
      const std::uint32_t high0 = __umulhi(kPhiloxMultiplier0, c0);
      const std::uint32_t low0 = kPhiloxMultiplier0 * c0;
      const std::uint32_t high1 = __umulhi(kPhiloxMultiplier1, c2);
      const std::uint32_t low1 = kPhiloxMultiplier1 * c2;
      c0 = high1 ^ c1 ^ dropout.key0[round];
      c1 = low1;
      c2 = high0 ^ c3 ^ dropout.key1[round];
      c3 = low0;
    }
    return {{c0, c1, c2, c3}};
  }

 private:
  std::uint32_t mixed0_, mixed2_, mixed3_;
};

// Lane q of each quad gives word[0…3] and gets, as word[j], what lane j of its quad gave as word q.
__device__ inline void transpose_quad(std::uint32_t (&word)[4]) {
  const bool odd = (threadIdx.x & 1U) != 0;
  const bool upper = (threadIdx.x & 2U) != 0;
#pragma unroll
  for (int i = 0; i < 4; i += 2) {
    const std::uint32_t got = __shfl_xor_sync(kAllLanes, odd ? word[i] : word[i + 1], 1);
    word[i] = odd ? got : word[i];
    word[i + 1] = odd ? word[i + 1] : got;
  }
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const std::uint32_t got = __shfl_xor_sync(kAllLanes, upper ? word[i] : word[i + 2], 2);
    word[i] = upper ? got : word[i];
    word[i + 2] = upper ? word[i + 2] : got;
  }
}

}  // namespace regatta::trainer::cuda
