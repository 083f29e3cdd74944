// Conversions between float32 and the 16-bit types: every 16-bit value, and every tie between two.
#include <bit>
#include <cstring>

#include "tests/trainer/device/op_cases.h"

namespace regatta::tests {
namespace {

using trainer::device::Dtype;
using trainer::device::View;

const Dtype kHalfTypes[] = {Dtype::BFloat16, Dtype::Float16};
constexpr std::int64_t kAll = 65536;

std::string name_of(Dtype type) { return type == Dtype::BFloat16 ? "bfloat16" : "float16"; }

// The value of a 16-bit pattern by its definition.
double value_of(Dtype type, std::uint32_t bits) {
  const int mantissa_bits = type == Dtype::BFloat16 ? 7 : 10;
  const int exponents = type == Dtype::BFloat16 ? 255 : 31;
  const int bias = exponents / 2;
  const auto mantissa = static_cast<double>(bits & ((1U << mantissa_bits) - 1U));
  const int exponent = static_cast<int>(bits >> mantissa_bits) & exponents;
  const double sign = bits >> 15U != 0 ? -1.0 : 1.0;
  if (exponent == exponents) return mantissa != 0 ? std::nan("") : sign * HUGE_VAL;
  const double one = std::ldexp(1.0, mantissa_bits);
  return exponent == 0 ? sign * std::ldexp(mantissa, 1 - bias - mantissa_bits)
                       : sign * std::ldexp(one + mantissa, exponent - bias - mantissa_bits);
}

class Halves {
 public:
  Halves(Harness& at, Dtype type, std::int64_t count)
      : at_(at), memory_(at.device(), count, type) {}
  ~Halves() { at_.device().synchronize(); }
  Halves(const Halves&) = delete;
  Halves& operator=(const Halves&) = delete;

  [[nodiscard]] const View& view() const { return memory_.view(); }
  void put(const std::vector<std::uint16_t>& bits) {
    at_.device().copy_to_device(0, view(), bits.data());
    at_.device().wait_host(at_.device().record(0));
  }
  [[nodiscard]] std::vector<std::uint16_t> bits() const {
    const std::vector<std::uint8_t> bytes = at_.read_bytes(view());
    std::vector<std::uint16_t> result(bytes.size() / 2);
    std::memcpy(result.data(), bytes.data(), bytes.size());
    return result;
  }

 private:
  Harness& at_;
  trainer::device::DeviceMemory memory_;
};

TEST_P(DeviceOps, ConvertWidensEveryValue) {
  std::vector<std::uint16_t> bits(kAll);
  for (std::size_t i = 0; i < bits.size(); ++i) bits[i] = static_cast<std::uint16_t>(i);
  for (const Dtype type : kHalfTypes) {
    Halves from(at(), type, kAll);
    from.put(bits);
    const View to = at().output(kAll);
    device().convert(0, to, from.view());
    const std::vector<float> result = at().read(to);
    for (std::uint32_t i = 0; i < kAll; ++i) {
      const double exact = value_of(type, i);
      if (std::isnan(exact)) {
        ASSERT_TRUE(std::isnan(result[i])) << name_of(type) << " " << i;
      } else {
        ASSERT_EQ(static_cast<double>(result[i]), exact) << name_of(type) << " " << i;
        ASSERT_EQ(std::signbit(result[i]), i >= kAll / 2) << name_of(type) << " " << i;
      }
    }
  }
}

// What float32 values between a 16-bit value and the next larger one become: the value itself, just
// below, at and just above the tie between the two. The next after the largest finite value is the
// one that overflows.
TEST_P(DeviceOps, ConvertRoundsToNearestEven) {
  for (const Dtype type : kHalfTypes) {
    const std::uint32_t infinity = type == Dtype::BFloat16 ? 0x7F80U : 0x7C00U;
    const int largest_exponent = type == Dtype::BFloat16 ? 128 : 16;
    std::vector<float> values;
    std::vector<std::uint16_t> expected;
    for (std::uint32_t low = 0; low < infinity; ++low) {
      const double below = value_of(type, low);
      const double above =
          low + 1 == infinity ? std::ldexp(1.0, largest_exponent) : value_of(type, low + 1);
      const auto tie = static_cast<float>((below + above) / 2);
      ASSERT_EQ(static_cast<double>(tie), (below + above) / 2);
      const std::uint32_t even = low % 2 == 0 ? low : low + 1;
      for (const std::uint32_t sign : {0U, 0x8000U}) {
        const auto add = [&](float value, std::uint32_t bits) {
          values.push_back(sign != 0 ? -value : value);
          expected.push_back(static_cast<std::uint16_t>(bits | sign));
        };
        add(static_cast<float>(below), low);
        add(std::nextafter(tie, 0.0F), low);
        add(tie, even);
        add(std::nextafter(tie, HUGE_VALF), low + 1);
      }
    }
    for (const float huge : {HUGE_VALF, -HUGE_VALF}) {
      values.push_back(huge);
      expected.push_back(static_cast<std::uint16_t>(infinity | (huge < 0 ? 0x8000U : 0U)));
    }
    const Halves to(at(), type, static_cast<std::int64_t>(values.size()));
    device().convert(0, to.view(), at().floats(values));
    const std::vector<std::uint16_t> result = to.bits();
    for (std::size_t i = 0; i < values.size(); ++i) {
      ASSERT_EQ(result[i], expected[i]) << name_of(type) << " of " << values[i];
    }
  }
}

TEST_P(DeviceOps, ConvertKeepsWhatIsNotANumber) {
  // The last has a payload in its lowest bit only.
  const std::vector<float> values = {std::nanf(""), -std::nanf(""),
                                     std::bit_cast<float>(0x7F800001U), 1.0F};
  for (const Dtype type : kHalfTypes) {
    const Halves halves(at(), type, 4);
    device().convert(0, halves.view(), at().floats(values));
    const View back = at().output(4);
    device().convert(0, back, halves.view());
    const std::vector<float> result = at().read(back);
    for (std::size_t i = 0; i < 3; ++i) EXPECT_TRUE(std::isnan(result[i])) << name_of(type) << i;
    EXPECT_EQ(result[3], 1.0F);
  }
}

// Odd sizes, views that start anywhere, nothing written outside.
TEST_P(DeviceOps, ConvertKeepsToItsView) {
  for (const Dtype type : kHalfTypes) {
    for (const std::int64_t size : {0, 1, 7, 8, 129, 20001}) {
      for (const std::int64_t begin : {0, 1, 8}) {
        const std::vector<float> values = Numbers(2).floats(size + begin);
        const View from = at().floats(values).slice(begin, size);
        const View whole =
            at().values_of(type, std::vector<float>(static_cast<std::size_t>(size + 20), 42.0F));
        device().convert(0, whole.slice(begin, size), from);
        const View wide = at().floats(std::vector<float>(static_cast<std::size_t>(size + 20), 42));
        device().convert(0, wide.slice(begin, size), whole.slice(begin, size));
        std::vector<float> expected(static_cast<std::size_t>(size + 20), 42.0F);
        for (std::int64_t i = begin; i < begin + size; ++i) {
          const auto place = static_cast<std::size_t>(i);
          expected[place] = stored_as(type, values[place]);
        }
        expect_same(at().read(whole), expected, name_of(type) + " from float32");
        expect_same(at().read(wide), expected, name_of(type) + " to float32");
      }
    }
  }
}

}  // namespace
}  // namespace regatta::tests
