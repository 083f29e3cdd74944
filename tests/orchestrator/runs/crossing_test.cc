#include "orchestrator/runs/crossing.h"

#include <gtest/gtest.h>

#include <cmath>
#include <ctime>
#include <functional>
#include <limits>
#include <random>

namespace regatta::orchestrator::runs {
namespace {

using Points = std::vector<EvaluationPoint>;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

Points on(const std::function<double(double)>& value, const std::vector<double>& seconds) {
  Points points;
  for (const double at : seconds) points.push_back({at, value(at), false});
  return points;
}
std::vector<double> every(double interval, int count) {
  std::vector<double> seconds;
  for (int i = 1; i <= count; ++i) seconds.push_back(interval * i);
  return seconds;
}
std::optional<Crossing> higher(const Points& points, double target,
                               const std::vector<PastRun>& past = {}) {
  return predict_crossing(points, target, Better::Higher, past);
}

struct Known {
  const char* name;
  std::function<double(double)> value;
  double target;  // met at 1000 s
  Better better = Better::Higher;
  friend void PrintTo(const Known& each, std::ostream* out) { *out << each.name; }
};
class KnownCrossing : public testing::TestWithParam<Known> {};
TEST_P(KnownCrossing, LiesInTheInterval) {
  const Known& known = GetParam();
  for (const int count : {8, 12, 16, 19}) {
    const auto crossing =
        predict_crossing(on(known.value, every(50, count)), known.target, known.better, {});
    ASSERT_TRUE(crossing) << count;
    EXPECT_EQ(crossing->model, CrossingModel::OwnCurve);
    EXPECT_LE(crossing->low, 1000) << count;
    EXPECT_GE(crossing->high, 1000) << count;
  }
}
INSTANTIATE_TEST_SUITE_P(
    Shapes, KnownCrossing,
    testing::Values(Known{"line_over_log_time", [](double at) { return 0.1 * std::log(at); },
                          0.1 * std::log(1000.0)},
                    Known{"logistic_over_log_time",
                          [](double at) { return 1 / (1 + std::pow(at / 400, -2)); },
                          1 / (1 + std::pow(1000.0 / 400, -2))},
                    Known{"linear", [](double at) { return at / 1000; }, 1.0},
                    Known{"loss_falling_as_a_power",
                          [](double at) { return 2 + 20 / std::sqrt(at); },
                          2 + 20 / std::sqrt(1000.0), Better::Lower},
                    Known{"loss_falling_as_a_line", [](double at) { return 10 - std::log(at); },
                          10 - std::log(1000.0), Better::Lower}),
    [](const auto& each) { return each.param.name; });

struct NoPrediction {
  const char* name;
  Points points;
  friend void PrintTo(const NoPrediction& each, std::ostream* out) { *out << each.name; }
};
class Unpredictable : public testing::TestWithParam<NoPrediction> {};
TEST_P(Unpredictable, SaysNothing) { EXPECT_FALSE(higher(GetParam().points, 0.9)); }
INSTANTIATE_TEST_SUITE_P(
    Cases, Unpredictable,
    testing::Values(
        NoPrediction{"none", {}}, NoPrediction{"one", {{5, 0.1, false}}},
        NoPrediction{"two", {{1, 0.1, false}, {2, 0.2, false}}},
        NoPrediction{"two_after_time_zero", {{0, 0.0, false}, {1, 0.1, false}, {2, 0.2, false}}},
        NoPrediction{"flat", {{1, 0.2, false}, {2, 0.2, false}, {3, 0.2, false}}},
        NoPrediction{"falling", {{1, 0.3, false}, {2, 0.2, false}, {3, 0.1, false}}},
        NoPrediction{"not_numbers", {{1, NAN, false}, {2, NAN, false}, {3, NAN, false}}},
        NoPrediction{"infinite_values",
                     {{1, 0, false}, {2, kInfinity, false}, {3, -kInfinity, false}}},
        NoPrediction{"infinite_times",
                     {{1, 0, false}, {kInfinity, 0.1, false}, {kInfinity, 0.2, false}}},
        NoPrediction{"same_moment", {{5, 0.1, false}, {5, 0.2, false}, {5, 0.3, false}}},
        NoPrediction{"going_back_in_time", {{5, 0.1, false}, {4, 0.2, false}, {3, 0.3, false}}},
        NoPrediction{"too_slow", {{1, 0.1, false}, {2, 0.10001, false}, {3, 0.10002, false}}},
        NoPrediction{"met_already", {{1, 0.1, false}, {2, 0.5, false}, {3, 0.95, true}}}),
    [](const auto& each) { return each.param.name; });

TEST(PredictCrossing, SaysNothingOfATargetOfZeroOrNone) {
  const Points points = on([](double t) { return -1 / t; }, every(1, 5));
  for (const double target : {0.0, static_cast<double>(NAN), kInfinity})
    EXPECT_FALSE(higher(points, target));
}

TEST(PredictCrossing, IsMostlySilentOnANoisyPlateauBelowTheTarget) {
  std::mt19937_64 random(3);
  std::normal_distribution<double> noise(0, 0.002);
  int said = 0;
  for (int i = 0; i < 200; ++i) {
    Points points;
    for (const double at : every(50, 30)) {
      points.push_back({at, 0.5 * (1 - std::exp(-at / 150)) + noise(random), false});
    }
    said += higher(points, 0.8) ? 1 : 0;
  }
  EXPECT_LE(said, 10) << "a slope of two standard errors by chance, and not too slow: 1 in 40";
}

// As MLPerf's curves run: nearly flat, a steep rise, a long tail. Values of our own.
const Points& like_mlperf() {
  static const Points points = on(
      [](double t) {
        return t < 120 ? 0.37 + t / 6000 : 0.7 - 0.25 * std::exp(-(t - 120) / 40) + t / 50000;
      },
      every(50, 19));
  return points;
}

TEST(PredictCrossing, KnowsMlperfsTaskFromTheFirstEvaluation) {
  const auto crossing = higher({like_mlperf()[0]}, 0.72);
  ASSERT_TRUE(crossing);
  EXPECT_EQ(crossing->model, CrossingModel::Mlperf);
  EXPECT_LE(crossing->low, 1000);
  EXPECT_GE(crossing->high, 700);
  EXPECT_FALSE(higher({like_mlperf()[0]}, 0.6)) << "another target is another task";
  EXPECT_FALSE(predict_crossing({like_mlperf()[0]}, 0.72, Better::Lower, {}));
  EXPECT_FALSE(predict_crossing({like_mlperf()[0]}, 0.72, Better::Higher, {}, "f1"));
  EXPECT_TRUE(earlier_predictions({like_mlperf()[0]}, 0.72, Better::Higher, {}, "f1").empty());
}

TEST(PredictCrossing, LeavesMlperfsModelWhereNoRunOfItWas) {
  Points points;
  for (const double at : every(50, 60)) points.push_back({at, 0.37 + at * 1e-6, false});
  const auto crossing = higher(points, 0.72);
  EXPECT_TRUE(!crossing || crossing->model == CrossingModel::OwnCurve);
}

TEST(PredictCrossing, WidensWhenItsEarlierPredictionsExcludeThePresentOne) {
  Points steady = like_mlperf();
  Points late = like_mlperf();
  steady.resize(12);
  late.resize(12);
  for (std::size_t i = 6; i < late.size(); ++i) late[i].seconds += 3000;  // it stood still
  const auto usual = higher(steady, 0.72);
  const auto wide = higher(late, 0.72);
  ASSERT_TRUE(usual);
  ASSERT_TRUE(wide);
  EXPECT_GT(std::log(wide->high / wide->low), 2 * std::log(usual->high / usual->low));
}

TEST(PredictCrossing, DoesNotDependOnTheUnitOfTime) {
  for (const Points& points :
       {like_mlperf(), on([](double t) { return t / 2000; }, every(50, 9))}) {
    Points scaled = points;
    for (EvaluationPoint& point : scaled) point.seconds *= 1000;
    const auto one = higher(points, 0.72);
    const auto other = higher(scaled, 0.72);
    ASSERT_TRUE(one && other);
    EXPECT_NEAR(other->seconds / one->seconds, 1000, 1e-6);
    EXPECT_NEAR(other->low / one->low, 1000, 1e-6);
    EXPECT_NEAR(other->high / one->high, 1000, 1e-6);
  }
}

TEST(PredictCrossing, IsNeverInThePastNorOutOfOrder) {
  std::mt19937_64 random(5);
  const double strange[] = {0, -1, 1e-300, 1e300, kInfinity, -kInfinity, NAN, 0.72, 1e18};
  std::uniform_real_distribution<double> usual;
  for (int i = 0; i < 20000; ++i) {
    const auto any = [&] { return random() % 8 == 0 ? strange[random() % 9] : usual(random); };
    Points points;
    double at = 0, newest = 0;
    for (std::size_t n = random() % 20; n > 0; --n) {
      at += any();
      points.push_back({at, any(), random() % 100 == 0});
      if (std::isfinite(at) && std::isfinite(points.back().value)) newest = std::max(newest, at);
    }
    std::vector<PastRun> past;
    for (std::size_t n = random() % 5; n > 0; --n) {
      if (auto run = past_run({{0.1 + usual(random), usual(random), false}, {3, 1, true}}, 1,
                              Better::Higher)) {
        past.push_back(*run);
      }
    }
    for (const Better better : {Better::Higher, Better::Lower}) {
      const double target = random() % 2 == 0 ? 0.72 : any();
      if (const auto crossing = predict_crossing(points, target, better, past)) {
        ASSERT_TRUE(std::isfinite(crossing->high));
        ASSERT_LE(crossing->low, crossing->seconds);
        ASSERT_LE(crossing->seconds, crossing->high);
      }
      (void)earlier_predictions(points, target, better, past);
    }
  }
}

TEST(PredictCrossing, TakesAHundredThousandEvaluationsInItsStride) {
  const Points points = on([](double t) { return 1e-6 * t; }, every(1, 100000));
  const std::clock_t begin = std::clock();  // of the processor, whatever else it does
  EXPECT_TRUE(higher(points, 0.2));
  EXPECT_FALSE(earlier_predictions(points, 0.2, Better::Higher, {}).empty());
  EXPECT_LT(static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC, 6);
}

TEST(PastRun, IsSharesAndGapsOfTheBestSoFar) {
  const auto run =
      past_run({{10, 4, false}, {20, 5, false}, {30, 3, false}, {40, 2, true}}, 2, Better::Lower);
  ASSERT_TRUE(run);
  ASSERT_EQ(run->bests.size(), 3U);
  EXPECT_DOUBLE_EQ(run->bests[0].share, 0.25);
  EXPECT_DOUBLE_EQ(run->bests[0].gap, 1);
  EXPECT_DOUBLE_EQ(run->bests[1].share, 0.75);
  EXPECT_DOUBLE_EQ(run->bests[1].gap, 0.5);
  EXPECT_DOUBLE_EQ(run->bests[2].share, 1);
  EXPECT_DOUBLE_EQ(run->bests[2].gap, 0);
  EXPECT_FALSE(past_run({{10, 4, false}}, 2, Better::Lower)) << "it did not get there";
  EXPECT_FALSE(past_run({{10, 4, true}}, 0, Better::Lower)) << "no gap to a target of 0";
}

TEST(PastRun, HasABound) {
  Points points = on([](double t) { return 1e-6 * t; }, every(1, 100000));
  points.back().target_met = true;
  const auto run = past_run(points, 0.1, Better::Higher);
  ASSERT_TRUE(run);
  EXPECT_LE(run->bests.size(), 257U);
}

// Three runs were at half of their way after 40, 50 and 60 % of their time; the present one is
// there after 100 s. ln T = ln 100 + (0.916, 0.693, 0.511), mean 0.7068, standard deviation 0.2032;
// Student's t of 2 degrees at 90 % is 1.886: 100 e^0.7068 = 202.7, times e^(±1.886 · 0.2032 ·
// √(4/3)).
TEST(PredictCrossing, FollowsPastRunsByStudentsT) {
  std::vector<PastRun> past;
  for (const double share : {40.0, 50.0, 60.0}) {
    past.push_back(*past_run({{share, 0.5, false}, {100, 1, true}}, 1, Better::Higher));
  }
  const auto crossing = higher({{100, 0.5, false}}, 1, past);
  ASSERT_TRUE(crossing);
  EXPECT_EQ(crossing->model, CrossingModel::PastRuns);
  EXPECT_NEAR(crossing->seconds, 202.7, 4);
  EXPECT_NEAR(crossing->high, 202.7 * std::exp(0.4426), 8);
  EXPECT_NEAR(crossing->low, 202.7 / std::exp(0.4426), 5);
  past.pop_back();
  EXPECT_FALSE(higher({{100, 0.5, false}}, 1, past)) << "two are too few";
}

TEST(PredictCrossing, LeavesPastRunsThatShouldHaveCrossedLongAgo) {
  std::vector<PastRun> past;
  for (const double share : {49.0, 50.0, 51.0}) {
    past.push_back(*past_run({{share, 0.5, false}, {100, 1, true}}, 1, Better::Higher));
  }
  EXPECT_TRUE(higher({{100, 0.5, false}, {110, 0.4, false}}, 1, past));
  EXPECT_FALSE(higher({{100, 0.5, false}, {900, 0.4, false}}, 1, past));
}

TEST(EarlierPredictions, AreMadeAtEveryDoublingAndJudged) {
  Points points = like_mlperf();
  const auto open = earlier_predictions(points, 0.72, Better::Higher, {});
  ASSERT_EQ(open.size(), 5U) << "after 1, 2, 4, 8 and 16 evaluations";
  EXPECT_DOUBLE_EQ(open[0].made_at_seconds, 50);
  EXPECT_NEAR(open[4].made_at_seconds, 800, 1e-9);
  EXPECT_FALSE(open[4].held) << "not known yet";
  points.push_back({1000, 0.7201, true});
  for (const PastPrediction& each : earlier_predictions(points, 0.72, Better::Higher, {})) {
    EXPECT_EQ(each.held, each.predicted.low <= 1000 && each.predicted.high >= 1000);
  }
}

TEST(EarlierPredictions, AreMissedOnceTheRunIsPastThem) {
  Points points = like_mlperf();
  points.push_back({9000, 0.719, false});
  const auto earlier = earlier_predictions(points, 0.72, Better::Higher, {});
  ASSERT_FALSE(earlier.empty());
  EXPECT_EQ(earlier[0].held, false);
}

TEST(CrossingModels, HaveNames) {
  EXPECT_STREQ(name_of(CrossingModel::PastRuns), "past runs");
  EXPECT_STREQ(name_of(CrossingModel::Mlperf), "mlperf");
  EXPECT_STREQ(name_of(CrossingModel::OwnCurve), "own curve");
}

}  // namespace
}  // namespace regatta::orchestrator::runs
