// Squared errors of one value a sample.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "tests/trainer/device/op_cases.h"
#include "tests/trainer/device/reference_ops.h"

namespace regatta::tests {
namespace {

using trainer::device::SquaredError;

struct SquaredCase {
  std::int64_t samples;
  float size, scale;
  std::int64_t padding = 0;  // every so many values are NaN
};
const SquaredCase kSquaredCases[] = {
    {1, 1, 1},           {2, 5, 0.5F}, {7, 1, 1.0F / 7},  {33, 5, 1.0F / 33},    {257, 2, 0.01F},
    {4000, 5, 1.0F / 4}, {1, 1, 1, 1}, {40, 3, 0.25F, 1}, {41, 3, 1.0F / 27, 3},
};

SquaredError on_device(Harness& at, const std::vector<float>& logits,
                       const std::vector<float>& values, float scale) {
  SquaredError op;
  op.logits = at.activations(logits);
  op.values = at.floats(values);
  op.scale = at.floats({scale});
  op.sums = at.floats({10, 20, 30});
  return op;
}

TEST_P(DeviceOps, SquaredErrorMatchesItsFormula) {
  for (const SquaredCase& c : kSquaredCases) {
    SCOPED_TRACE(std::to_string(c.samples) + " samples, padding " + std::to_string(c.padding));
    Numbers numbers(91);
    const std::vector<float> logits = at().rounded(numbers.floats(c.samples, c.size));
    std::vector<float> values = numbers.floats(c.samples, c.size);
    for (std::size_t s = 0; c.padding > 0 && s < values.size();
         s += static_cast<std::size_t>(c.padding)) {
      values[s] = std::nanf("");
    }
    const auto exact = reference::squared_error<double>(as<double>(logits), values, c.scale);
    const auto naive = reference::squared_error<float>(logits, values, c.scale, at().precision());
    SquaredError op = on_device(at(), logits, values, c.scale);
    device().squared_error(0, op);
    expect_close(at(), op.logits, exact.gradient, naive.gradient, "gradient");
    const std::vector<float> sums = at().read(op.sums);
    expect_close({sums[0]}, {10 + exact.sum}, {10 + naive.sum}, "loss");
    EXPECT_EQ(sums[1], 20.0F);
    EXPECT_EQ(sums[2], 30.0F + static_cast<float>(exact.labelled));

    op = on_device(at(), logits, values, c.scale);
    op.evaluate = true;
    op.scale = {};
    device().squared_error(0, op);
    expect_same(at().read(op.sums), sums, "sums of an evaluation");
  }
}

TEST_P(DeviceOps, SquaredErrorOfNoSamplesChangesNothing) {
  const SquaredError op = on_device(at(), {}, {}, 1);
  device().squared_error(0, op);
  expect_same(at().read(op.sums), {10, 20, 30}, "sums");
}

// Exact in every type; 0 where there is no value, whatever the logit, and where it is met.
TEST_P(DeviceOps, SquaredErrorHasItsKnownGradient) {
  const float nan = std::nanf("");
  const float infinity = std::numeric_limits<float>::infinity();
  const SquaredError op =
      on_device(at(), {3, -1, nan, infinity, 2, 0.5F}, {1, 2, nan, nan, 2, nan}, 0.25F);
  device().squared_error(0, op);
  expect_same(at().read(op.logits), {1, -1.5F, 0, 0, 0, 0}, "gradient");
  expect_same(at().read(op.sums), {10 + 4 + 9, 20, 33}, "sums");
}

// Not even a loss scale that has overflowed reaches what has no value.
TEST_P(DeviceOps, SquaredErrorOfNoValueHasNoGradient) {
  const SquaredError op =
      on_device(at(), {3, 1}, {std::nanf(""), 0}, std::numeric_limits<float>::infinity());
  device().squared_error(0, op);
  EXPECT_EQ(at().read(op.logits)[0], 0.0F);
  EXPECT_TRUE(std::isinf(at().read(op.logits)[1]));
}

TEST_P(DeviceOps, SquaredErrorShowsWhatIsNotANumber) {
  const SquaredError op = on_device(at(), {std::nanf(""), 1}, {0, 0}, 1);
  device().squared_error(0, op);
  EXPECT_TRUE(std::isnan(at().read(op.sums)[0]));
  EXPECT_TRUE(std::isnan(at().read(op.logits)[0]));
  EXPECT_EQ(at().read(op.logits)[1], 2.0F);
}

TEST_P(DeviceOps, SquaredErrorReadsItsScaleOnTheDevice) {
  const SquaredError op = on_device(at(), {2, 1}, {1, 2}, std::nanf(""));
  device().copy(0, op.scale, at().floats({0.5F}));
  device().squared_error(0, op);
  expect_same(at().read(op.logits), {1, -1}, "gradient");
}

}  // namespace
}  // namespace regatta::tests
