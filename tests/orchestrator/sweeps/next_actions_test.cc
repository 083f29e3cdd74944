// What holds of every method in every world: played from seeds, with trials that break, diverge and
// end by themselves, and asked again at every moment.
#include "orchestrator/sweeps/next_actions.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <ostream>
#include <string>
#include <variant>

#include "orchestrator/sweeps/grid.h"
#include "tests/orchestrator/sweeps/play.h"

namespace regatta::orchestrator::sweeps {
namespace {

std::string text(const SweepAction& action) {
  if (const auto* const start = std::get_if<StartTrial>(&action)) {
    std::string all =
        "start " + std::to_string(start->number) + " to " + std::to_string(start->budget);
    for (const auto& [key, value] : start->values) all += " " + key + "=" + as_text(value);
    return all;
  }
  if (const auto* const on = std::get_if<ContinueTrial>(&action)) {
    return "continue " + std::to_string(on->number) + " to " + std::to_string(on->budget);
  }
  const StopTrial& stop = std::get<StopTrial>(action);
  return (stop.checkpoints == AfterStop::Keep ? "pause " : "finish ") + std::to_string(stop.number);
}

std::vector<std::string> texts(const NextActions& next) {
  std::vector<std::string> all;
  for (const SweepAction& action : next.actions) all.push_back(text(action));
  all.push_back(next.done ? "done" : "not done");
  return all;
}

SweepHistory shuffled(SweepHistory history, std::uint32_t seed) {
  std::uint32_t number = 0;
  const auto shuffle = [&](auto* list) {
    for (std::size_t i = list->size(); i > 1; --i) {
      const double u = chance(seed, number++);
      std::swap((*list)[i - 1], (*list)[static_cast<std::size_t>(u * static_cast<double>(i))]);
    }
  };
  shuffle(&history.trials);
  for (SweepTrial& trial : history.trials) shuffle(&trial.reports);
  return history;
}

void expect_fits(const Space& space, const SweepValues& values) {
  std::size_t active = 0;
  for (const SweepParameter& each : space.parameters()) {
    const auto value = values.find(each.key);
    EXPECT_EQ(value != values.end(), is_active(each, values)) << each.key;
    if (value == values.end()) continue;
    ++active;
    EXPECT_TRUE(can_be(each, value->second)) << each.key << " = " << as_text(value->second);
  }
  EXPECT_EQ(values.size(), active);
}

// From any moment the rest of the actions follows from those carried out, in whatever order the
// history is written down.
void expect_restarts(const Sweep& sweep, const SweepHistory& history, const NextActions& next) {
  SweepHistory then = history;
  std::vector<std::string> rest = texts(next);
  EXPECT_EQ(texts(next_actions(sweep, then)), rest);
  for (const SweepAction& action : next.actions) {
    carry_out(action, &then);
    rest.erase(rest.begin());
    EXPECT_EQ(texts(next_actions(sweep, then)), rest);
  }
  EXPECT_EQ(texts(next_actions(sweep, shuffled(history, 5))), texts(next));
}

void expect_sensible(const Sweep& sweep, const SweepHistory& history, const NextActions& next) {
  SweepHistory then = history;
  const auto trial = [&](int number) {
    return std::find_if(then.trials.begin(), then.trials.end(),
                        [&](const SweepTrial& each) { return each.number == number; });
  };
  for (const SweepAction& action : next.actions) {
    if (const auto* const start = std::get_if<StartTrial>(&action)) {
      EXPECT_EQ(static_cast<std::size_t>(start->number), then.trials.size() + 1);
      expect_fits(sweep.space, start->values);
    } else if (const auto* const on = std::get_if<ContinueTrial>(&action)) {
      EXPECT_TRUE(trial(on->number)->state == TrialState::Paused || is_at_goal(*trial(on->number)));
      EXPECT_GT(on->budget, trial(on->number)->goal);
    } else {
      const StopTrial& stop = std::get<StopTrial>(action);
      EXPECT_TRUE(is_at_goal(*trial(stop.number)) ||
                  (trial(stop.number)->state == TrialState::Paused &&
                   stop.checkpoints == AfterStop::Release));
    }
    carry_out(action, &then);
  }
  // Of those at their goal none is left so.
  for (const SweepTrial& each : then.trials) EXPECT_FALSE(is_at_goal(each));
}

struct Case {
  const char* name;
  SweepMethod method;
  int trials, concurrency;
  double broken, diverged, early;  // shares
};

// Or a test would be listed with the bytes of its row, of which some are addresses.
void PrintTo(const Case& row, std::ostream* out) { *out << row.name; }

const Case kCases[] = {
    {"grid", SweepMethod::Grid, 0, 3, 0, 0, 0},
    {"grid with trouble", SweepMethod::Grid, 0, 7, 0.2, 0.1, 0.1},
    {"random", SweepMethod::Random, 20, 1, 0, 0, 0},
    {"random with trouble", SweepMethod::Random, 40, 6, 0.2, 0.1, 0.1},
    {"more slots than trials", SweepMethod::Random, 5, 50, 0.2, 0, 0},
    {"tpe", SweepMethod::Tpe, 40, 1, 0, 0, 0},
    {"tpe with trouble", SweepMethod::Tpe, 60, 4, 0.2, 0.1, 0.1},
    {"asha", SweepMethod::Asha, 30, 1, 0, 0, 0},
    {"asha on slots", SweepMethod::Asha, 60, 4, 0, 0, 0},
    {"asha with trouble", SweepMethod::Asha, 60, 4, 0.1, 0.1, 0.1},
    {"asha in great trouble", SweepMethod::Asha, 60, 8, 0.5, 0.3, 0.1},
    {"asha where all breaks", SweepMethod::Asha, 30, 4, 1, 0, 0},
    {"asha where all diverges", SweepMethod::Asha, 30, 4, 0, 1, 0},
    {"asha where all ends early", SweepMethod::Asha, 30, 4, 0, 0, 1},
};

Sweep sweep_of(const Case& row, std::uint64_t seed) {
  Sweep sweep;
  sweep.space = mixed_space();
  sweep.settings.method = row.method;
  sweep.settings.seed = seed;
  sweep.settings.concurrency = row.concurrency;
  sweep.settings.max_budget = 27;
  sweep.settings.min_budget = 1;
  sweep.settings.better = seed % 2 == 0 ? runs::Better::Lower : runs::Better::Higher;
  sweep.settings.trials = row.method == SweepMethod::Grid
                              ? static_cast<int>(grid_size(sweep.space, 10'000))
                              : row.trials;
  return sweep;
}

World world_of(const Case& row, std::uint32_t seed) {
  World world;
  const auto happens = [seed](double share, std::uint32_t what) {
    return [=](int number, std::int64_t goal) {
      return chance(static_cast<std::uint32_t>(number) * 1000 + static_cast<std::uint32_t>(goal),
                    seed * 10 + what) < share;
    };
  };
  world.breaks = happens(row.broken, 1);
  world.ends = happens(row.early, 2);
  const auto diverges = happens(row.diverged, 3);
  world.objective = [seed, diverges](const SweepTrial& trial, std::int64_t budget) {
    if (diverges(trial.number, budget)) return std::nan("");
    // Rounded, so that some are equal.
    const double noise = chance(static_cast<std::uint32_t>(trial.number), seed * 10 + 4);
    return std::round(20 * (noise + 1 / static_cast<double>(budget))) / 20;
  };
  world.pace = [seed](int number) {
    return 0.5 + chance(static_cast<std::uint32_t>(number), seed * 10 + 5);
  };
  return world;
}

class EveryMethod : public testing::TestWithParam<Case> {};

TEST_P(EveryMethod, IsDeterministicRestartableAndKeepsToItsSlots) {
  const Case& row = GetParam();
  const std::uint32_t seeds = row.method == SweepMethod::Grid ? 1 : 3;
  for (std::uint32_t seed = 1; seed <= seeds; ++seed) {
    SCOPED_TRACE(seed);
    const Sweep sweep = sweep_of(row, seed);
    std::size_t most = 0;
    int asked = 0;
    const Played played =
        play(sweep, world_of(row, seed), [&](const SweepHistory& history, const NextActions& next) {
          // Whoever asks all the time takes a while; a grid changes little from point to point.
          const bool look = row.method != SweepMethod::Grid || asked++ % 50 == 0;
          if (look) expect_restarts(sweep, history, next);
          expect_sensible(sweep, history, next);
          most = std::max(most, next.actions.size());
        });
    EXPECT_TRUE(played.ended);
    EXPECT_EQ(played.history.trials.size(), static_cast<std::size_t>(sweep.settings.trials));
    EXPECT_LE(played.most_at_once, row.concurrency);
    EXPECT_EQ(played.most_at_once, std::min(row.concurrency, sweep.settings.trials));
    for (const SweepTrial& trial : played.history.trials) {
      EXPECT_TRUE(trial.state == TrialState::Finished || trial.state == TrialState::Failed);
    }
    EXPECT_EQ(texts(next_actions(sweep, played.history)), (std::vector<std::string>{"done"}));
  }
}

INSTANTIATE_TEST_SUITE_P(Sweeps, EveryMethod, testing::ValuesIn(kCases), [](const auto& row) {
  std::string name = row.param.name;
  std::replace(name.begin(), name.end(), ' ', '_');
  return name;
});

TEST(NextActions, AGridTriesItsPointsInOrder) {
  const Sweep sweep = sweep_of(kCases[0], 1);
  const Played played = play(sweep, world_of(kCases[0], 1));
  for (const SweepTrial& trial : played.history.trials) {
    const auto place = static_cast<std::size_t>(trial.number - 1);
    EXPECT_EQ(trial.values, grid_point(sweep.space, place).value());
    EXPECT_EQ(trial.goal, 27);
  }
}

TEST(NextActions, WithoutABudgetARunEndsByItself) {
  Sweep sweep;
  sweep.space = unit_space(1);
  sweep.settings.trials = 2;
  SweepHistory history;
  NextActions next = next_actions(sweep, history);
  ASSERT_EQ(next.actions.size(), 1U);
  EXPECT_EQ(std::get<StartTrial>(next.actions[0]).budget, 0);
  carry_out(next.actions[0], &history);
  history.trials[0].reports = {{500, 0.5}};
  next = next_actions(sweep, history);
  EXPECT_TRUE(next.actions.empty());
  EXPECT_FALSE(next.done);
  history.trials[0].state = TrialState::Finished;
  next = next_actions(sweep, history);
  ASSERT_EQ(next.actions.size(), 1U);
  carry_out(next.actions[0], &history);
  history.trials[1].state = TrialState::Failed;
  EXPECT_TRUE(next_actions(sweep, history).done);
  EXPECT_EQ(best_trial(sweep.settings, history), 1);
}

TEST(NextActions, SeedsDiffer) {
  for (const SweepMethod method : {SweepMethod::Random, SweepMethod::Tpe, SweepMethod::Asha}) {
    Sweep sweep = sweep_of({"", method, 5, 5, 0, 0, 0}, 1);
    const auto first = texts(next_actions(sweep, {}));
    sweep.settings.seed = 2;
    EXPECT_NE(texts(next_actions(sweep, {})), first);
  }
}

}  // namespace
}  // namespace regatta::orchestrator::sweeps
