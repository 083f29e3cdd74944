#include "tests/trainer/device/op_cases.h"

#include <algorithm>
#include <limits>

namespace regatta::tests {

using trainer::DeviceMemory;
using trainer::Dtype;
using trainer::View;

View Harness::floats(std::vector<float> values) {
  host_floats_.push_back(std::move(values));
  memory_.emplace_back(device_, static_cast<std::int64_t>(host_floats_.back().size()),
                       Dtype::Float32);
  device_.copy_to_device(0, memory_.back().view(), host_floats_.back().data());
  return memory_.back().view();
}

View Harness::ints(std::vector<std::int32_t> values) {
  host_ints_.push_back(std::move(values));
  memory_.emplace_back(device_, static_cast<std::int64_t>(host_ints_.back().size()), Dtype::Int32);
  device_.copy_to_device(0, memory_.back().view(), host_ints_.back().data());
  return memory_.back().view();
}

View Harness::output(std::int64_t count) {
  return floats(
      std::vector<float>(static_cast<std::size_t>(count), std::numeric_limits<float>::quiet_NaN()));
}

std::vector<float> Harness::read(const View& view) {
  std::vector<float> values(static_cast<std::size_t>(view.size));
  device_.copy_to_host(0, values.data(), view);
  device_.wait_host(device_.record(0));
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
                  const std::vector<float>& naive, const std::string& what) {
  ASSERT_EQ(actual.size(), exact.size()) << what;
  ASSERT_EQ(naive.size(), exact.size()) << what;
  double largest = 0;
  double naive_error = 0;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    largest = std::max(largest, std::abs(exact[i]));
    naive_error = std::max(naive_error, std::abs(static_cast<double>(naive[i]) - exact[i]));
  }
  const double allowed = 2 * naive_error + 4 * 0x1p-24 * largest;
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
                            << largest;
}

void expect_same(const std::vector<float>& actual, const std::vector<float>& expected,
                 const std::string& what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    ASSERT_EQ(actual[i], expected[i]) << what << "[" << i << "]";
  }
}

}  // namespace regatta::tests
