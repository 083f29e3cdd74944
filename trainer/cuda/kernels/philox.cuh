// Dropout on the device: the draws of base/philox.h and trainer/contract/random_site.h, bit for
// bit.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "trainer/device/device.h"

namespace regatta::trainer::cuda {

// Eight 16-bit draws: draw e is bits 16·(e mod 2) of word e / 2.
struct Draws {
  std::uint32_t word[4];
  __device__ std::uint32_t draw(int e) const { return word[e >> 1] >> (16 * (e & 1)) & 0xFFFFU; }
};

// About 60 integer instructions; counter = (block, ordinal, step, site).
__device__ inline Draws philox(std::uint64_t seed, std::uint32_t block, std::uint32_t ordinal,
                               std::uint32_t step, std::uint32_t site) {
  std::uint32_t c0 = block, c1 = ordinal, c2 = step, c3 = site;
  std::uint32_t key0 = static_cast<std::uint32_t>(seed);
  std::uint32_t key1 = static_cast<std::uint32_t>(seed >> 32);
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    const std::uint32_t high0 = __umulhi(0xD2511F53U, c0);
    const std::uint32_t low0 = 0xD2511F53U * c0;
    const std::uint32_t high1 = __umulhi(0xCD9E8D57U, c2);
    const std::uint32_t low1 = 0xCD9E8D57U * c2;
    c0 = high1 ^ c1 ^ key0;
    c1 = low1;
    c2 = high0 ^ c3 ^ key1;
    c3 = low0;
    key0 += 0x9E3779B9U;
    key1 += 0xBB67AE85U;
  }
  return {{c0, c1, c2, c3}};
}

// A Dropout with its scale, as kernels take it: 65536 / (65536 − threshold) for kept elements.
struct DropoutParameters {
  std::uint64_t seed = 0;
  std::uint32_t threshold = 0;
  std::uint32_t site = 0;
  float scale = 1;
};
inline DropoutParameters parameters_of(const device::Dropout& dropout) {
  return {dropout.seed, dropout.threshold, dropout.site,
          65536.0F / static_cast<float>(65536 - dropout.threshold)};
}

}  // namespace regatta::trainer::cuda
