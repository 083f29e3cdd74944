#include "orchestrator/runs/time_to_accuracy.h"

#include <gtest/gtest.h>

#include <cmath>

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

std::vector<runs::EvaluationPoint> on_line(double a, double b, const std::vector<double>& seconds) {
  std::vector<runs::EvaluationPoint> points;
  for (const double s : seconds) points.push_back({s, a + b * std::log(s), false});
  return points;
}

TEST(PredictCrossing, FindsTheCrossingOfALineExactly) {
  // 0.1 + 0.1·ln t reaches 0.6 at t = e^5 = 148.41.
  const auto points = on_line(0.1, 0.1, {10, 20, 40, 60, 80});
  const auto crossing = runs::predict_crossing(points, 0.6, runs::Better::Higher);
  ASSERT_TRUE(crossing);
  EXPECT_NEAR(crossing->seconds, std::exp(5.0), 1e-6);
  EXPECT_NEAR(crossing->low, crossing->seconds, 1e-4) << "no scatter, no interval";
  EXPECT_NEAR(crossing->high, crossing->seconds, 1e-4);
}

TEST(PredictCrossing, WorksDownwardsForLosses) {
  const auto points = on_line(5, -0.5, {10, 20, 40});
  const auto crossing = runs::predict_crossing(points, 2.5, runs::Better::Lower);
  ASSERT_TRUE(crossing);
  EXPECT_NEAR(crossing->seconds, std::exp(5.0), 1e-6);
}

TEST(PredictCrossing, WidensWithScatter) {
  auto points = on_line(0.1, 0.1, {10, 20, 40, 60, 80, 100});
  points[4].value += 0.01;
  points[5].value -= 0.01;
  const auto crossing = runs::predict_crossing(points, 0.7, runs::Better::Higher);
  ASSERT_TRUE(crossing);
  EXPECT_LT(crossing->low, crossing->seconds);
  EXPECT_GT(crossing->high, crossing->seconds);
  EXPECT_GE(crossing->low, 100) << "never in the past";
}

// Three points at ln t = 1, 2, 3 on a line of slope 0.1, moved by d, -2d, d: neither slope nor mean
// change, the residual is √(6 d² / 1), and the target lies 3 beyond the mean. So the error of ln t
// is d √6 / 0.1 · √(1/3 + 3²/2), of which the interval takes two.
TEST(PredictCrossing, TheIntervalIsTwoErrorsOfTheLine) {
  const double d = 0.005;
  const std::vector<runs::EvaluationPoint> points{{std::exp(1.0), 0.1 + d, false},
                                                  {std::exp(2.0), 0.2 - 2 * d, false},
                                                  {std::exp(3.0), 0.3 + d, false}};
  const auto crossing = runs::predict_crossing(points, 0.5, runs::Better::Higher);
  ASSERT_TRUE(crossing);
  const double error = d * std::sqrt(6.0) / 0.1 * std::sqrt(1.0 / 3 + 4.5);
  EXPECT_NEAR(std::log(crossing->seconds), 5, 1e-9);
  EXPECT_NEAR(std::log(crossing->low), 5 - 2 * error, 1e-9);
  EXPECT_NEAR(std::log(crossing->high), 5 + 2 * error, 1e-9);
}

TEST(PredictCrossing, FollowsTheNewerHalf) {
  // Flat at first, then rising: the flat part must not hold the line down.
  std::vector<runs::EvaluationPoint> points{
      {1, 0.05, false}, {2, 0.05, false}, {3, 0.05, false}, {4, 0.05, false}};
  for (const runs::EvaluationPoint& p : on_line(-0.1, 0.1, {20, 40, 60, 80})) points.push_back(p);
  const auto crossing = runs::predict_crossing(points, 0.4, runs::Better::Higher);
  ASSERT_TRUE(crossing);
  EXPECT_NEAR(crossing->seconds, std::exp(5.0), 1e-6);
}

struct NoPrediction {
  const char* name;
  std::vector<runs::EvaluationPoint> points;
  friend void PrintTo(const NoPrediction& each, std::ostream* out) { *out << each.name; }
};
class Unpredictable : public testing::TestWithParam<NoPrediction> {};
TEST_P(Unpredictable, SaysNothing) {
  EXPECT_FALSE(runs::predict_crossing(GetParam().points, 0.9, runs::Better::Higher));
}
INSTANTIATE_TEST_SUITE_P(
    Cases, Unpredictable,
    testing::Values(
        NoPrediction{"none", {}}, NoPrediction{"two", {{1, 0.1, false}, {2, 0.2, false}}},
        NoPrediction{"two_after_time_zero", {{0, 0.0, false}, {1, 0.1, false}, {2, 0.2, false}}},
        NoPrediction{"flat", {{1, 0.2, false}, {2, 0.2, false}, {3, 0.2, false}}},
        NoPrediction{"falling", {{1, 0.3, false}, {2, 0.2, false}, {3, 0.1, false}}},
        NoPrediction{"not_numbers", {{1, NAN, false}, {2, NAN, false}, {3, NAN, false}}},
        NoPrediction{"same_moment", {{5, 0.1, false}, {5, 0.2, false}, {5, 0.3, false}}},
        NoPrediction{"too_slow", {{1, 0.1, false}, {2, 0.10001, false}, {3, 0.10002, false}}},
        NoPrediction{"met_already", {{1, 0.1, false}, {2, 0.5, false}, {3, 0.95, true}}}),
    [](const auto& each) { return each.param.name; });

}  // namespace
}  // namespace regatta::orchestrator
