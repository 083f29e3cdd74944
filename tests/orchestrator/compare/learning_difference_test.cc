#include "orchestrator/compare/learning_difference.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace regatta::orchestrator::compare {
namespace {

namespace contract = trainer::contract;

contract::JournalRecord record_of(auto body) {
  contract::JournalRecord record;
  record.body = std::move(body);
  return record;
}

contract::JournalRecord started_at(std::int64_t step) {
  contract::StartRecord start;
  start.first_step = step;
  return record_of(start);
}

contract::JournalRecord step_of(std::int64_t number, double loss, double norm = 1) {
  contract::StepRecord step;
  step.step = number;
  step.loss = loss;
  step.gradient_norm = norm;
  return record_of(step);
}

LearningCurve curve_of(const std::vector<double>& losses) {
  LearningCurve curve;
  for (std::size_t i = 0; i < losses.size(); ++i) {
    curve.steps[static_cast<std::int64_t>(i) + 1] = {losses[i], 1};
  }
  return curve;
}

constexpr double kUnit = 0x1p-24;

TEST(LearningCurve, AResumedAttemptReplacesWhatItTakesAgain) {
  LearningCurve curve;
  add_attempt({started_at(0), step_of(1, 7.0), step_of(2, 6.5), step_of(3, 6.0)}, &curve);
  add_attempt({started_at(1), step_of(2, 6.4)}, &curve);
  ASSERT_EQ(curve.steps.size(), 2U);  // step 3 was not taken by the newer attempt
  EXPECT_EQ(curve.steps.at(1).loss, 7.0);
  EXPECT_EQ(curve.steps.at(2).loss, 6.4);
}

TEST(LearningCurve, ARollbackForgetsTheStepsThatItTakesBack) {
  contract::DivergenceRecord diverged;
  diverged.step = 4;
  diverged.action = "rollback";
  diverged.checkpoint_step = 1;
  LearningCurve curve;
  add_attempt({started_at(0), step_of(1, 7), step_of(2, 9), step_of(3, 20), record_of(diverged),
               step_of(2, 6)},
              &curve);
  ASSERT_EQ(curve.steps.size(), 2U);
  EXPECT_EQ(curve.steps.at(2).loss, 6);
  diverged.checkpoint_step = -1;  // the run begins again
  add_attempt({record_of(diverged)}, &curve);
  EXPECT_TRUE(curve.steps.empty());
  curve = curve_of({7, 6});
  diverged.action = "stop";
  add_attempt({record_of(diverged)}, &curve);
  EXPECT_EQ(curve.steps.size(), 2U);
}

TEST(LearningDifference, EqualRunsDifferInNothing) {
  const LearningDifference same = difference_of(curve_of({7, 6, 5}), curve_of({7, 6, 5}), kUnit);
  EXPECT_TRUE(same.is_equal());
  EXPECT_TRUE(same.began_alike());
  EXPECT_EQ(same.common, 3);
  EXPECT_FALSE(same.beyond_rounding);
}

TEST(LearningDifference, WithoutAStepInCommonNothingIsEqual) {
  LearningCurve later;
  later.steps[10] = {3, 1};
  const LearningDifference none = difference_of(curve_of({7, 6}), later, kUnit);
  EXPECT_FALSE(none.is_equal());
  EXPECT_EQ(none.common, 0);
  EXPECT_EQ(none.only_a, 2);
  EXPECT_EQ(none.only_b, 1);
  EXPECT_FALSE(none.other_bits);
}

TEST(LearningDifference, TellsOtherBitsAndWhatIsBeyondRounding) {
  // One unit in the last place of float32 at step 2, a thousandth at step 3.
  const double close = 6.0 * (1 + 0x1p-23);
  const LearningDifference apart =
      difference_of(curve_of({7, 6, 5, 4}), curve_of({7, close, 5.005, 4}), kUnit);
  ASSERT_TRUE(apart.other_bits && apart.beyond_rounding);
  EXPECT_EQ(apart.other_bits->step, 2);
  EXPECT_NEAR(apart.other_bits->relative(), 0x1p-23, 1e-12);
  EXPECT_EQ(apart.beyond_rounding->step, 3);
  EXPECT_NEAR(apart.beyond_rounding->relative(), 0.005 / 5.005, 1e-12);
  EXPECT_DOUBLE_EQ(apart.rounding, 7 * kUnit);
  EXPECT_TRUE(apart.began_alike());
  EXPECT_TRUE(apart.began_with_rounding());
  EXPECT_EQ(apart.last->step, 4);
}

TEST(LearningDifference, AtOnceBeyondRoundingIsNoRounding) {
  const LearningDifference apart = difference_of(curve_of({7, 6}), curve_of({7.1, 6}), kUnit);
  EXPECT_FALSE(apart.began_alike());
  EXPECT_FALSE(apart.began_with_rounding());
  EXPECT_EQ(apart.other_bits->step, apart.beyond_rounding->step);
}

TEST(LearningDifference, AnotherGradientAloneIsOtherBits) {
  LearningCurve b = curve_of({7, 6});
  b.steps[2].gradient_norm = 1 + 0x1p-52;
  const LearningDifference apart = difference_of(curve_of({7, 6}), b, kUnit);
  EXPECT_EQ(apart.other_bits->step, 2);
  EXPECT_FALSE(apart.beyond_rounding);
}

TEST(LearningDifference, WhatIsNoNumberIsBeyondRoundingUnlessBothAre) {
  const double none = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(difference_of(curve_of({7, none}), curve_of({7, 6}), kUnit).beyond_rounding->step, 2);
  EXPECT_TRUE(difference_of(curve_of({7, none}), curve_of({7, none}), kUnit).is_equal());
  const double endless = std::numeric_limits<double>::infinity();
  EXPECT_EQ(difference_of(curve_of({endless}), curve_of({6}), kUnit).beyond_rounding->step, 1);
}

TEST(LearningDifference, RoundingGrowsWithStepsAndCoarserTypes) {
  // 24, 11 and 8 bits of significand; 64 times less of what is averaged.
  EXPECT_EQ(loss_unit("float32"), std::ldexp(1.0, -24));
  EXPECT_EQ(loss_unit("float16"), std::ldexp(1.0, -11 - 6));
  EXPECT_EQ(loss_unit("tf32"), std::ldexp(1.0, -11 - 6));
  EXPECT_EQ(loss_unit("bfloat16"), std::ldexp(1.0, -8 - 6));
  EXPECT_LT(rounding_after(1, kUnit), rounding_after(2, kUnit));
  EXPECT_EQ(rounding_after(1'000'000'000, kUnit), kMostRounding);
}

}  // namespace
}  // namespace regatta::orchestrator::compare
