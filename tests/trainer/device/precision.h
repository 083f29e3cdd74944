// In what precision a device computes: where its contract stores activations, and what products
// keep of their operands. The naive references round in the same places, which is what makes
// tolerances of 16-bit types derived ones (op_cases.h, expect_close).
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

#include "trainer/device/device.h"
#include "trainer/device/half_types.h"

namespace regatta::tests {

[[nodiscard]] inline bool is_sixteen_bit(trainer::device::Dtype type) {
  return type == trainer::device::Dtype::BFloat16 || type == trainer::device::Dtype::Float16;
}

// As a value of this type is stored: rounded to nearest even.
[[nodiscard]] inline float stored_as(trainer::device::Dtype type, float value) {
  if (type == trainer::device::Dtype::BFloat16) {
    return trainer::device::float_from_bf16(trainer::device::bf16_from_float(value));
  }
  if (type == trainer::device::Dtype::Float16) {
    return trainer::device::float_from_fp16(trainer::device::fp16_from_float(value));
  }
  return value;
}

// Half a unit in the last place of values of this size: what storing one may cost.
[[nodiscard]] inline double half_ulp(trainer::device::Dtype type, double size) {
  int exponent = size > 0 ? std::ilogb(size) : -126;
  if (type == trainer::device::Dtype::Float16) return std::ldexp(1.0, std::max(exponent, -14) - 11);
  exponent = std::max(exponent, -126);
  return std::ldexp(1.0, exponent - (type == trainer::device::Dtype::BFloat16 ? 8 : 24));
}

// The default is exact for float64 and plain for float32.
struct Precision {
  trainer::device::Dtype compute = trainer::device::Dtype::Float32;
  bool tf32 = false;  // products read 10 bits of their float32 operands' mantissas

  // As an activation is stored.
  template <typename Real>
  [[nodiscard]] Real stored(Real value) const {
    return is_sixteen_bit(compute) ? Real(stored_as(compute, float(value))) : value;
  }
  // As a matrix product reads an activation.
  template <typename Real>
  [[nodiscard]] Real factor(Real value) const {
    if (!tf32) return stored(value);
    const auto bits = std::bit_cast<std::uint32_t>(float(value));
    return Real(std::bit_cast<float>((bits + 0xFFFU + (bits >> 13U & 1U)) & ~0x1FFFU));
  }
  template <typename Real>
  [[nodiscard]] std::vector<Real> stored(std::vector<Real> values) const {
    for (Real& value : values) value = stored(value);
    return values;
  }
  template <typename Real>
  [[nodiscard]] std::vector<Real> factors(std::vector<Real> values) const {
    for (Real& value : values) value = factor(value);
    return values;
  }
};

}  // namespace regatta::tests
