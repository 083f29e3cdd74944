// Where answers begin and end, against the formula of two softmaxes a sample.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "tests/trainer/device/op_cases.h"
#include "tests/trainer/device/packed_tokens.h"
#include "tests/trainer/device/reference_ops.h"

namespace regatta::tests {
namespace {

using trainer::device::SpanCrossEntropy;

struct SpanCase {
  const char* name;
  std::vector<int> lengths;
  float size = 1, scale = 1, smoothing = 0;
  int unlabelled = 0;  // of every third sample: 1, 2 or both (3) of its answers are −1
  std::int64_t spare_tokens = 0, empty_samples = 0;
};
const SpanCase kSpanCases[] = {
    {"one token", {1}},
    {"two tokens", {2}, 4, 0.5F},
    {"one-token samples among others", {1, 5, 1, 1, 33}, 3, 0.25F},
    {"around a vector", {3, 4, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65}, 2, 1.0F / 13},
    {"around a block", {255, 256, 257}, 5, 1.0F / 3},
    {"long", {512, 384, 600}, 8, 0.125F},
    {"many", std::vector<int>(150, 9), 2, 1.0F / 150},
    {"no beginning", {6, 7, 8, 9}, 1, 0.5F, 0, 1},
    {"no end", {6, 7, 8, 9}, 1, 0.5F, 0, 2},
    {"neither", {6, 7, 8, 9}, 1, 0.5F, 0, 3},
    {"padded tokens", {20, 3}, 1, 0.5F, 0, 0, 41},
    {"padded samples", {20, 3}, 1, 0.5F, 0, 0, 0, 5},
    {"all padding at once", {70, 1, 300, 12}, 2, 0.25F, 0.1F, 3, 1000, 3},
    {"smoothed", {5, 128, 40}, 3, 1.0F / 3, 0.1F},
    {"smoothed much", {2, 384}, 6, 0.5F, 0.9F},
    {"smoothed, one token among others", {1, 9}, 2, 1, 0.25F},
};

// An operation on the device, and what it was made of.
struct SpanProblem {
  Packed packed;
  std::vector<float> logits;  // rounded, with large numbers in the tokens of no sample
  std::vector<std::int32_t> answers;

  SpanProblem(Harness& at, const SpanCase& c) : packed(c.lengths) {
    Numbers numbers(81);
    logits = numbers.floats(2 * packed.tokens(), c.size);
    for (std::size_t s = 0; s < c.lengths.size(); ++s) {
      for (const std::int32_t answer : numbers.below(2, c.lengths[s])) answers.push_back(answer);
      if (s % 3 == 0 && (c.unlabelled & 1) != 0) answers[2 * s] = -1;
      if (s % 3 == 0 && (c.unlabelled & 2) != 0) answers[2 * s + 1] = -1;
    }
    packed = packed.padded(c.spare_tokens, c.empty_samples);
    logits.resize(static_cast<std::size_t>(2 * packed.tokens()), 1e4F);
    answers.resize(static_cast<std::size_t>(2 * packed.samples()), -1);
    logits = at.rounded(logits);
  }
  [[nodiscard]] SpanCrossEntropy on(Harness& at, const SpanCase& c) const {
    SpanCrossEntropy op;
    op.logits = at.activations(logits);
    op.answers = at.ints(answers);
    op.cumulative = at.ints(packed.cumulative);
    op.label_smoothing = c.smoothing;
    op.scale = at.floats({c.scale});
    op.sums = at.floats({10, 20, 30});
    return op;
  }
};

TEST_P(DeviceOps, SpanCrossEntropyMatchesItsFormula) {
  for (const SpanCase& c : kSpanCases) {
    SCOPED_TRACE(c.name);
    const SpanProblem problem(at(), c);
    const auto exact = reference::span_cross_entropy<double>(
        as<double>(problem.logits), problem.answers, problem.packed.cumulative, c.scale, {},
        static_cast<double>(c.smoothing));
    const auto naive = reference::span_cross_entropy<float>(problem.logits, problem.answers,
                                                            problem.packed.cumulative, c.scale,
                                                            at().precision(), c.smoothing);
    SpanCrossEntropy op = problem.on(at(), c);
    device().span_cross_entropy(0, op);
    expect_close(at(), op.logits, exact.gradient, naive.gradient, "gradient");
    const std::vector<float> result = at().read(op.logits);
    for (auto i = static_cast<std::size_t>(2 * problem.packed.used()); i < result.size(); ++i) {
      ASSERT_EQ(result[i], 0.0F) << "a token of no sample";
    }
    const std::vector<float> sums = at().read(op.sums);
    expect_close({sums[0]}, {10 + exact.sum}, {10 + naive.sum}, "loss");
    EXPECT_EQ(sums[1], 20.0F + static_cast<float>(exact.correct));
    EXPECT_EQ(sums[2], 30.0F + static_cast<float>(exact.labelled));

    op = problem.on(at(), c);
    op.evaluate = true;
    op.scale = {};
    device().span_cross_entropy(0, op);
    expect_same(at().read(op.sums), sums, "sums of an evaluation");
  }
}

// Rows of samples come out bit for bit as without it.
TEST_P(DeviceOps, SpanCrossEntropyIgnoresPadding) {
  SpanCase c{"", {17, 1, 90, 300}, 4, 0.25F, 0.1F};
  const SpanProblem alone(at(), c);
  const SpanCrossEntropy first = alone.on(at(), c);
  device().span_cross_entropy(0, first);
  c.spare_tokens = 77;
  c.empty_samples = 4;
  const SpanProblem padded(at(), c);
  const SpanCrossEntropy second = padded.on(at(), c);
  device().span_cross_entropy(0, second);
  std::vector<float> expected = at().read(first.logits);
  expected.resize(padded.logits.size());
  expect_same(at().read(second.logits), expected, "gradient");
  expect_same(at().read(second.sums), at().read(first.sums), "sums");
}

// The two softmaxes are those of cross_entropy, over rows of their own.
TEST_P(DeviceOps, SpanCrossEntropyIsTwoCrossEntropies) {
  constexpr int kTokens = 24;
  const SpanCase c{"", {kTokens}, 3, 0.5F, 0.125F};
  const SpanProblem problem(at(), c);
  const SpanCrossEntropy op = problem.on(at(), c);
  device().span_cross_entropy(0, op);
  std::vector<float> rows;
  for (std::size_t column : {0U, 1U}) {
    for (std::size_t t = 0; t < kTokens; ++t) rows.push_back(problem.logits[2 * t + column]);
  }
  trainer::device::CrossEntropy both;
  both.logits = at().activations(rows);
  both.labels = at().ints(problem.answers);
  both.classes = kTokens;
  both.label_smoothing = c.smoothing;
  both.scale = at().floats({c.scale / 2});
  both.sums = at().floats({0, 0, 0});
  device().cross_entropy(0, both);
  const std::vector<float> gradient = at().read(op.logits);
  const std::vector<float> expected = at().read(both.logits);
  const float unit = static_cast<float>(half_ulp(compute(), 0.25)) * 2 + 1e-7F;
  for (std::size_t t = 0; t < kTokens; ++t) {
    EXPECT_NEAR(gradient[2 * t], expected[t], unit) << t;
    EXPECT_NEAR(gradient[2 * t + 1], expected[kTokens + t], unit) << t;
  }
  const float loss = at().read(both.sums)[0] / 2;
  EXPECT_NEAR(at().read(op.sums)[0] - 10, loss, 4e-6F);
}

struct RightCase {
  const char* name;
  std::vector<float> logits;  // of four tokens: beginnings, then ends
  std::int32_t begin, end;
  float right;
};
TEST_P(DeviceOps, SpanCrossEntropyCountsAnswersThatAreBothRight) {
  const std::vector<RightCase> cases = {
      {"both", {0, 3, 1, 2, 0, 1, 5, 2}, 1, 2, 1},
      {"beginning alone", {0, 3, 1, 2, 0, 1, 5, 2}, 1, 3, 0},
      {"end alone", {0, 3, 1, 2, 0, 1, 5, 2}, 0, 2, 0},
      {"neither", {0, 3, 1, 2, 0, 1, 5, 2}, 0, 3, 0},
      {"ties, first of both", {2, 3, 3, 3, 5, 5, 5, 5}, 1, 0, 1},
      {"ties, second beginning", {2, 3, 3, 3, 5, 5, 5, 5}, 2, 0, 0},
      {"ties, last end", {2, 3, 3, 3, 5, 5, 5, 5}, 1, 3, 0},
      {"end before beginning", {0, 0, 0, 1, 1, 0, 0, 0}, 3, 0, 1},
  };
  for (const RightCase& c : cases) {
    std::vector<float> logits = {9, 9};  // of another sample: larger, and not looked at
    for (std::size_t t = 0; t < 4; ++t) {
      logits.insert(logits.end(), {c.logits[t], c.logits[4 + t]});
    }
    SpanCrossEntropy op;
    op.logits = at().activations(logits);
    op.answers = at().ints({-1, -1, c.begin, c.end});
    op.cumulative = at().ints({0, 1, 5});
    op.evaluate = true;
    op.sums = at().floats({0, 0, 0});
    device().span_cross_entropy(0, op);
    const std::vector<float> sums = at().read(op.sums);
    EXPECT_EQ(sums[1], c.right) << c.name;
    EXPECT_EQ(sums[2], 1.0F) << c.name;
  }
}

// Four equal logits: p is ¼, and with e = ½ q is 5/8 for the label and 1/8 for others. Exact in
// every type.
TEST_P(DeviceOps, SpanCrossEntropyOfEqualLogits) {
  for (const float smoothing : {0.0F, 0.5F}) {
    SpanCrossEntropy op;
    op.logits = at().activations(std::vector<float>(8, 0.5F));
    op.answers = at().ints({3, 0});
    op.cumulative = at().ints({0, 4});
    op.label_smoothing = smoothing;
    op.scale = at().floats({2});
    op.sums = at().floats({0, 0, 0});
    device().span_cross_entropy(0, op);
    const float label = smoothing > 0 ? -0.375F : -0.75F;
    const float other = smoothing > 0 ? 0.125F : 0.25F;
    expect_same(at().read(op.logits), {other, label, other, other, other, other, label, other},
                "gradient");
    EXPECT_NEAR(at().read(op.sums)[0], std::log(4.0F), 1e-6F);
  }
}

TEST_P(DeviceOps, SpanCrossEntropyOfNoSamplesClearsItsTokens) {
  SpanCrossEntropy op;
  op.logits = at().activations({1, std::nanf(""), 2, 3});
  op.answers = at().ints({});
  op.cumulative = at().ints({0});
  op.scale = at().floats({1});
  op.sums = at().floats({1, 2, 3});
  device().span_cross_entropy(0, op);
  expect_same(at().read(op.logits), {0, 0, 0, 0}, "gradient");
  expect_same(at().read(op.sums), {1, 2, 3}, "sums");
  op.logits = at().activations({});
  device().span_cross_entropy(0, op);
  expect_same(at().read(op.sums), {1, 2, 3}, "sums without tokens");
}

// Whatever lies in a sample without an answer, or beyond all samples.
TEST_P(DeviceOps, SpanCrossEntropyClearsWhatHasNoAnswer) {
  const float nan = std::nanf("");
  SpanCrossEntropy op;
  op.logits = at().activations({nan, 1e4F, -1e4F, nan, 0, 0, nan, nan});
  op.answers = at().ints({-1, 1, 0, 0, -1, -1});
  op.cumulative = at().ints({0, 2, 3, 3});
  op.scale = at().floats({1});
  op.sums = at().floats({0, 0, 0});
  device().span_cross_entropy(0, op);
  expect_same(at().read(op.logits), std::vector<float>(8, 0.0F), "gradient");
  expect_same(at().read(op.sums), {0, 1, 1}, "sums");
}

TEST_P(DeviceOps, SpanCrossEntropySurvivesHugeLogits) {
  const float huge = compute() == trainer::device::Dtype::Float16 ? 6e4F : 3e38F;
  SpanCrossEntropy op;
  op.logits = at().activations({huge, -huge, -huge, huge, 0, 0});
  op.answers = at().ints({0, 1});
  op.cumulative = at().ints({0, 3});
  op.scale = at().floats({1});
  op.sums = at().floats({0, 0, 0});
  device().span_cross_entropy(0, op);
  expect_same(at().read(op.logits), std::vector<float>(6, 0.0F), "gradient");
  expect_same(at().read(op.sums), {0, 1, 1}, "sums");
}

TEST_P(DeviceOps, SpanCrossEntropyShowsWhatIsNotANumber) {
  SpanCrossEntropy op;
  op.logits = at().activations({0, 0, 0, std::nanf("")});
  op.answers = at().ints({0, 0});
  op.cumulative = at().ints({0, 2});
  op.scale = at().floats({1});
  op.sums = at().floats({0, 0, 0});
  device().span_cross_entropy(0, op);
  EXPECT_TRUE(std::isnan(at().read(op.sums)[0]));
}

// Scale and offsets are read on the device when the operation runs, not when it is enqueued.
TEST_P(DeviceOps, SpanCrossEntropyReadsItsScaleOnTheDevice) {
  SpanCrossEntropy op;
  op.logits = at().activations({0, 0, 0, 0});
  op.answers = at().ints({0, 1});
  op.cumulative = at().ints({0, 1});
  op.scale = at().floats({std::nanf("")});
  op.sums = at().floats({0, 0, 0});
  device().copy(0, op.scale, at().floats({0.5F}));
  device().copy(0, op.cumulative, at().ints({0, 2}));
  device().span_cross_entropy(0, op);
  expect_same(at().read(op.logits), {-0.125F, 0.125F, 0.125F, -0.125F}, "gradient");
}

}  // namespace
}  // namespace regatta::tests
