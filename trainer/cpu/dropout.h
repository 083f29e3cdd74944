// Dropout factors of one row: consecutive blocks of eight draws (trainer/contract/random_site.h),
// by Philox4x32-10 with kLanes / 2 counters at a time, one in the low half of each 64-bit lane.
#pragma once

#include "trainer/cpu/vector.h"
#include "trainer/device/device.h"

namespace regatta::trainer::cpu::REGATTA_ISA {

struct DropoutRow {
  uint64_t seed = 0;
  uint32_t first_block = 0, ordinal = 0, step = 0, site = 0;
  uint32_t threshold = 0;
};

// Floats that dropout_factors may write for a row of `count`: whole groups of counters.
constexpr int64_t dropout_room(int64_t count) { return round_up(count, 4 * kLanes); }

// a0 b0 a1 b1 … as two vectors.
inline void interleave(WideVec a, WideVec b, WideVec* both) {
#if defined(__AVX512F__) || defined(REGATTA_PORTABLE)
  both[0] = __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11);
  both[1] = __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15);
#elif defined(__AVX2__)
  both[0] = __builtin_shufflevector(a, b, 0, 4, 1, 5);
  both[1] = __builtin_shufflevector(a, b, 2, 6, 3, 7);
#else
  both[0] = __builtin_shufflevector(a, b, 0, 2);
  both[1] = __builtin_shufflevector(a, b, 1, 3);
#endif
}

// Writes 0 or 65536 / (65536 − threshold) for every element of the row, and as much again as
// dropout_room(count) says.
inline void dropout_factors(const DropoutRow& row, int64_t count, float* factors) {
  constexpr int kCounters = kLanes / 2;
  constexpr int kDraws = 8 * kCounters;
  using ShortVec = uint16_t __attribute__((vector_size(2 * kLanes)));
  const Vec scale = splat(65536.0F / static_cast<float>(65536 - row.threshold));
  const auto threshold = static_cast<int32_t>(row.threshold);
  WideVec lane{};
  for (int i = 0; i < kCounters; ++i) lane[i] = static_cast<uint64_t>(i);
  for (int64_t start = 0; start < count; start += kDraws) {
    // The upper halves of the lanes carry rubbish: multiplication reads the lower ones only.
    WideVec c0 = lane + (row.first_block + static_cast<uint64_t>(start / 8));
    WideVec c1 = WideVec{} + uint64_t{row.ordinal};
    WideVec c2 = WideVec{} + uint64_t{row.step};
    WideVec c3 = WideVec{} + uint64_t{row.site};
    auto key0 = static_cast<uint32_t>(row.seed);
    auto key1 = static_cast<uint32_t>(row.seed >> 32U);
    for (int round = 0; round < 10; ++round) {
      const WideVec product0 = multiply_low(c0, WideVec{} + uint64_t{0xD2511F53U});
      const WideVec product1 = multiply_low(c2, WideVec{} + uint64_t{0xCD9E8D57U});
      c0 = (product1 >> 32U) ^ c1 ^ uint64_t { key0 };
      c1 = product1;
      c2 = (product0 >> 32U) ^ c3 ^ uint64_t { key1 };
      c3 = product0;
      key0 += 0x9E3779B9U;
      key1 += 0xBB67AE85U;
    }
    // Lane i holds block i: its words 0 and 1, then 2 and 3, belong side by side in memory.
    const WideVec low = (c0 & 0xFFFFFFFFU) | (c1 << 32U);
    const WideVec high = (c2 & 0xFFFFFFFFU) | (c3 << 32U);
    WideVec words[2];
    interleave(low, high, words);
    for (int i = 0; i < kDraws; i += kLanes) {
      ShortVec draws;
      __builtin_memcpy(&draws, reinterpret_cast<const char*>(words) + 2 * i, sizeof(draws));
      const IntVec wide = __builtin_convertvector(draws, IntVec);
      store(factors + start + i, wide >= threshold ? scale : Vec{});
    }
  }
}

}  // namespace regatta::trainer::cpu::REGATTA_ISA
