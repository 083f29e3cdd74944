// The two 16-bit float types on the host, as their bits. Rounding is to nearest even, overflow to
// infinity; NaN stays NaN with its sign. IEEE 754's binary16 has 5 exponent and 10 mantissa bits,
// bfloat16 is the upper half of a float32.
#pragma once

#include <bit>
#include <cstdint>

namespace regatta::trainer::device {

[[nodiscard]] inline float float_from_bf16(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16U);
}

[[nodiscard]] inline std::uint16_t bf16_from_float(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7FFFFFFFU) > 0x7F800000U) {
    return static_cast<std::uint16_t>(bits >> 16U | 0x40U);  // its payload may be in the lower half
  }
  return static_cast<std::uint16_t>((bits + 0x7FFFU + (bits >> 16U & 1U)) >> 16U);
}

[[nodiscard]] inline float float_from_fp16(std::uint16_t bits) {
  const std::uint32_t sign = (bits & 0x8000U) << 16U;
  const std::uint32_t exponent = bits >> 10U & 0x1FU;
  const std::uint32_t mantissa = bits & 0x3FFU;
  std::uint32_t magnitude = (exponent + 112U) << 23U | mantissa << 13U;
  if (exponent == 0)
    magnitude = std::bit_cast<std::uint32_t>(static_cast<float>(mantissa) * 0x1p-24F);
  if (exponent == 31) magnitude = 0x7F800000U | mantissa << 13U;
  return std::bit_cast<float>(sign | magnitude);
}

[[nodiscard]] inline std::uint16_t fp16_from_float(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = bits >> 16U & 0x8000U;
  const std::uint32_t magnitude = bits & 0x7FFFFFFFU;
  if (magnitude > 0x7F800000U) return static_cast<std::uint16_t>(sign | 0x7E00U);
  if (magnitude >= 0x477FF000U) return static_cast<std::uint16_t>(sign | 0x7C00U);  // from 65520 on
  if (magnitude < 0x38800000U) {
    // Below 2^-14 the results are multiples of 2^-24, the unit of floats in [0.5, 1).
    const float units = std::bit_cast<float>(magnitude) + 0.5F;
    return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(units) - 0x3F000000U));
  }
  const std::uint32_t rounded = magnitude + 0xFFFU + (magnitude >> 13U & 1U);
  return static_cast<std::uint16_t>(sign | (rounded - 0x38000000U) >> 13U);
}

}  // namespace regatta::trainer::device
