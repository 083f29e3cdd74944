#include <limits>

#include "tests/trainer/device/op_cases.h"
#include "tests/trainer/device/reference_ops.h"

namespace regatta::tests {
namespace {

using trainer::device::View;

struct LossCase {
  std::int64_t rows;
  std::int32_t classes;
  float size;
  float scale;
  bool padding = false;    // every third label is −1
  std::int64_t spare = 0;  // columns behind the classes
  float smoothing = 0;
};
const LossCase kCases[] = {
    {1, 1, 1, 1},
    {1, 2, 1, 0.5F},
    {7, 3, 5, 1},
    {129, 16, 1, 0.01F},
    {7, 1000, 10, 0.125F},
    {33, 4001, 2, 1.0F / 33},
    {1, 9, 1, 1, true},
    {70, 24, 3, 0.5F, true},
    {31, 2049, 4, 1.0F / 20, true},
    {7, 3, 5, 1, true, 5},
    {5, 30, 2, 0.5F, false, 34},
    {6, 4001, 2, 0.1F, true, 31},
    {3, 2, 1, 1, false, 1},
    {4, 2, 3, 0.25F, false, 0, 0.1F},
    {7, 3, 5, 1, true, 5, 0.2F},
    {129, 16, 1, 0.01F, false, 0, 0.5F},
    {5, 30, 2, 0.5F, false, 34, 0.1F},
    {33, 4001, 2, 1.0F / 33, true, 0, 0.1F},
    {6, 4001, 8, 0.1F, false, 31, 0.99F},
};

// Rows of `classes` elements with `spare` ones behind each.
template <typename Real>
std::vector<Real> spread(const std::vector<Real>& rows, const LossCase& c, Real spare) {
  std::vector<Real> result;
  for (std::int64_t r = 0; r < c.rows; ++r) {
    const auto begin = rows.begin() + r * c.classes;
    result.insert(result.end(), begin, begin + c.classes);
    result.insert(result.end(), static_cast<std::size_t>(c.spare), spare);
  }
  return result;
}

TEST_P(DeviceOps, CrossEntropyMatchesItsFormula) {
  for (const LossCase& c : kCases) {
    SCOPED_TRACE(std::to_string(c.rows) + "x" + std::to_string(c.classes) +
                 (c.padding ? " padded" : "") + " spare " + std::to_string(c.spare) +
                 " smoothed by " + std::to_string(c.smoothing));
    Numbers numbers(51);
    const std::vector<float> logits = at().rounded(numbers.floats(c.rows * c.classes, c.size));
    std::vector<std::int32_t> labels = numbers.below(c.rows, c.classes);
    for (std::size_t r = 0; c.padding && r < labels.size(); r += 3) labels[r] = -1;
    const auto exact = reference::cross_entropy<double>(as<double>(logits), labels, c.scale, {},
                                                        static_cast<double>(c.smoothing));
    const auto naive =
        reference::cross_entropy<float>(logits, labels, c.scale, at().precision(), c.smoothing);
    trainer::device::CrossEntropy op;
    const std::vector<float> spread_logits = spread(logits, c, std::nanf(""));
    op.logits = at().activations(spread_logits);
    op.labels = at().ints(labels);
    op.classes = c.classes;
    if (c.spare != 0) op.stride = c.classes + c.spare;
    op.label_smoothing = c.smoothing;
    op.scale = at().floats({c.scale});
    op.sums = at().floats({10, 20, 30});
    device().cross_entropy(0, op);
    expect_close(at(), op.logits, spread(exact.gradient, c, 0.0), spread(naive.gradient, c, 0.0F),
                 "gradient");
    const std::vector<float> sums = at().read(op.sums);
    expect_close({sums[0]}, {10 + exact.sum}, {10 + naive.sum}, "loss");
    EXPECT_EQ(sums[1], 20.0F + static_cast<float>(exact.correct));
    EXPECT_EQ(sums[2], 30.0F + static_cast<float>(exact.labelled));

    op.logits = at().activations(spread_logits);
    op.evaluate = true;
    device().cross_entropy(0, op);
    const std::vector<float> twice = at().read(op.sums);
    expect_close({twice[0]}, {10 + 2 * exact.sum}, {sums[0] + naive.sum}, "evaluated loss");
    EXPECT_EQ(twice[1], 20.0F + 2 * static_cast<float>(exact.correct));
    EXPECT_EQ(twice[2], 30.0F + 2 * static_cast<float>(exact.labelled));
  }
}

// Four equal logits lose log 4 whatever the smoothing; p is ¼, and with e = ½ q is 5/8 for the
// label and 1/8 for others. Exact in every type.
TEST_P(DeviceOps, CrossEntropySmoothsItsLabels) {
  trainer::device::CrossEntropy op;
  op.logits = at().activations({1, 1, 1, 1, -2, -2, -2, -2});
  op.labels = at().ints({2, -1});
  op.classes = 4;
  op.label_smoothing = 0.5F;
  op.scale = at().floats({4});
  op.sums = at().floats({0, 0, 0});
  device().cross_entropy(0, op);
  expect_same(at().read(op.logits), {0.5F, 0.5F, -1.5F, 0.5F, 0, 0, 0, 0}, "gradient");
  const std::vector<float> sums = at().read(op.sums);
  EXPECT_NEAR(sums[0], std::log(4.0F), 1e-6F);
  EXPECT_EQ(sums[1], 0.0F);
  EXPECT_EQ(sums[2], 1.0F);
}

TEST_P(DeviceOps, CrossEntropyOfNoRowsChangesNothing) {
  trainer::device::CrossEntropy op;
  op.logits = at().activations({});
  op.labels = at().ints({});
  op.classes = 10;
  op.scale = at().floats({1});
  op.sums = at().floats({1, 2, 3});
  device().cross_entropy(0, op);
  expect_same(at().read(op.sums), {1, 2, 3}, "sums");
}

// On a tie the lowest class is the prediction.
TEST_P(DeviceOps, CrossEntropyTiesGoToTheLowestClass) {
  std::vector<float> logits(4 * 40, 0.0F);
  for (const std::size_t place : {3U, 9U, 39U}) logits[place] = 2.0F;  // row 0: 3, 9, 39 tie
  for (const std::size_t place : {17U, 33U}) logits[40 + place] = 2.0F;
  trainer::device::CrossEntropy op;
  op.logits = at().activations(logits);
  op.labels = at().ints({3, 33, 0, 1});  // first, not first, all tie: first, all tie: not first
  op.classes = 40;
  op.evaluate = true;
  op.sums = at().floats({0, 0, 0});
  device().cross_entropy(0, op);
  EXPECT_EQ(at().read(op.sums)[1], 2.0F);
}

TEST_P(DeviceOps, CrossEntropySurvivesHugeLogits) {
  trainer::device::CrossEntropy op;
  const float huge = compute() == trainer::device::Dtype::Float16 ? 6e4F : 3e38F;
  op.logits = at().activations({1e4F, -1e4F, 0.0F, -huge, huge, 0.0F});
  op.labels = at().ints({0, 0});
  op.classes = 3;
  op.scale = at().floats({1});
  op.sums = at().floats({0, 0, 0});
  device().cross_entropy(0, op);
  expect_same(at().read(op.logits), {0, 0, 0, -1, 1, 0}, "gradient");
  EXPECT_EQ(at().read(op.sums)[1], 1.0F);
}

TEST_P(DeviceOps, CrossEntropyShowsWhatIsNotANumber) {
  trainer::device::CrossEntropy op;
  op.logits = at().activations({0.0F, std::nanf(""), 1.0F});
  op.labels = at().ints({0});
  op.classes = 3;
  op.scale = at().floats({1});
  op.sums = at().floats({0, 0, 0});
  device().cross_entropy(0, op);
  EXPECT_TRUE(std::isnan(at().read(op.sums)[0]));
}

// Whatever lies in a row without a label.
TEST_P(DeviceOps, CrossEntropyClearsRowsWithoutALabel) {
  for (const bool evaluate : {false, true}) {
    trainer::device::CrossEntropy op;
    op.logits = at().activations({1e4F, std::nanf(""), 0.0F, 1.0F, 1.0F, 1.0F, 5.0F, 6.0F, 7.0F});
    op.labels = at().ints({-1, 0, -1});
    op.classes = 3;
    op.scale = at().floats({3});
    op.evaluate = evaluate;
    op.sums = at().floats({0, 0, 0});
    device().cross_entropy(0, op);
    const std::vector<float> sums = at().read(op.sums);
    EXPECT_NEAR(sums[0], std::log(3.0F), 1e-6F);
    EXPECT_EQ(sums[1], 1.0F);
    EXPECT_EQ(sums[2], 1.0F);
    if (evaluate) continue;
    const std::vector<float> third = at().rounded({-2, 1, 1});
    const std::vector<float> result = at().read(op.logits);
    for (const std::size_t i : {0U, 1U, 2U, 6U, 7U, 8U}) EXPECT_EQ(result[i], 0.0F) << i;
    for (const std::size_t i : {0U, 1U, 2U}) EXPECT_NEAR(result[3 + i], third[i], 1e-6F) << i;
  }
}

// The scale is read on the device when the operation runs, not when it is enqueued.
TEST_P(DeviceOps, CrossEntropyReadsItsScaleOnTheDevice) {
  trainer::device::CrossEntropy op;
  op.logits = at().activations({0.0F, 0.0F});
  op.labels = at().ints({0});
  op.classes = 2;
  op.scale = at().floats({std::nanf("")});
  op.sums = at().floats({0, 0, 0});
  device().copy(0, op.scale, at().floats({0.5F}));
  device().cross_entropy(0, op);
  expect_same(at().read(op.logits), {-0.25F, 0.25F}, "gradient");
}

}  // namespace
}  // namespace regatta::tests
