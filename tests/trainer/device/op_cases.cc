#include "tests/trainer/device/op_cases.h"

#include <algorithm>
#include <cstring>
#include <limits>

namespace regatta::tests {

using trainer::device::DeviceMemory;
using trainer::device::Dtype;
using trainer::device::View;

template <typename Value>
View Harness::upload(std::deque<std::vector<Value>>& kept, std::vector<Value> values, Dtype type) {
  kept.push_back(std::move(values));
  memory_.emplace_back(device_, static_cast<std::int64_t>(kept.back().size()), type);
  device_.copy_to_device(0, memory_.back().view(), kept.back().data());
  return memory_.back().view();
}

View Harness::floats(std::vector<float> values) {
  return upload(host_floats_, std::move(values), Dtype::Float32);
}

View Harness::ints(std::vector<std::int32_t> values) {
  return upload(host_ints_, std::move(values), Dtype::Int32);
}

View Harness::values_of(Dtype type, const std::vector<float>& values) {
  if (!is_sixteen_bit(type)) return floats(values);
  std::vector<std::uint16_t> bits;
  for (const float value : values) {
    bits.push_back(type == Dtype::BFloat16 ? trainer::device::bf16_from_float(value)
                                           : trainer::device::fp16_from_float(value));
  }
  return upload(host_halves_, std::move(bits), type);
}

View Harness::activations(const std::vector<float>& values) {
  return values_of(precision_.compute, values);
}

View Harness::output_of(Dtype type, std::int64_t count) {
  return values_of(type, std::vector<float>(static_cast<std::size_t>(count),
                                            std::numeric_limits<float>::quiet_NaN()));
}

View Harness::output(std::int64_t count) { return output_of(Dtype::Float32, count); }

View Harness::activation_output(std::int64_t count) { return output_of(precision_.compute, count); }

std::vector<std::uint8_t> Harness::read_bytes(const View& view) {
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(view.bytes()));
  device_.copy_to_host(0, bytes.data(), view);
  device_.wait_host(device_.record(0));
  return bytes;
}

std::vector<float> Harness::read(const View& view) {
  const std::vector<std::uint8_t> bytes = read_bytes(view);
  std::vector<float> values(static_cast<std::size_t>(view.size));
  if (!is_sixteen_bit(view.dtype)) {
    if (!bytes.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, &bytes[2 * i], 2);
    values[i] = view.dtype == Dtype::BFloat16 ? trainer::device::float_from_bf16(bits)
                                              : trainer::device::float_from_fp16(bits);
  }
  return values;
}

std::vector<float> Numbers::floats(std::int64_t count, float size) {
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) {
    value = (static_cast<float>(generator_() >> 8U) * 0x1p-23F - 1.0F) * size;
  }
  return values;
}

std::vector<std::int32_t> Numbers::below(std::int64_t count, std::int32_t bound) {
  std::vector<std::int32_t> values(static_cast<std::size_t>(count));
  for (std::int32_t& value : values) {
    value = static_cast<std::int32_t>(generator_() % static_cast<std::uint32_t>(bound));
  }
  return values;
}

void expect_close(const std::vector<float>& actual, const std::vector<double>& exact,
                  const std::vector<float>& naive, const std::string& what, Dtype stored) {
  ASSERT_EQ(actual.size(), exact.size()) << what;
  ASSERT_EQ(naive.size(), exact.size()) << what;
  double largest = 0;
  double naive_error = 0;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    largest = std::max(largest, std::abs(exact[i]));
    naive_error = std::max(naive_error, std::abs(static_cast<double>(naive[i]) - exact[i]));
  }
  const double allowed = 2 * naive_error + 4 * 0x1p-24 * largest +
                         (is_sixteen_bit(stored) ? half_ulp(stored, largest) : 0.0);
  std::size_t worst = 0;
  double error = -1;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    const double here = std::abs(static_cast<double>(actual[i]) - exact[i]);
    if (!(here <= error)) {  // NaN counts as worst
      error = here;
      worst = i;
      if (std::isnan(here)) break;
    }
  }
  if (exact.empty()) return;
  EXPECT_LE(error, allowed) << what << "[" << worst << "] is " << actual[worst] << ", exactly "
                            << exact[worst] << ", naively " << naive[worst] << "; largest "
                            << largest << ", allowed " << allowed;
}

void expect_close(Harness& at, const View& actual, const std::vector<double>& exact,
                  const std::vector<float>& naive, const std::string& what) {
  expect_close(at.read(actual), exact, naive, what, actual.dtype);
}

void expect_same(const std::vector<float>& actual, const std::vector<float>& expected,
                 const std::string& what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    ASSERT_EQ(actual[i], expected[i]) << what << "[" << i << "]";
  }
}

}  // namespace regatta::tests
