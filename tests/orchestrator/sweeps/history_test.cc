#include "orchestrator/sweeps/history.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/orchestrator/sweeps/play.h"

namespace regatta::orchestrator::sweeps {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
const double kNan = std::nan("");

std::vector<int> numbers(const std::vector<RankedTrial>& ranked) {
  std::vector<int> all;
  for (const RankedTrial& each : ranked) all.push_back(each.number);
  return all;
}

SweepSettings random_search(std::int64_t budget) {
  SweepSettings settings;
  settings.max_budget = budget;
  settings.trials = 100;
  return settings;
}

using enum TrialState;

TEST(ObjectiveAt, IsTheFirstReportOfTheBudgetOrMore) {
  const SweepTrial running = trial_at(1, 30, Running, {{12, 3}, {5, 1}, {10, 2}, {10, 7}});
  EXPECT_EQ(objective_at(running, 5), 1);
  EXPECT_EQ(objective_at(running, 6), 2);  // the first of the two reports of 10
  EXPECT_EQ(objective_at(running, 12), 3);
  EXPECT_FALSE(objective_at(running, 13).has_value());
  EXPECT_FALSE(objective_at(running, 0).has_value());  // its own end is not there yet
  EXPECT_FALSE(is_at_goal(running));
  EXPECT_TRUE(is_at_goal(trial_at(1, 11, Running, running.reports)));
  EXPECT_FALSE(is_at_goal(trial_at(1, 11, Paused, running.reports)));
  EXPECT_FALSE(is_at_goal(trial_at(1, 0, Running, running.reports)));
}

TEST(ObjectiveAt, OfATrialThatEndedEarlyIsItsLastReport) {
  EXPECT_EQ(objective_at(trial_at(1, 30, Finished, {{12, 3}, {5, 1}}), 30), 3);
  EXPECT_EQ(objective_at(trial_at(1, 0, Finished, {{12, 3}, {5, 1}}), 0), 3);
  EXPECT_TRUE(std::isnan(objective_at(trial_at(1, 30, Finished, {}), 30).value()));
  EXPECT_FALSE(objective_at(trial_at(1, 30, Failed, {{30, 3}}), 30).has_value());
}

// The budget that is told is that of the report that counts, whatever others have its objective.
TEST(ReportAt, IsTheOneWhoseObjectiveCounts) {
  const SweepTrial equal = trial_at(1, 90, Finished, {{10, 3}, {30, 3}, {90, 3}});
  EXPECT_EQ(report_at(equal, 90)->budget, 90);
  EXPECT_EQ(report_at(equal, 11)->budget, 30);
  const SweepTrial early = trial_at(1, 90, Finished, {{30, 3}, {10, 3}});
  EXPECT_EQ(report_at(early, 90)->budget, 30);
  EXPECT_EQ(report_at(early, 0)->budget, 30);
  EXPECT_EQ(report_at(trial_at(1, 90, Running, {{10, 3}, {30, 3}}), 90), nullptr);
  EXPECT_EQ(report_at(trial_at(1, 90, Failed, {{90, 3}}), 90), nullptr);
  EXPECT_EQ(report_at(trial_at(1, 90, Finished, {}), 90), nullptr);
}

TEST(Ranking, BestFirstTiesByNumberAndNotFiniteLast) {
  SweepHistory history;
  history.trials = {
      trial_at(6, 9, Finished, {{9, 2}}),         trial_at(5, 9, Finished, {{9, kNan}}),
      trial_at(4, 9, Finished, {{9, 1}}),         trial_at(3, 9, Finished, {{9, -kInfinity}}),
      trial_at(2, 9, Finished, {{9, 2}}),         trial_at(1, 9, Running, {{5, 0}}),
      trial_at(7, 9, Failed, {{9, -5}}),          trial_at(8, 9, Running, {{9, 3}}),
      trial_at(9, 9, Finished, {{4, 1.5}}),       trial_at(10, 9, Finished, {}),
      trial_at(11, 9, Finished, {{9, kInfinity}})};
  EXPECT_EQ(numbers(ranking(random_search(9), history)),
            (std::vector<int>{4, 9, 2, 6, 8, 3, 5, 10, 11}));
  EXPECT_EQ(best_trial(random_search(9), history), 4);
  SweepSettings higher = random_search(9);
  higher.better = runs::Better::Higher;
  EXPECT_EQ(numbers(ranking(higher, history)), (std::vector<int>{8, 2, 6, 9, 4, 3, 5, 10, 11}));
  EXPECT_EQ(best_trial(higher, history), 8);
}

TEST(Ranking, NothingIsBestWhereNothingIsFinite) {
  SweepHistory history;
  EXPECT_FALSE(best_trial(random_search(9), history).has_value());
  history.trials = {trial_at(1, 9, Finished, {{9, kNan}}), trial_at(2, 9, Failed, {{9, 1}})};
  EXPECT_EQ(numbers(ranking(random_search(9), history)), (std::vector<int>{1}));
  EXPECT_FALSE(best_trial(random_search(9), history).has_value());
}

TEST(Ranking, UnderAshaHigherRungsComeFirst) {
  SweepSettings settings = random_search(9);
  settings.method = SweepMethod::Asha;
  settings.min_budget = 1;
  SweepHistory history;
  history.trials = {trial_at(1, 1, Paused, {{1, 0.1}}),
                    trial_at(2, 9, Finished, {{1, 0.5}, {3, 0.4}, {9, 0.3}}),
                    trial_at(3, 9, Running, {{1, 0.4}, {3, 0.2}}),
                    trial_at(4, 3, Finished, {{1, 0.4}, {3, 0.25}}),
                    trial_at(5, 3, Finished, {{1, 0.4}, {3, kNan}}),
                    trial_at(6, 3, Finished, {{1, 0.4}, {2, 0.35}}),  // met its target
                    trial_at(7, 1, Running, {})};
  const std::vector<RankedTrial> ranked = ranking(settings, history);
  EXPECT_EQ(numbers(ranked), (std::vector<int>{2, 6, 3, 4, 1, 5}));
  EXPECT_EQ(ranked[2].objective, 0.2);
  EXPECT_EQ(ranked[2].budget, 3);
}

}  // namespace
}  // namespace regatta::orchestrator::sweeps
