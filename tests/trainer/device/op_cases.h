// What the tests of operations (op_*_test.cc) share. They know only the contract of
// trainer/device/device.h: every executable that lists them defines devices_under_test() and so
// runs the same tables of cases on its devices. They need nothing but GoogleTest, base,
// trainer/device/device.h and trainer/device/half_types.h.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <ostream>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/trainer/device/precision.h"
#include "trainer/device/device.h"

namespace regatta::tests {

struct DeviceUnderTest {
  std::string name;  // letters and digits
  std::function<std::unique_ptr<trainer::device::Device>()> make;
  trainer::device::Dtype compute = trainer::device::Dtype::Float32;
  bool tf32 = false;
  // Of the long samples of 64 features a head; BERT-large has 16, for which the oracle takes a core
  // some 3 s at 512 tokens.
  int large_heads = 1;

  [[nodiscard]] Precision precision() const { return {compute, tf32}; }
};
[[nodiscard]] std::vector<DeviceUnderTest> devices_under_test();
inline void PrintTo(const DeviceUnderTest& device, std::ostream* out) { *out << device.name; }

// Moves data in and out as the contract demands, and keeps both sides alive until it dies. A type
// that is not named is the compute type of the device under test.
class Harness {
 public:
  explicit Harness(trainer::device::Device& device, const Precision& precision = {})
      : device_(device), precision_(precision) {}
  // A GPU that a kernel has made unusable says so here: a failure of this test, no abort.
  ~Harness() {
    try {
      device_.synchronize();
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what();
    }
  }
  Harness(const Harness&) = delete;
  Harness& operator=(const Harness&) = delete;

  [[nodiscard]] trainer::device::Device& device() { return device_; }
  [[nodiscard]] const Precision& precision() const { return precision_; }
  [[nodiscard]] trainer::device::View floats(std::vector<float> values);
  // Rounded to the type.
  [[nodiscard]] trainer::device::View activations(const std::vector<float>& values);
  [[nodiscard]] trainer::device::View values_of(trainer::device::Dtype type,
                                                const std::vector<float>& values);
  // What activations(values) holds: the inputs of oracles.
  [[nodiscard]] std::vector<float> rounded(std::vector<float> values) const {
    return precision_.stored(std::move(values));
  }
  [[nodiscard]] trainer::device::View ints(std::vector<std::int32_t> values);
  // Filled with NaN: an operation must overwrite all of it.
  [[nodiscard]] trainer::device::View output(std::int64_t count);
  [[nodiscard]] trainer::device::View activation_output(std::int64_t count);
  [[nodiscard]] trainer::device::View output_of(trainer::device::Dtype type, std::int64_t count);
  // The view's values, 16-bit ones widened.
  [[nodiscard]] std::vector<float> read(const trainer::device::View& view);
  [[nodiscard]] std::vector<std::uint8_t> read_bytes(const trainer::device::View& view);

 private:
  template <typename Value>
  [[nodiscard]] trainer::device::View upload(std::deque<std::vector<Value>>& kept,
                                             std::vector<Value> values,
                                             trainer::device::Dtype type);

  trainer::device::Device& device_;
  Precision precision_;
  std::deque<std::vector<float>> host_floats_;
  std::deque<std::vector<std::uint16_t>> host_halves_;
  std::deque<std::vector<std::int32_t>> host_ints_;
  std::vector<trainer::device::DeviceMemory> memory_;
};

class DeviceOps : public testing::TestWithParam<DeviceUnderTest> {
 protected:
  DeviceOps()
      : device_(GetParam().make()), harness_(std::in_place, *device_, GetParam().precision()) {}
  void SetUp() override { ASSERT_TRUE(device_->computes_in(compute())); }
  ~DeviceOps() override { harness_.reset(); }
  [[nodiscard]] trainer::device::Device& device() { return *device_; }
  [[nodiscard]] Harness& at() { return *harness_; }
  [[nodiscard]] trainer::device::Dtype compute() const { return GetParam().compute; }

 private:
  std::unique_ptr<trainer::device::Device> device_;
  std::optional<Harness> harness_;
};

// Uniform in [-size, size], by a fixed generator of the standard (mt19937 is the same everywhere).
class Numbers {
 public:
  explicit Numbers(unsigned seed) : generator_(seed) {}
  [[nodiscard]] std::vector<float> floats(std::int64_t count, float size = 1.0F);
  [[nodiscard]] std::vector<std::int32_t> below(std::int64_t count, std::int32_t bound);

 private:
  std::mt19937 generator_;
};

template <typename Real>
std::vector<Real> as(const std::vector<float>& values) {
  return std::vector<Real>(values.begin(), values.end());
}

// The oracle of every float result: `exact` was computed in float64 and `naive` by the same loops
// in float32, rounded to the compute type wherever the contract stores activations. The device may
// err by twice what the naive loops err, plus four float32 roundings of the largest value, which is
// what remains where the naive loops happen to be exact (a device rounds in other places, and its
// exponentials are good to 1e-7), plus half a unit of a 16-bit type in which the result is stored.
void expect_close(const std::vector<float>& actual, const std::vector<double>& exact,
                  const std::vector<float>& naive, const std::string& what,
                  trainer::device::Dtype stored = trainer::device::Dtype::Float32);
void expect_close(Harness& at, const trainer::device::View& actual,
                  const std::vector<double>& exact, const std::vector<float>& naive,
                  const std::string& what);

void expect_same(const std::vector<float>& actual, const std::vector<float>& expected,
                 const std::string& what);

}  // namespace regatta::tests
