// The 16-bit formats of the emulated GPU against a slower formula that shares nothing with them.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace regatta::tests {
namespace {

// What 16 bits mean, from the definition of the format. Infinity is 2^(largest exponent + 1), so
// that "nearest" has one meaning.
struct Format {
  int mantissa_bits;
  int bias;
  int special;  // exponent field of infinity and NaN
};
constexpr Format kBfloat16{7, 127, 255};
constexpr Format kFloat16{10, 15, 31};

double value_of(const Format& format, std::uint16_t bits) {
  const int mantissa = bits & ((1 << format.mantissa_bits) - 1);
  const int exponent = (bits & 0x7FFF) >> format.mantissa_bits;
  const double size = exponent == 0 ? std::ldexp(mantissa, 1 - format.bias - format.mantissa_bits)
                                    : std::ldexp((1 << format.mantissa_bits) + mantissa,
                                                 exponent - format.bias - format.mantissa_bits);
  return (bits & 0x8000) != 0 ? -size : size;
}

bool is_number(const Format& format, std::uint16_t bits) {
  return (bits & 0x7FFF) >> format.mantissa_bits < format.special;
}

// The two neighbours of every pair of adjacent values are tried at their midpoint, and one float
// below and above it: the only places where rounding can go wrong.
template <typename Round>
void expect_nearest_even(const Format& format, Round round) {
  const int last = (format.special << format.mantissa_bits) - 1;  // largest finite
  for (const int sign : {0, 0x8000}) {
    for (int bits = 0; bits <= last; ++bits) {
      const auto low = static_cast<std::uint16_t>(sign | bits);
      const auto high = static_cast<std::uint16_t>(sign | (bits + 1));  // infinity after the last
      const double from = value_of(format, low);
      const double to = value_of(format, high);
      const double middle = (from + to) / 2;
      const std::uint16_t even = bits % 2 == 0 ? low : high;
      const auto middle_float = static_cast<float>(middle);
      ASSERT_EQ(static_cast<double>(middle_float), middle);
      ASSERT_EQ(round(static_cast<float>(from)), low);
      ASSERT_EQ(round(middle_float), even) << middle;
      ASSERT_EQ(round(std::nextafterf(middle_float, static_cast<float>(from))), low) << middle;
      const float beyond =
          std::nextafterf(middle_float, sign != 0 ? -std::numeric_limits<float>::infinity()
                                                  : std::numeric_limits<float>::infinity());
      ASSERT_EQ(round(beyond), high) << middle;
    }
  }
}

TEST(EmulatedRounding, Bfloat16IsToNearestEven) {
  expect_nearest_even(kBfloat16,
                      [](float x) { return __bfloat16_as_ushort(__float2bfloat16_rn(x)); });
}

TEST(EmulatedRounding, Float16IsToNearestEven) {
  expect_nearest_even(kFloat16, [](float x) { return __half_as_ushort(__float2half_rn(x)); });
}

TEST(EmulatedRounding, EveryBitPatternHasItsValue) {
  for (int i = 0; i < 0x10000; ++i) {
    const auto bits = static_cast<std::uint16_t>(i);
    const float bf = __bfloat162float(__ushort_as_bfloat16(bits));
    const float half = __half2float(__ushort_as_half(bits));
    if (is_number(kBfloat16, bits)) {
      ASSERT_EQ(static_cast<double>(bf), value_of(kBfloat16, bits));
      ASSERT_EQ(std::signbit(bf), i >= 0x8000);
    } else {
      ASSERT_EQ(std::isinf(bf), (bits & 0x7F) == 0) << i;
    }
    if (is_number(kFloat16, bits)) {
      ASSERT_EQ(static_cast<double>(half), value_of(kFloat16, bits));
      ASSERT_EQ(std::signbit(half), i >= 0x8000);
    } else {
      ASSERT_EQ(std::isinf(half), (bits & 0x3FF) == 0) << i;
      ASSERT_EQ(std::isnan(half), (bits & 0x3FF) != 0) << i;
    }
  }
}

TEST(EmulatedRounding, SpecialValues) {
  const float infinity = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(__bfloat16_as_ushort(__float2bfloat16_rn(infinity)), 0x7F80);
  EXPECT_EQ(__bfloat16_as_ushort(__float2bfloat16_rn(-infinity)), 0xFF80);
  EXPECT_EQ(__bfloat16_as_ushort(__float2bfloat16_rn(-nan)), 0x7FFF);
  EXPECT_EQ(__half_as_ushort(__float2half_rn(infinity)), 0x7C00);
  EXPECT_EQ(__half_as_ushort(__float2half_rn(-infinity)), 0xFC00);
  EXPECT_EQ(__half_as_ushort(__float2half_rn(nan)), 0x7FFF);
  EXPECT_EQ(__half_as_ushort(__float2half_rn(1e30F)), 0x7C00);
  EXPECT_EQ(__half_as_ushort(__float2half_rn(-1e-30F)), 0x8000);
}

TEST(EmulatedRounding, PairsKeepTheirOrder) {
  const __nv_bfloat162 b = __floats2bfloat162_rn(1, 2);
  EXPECT_EQ(__low2float(b), 1);
  EXPECT_EQ(__high2float(b), 2);
  const float2 h = __half22float2(__floats2half2_rn(3, 4));
  EXPECT_EQ(h.x, 3);
  EXPECT_EQ(h.y, 4);
  std::uint32_t word = 0;
  std::memcpy(&word, &b, sizeof word);
  EXPECT_EQ(word, 0x40003F80U);
}

}  // namespace
}  // namespace regatta::tests
