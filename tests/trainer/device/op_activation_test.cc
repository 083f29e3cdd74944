#include "tests/trainer/device/op_cases.h"
#include "tests/trainer/device/reference_ops.h"

namespace regatta::tests {
namespace {

const std::int64_t kSizes[] = {1, 7, 16, 129, 1000, 40001};

template <typename Real, typename Function>
std::vector<Real> mapped(const std::vector<float>& x, Function function) {
  std::vector<Real> y;
  for (const float value : x) y.push_back(function(Real(value)));
  return y;
}

TEST_P(DeviceOps, GeluMatchesBothForms) {
  for (const bool tanh_form : {false, true}) {
    for (const std::int64_t size : kSizes) {
      SCOPED_TRACE(std::to_string(size) + (tanh_form ? " tanh" : " erf"));
      const std::vector<float> x = Numbers(1).floats(size, 6);
      const trainer::View y = at().output(size);
      device().gelu_forward(0, at().floats(x), y, tanh_form);
      const auto gelu = [&](auto value) { return reference::gelu(value, tanh_form); };
      expect_close(at().read(y), mapped<double>(x, gelu), mapped<float>(x, gelu), "y");
    }
  }
}

TEST_P(DeviceOps, GeluBackwardMatchesBothForms) {
  for (const bool tanh_form : {false, true}) {
    for (const std::int64_t size : kSizes) {
      SCOPED_TRACE(std::to_string(size) + (tanh_form ? " tanh" : " erf"));
      Numbers numbers(2);
      const std::vector<float> x = numbers.floats(size, 6);
      const std::vector<float> dy = numbers.floats(size);
      const trainer::View dx = at().output(size);
      device().gelu_backward(0, at().floats(x), at().floats(dy), dx, tanh_form);
      std::vector<double> exact;
      std::vector<float> naive;
      for (std::size_t i = 0; i < x.size(); ++i) {
        exact.push_back(static_cast<double>(dy[i]) *
                        reference::gelu_slope(static_cast<double>(x[i]), tanh_form));
        naive.push_back(dy[i] * reference::gelu_slope(x[i], tanh_form));
      }
      expect_close(at().read(dx), exact, naive, "dx");
    }
  }
}

// dx may be dy or x.
TEST_P(DeviceOps, GeluBackwardInPlaceChangesNothing) {
  Numbers numbers(2);
  const std::vector<float> x = numbers.floats(333, 4);
  const std::vector<float> dy = numbers.floats(333);
  const trainer::View apart = at().output(333);
  device().gelu_backward(0, at().floats(x), at().floats(dy), apart, false);
  const std::vector<float> expected = at().read(apart);
  const trainer::View over_dy = at().floats(dy);
  device().gelu_backward(0, at().floats(x), over_dy, over_dy, false);
  expect_same(at().read(over_dy), expected, "dx over dy");
  const trainer::View over_x = at().floats(x);
  device().gelu_backward(0, over_x, at().floats(dy), over_x, false);
  expect_same(at().read(over_x), expected, "dx over x");
}

// Where formulas overflow or cancel: the limits of GELU are 0 and x, those of tanh ±1.
TEST_P(DeviceOps, ActivationsReachTheirLimits) {
  const std::vector<float> x = {0.0F,   -0.0F,   1e-30F, -1e-30F, 20.0F, -20.0F,
                                200.0F, -200.0F, 1e4F,   -1e4F,   1e18F, -1e18F};
  for (const bool tanh_form : {false, true}) {
    const auto count = static_cast<std::int64_t>(x.size());
    const trainer::View y = at().output(count);
    device().gelu_forward(0, at().floats(x), y, tanh_form);
    const trainer::View dx = at().output(count);
    device().gelu_backward(0, at().floats(x), at().floats(std::vector<float>(x.size(), 1.0F)), dx,
                           tanh_form);
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
    const trainer::View y = at().floats({0, 0, 0});
    device().gelu_forward(0, at().floats(x), y, tanh_form);
    const std::vector<float> result = at().read(y);
    EXPECT_FALSE(std::isnan(result[0]));
    EXPECT_TRUE(std::isnan(result[1]));
    EXPECT_FALSE(std::isnan(result[2]));
  }
  const trainer::View y = at().floats({0, 0, 0});
  device().tanh_forward(0, at().floats(x), y);
  EXPECT_TRUE(std::isnan(at().read(y)[1]));
}

// Relative accuracy, which the tables' absolute measure does not show.
TEST_P(DeviceOps, SmallTanhKeepsItsRelativeAccuracy) {
  std::vector<float> x;
  for (int i = -60; i <= 12; ++i)
    x.push_back(std::ldexp(1.1F, i / 4) * (i % 2 == 0 ? 1.0F : -1.0F));
  const trainer::View y = at().output(static_cast<std::int64_t>(x.size()));
  device().tanh_forward(0, at().floats(x), y);
  const std::vector<float> result = at().read(y);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double exact = std::tanh(static_cast<double>(x[i]));
    EXPECT_NEAR(static_cast<double>(result[i]) / exact, 1.0, 4e-7) << x[i];
  }
}

TEST_P(DeviceOps, TanhMatchesForwardAndBackward) {
  for (const std::int64_t size : kSizes) {
    Numbers numbers(4);
    const std::vector<float> x = numbers.floats(size, 3);
    const std::vector<float> dy = numbers.floats(size);
    const trainer::View y = at().output(size);
    device().tanh_forward(0, at().floats(x), y);
    const auto tanh = [](auto value) { return std::tanh(value); };
    const std::vector<float> values = at().read(y);
    expect_close(values, mapped<double>(x, tanh), mapped<float>(x, tanh), "y");
    const trainer::View dx = at().output(size);
    device().tanh_backward(0, y, at().floats(dy), dx);
    std::vector<double> exact;
    std::vector<float> naive;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const auto value = static_cast<double>(values[i]);
      exact.push_back(static_cast<double>(dy[i]) * (1 - value * value));
      naive.push_back(dy[i] * (1 - values[i] * values[i]));
    }
    expect_close(at().read(dx), exact, naive, "dx");
  }
}

}  // namespace
}  // namespace regatta::tests
