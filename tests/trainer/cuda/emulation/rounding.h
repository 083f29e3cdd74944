// Float32 to and from the 16-bit formats, to nearest even, as the GPU rounds: NaN becomes 0x7FFF,
// what is too large infinity, what is too small for a normal number a subnormal.
#pragma once

#include <bit>
#include <cstdint>

namespace regatta::emulation {

[[nodiscard]] inline std::uint16_t bfloat16_bits(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7FFFFFFFU) > 0x7F800000U) return 0x7FFF;
  return static_cast<std::uint16_t>((bits + 0x7FFFU + (bits >> 16U & 1U)) >> 16U);
}
[[nodiscard]] inline float bfloat16_value(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16U);
}

[[nodiscard]] inline std::uint16_t float16_bits(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = bits >> 16U & 0x8000U;
  const std::uint32_t size = bits & 0x7FFFFFFFU;
  if (size > 0x7F800000U) return 0x7FFF;
  if (size >= 0x47800000U) return static_cast<std::uint16_t>(sign | 0x7C00U);  // 65536 and up
  if (size < 0x38800000U) {  // below 2^-14: adding 0.5 leaves units of 2^-24 in the mantissa
    const float moved = std::bit_cast<float>(size) + 0.5F;
    return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(moved) - 0x3F000000U));
  }
  // The exponent's bias falls from 127 to 15; 65520 and up carry into infinity.
  const std::uint32_t rounded = size - (112U << 23U) + 0xFFFU + (size >> 13U & 1U);
  return static_cast<std::uint16_t>(sign | rounded >> 13U);
}
[[nodiscard]] inline float float16_value(std::uint16_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000U) << 16U;
  const std::uint32_t size = static_cast<std::uint32_t>(bits & 0x7FFFU) << 13U;
  std::uint32_t result = std::bit_cast<std::uint32_t>(std::bit_cast<float>(size) * 0x1p112F);
  if (size >= 0x0F800000U) result = 0x7F800000U | (size & 0x007FFFFFU);  // infinity, NaN
  return std::bit_cast<float>(sign | result);
}

}  // namespace regatta::emulation
