// What CUDA C++ has beyond C++ inside kernels: qualifiers, barriers, warp collectives, integer and
// float intrinsics. Single precision "fast" functions are the exact ones here.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <type_traits>

#include "tests/trainer/cuda/emulation/block.h"

#define __global__
#define __device__
#define __host__
#define __constant__ static
// One block runs at a time, so a block's variables may be static. They lie in a section of their
// own, which is filled with 0xFF before each block (block.cc).
#define __shared__ static __attribute__((section("regatta_shared")))
#define __forceinline__ inline __attribute__((always_inline))
#define __align__(n) __attribute__((aligned(n)))
#define __launch_bounds__(...)
#define __grid_constant__

#define REGATTA_HERE const char *file = __builtin_FILE(), int line = __builtin_LINE()

inline void __syncthreads(REGATTA_HERE) { regatta::emulation::block_barrier({file, line}); }

namespace regatta::emulation {
constexpr unsigned kFullMask = 0xFFFFFFFFU;
inline void need_full_mask(unsigned mask, Place place) {
  if (mask != kFullMask) {
    fail("%s:%d: mask 0x%08x: only collectives of all 32 lanes are allowed", place.file, place.line,
         mask);
  }
}
template <typename T>
struct ShuffleIn {
  T value;
  int source;  // lane to read; a lane outside gives the own value
};
template <typename T>
T shuffle(unsigned mask, T value, int source, const char* what, Place place) {
  static_assert(std::is_arithmetic_v<T> && (sizeof(T) == 4 || sizeof(T) == 8),
                "shuffles move 32 or 64 bits");
  need_full_mask(mask, place);
  return warp_collective<ShuffleIn<T>, T>(
      {value, source},
      [](const ShuffleIn<T>(&in)[32], T(&out)[32]) {
        for (int lane = 0; lane < 32; ++lane) out[lane] = in[in[lane].source].value;
      },
      what, place.file, place.line);
}
inline int lane_of_thread() {
  return static_cast<int>((threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) %
                          32U);
}
inline void need_width(int width, Place place) {
  if (width < 1 || width > 32 || (width & (width - 1)) != 0) {
    fail("%s:%d: a shuffle's width is a power of 2 up to 32, not %d", place.file, place.line,
         width);
  }
}
// The lanes whose predicate is not 0, as bits.
inline unsigned votes(unsigned mask, int predicate, const char* what, Place place) {
  need_full_mask(mask, place);
  return warp_collective<int, unsigned>(
      predicate,
      [](const int(&in)[32], unsigned(&out)[32]) {
        unsigned bits = 0;
        for (int lane = 0; lane < 32; ++lane) {
          const unsigned vote = in[lane] != 0 ? 1U : 0U;
          bits |= vote << lane;
        }
        for (unsigned& result : out) result = bits;
      },
      what, place.file, place.line);
}
}  // namespace regatta::emulation

inline void __syncwarp(unsigned mask = 0xFFFFFFFFU, REGATTA_HERE) {
  regatta::emulation::need_full_mask(mask, {file, line});
  (void)regatta::emulation::warp_collective<int, int>(
      0,
      [](const int(&)[32], int(&out)[32]) {
        for (int& result : out) result = 0;
        regatta::emulation::warp_is_ordered();
      },
      "__syncwarp", file, line);
}
template <typename T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32, REGATTA_HERE) {
  regatta::emulation::need_width(width, {file, line});
  const int first = regatta::emulation::lane_of_thread() & ~(width - 1);
  return regatta::emulation::shuffle(mask, value, first + (source & (width - 1)), "__shfl_sync",
                                     {file, line});
}
template <typename T>
T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = 32, REGATTA_HERE) {
  regatta::emulation::need_width(width, {file, line});
  const int lane = regatta::emulation::lane_of_thread();
  const int last = (lane & ~(width - 1)) + width - 1;
  const int source = (lane ^ lanes) & 31;
  return regatta::emulation::shuffle(mask, value, source <= last ? source : lane, "__shfl_xor_sync",
                                     {file, line});
}
template <typename T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32, REGATTA_HERE) {
  regatta::emulation::need_width(width, {file, line});
  const int lane = regatta::emulation::lane_of_thread();
  const int last = (lane & ~(width - 1)) + width - 1;
  const int source = lane + static_cast<int>(delta & 31U);
  return regatta::emulation::shuffle(mask, value, source <= last ? source : lane,
                                     "__shfl_down_sync", {file, line});
}
template <typename T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32, REGATTA_HERE) {
  regatta::emulation::need_width(width, {file, line});
  const int lane = regatta::emulation::lane_of_thread();
  const int first = lane & ~(width - 1);
  const int source = lane - static_cast<int>(delta & 31U);
  return regatta::emulation::shuffle(mask, value, source >= first ? source : lane, "__shfl_up_sync",
                                     {file, line});
}
inline unsigned __ballot_sync(unsigned mask, int predicate, REGATTA_HERE) {
  return regatta::emulation::votes(mask, predicate, "__ballot_sync", {file, line});
}
inline int __any_sync(unsigned mask, int predicate, REGATTA_HERE) {
  return regatta::emulation::votes(mask, predicate, "__any_sync", {file, line}) != 0 ? 1 : 0;
}
inline int __all_sync(unsigned mask, int predicate, REGATTA_HERE) {
  return regatta::emulation::votes(mask, predicate, "__all_sync", {file, line}) == 0xFFFFFFFFU ? 1
                                                                                               : 0;
}
#undef REGATTA_HERE

// Memory.
inline void __threadfence() {}
inline void __threadfence_block() {}
template <typename T>
T __ldg(const T* from) {
  return *from;
}
template <typename T>
T __ldca(const T* from) {
  return *from;
}
template <typename T>
T __ldcg(const T* from) {
  return *from;
}
template <typename T>
T __ldcs(const T* from) {
  return *from;
}
template <typename T>
T __ldcv(const T* from) {
  return *from;
}
template <typename T>
void __stwb(T* to, T value) {
  *to = value;
}
template <typename T>
void __stcg(T* to, T value) {
  *to = value;
}
template <typename T>
void __stcs(T* to, T value) {
  *to = value;
}
// One thread runs at a time, so these are plain. Integers only: float atomics are not allowed.
template <typename T, typename = std::enable_if_t<std::is_integral_v<T>>>
T atomicAdd(T* at, std::type_identity_t<T> value) {
  const T old = *at;
  *at = old + value;
  return old;
}
template <typename T, typename = std::enable_if_t<std::is_integral_v<T>>>
T atomicExch(T* at, std::type_identity_t<T> value) {
  const T old = *at;
  *at = value;
  return old;
}
template <typename T, typename = std::enable_if_t<std::is_integral_v<T>>>
T atomicMax(T* at, std::type_identity_t<T> value) {
  const T old = *at;
  if (value > old) *at = value;
  return old;
}
template <typename T, typename = std::enable_if_t<std::is_integral_v<T>>>
T atomicMin(T* at, std::type_identity_t<T> value) {
  const T old = *at;
  if (value < old) *at = value;
  return old;
}
template <typename T, typename = std::enable_if_t<std::is_integral_v<T>>>
T atomicCAS(T* at, std::type_identity_t<T> expected, std::type_identity_t<T> value) {
  const T old = *at;
  if (old == expected) *at = value;
  return old;
}
inline unsigned atomicInc(unsigned* at, unsigned largest) {
  const unsigned old = *at;
  *at = old >= largest ? 0 : old + 1;
  return old;
}
[[noreturn]] inline void __trap() { regatta::emulation::fail("__trap()"); }

// Bits and integers.
inline unsigned __umulhi(unsigned a, unsigned b) {
  return static_cast<unsigned>(static_cast<std::uint64_t>(a) * b >> 32U);
}
inline int __mulhi(int a, int b) {
  return static_cast<int>(static_cast<std::int64_t>(a) * b >> 32);
}
inline int __popc(unsigned x) { return std::popcount(x); }
inline int __popcll(unsigned long long x) { return std::popcount(x); }
inline int __clz(int x) { return std::countl_zero(static_cast<unsigned>(x)); }
inline int __clzll(long long x) { return std::countl_zero(static_cast<unsigned long long>(x)); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }
inline unsigned __brev(unsigned x) {
  unsigned result = 0;
  for (int bit = 0; bit < 32; ++bit) result |= (x >> bit & 1U) << (31 - bit);
  return result;
}
inline unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
  const std::uint64_t bytes = static_cast<std::uint64_t>(y) << 32U | x;
  unsigned result = 0;
  for (unsigned i = 0; i < 4; ++i) {
    const unsigned choice = selector >> (4 * i) & 0xFU;
    unsigned byte = static_cast<unsigned>(bytes >> (8 * (choice & 7U)) & 0xFFU);
    if ((choice & 8U) != 0) byte = (byte & 0x80U) != 0 ? 0xFFU : 0U;
    result |= byte << (8 * i);
  }
  return result;
}
inline int __float_as_int(float x) { return std::bit_cast<int>(x); }
inline float __int_as_float(int x) { return std::bit_cast<float>(x); }
inline unsigned __float_as_uint(float x) { return std::bit_cast<unsigned>(x); }
inline float __uint_as_float(unsigned x) { return std::bit_cast<float>(x); }
inline long long __double_as_longlong(double x) { return std::bit_cast<long long>(x); }
inline double __longlong_as_double(long long x) { return std::bit_cast<double>(x); }

// Floats.
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
inline float __frcp_rn(float a) { return 1.0F / a; }
inline float __fsqrt_rn(float a) { return std::sqrt(a); }
inline float __frsqrt_rn(float a) {
  return static_cast<float>(1.0 / std::sqrt(static_cast<double>(a)));
}
inline float __fdividef(float a, float b) { return a / b; }
inline float __saturatef(float x) { return x > 0 ? (x < 1 ? x : 1.0F) : 0.0F; }
inline float __int2float_rn(int x) { return static_cast<float>(x); }
inline float __uint2float_rn(unsigned x) { return static_cast<float>(x); }
inline int __float2int_rz(float x) { return static_cast<int>(x); }
inline int __float2int_rn(float x) { return static_cast<int>(std::nearbyint(x)); }
inline float __double2float_rn(double x) { return static_cast<float>(x); }
// The C library declares these names, with C linkage or only in newer releases; hence macros.
#define rsqrtf __frsqrt_rn
#define rsqrt(x) (1.0 / ::sqrt(static_cast<double>(x)))
#define __expf(x) ::expf(x)
#define __exp10f(x) ::exp10f(x)
#define __logf(x) ::logf(x)
#define __log2f(x) ::log2f(x)
#define __log10f(x) ::log10f(x)
#define __sinf(x) ::sinf(x)
#define __cosf(x) ::cosf(x)
#define __powf(x, y) ::powf(x, y)
#define __tanhf(x) ::tanhf(x)

#define REGATTA_MIN_MAX(T, A, B)                                                          \
  inline T min(A a, B b) {                                                                \
    return static_cast<T>(a) < static_cast<T>(b) ? static_cast<T>(a) : static_cast<T>(b); \
  }                                                                                       \
  inline T max(A a, B b) {                                                                \
    return static_cast<T>(a) > static_cast<T>(b) ? static_cast<T>(a) : static_cast<T>(b); \
  }
REGATTA_MIN_MAX(int, int, int)
REGATTA_MIN_MAX(unsigned, unsigned, unsigned)
REGATTA_MIN_MAX(unsigned, int, unsigned)
REGATTA_MIN_MAX(unsigned, unsigned, int)
REGATTA_MIN_MAX(long, long, long)
REGATTA_MIN_MAX(unsigned long, unsigned long, unsigned long)
REGATTA_MIN_MAX(long long, long long, long long)
REGATTA_MIN_MAX(unsigned long long, unsigned long long, unsigned long long)
#undef REGATTA_MIN_MAX
inline float min(float a, float b) { return std::fmin(a, b); }
inline float max(float a, float b) { return std::fmax(a, b); }
inline double min(double a, double b) { return std::fmin(a, b); }
inline double max(double a, double b) { return std::fmax(a, b); }
