#include "orchestrator/runs/time_to_accuracy.h"

#include <gtest/gtest.h>

namespace regatta::orchestrator {
namespace {

TEST(TimeAxis, HasNoOriginBeforeTheFirstStep) {
  EXPECT_FALSE(runs::make_time_axis({}).started);
  const runs::TimeAxis axis = runs::make_time_axis({{1000, std::nullopt, 7}});
  EXPECT_FALSE(axis.started);
  EXPECT_EQ(runs::axis_seconds(axis, 0, 5), 0);
}

TEST(TimeAxis, BeginsWithTheFirstStep) {
  // Loading took 3 s; the first step ran from 3.0 on.
  const runs::TimeAxis axis = runs::make_time_axis({{1000, 3.0, 20}});
  ASSERT_TRUE(axis.started);
  EXPECT_DOUBLE_EQ(axis.origin_utc, 1003);
  EXPECT_DOUBLE_EQ(runs::axis_seconds(axis, 0, 13), 10);
  EXPECT_DOUBLE_EQ(runs::axis_seconds(axis, 0, 1), 0) << "what came before is clamped";
}

TEST(TimeAxis, CountsTheGapBetweenAttemptsByUtc) {
  // Attempt 1 lives from 1000 to 1020, attempt 2 starts at 1050: 30 s of down time count.
  const runs::TimeAxis axis = runs::make_time_axis({{1000, 3.0, 20}, {1050, 4.0, 10}});
  EXPECT_DOUBLE_EQ(runs::axis_seconds(axis, 1, 0), 47);
  EXPECT_DOUBLE_EQ(runs::axis_seconds(axis, 1, 4), 51);
  EXPECT_EQ(axis.clamped, 0);
}

TEST(TimeAxis, TakesTheOriginFromTheFirstAttemptThatTookAStep) {
  const runs::TimeAxis axis = runs::make_time_axis({{1000, std::nullopt, 2}, {1010, 5.0, 9}});
  EXPECT_DOUBLE_EQ(axis.origin_utc, 1015);
  EXPECT_DOUBLE_EQ(runs::axis_seconds(axis, 1, 7), 2);
  EXPECT_DOUBLE_EQ(runs::axis_seconds(axis, 0, 1), 0);
}

TEST(TimeAxis, ClampsAndCountsAClockThatWentBack) {
  // UTC was set back by an hour between the attempts: the gap is taken as zero.
  const runs::TimeAxis axis =
      runs::make_time_axis({{5000, 1.0, 20}, {1400, 1.0, 10}, {1500, 1.0, 5}});
  EXPECT_EQ(axis.clamped, 2);
  EXPECT_DOUBLE_EQ(runs::axis_seconds(axis, 1, 0), 19);
  EXPECT_DOUBLE_EQ(runs::axis_seconds(axis, 2, 0), 29)
      << "an attempt never starts before the last ended";
}

TEST(TimeAxis, IgnoresUtcWithinAnAttempt) {
  // Only the start's UTC and monotonic seconds enter, so a clock step during an attempt changes
  // nothing: there is no place where it could.
  const runs::TimeAxis axis = runs::make_time_axis({{1000, 0.0, 100}});
  EXPECT_DOUBLE_EQ(runs::axis_seconds(axis, 0, 99), 99);
}

TEST(TimeToAccuracy, IsTheEndOfTheFirstEvaluationThatMetTheTarget) {
  EXPECT_EQ(runs::time_to_accuracy({}), std::nullopt);
  EXPECT_EQ(runs::time_to_accuracy({{10, 0.4, false}}), std::nullopt);
  EXPECT_EQ(runs::time_to_accuracy({{10, 0.4, false}, {20, 0.5, true}, {30, 0.6, true}}), 20);
  EXPECT_EQ(runs::time_to_accuracy({{30, 0.6, true}, {20, 0.5, true}}), 20)
      << "an older attempt, read late";
}

}  // namespace
}  // namespace regatta::orchestrator
