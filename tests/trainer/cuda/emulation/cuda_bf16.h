// Stands before CUDA's own header in the include path: bfloat16.
// Stricter than CUDA's type: conversions are explicit and there is no arithmetic, since kernels
// compute in float32.
#pragma once

#include <cstdint>

#include "tests/trainer/cuda/emulation/device_code.h"
#include "tests/trainer/cuda/emulation/rounding.h"

struct __nv_bfloat16 {
  std::uint16_t bits;

  __nv_bfloat16() = default;
  explicit __nv_bfloat16(float value) : bits(regatta::emulation::bfloat16_bits(value)) {}
  explicit operator float() const { return regatta::emulation::bfloat16_value(bits); }
};
struct alignas(4) __nv_bfloat162 {
  __nv_bfloat16 x, y;

  __nv_bfloat162() = default;
  __nv_bfloat162(__nv_bfloat16 low, __nv_bfloat16 high) : x(low), y(high) {}
};
using nv_bfloat16 = __nv_bfloat16;
using nv_bfloat162 = __nv_bfloat162;

inline __nv_bfloat16 __float2bfloat16_rn(float value) { return __nv_bfloat16(value); }
inline __nv_bfloat16 __float2bfloat16(float value) { return __nv_bfloat16(value); }
inline float __bfloat162float(__nv_bfloat16 value) { return static_cast<float>(value); }
inline unsigned short __bfloat16_as_ushort(__nv_bfloat16 value) { return value.bits; }
inline __nv_bfloat16 __ushort_as_bfloat16(unsigned short bits) {
  __nv_bfloat16 value;
  value.bits = bits;
  return value;
}

inline __nv_bfloat162 __halves2bfloat162(__nv_bfloat16 low, __nv_bfloat16 high) {
  return {low, high};
}
inline __nv_bfloat162 __floats2bfloat162_rn(float low, float high) {
  return {__nv_bfloat16(low), __nv_bfloat16(high)};
}
inline __nv_bfloat162 __float22bfloat162_rn(float2 value) {
  return {__nv_bfloat16(value.x), __nv_bfloat16(value.y)};
}
inline __nv_bfloat162 __float2bfloat162_rn(float value) {
  return {__nv_bfloat16(value), __nv_bfloat16(value)};
}
inline float2 __bfloat1622float2(__nv_bfloat162 value) {
  return {static_cast<float>(value.x), static_cast<float>(value.y)};
}
inline float __low2float(__nv_bfloat162 value) { return static_cast<float>(value.x); }
inline float __high2float(__nv_bfloat162 value) { return static_cast<float>(value.y); }
inline __nv_bfloat16 __low2bfloat16(__nv_bfloat162 value) { return value.x; }
inline __nv_bfloat16 __high2bfloat16(__nv_bfloat162 value) { return value.y; }
