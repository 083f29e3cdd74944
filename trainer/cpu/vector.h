// Vectors of the instruction set that the including file is compiled for, and the few functions of
// them that the kernels share. Every kernel file is compiled twice per instruction set under
// another REGATTA_ISA (CMakeLists.txt), and everything here is in that namespace: the linker must
// never merge code made for different machines. For the same reason kernel files use no library
// templates.
//
// The second time is with REGATTA_PORTABLE, whose results have the same bits on all instruction
// sets: vectors have 16 lanes whatever the machine's have, so that sums over lanes have one order,
// and no multiplication is fused with an addition (-ffp-contract=off).
#pragma once

#include <stdint.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#ifndef REGATTA_ISA
#error "REGATTA_ISA names the instruction set: baseline, avx2 or avx512, or portable_… of it"
#endif

#if defined(REGATTA_PORTABLE)
#include "base/portable_math.h"
#else
#include <math.h>
#endif

namespace regatta::trainer::cpu::REGATTA_ISA {

// Of the machine's vectors.
#if defined(__AVX512F__)
constexpr int kMachineLanes = 16;
#elif defined(__AVX2__)
constexpr int kMachineLanes = 8;
#else
constexpr int kMachineLanes = 4;
#endif

#if defined(REGATTA_PORTABLE)
constexpr bool kPortable = true;
constexpr int kLanes = 16;
#else
constexpr bool kPortable = false;
constexpr int kLanes = kMachineLanes;
#endif

using Vec = float __attribute__((vector_size(4 * kLanes)));
using IntVec = int32_t __attribute__((vector_size(4 * kLanes)));
using WideVec = uint64_t __attribute__((vector_size(4 * kLanes)));  // kLanes / 2 of them
using MachineVec = float __attribute__((vector_size(4 * kMachineLanes)));
using MachineWide = uint64_t __attribute__((vector_size(4 * kMachineLanes)));

constexpr int64_t round_up(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

inline Vec splat(float value) { return value - Vec{}; }  // gcc makes one broadcast of it

inline Vec load(const float* from) {
  Vec value;
  __builtin_memcpy(&value, from, sizeof(value));
  return value;
}
inline void store(float* to, Vec value) { __builtin_memcpy(to, &value, sizeof(value)); }

// The first `count` ≤ kLanes floats; the other lanes are 0 and are not touched in memory.
inline Vec load_part(const float* from, int64_t count) {
#if defined(__AVX512F__)
  return reinterpret_cast<Vec>(
      _mm512_maskz_loadu_ps(static_cast<__mmask16>((1U << count) - 1U), from));
#else
  float buffer[kLanes] = {};
  for (int64_t i = 0; i < count; ++i) buffer[i] = from[i];
  return load(buffer);
#endif
}
inline void store_part(float* to, Vec value, int64_t count) {
#if defined(__AVX512F__)
  _mm512_mask_storeu_ps(to, static_cast<__mmask16>((1U << count) - 1U),
                        reinterpret_cast<__m512>(value));
#else
  float buffer[kLanes];
  store(buffer, value);
  for (int64_t i = 0; i < count; ++i) to[i] = buffer[i];
#endif
}

// Calls whole(i) for every i = 0, kLanes, … with a full vector left of `count`, then part(i, rest).
template <typename Whole, typename Part>
inline __attribute__((always_inline)) void for_lanes(int64_t count, Whole&& whole, Part&& part) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) whole(i);
  if (i < count) part(i, count - i);
}

// Σ of the lanes, halves added pairwise.
inline float sum(Vec value) {
  float lanes[kLanes];
  store(lanes, value);
  for (int width = kLanes / 2; width > 0; width /= 2) {
    for (int i = 0; i < width; ++i) lanes[i] += lanes[i + width];
  }
  return lanes[0];
}
inline float largest(Vec value) {
  float lanes[kLanes];
  store(lanes, value);
  for (int width = kLanes / 2; width > 0; width /= 2) {
    for (int i = 0; i < width; ++i)
      lanes[i] = lanes[i] > lanes[i + width] ? lanes[i] : lanes[i + width];
  }
  return lanes[0];
}

// ln of a sum of exponentials.
inline float logarithm(float x) {
#if defined(REGATTA_PORTABLE)
  return static_cast<float>(base::portable_log(static_cast<double>(x)));
#else
  return logf(x);
#endif
}

inline Vec larger(Vec a, Vec b) { return a > b ? a : b; }
inline Vec absolute(Vec x) {
  return reinterpret_cast<Vec>(reinterpret_cast<IntVec>(x) & 0x7FFFFFFF);
}

// eˣ for x ≤ 88, below −87.3 exactly 0, NaN stays; relative error under 1e-7. x = n·ln 2 + r with
// |r| ≤ ln 2 / 2, e^r a polynomial (Remez, relative error 2e-9), 2ⁿ by its exponent bits.
inline Vec exponential(Vec x) {
  const IntVec under = x < splat(-87.3F);
  const Vec bounded = under ? splat(-87.3F) : (x > splat(88.0F) ? splat(88.0F) : x);
  const Vec magic = splat(12582912.0F);  // 1.5·2²³: adding it rounds to an integer
  const Vec shifted = bounded * 1.44269504088896341F + magic;
  const Vec n = shifted - magic;
  const Vec r = (bounded - n * 0.693145751953125F) - n * 1.42860682030941723e-6F;
  Vec p = splat(1.3836846e-3F);
  p = p * r + 8.3748158e-3F;
  p = p * r + 4.1668226e-2F;
  p = p * r + 1.6666420e-1F;
  p = p * r + 4.9999992e-1F;
  p = p * r + 1.0F;
  p = p * r + 1.0F;
  const IntVec exponent =
      (reinterpret_cast<IntVec>(shifted) - reinterpret_cast<IntVec>(magic) + 127) << 23;
  const Vec value = p * reinterpret_cast<Vec>(exponent);
  return under ? Vec{} : value;
}

// Low 32 bits of each lane multiplied to 64 bits.
inline WideVec multiply_low(WideVec a, WideVec b) {
#if defined(REGATTA_PORTABLE) && defined(__x86_64__) && !defined(__AVX512F__)
  // By the machine's vectors: gcc has no such product of longer ones.
  WideVec result;
  for (int i = 0; i < kLanes; i += kMachineLanes) {
    MachineWide x, y;
    __builtin_memcpy(&x, reinterpret_cast<const char*>(&a) + 4 * i, sizeof(x));
    __builtin_memcpy(&y, reinterpret_cast<const char*>(&b) + 4 * i, sizeof(y));
#if defined(__AVX2__)
    x = reinterpret_cast<MachineWide>(
        _mm256_mul_epu32(reinterpret_cast<__m256i>(x), reinterpret_cast<__m256i>(y)));
#else
    x = reinterpret_cast<MachineWide>(
        _mm_mul_epu32(reinterpret_cast<__m128i>(x), reinterpret_cast<__m128i>(y)));
#endif
    __builtin_memcpy(reinterpret_cast<char*>(&result) + 4 * i, &x, sizeof(x));
  }
  return result;
#elif defined(__AVX512F__)
  // The masked form: gcc 12 warns about its own definition of the plain one.
  return reinterpret_cast<WideVec>(
      _mm512_maskz_mul_epu32(0xFF, reinterpret_cast<__m512i>(a), reinterpret_cast<__m512i>(b)));
#elif defined(__AVX2__)
  return reinterpret_cast<WideVec>(
      _mm256_mul_epu32(reinterpret_cast<__m256i>(a), reinterpret_cast<__m256i>(b)));
#elif defined(__x86_64__)
  return reinterpret_cast<WideVec>(
      _mm_mul_epu32(reinterpret_cast<__m128i>(a), reinterpret_cast<__m128i>(b)));
#else
  return (a & 0xFFFFFFFFU) * (b & 0xFFFFFFFFU);
#endif
}

}  // namespace regatta::trainer::cpu::REGATTA_ISA
