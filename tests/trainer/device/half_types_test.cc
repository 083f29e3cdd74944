// trainer/device/half_types.h against the definition of both types: every 16-bit pattern, and
// float32 values of every exponent around the ties between neighbours.
#include "trainer/device/half_types.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "tests/trainer/device/precision.h"

namespace regatta::tests {
namespace {

struct Type {
  const char* name;
  int mantissa_bits, exponents;  // exponents: the field's largest value
  float (*widen)(std::uint16_t bits);
  std::uint16_t (*round)(float value);

  [[nodiscard]] std::uint32_t infinity() const {
    return static_cast<std::uint32_t>(exponents) << mantissa_bits;
  }
  // By definition: (1 + m/2^b)·2^(e − bias), or m/2^b·2^(1 − bias) for e = 0. Above the largest
  // finite value it goes on as if the exponent could.
  [[nodiscard]] double magnitude(std::uint32_t bits) const {
    const std::uint32_t mantissa = bits & ((1U << mantissa_bits) - 1U);
    const int exponent = static_cast<int>(bits >> mantissa_bits);
    const int bias = exponents / 2;
    const double fraction = std::ldexp(static_cast<double>(mantissa), -mantissa_bits);
    return exponent == 0 ? std::ldexp(fraction, 1 - bias)
                         : std::ldexp(1 + fraction, exponent - bias);
  }
};

const Type kTypes[] = {
    {"bfloat16", 7, 255, trainer::device::float_from_bf16, trainer::device::bf16_from_float},
    {"float16", 10, 31, trainer::device::float_from_fp16, trainer::device::fp16_from_float},
};

TEST(HalfTypes, EveryPatternHasItsValueAndComesBack) {
  for (const Type& type : kTypes) {
    for (std::uint32_t bits = 0; bits < 65536; ++bits) {
      const std::uint32_t magnitude = bits & 0x7FFFU;
      const float value = type.widen(static_cast<std::uint16_t>(bits));
      if (magnitude > type.infinity()) {
        ASSERT_TRUE(std::isnan(value)) << type.name << " " << bits;
        const std::uint32_t back = type.round(value);
        ASSERT_GT(back & 0x7FFFU, type.infinity()) << type.name << " " << bits;
        ASSERT_EQ(back >> 15U, bits >> 15U) << type.name << " " << bits;
        continue;
      }
      const double exact = magnitude == type.infinity() ? HUGE_VAL : type.magnitude(magnitude);
      ASSERT_EQ(std::abs(static_cast<double>(value)), exact) << type.name << " " << bits;
      ASSERT_EQ(std::signbit(value), bits >= 0x8000U) << type.name << " " << bits;
      ASSERT_EQ(type.round(value), bits) << type.name;
    }
  }
}

// Between two neighbours: up to the tie rounds down, above it up, the tie itself to the even one.
TEST(HalfTypes, RoundsToNearestEvenBetweenAllNeighbours) {
  for (const Type& type : kTypes) {
    for (std::uint32_t low = 0; low < type.infinity(); ++low) {
      const double exact = (type.magnitude(low) + type.magnitude(low + 1)) / 2;
      const auto tie = static_cast<float>(exact);
      ASSERT_EQ(static_cast<double>(tie), exact) << type.name << " " << low;
      const std::uint32_t even = low % 2 == 0 ? low : low + 1;
      ASSERT_EQ(type.round(tie), even) << type.name << " " << low;
      ASSERT_EQ(type.round(-tie), even | 0x8000U) << type.name << " " << low;
      ASSERT_EQ(type.round(std::nextafter(tie, 0.0F)), low) << type.name;
      ASSERT_EQ(type.round(std::nextafter(tie, HUGE_VALF)), low + 1) << type.name;
    }
  }
}

TEST(HalfTypes, RoundsFarValuesToTheirLimits) {
  for (const Type& type : kTypes) {
    EXPECT_EQ(type.round(3.4028234e38F), type.infinity()) << type.name;
    EXPECT_EQ(type.round(-HUGE_VALF), type.infinity() | 0x8000U) << type.name;
    EXPECT_EQ(type.round(1e-45F), 0U) << type.name;
    EXPECT_EQ(type.round(-1e-45F), 0x8000U) << type.name;
    // A NaN whose payload lies in bits that go.
    for (const std::uint32_t bits : {0x7F800001U, 0xFF800001U, 0x7FFFFFFFU}) {
      const float nan = std::bit_cast<float>(bits);
      EXPECT_TRUE(std::isnan(type.widen(type.round(nan)))) << type.name << " " << bits;
    }
  }
}

// Of precision.h: half a unit is what rounding costs at most, and costs at a tie.
TEST(HalfTypes, HalfAUnitIsTheLargestRoundingError) {
  using trainer::device::Dtype;
  for (const Dtype dtype : {Dtype::BFloat16, Dtype::Float16}) {
    const Type& type = kTypes[dtype == Dtype::BFloat16 ? 0 : 1];
    for (std::uint32_t low = 0; low + 1 < type.infinity(); low += 5) {
      const double below = type.magnitude(low);
      const double tie = (below + type.magnitude(low + 1)) / 2;
      ASSERT_EQ(half_ulp(dtype, tie), tie - below) << type.name << " " << low;
      ASSERT_EQ(std::abs(static_cast<double>(stored_as(dtype, static_cast<float>(tie))) - tie),
                tie - below);
    }
  }
  EXPECT_EQ(half_ulp(Dtype::Float32, 1.5), 0x1p-24);
}

TEST(HalfTypes, Tf32KeepsTenBits) {
  const Precision tf32{trainer::device::Dtype::Float32, true};
  for (const float sign : {1.0F, -1.0F}) {
    EXPECT_EQ(tf32.factor(sign * (1 + 0x1p-10F)), sign * (1 + 0x1p-10F));
    EXPECT_EQ(tf32.factor(sign * (1 + 0x1p-11F)), sign);  // a tie, to even
    EXPECT_EQ(tf32.factor(sign * (1 + 3 * 0x1p-11F)), sign * (1 + 0x1p-9F));
    EXPECT_EQ(tf32.factor(sign * (1 + 0x1.8p-11F)), sign * (1 + 0x1p-10F));
  }
  EXPECT_EQ(tf32.stored(1 + 0x1p-20F), 1 + 0x1p-20F);  // storing loses nothing
  EXPECT_EQ(Precision{}.factor(1 + 0x1p-20F), 1 + 0x1p-20F);
}

}  // namespace
}  // namespace regatta::tests
