// Stands before CUDA's own header in the include path: float16.
// Stricter than CUDA's type: conversions are explicit and there is no arithmetic, since kernels
// compute in float32.
#pragma once

#include <cstdint>

#include "tests/trainer/cuda/emulation/device_code.h"
#include "tests/trainer/cuda/emulation/rounding.h"

struct __half {
  std::uint16_t bits;

  __half() = default;
  explicit __half(float value) : bits(regatta::emulation::float16_bits(value)) {}
  explicit operator float() const { return regatta::emulation::float16_value(bits); }
};
struct alignas(4) __half2 {
  __half x, y;

  __half2() = default;
  __half2(__half low, __half high) : x(low), y(high) {}
};
using half = __half;
using half2 = __half2;

inline __half __float2half_rn(float value) { return __half(value); }
inline __half __float2half(float value) { return __half(value); }
inline float __half2float(__half value) { return static_cast<float>(value); }
inline unsigned short __half_as_ushort(__half value) { return value.bits; }
inline __half __ushort_as_half(unsigned short bits) {
  __half value;
  value.bits = bits;
  return value;
}

inline __half2 __halves2half2(__half low, __half high) { return {low, high}; }
inline __half2 __floats2half2_rn(float low, float high) { return {__half(low), __half(high)}; }
inline __half2 __float22half2_rn(float2 value) { return {__half(value.x), __half(value.y)}; }
inline __half2 __float2half2_rn(float value) { return {__half(value), __half(value)}; }
inline float2 __half22float2(__half2 value) {
  return {static_cast<float>(value.x), static_cast<float>(value.y)};
}
inline float __low2float(__half2 value) { return static_cast<float>(value.x); }
inline float __high2float(__half2 value) { return static_cast<float>(value.y); }
inline __half __low2half(__half2 value) { return value.x; }
inline __half __high2half(__half2 value) { return value.y; }
