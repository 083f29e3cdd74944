#include "tests/trainer/device/op_cases.h"
#include "tests/trainer/device/reference_ops.h"

namespace regatta::tests {
namespace {

using trainer::device::View;

const std::int64_t kSizes[] = {1, 7, 16, 129, 1000, 40001};

template <typename Real, typename Function>
std::vector<Real> mapped(const std::vector<float>& x, Function function,
                         const Precision& precision = {}) {
  std::vector<Real> y;
  for (const float value : x) y.push_back(precision.stored(Real(function(Real(value)))));
  return y;
}
// dy times the slope at x.
template <typename Real, typename Slope>
std::vector<Real> chained(const std::vector<float>& x, const std::vector<float>& dy, Slope slope,
                          const Precision& precision = {}) {
  std::vector<Real> dx;
  for (std::size_t i = 0; i < x.size(); ++i) {
    dx.push_back(precision.stored(Real(dy[i]) * Real(slope(Real(x[i])))));
  }
  return dx;
}

TEST_P(DeviceOps, GeluMatchesBothForms) {
  for (const bool tanh_form : {false, true}) {
    for (const std::int64_t size : kSizes) {
      SCOPED_TRACE(std::to_string(size) + (tanh_form ? " tanh" : " erf"));
      const std::vector<float> x = at().rounded(Numbers(1).floats(size, 6));
      const View y = at().activation_output(size);
      device().gelu_forward(0, at().activations(x), y, tanh_form);
      const auto gelu = [&](auto value) { return reference::gelu(value, tanh_form); };
      expect_close(at(), y, mapped<double>(x, gelu), mapped<float>(x, gelu, at().precision()), "y");
    }
  }
}

TEST_P(DeviceOps, GeluBackwardMatchesBothForms) {
  for (const bool tanh_form : {false, true}) {
    for (const std::int64_t size : kSizes) {
      SCOPED_TRACE(std::to_string(size) + (tanh_form ? " tanh" : " erf"));
      Numbers numbers(2);
      const std::vector<float> x = at().rounded(numbers.floats(size, 6));
      const std::vector<float> dy = at().rounded(numbers.floats(size));
      const View dx = at().activation_output(size);
      device().gelu_backward(0, at().activations(x), at().activations(dy), dx, tanh_form);
      const auto slope = [&](auto value) { return reference::gelu_slope(value, tanh_form); };
      expect_close(at(), dx, chained<double>(x, dy, slope),
                   chained<float>(x, dy, slope, at().precision()), "dx");
    }
  }
}

// dx may be dy or x.
TEST_P(DeviceOps, GeluBackwardInPlaceChangesNothing) {
  Numbers numbers(2);
  const std::vector<float> x = numbers.floats(333, 4);
  const std::vector<float> dy = numbers.floats(333);
  const View apart = at().activation_output(333);
  device().gelu_backward(0, at().activations(x), at().activations(dy), apart, false);
  const std::vector<float> expected = at().read(apart);
  const View over_dy = at().activations(dy);
  device().gelu_backward(0, at().activations(x), over_dy, over_dy, false);
  expect_same(at().read(over_dy), expected, "dx over dy");
  const View over_x = at().activations(x);
  device().gelu_backward(0, over_x, at().activations(dy), over_x, false);
  expect_same(at().read(over_x), expected, "dx over x");
}

// Element-wise operations on pieces that start anywhere.
TEST_P(DeviceOps, ActivationsReadUnalignedPieces) {
  Numbers numbers(3);
  const std::vector<float> x = at().rounded(numbers.floats(200, 4));
  for (const std::int64_t begin : {1, 3, 8}) {
    const View whole = at().activation_output(200);
    device().gelu_forward(0, at().activations(x).slice(begin, 100), whole.slice(begin, 100), true);
    const std::vector<float> result = at().read(whole);
    const auto gelu = [](auto value) { return reference::gelu(value, true); };
    const std::vector<float> part(x.begin() + begin, x.begin() + begin + 100);
    expect_close({result.begin() + begin, result.begin() + begin + 100}, mapped<double>(part, gelu),
                 mapped<float>(part, gelu, at().precision()), "y", compute());
    EXPECT_TRUE(std::isnan(result[static_cast<std::size_t>(begin) - 1]));
    EXPECT_TRUE(std::isnan(result[static_cast<std::size_t>(begin) + 100]));
  }
}

// Where formulas overflow or cancel: the limits of GELU are 0 and x, those of tanh ±1.
TEST_P(DeviceOps, ActivationsReachTheirLimits) {
  std::vector<float> x = at().rounded(
      {0.0F, -0.0F, 1e-30F, -1e-30F, 20.0F, -20.0F, 200.0F, -200.0F, 1e4F, -1e4F, 1e18F, -1e18F});
  std::erase_if(x, [](float value) { return std::isinf(value); });
  for (const bool tanh_form : {false, true}) {
    const auto count = static_cast<std::int64_t>(x.size());
    const View y = at().activation_output(count);
    device().gelu_forward(0, at().activations(x), y, tanh_form);
    const View dx = at().activation_output(count);
    device().gelu_backward(0, at().activations(x),
                           at().activations(std::vector<float>(x.size(), 1.0F)), dx, tanh_form);
    const std::vector<float> values = at().read(y);
    const std::vector<float> slopes = at().read(dx);
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (std::abs(x[i]) < 1) {
        EXPECT_NEAR(values[i], x[i] / 2, 1e-36) << x[i];
        EXPECT_NEAR(slopes[i], 0.5F, 1e-7) << x[i];
      } else {
        EXPECT_NEAR(values[i], x[i] > 0 ? x[i] : 0.0F, 1e-30) << x[i];
        EXPECT_NEAR(slopes[i], x[i] > 0 ? 1.0F : 0.0F, 1e-30) << x[i];
      }
    }
  }
}

TEST_P(DeviceOps, ActivationsPassNotANumberOn) {
  const float nan = std::nanf("");
  const std::vector<float> x = {1.0F, nan, 2.0F};
  for (const bool tanh_form : {false, true}) {
    const View y = at().activations({0, 0, 0});
    device().gelu_forward(0, at().activations(x), y, tanh_form);
    const std::vector<float> result = at().read(y);
    EXPECT_FALSE(std::isnan(result[0]));
    EXPECT_TRUE(std::isnan(result[1]));
    EXPECT_FALSE(std::isnan(result[2]));
  }
  const View y = at().activations({0, 0, 0});
  device().tanh_forward(0, at().activations(x), y);
  EXPECT_TRUE(std::isnan(at().read(y)[1]));
}

// Relative accuracy, which the tables' absolute measure does not show: 4e-7, and what storing the
// result costs.
TEST_P(DeviceOps, SmallTanhKeepsItsRelativeAccuracy) {
  std::vector<float> x;
  for (int i = -60; i <= 12; ++i)
    x.push_back(std::ldexp(1.1F, i / 4) * (i % 2 == 0 ? 1.0F : -1.0F));
  x = at().rounded(x);
  const View y = at().activation_output(static_cast<std::int64_t>(x.size()));
  device().tanh_forward(0, at().activations(x), y);
  const std::vector<float> result = at().read(y);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double exact = std::tanh(static_cast<double>(x[i]));
    const double storing = is_sixteen_bit(compute()) ? half_ulp(compute(), std::abs(exact)) : 0.0;
    EXPECT_NEAR(static_cast<double>(result[i]), exact, 4e-7 * std::abs(exact) + storing) << x[i];
  }
}

TEST_P(DeviceOps, TanhMatchesForwardAndBackward) {
  for (const std::int64_t size : kSizes) {
    Numbers numbers(4);
    const std::vector<float> x = at().rounded(numbers.floats(size, 3));
    const std::vector<float> dy = at().rounded(numbers.floats(size));
    const View y = at().activation_output(size);
    device().tanh_forward(0, at().activations(x), y);
    const auto tanh = [](auto value) { return std::tanh(value); };
    const std::vector<float> values = at().read(y);
    expect_close(values, mapped<double>(x, tanh), mapped<float>(x, tanh, at().precision()), "y",
                 compute());
    const View dx = at().activation_output(size);
    device().tanh_backward(0, y, at().activations(dy), dx);
    const auto slope = [](auto value) { return 1 - value * value; };
    expect_close(at(), dx, chained<double>(values, dy, slope),
                 chained<float>(values, dy, slope, at().precision()), "dx");
  }
}

}  // namespace
}  // namespace regatta::tests
