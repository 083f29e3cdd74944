#include "trainer/step/plan_trial.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <random>
#include <utility>

#include "trainer/step/buckets.h"

namespace regatta::trainer {
namespace {

using testing::HasSubstr;

std::vector<int> ends_of(const std::vector<topology::plan::Bucket>& buckets) {
  std::vector<int> ends;
  for (const topology::plan::Bucket& bucket : buckets) ends.push_back(bucket.end_tensor);
  return ends;
}

std::vector<topology::plan::Bucket> ending_at(const std::vector<int>& ends) {
  std::vector<topology::plan::Bucket> buckets;
  int begin = 0;
  for (const int end : ends) buckets.push_back({std::exchange(begin, end), end});
  return buckets;
}

contract::TensorTable table_of(const std::vector<std::int64_t>& sizes) {
  contract::TensorTable table;
  for (const std::int64_t size : sizes) {
    contract::TensorEntry entry;
    entry.size = size;
    table.tensors.push_back(entry);
  }
  return table;
}

TEST(Cuts, NeighboursAreJoinedTwoByTwo) {
  EXPECT_EQ(ends_of(step::pairs_joined(ending_at({1, 2, 5, 9}))), (std::vector<int>{2, 9}));
  EXPECT_EQ(ends_of(step::pairs_joined(ending_at({1, 2, 5}))), (std::vector<int>{2, 5}));
  EXPECT_EQ(ends_of(step::pairs_joined(ending_at({7}))), (std::vector<int>{7}));
}

TEST(Cuts, LargeBucketsAreHalvedAtTheBorderNextToTheirMiddle) {
  struct Case {
    const char* name;
    std::vector<std::int64_t> sizes;
    std::vector<int> ends, halved;
  };
  const Case cases[] = {
      {"all alike", {1, 1, 1, 1}, {2, 4}, {1, 2, 3, 4}},
      {"one bucket", {1, 1, 1, 5}, {4}, {3, 4}},
      {"a large tensor first", {5, 1, 1, 1}, {4}, {1, 4}},
      {"the small ones stay", {1, 1, 4, 4}, {2, 4}, {2, 3, 4}},
      {"one tensor cannot be cut", {9, 1, 1}, {1, 3}, {1, 3}},
      {"ties take the first border", {1, 2, 1}, {3}, {1, 3}},
  };
  for (const Case& c : cases) {
    EXPECT_EQ(ends_of(step::large_halved(table_of(c.sizes), ending_at(c.ends))), c.halved)
        << c.name;
  }
}

TEST(Cuts, EachIsTriedOnceAndTheOneRememberedFirst) {
  struct Case {
    const char* name;
    step::KnownCuts known;
    std::vector<std::pair<std::string, std::vector<int>>> cuts;
  };
  const contract::TensorTable table = table_of({1, 1, 1, 1});
  const Case cases[] = {
      {"no plan",
       {ending_at({2, 4}), {}, {}},
       {{"default", {2, 4}}, {"coarser", {4}}, {"finer", {1, 2, 3, 4}}}},
      {"the default is one bucket",
       {ending_at({4}), {}, {}},
       {{"default", {4}}, {"finer", {2, 4}}}},
      {"a plan's neighbours",
       {ending_at({4}), ending_at({1, 4}), {}},
       {{"default", {4}}, {"plan", {1, 4}}, {"finer", {1, 2, 4}}}},
      {"the plan is the default",
       {ending_at({2, 4}), ending_at({2, 4}), {}},
       {{"default", {2, 4}}, {"coarser", {4}}, {"finer", {1, 2, 3, 4}}}},
      {"remembered",
       {ending_at({1, 2, 3, 4}), {}, ending_at({2, 4})},
       {{"remembered", {2, 4}}, {"default", {1, 2, 3, 4}}, {"coarser", {4}}}},
  };
  for (const Case& c : cases) {
    std::vector<std::pair<std::string, std::vector<int>>> found;
    for (const step::Cut& cut : step::cuts_to_try(table, c.known)) {
      found.emplace_back(cut.name, ends_of(cut.buckets));
    }
    EXPECT_EQ(found, c.cuts) << c.name;
  }
  EXPECT_EQ(step::cuts_to_try(table_of({7}), {ending_at({1}), {}, {}}).size(), 1U);
}

// A machine on which steps take what a cut makes of them, and more.
struct Machine {
  std::vector<double> seconds;          // of a usual step, by cut
  double noise = 0;                     // deviation of a step's logarithm
  double outliers = 0;                  // share of steps that take ten times as long
  double drift = 0;                     // by which each step is slower than the one before
  double constant = 0;                  // share of a step that does not grow with its work
  double work_noise = 0;                // deviation of the logarithm of a step's work
  std::vector<double> other_seconds{};  // by cut, of another rank; empty: as the first
};

step::TrialResult tried(const Machine& machine, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  std::uniform_real_distribution<double> uniform;
  std::vector<std::string> names{"default", "plan", "coarser", "finer"};
  names.resize(machine.seconds.size());
  step::PlanTrial trial(names);
  double slower = 1;
  for (int step = 0; !trial.is_over(); ++step) {
    EXPECT_LT(step, step::PlanTrial::kMostSteps);
    const std::size_t cut = trial.current();
    const double work = std::exp(machine.work_noise * normal(random));
    const auto time_of = [&](double usual) {
      double time = usual * (machine.constant + (1 - machine.constant) * work) * slower;
      time *= std::exp(machine.noise * normal(random));
      return uniform(random) < machine.outliers ? 10 * time : time;
    };
    step::StepPace pace;
    pace.flops = 1e12 * work;
    pace.seconds = time_of(machine.seconds[cut]);
    if (!machine.other_seconds.empty()) {
      pace.seconds = std::max(pace.seconds, time_of(machine.other_seconds[cut]));
    }
    slower *= 1 + machine.drift;
    trial.observe(pace);
  }
  return trial.result();
}

TEST(PlanTrial, FindsWhatIsFasterAndLeavesTheRestAlone) {
  constexpr int kSeeds = 40;
  struct Case {
    const char* name;
    Machine machine;
    std::size_t winner;
    int least_right;    // of kSeeds
    double mean_steps;  // at most
  };
  const Case cases[] = {
      {"all the same", {{1, 1, 1, 1}}, 0, 40, 38},
      {"all the same, noise of 1 %", {{1, 1, 1, 1}, 0.01}, 0, 39, 102},
      {"all the same, noise of 10 %", {{1, 1, 1, 1}, 0.1}, 0, 39, 102},
      {"all the same, outliers", {{1, 1, 1, 1}, 0.01, 0.05}, 0, 39, 102},
      {"all the same on a machine that gets slower", {{1, 1, 1, 1}, 0.003, 0, 0.01}, 0, 40, 102},
      {"all others are slower", {{1, 1.1, 1.2, 1.3}, 0.02}, 0, 40, 50},
      {"one is faster", {{1, 1, 0.9, 1}, 0.01}, 2, 40, 50},
      {"one is faster, noise of 5 %", {{1, 1, 0.9, 1}, 0.05}, 2, 36, 102},
      {"one is faster, outliers", {{1, 1, 0.9, 1}, 0.01, 0.05}, 2, 39, 70},
      {"one is faster on a machine that gets slower", {{1, 1, 0.9, 1}, 0.003, 0, 0.01}, 2, 40, 60},
      {"one is faster on a machine that gets faster", {{1, 1, 0.9, 1}, 0.003, 0, -0.01}, 2, 40, 60},
      {"the better of two", {{1, 0.9, 0.8, 1.1}, 0.01}, 2, 40, 50},
      {"a gain that is not worth it", {{1, 0.995, 1, 1}, 0.002}, 0, 40, 50},
      {"a gain below the noise", {{1, 0.98, 1, 1}, 0.1}, 0, 38, 102},
      {"steps with other work", {{1, 0.9, 1, 1}, 0.01, 0, 0, 0, 0.2}, 1, 40, 60},
      {"half of the step with other work", {{1, 0.9, 1, 1}, 0.01, 0, 0, 0.5, 0.2}, 1, 40, 60},
      {"all the same with other work", {{1, 1, 1, 1}, 0.003, 0, 0, 0.3, 0.2}, 0, 40, 102},
      {"faster on one rank, slower on the other",
       {{1, 0.7, 1, 1}, 0.01, 0, 0, 0, 0, {1, 1.2, 1, 1}},
       0,
       40,
       102},
      {"faster on the slow rank",
       {{0.5, 0.6, 0.5, 0.5}, 0.01, 0, 0, 0, 0, {1, 0.8, 1, 1}},
       1,
       40,
       60},
      {"two cuts", {{1, 0.9}, 0.01}, 1, 40, 25},
  };
  for (const Case& c : cases) {
    int right = 0;
    double steps = 0;
    for (unsigned seed = 1; seed <= kSeeds; ++seed) {
      const step::TrialResult result = tried(c.machine, seed);
      right += result.winner == c.winner ? 1 : 0;
      steps += result.steps;
      if (result.winner != c.winner) continue;
      EXPECT_EQ(result.gain > 0, c.winner != 0) << c.name << ": " << result.why;
      EXPECT_GE(result.noise, 0) << c.name;
    }
    EXPECT_GE(right, c.least_right) << c.name;
    EXPECT_LE(steps / kSeeds, c.mean_steps) << c.name;
  }
}

// Nothing to find is soon clear, and what cannot be found ends, too: README.md tells the steps.
TEST(PlanTrial, TakesAsManyStepsAsItSays) {
  EXPECT_EQ(tried({{1, 1, 1}}, 1).steps, 29);
  EXPECT_EQ(tried({{1, 0.5, 2}}, 1).steps, 29);
  const int most = step::PlanTrial::kWarmupSteps + 3 + 4 * step::PlanTrial::kMostRounds;
  EXPECT_EQ(tried({{1, 1, 1, 1}, 0.3}, 1).steps, most);
  EXPECT_LE(most, step::PlanTrial::kMostSteps);
}

TEST(PlanTrial, SaysWhatItFound) {
  const step::TrialResult faster = tried({{1, 1, 0.8, 1}, 0.01}, 3);
  EXPECT_THAT(faster.why, HasSubstr("coarser takes "));
  EXPECT_THAT(faster.why, HasSubstr("% less time than default ("));
  EXPECT_NEAR(faster.gain, 0.2, 0.02);
  EXPECT_NEAR(faster.seconds[0], 1, 0.02);
  EXPECT_NEAR(faster.seconds[2], 0.8, 0.02);
  EXPECT_GE(faster.rounds, 8);
  const step::TrialResult same = tried({{1, 1, 1, 1}, 0.02}, 3);
  EXPECT_THAT(same.why, HasSubstr("default stays: no other cut was faster by 1.0 %"));
  EXPECT_EQ(same.gain, 0);
  EXPECT_GT(same.noise, 0);
}

// Work is taken out before times are compared: the seconds told are those of the same work.
TEST(PlanTrial, SecondsAreThoseOfTheUsualWork) {
  Machine machine{{1, 0.9}, 0, 0, 0, 0.25, 0.3};
  const step::TrialResult result = tried(machine, 5);
  EXPECT_EQ(result.winner, 1U);
  EXPECT_NEAR(result.seconds[1] / result.seconds[0], 0.9, 0.03);
}

TEST(PlanTrial, TakesTurnsInABalancedOrder) {
  step::PlanTrial trial({"a", "b", "c"});
  step::StepPace pace{1, 1e12, false};
  for (int step = 0; step < step::PlanTrial::kWarmupSteps; ++step) {
    EXPECT_EQ(trial.current(), 0U);
    trial.observe(pace);
  }
  for (const std::size_t cut : {1U, 2U}) {
    EXPECT_EQ(trial.current(), cut);
    trial.observe(pace);
  }
  std::map<std::pair<std::size_t, int>, int> seen;  // (cut, place in the round) → times
  for (int round = 0; round < 6; ++round) {
    for (int place = 0; place < 3; ++place) {
      ++seen[{trial.current(), place}];
      trial.observe(pace);
    }
  }
  ASSERT_EQ(seen.size(), 9U);
  for (const auto& [turn, times] : seen) EXPECT_EQ(times, 2) << turn.first << ", " << turn.second;
}

TEST(PlanTrial, ADisturbedStepIsTakenAgain) {
  step::PlanTrial trial({"a", "b"});
  const step::StepPace good{1, 1e12, false};
  for (int step = 0; step < step::PlanTrial::kWarmupSteps + 1; ++step) trial.observe(good);
  for (const step::StepPace& bad :
       {step::StepPace{1, 1e12, true}, step::StepPace{0, 1e12, false},
        step::StepPace{std::numeric_limits<double>::quiet_NaN(), 1e12, false}}) {
    EXPECT_EQ(trial.current(), 0U);
    trial.observe(bad);
  }
  EXPECT_EQ(trial.current(), 0U);
  trial.observe(good);
  EXPECT_EQ(trial.current(), 1U);
}

TEST(PlanTrial, EndsWhenEveryStepIsDisturbed) {
  step::PlanTrial trial({"a", "b"});
  int steps = 0;
  for (; !trial.is_over(); ++steps) trial.observe({1.0 + steps, 1e12, true});
  EXPECT_EQ(steps, step::PlanTrial::kMostSteps);
  EXPECT_EQ(trial.current(), 0U);
  EXPECT_EQ(trial.result().winner, 0U);
  EXPECT_EQ(trial.result().rounds, 0);
  EXPECT_THAT(trial.result().why, HasSubstr("a stays: too few steps were undisturbed"));
}

TEST(PlanTrial, OneCutIsNoTrial) {
  const step::PlanTrial trial({"default"});
  EXPECT_TRUE(trial.is_over());
  EXPECT_EQ(trial.current(), 0U);
  EXPECT_EQ(trial.result().steps, 0);
}

}  // namespace
}  // namespace regatta::trainer
