// Against algorithm 2 of Li et al. (2020), worked out by hand and by counting.
#include "orchestrator/sweeps/asha.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <variant>

#include "tests/orchestrator/sweeps/play.h"

namespace regatta::orchestrator::sweeps {
namespace {

const double kNan = std::nan("");

Sweep sweep_of(int trials, int concurrency, std::int64_t min = 1, std::int64_t max = 27) {
  Sweep sweep;
  sweep.space = unit_space(1);
  sweep.settings.method = SweepMethod::Asha;
  sweep.settings.trials = trials;
  sweep.settings.concurrency = concurrency;
  sweep.settings.min_budget = min;
  sweep.settings.max_budget = max;
  sweep.settings.factor = 3;
  return sweep;
}

World by_number(std::function<double(int)> objective) {
  World world;
  world.objective = [=](const SweepTrial& trial, std::int64_t) { return objective(trial.number); };
  return world;
}

// Numbers of the trials that got a result in each rung, and of those that were told to go on.
struct Rung {
  std::set<int> results, promoted;
};
std::map<std::int64_t, Rung> rungs_of(const Sweep& sweep, const SweepHistory& history) {
  std::map<std::int64_t, Rung> rungs;
  for (const SweepTrial& trial : history.trials) {
    for (const std::int64_t budget : rung_budgets(sweep.settings)) {
      if (objective_at(trial, budget) && trial.goal >= budget) {
        rungs[budget].results.insert(trial.number);
      }
      if (trial.goal > budget) rungs[budget].promoted.insert(trial.number);
    }
  }
  return rungs;
}

std::string told(const NextActions& next) {
  std::string all;
  for (const SweepAction& action : next.actions) {
    if (const auto* const start = std::get_if<StartTrial>(&action)) {
      all += " +" + std::to_string(start->number) + ":" + std::to_string(start->budget);
    } else if (const auto* const on = std::get_if<ContinueTrial>(&action)) {
      all += " " + std::to_string(on->number) + ":" + std::to_string(on->budget);
    } else {
      const StopTrial& stop = std::get<StopTrial>(action);
      all += (stop.checkpoints == AfterStop::Keep ? " |" : " -") + std::to_string(stop.number);
    }
  }
  return all + (next.done ? " done" : "");
}

// One slot, nine trials, rungs 1, 3, 9. Objectives by number; + starts, N:B goes on to B, | is
// paused, - is finished. The three places of nine results go to 2, 4 and 7, as it happens the best.
TEST(Asha, AsWorkedOutByHand) {
  const double objective[] = {0, 5, 3, 9, 1, 8, 7, 2, 6, 4};
  std::vector<std::string> all;
  const Played played =
      play(sweep_of(9, 1, 1, 9), by_number([&](int number) { return objective[number]; }),
           [&](const SweepHistory&, const NextActions& next) { all.push_back(told(next)); });
  EXPECT_EQ(all, (std::vector<std::string>{
                     " +1:1", " +2:1 |1", " +3:1 |2",
                     " 2:3 |3",     // of three results the best; 3 is third, and three of nine may
                     " +4:1 |2",    // no place in either rung
                     " 4:3 -3",     // the best of four now; 3 is fourth
                     " +5:1 |4",    //
                     " +6:1 -5",    //
                     " +7:1 -6",    // of six the best two, 4 and 2, have gone on
                     " 7:3 -1 -2",  // second of seven; 2 is second of at most five in its rung
                     " 4:9 -7",     // of three at 3 the best; 7 is second of at most five
                     " +8:1 -4", " +9:1 -8", " -9 done"}));
  EXPECT_EQ(played.trained, 9 + 3 * 2 + 1 * 6);
  EXPECT_EQ(best_trial(sweep_of(9, 1, 1, 9).settings, played.history), 4);
}

// 27 trials, η = 3, rungs 1, 3, 9, 27: Σ ⌊27/3^k⌋ · (r_k − r_(k−1)) = 27·1 + 9·2 + 3·6 + 1·18 = 81,
// where no trial is overtaken by a later one.
TEST(Asha, SpendsByTheClosedFormula) {
  for (const int slots : {1, 4, 27}) {
    const Sweep sweep = sweep_of(27, slots);
    const Played played = play(sweep, by_number([](int number) { return number; }));
    EXPECT_TRUE(played.ended);
    EXPECT_EQ(played.trained, 81) << slots;
    const auto rungs = rungs_of(sweep, played.history);
    EXPECT_EQ(rungs.at(1).promoted.size(), 9U);
    EXPECT_EQ(rungs.at(3).promoted.size(), 3U);
    EXPECT_EQ(rungs.at(9).promoted.size(), 1U);
    EXPECT_EQ(rungs.at(27).results, (std::set<int>{1}));
  }
}

// Whoever is promoted is among the best ⌊n/3⌋ of the n results that its rung has at that moment,
// and at the end all of the best ⌊n/3⌋ are: what was promoted beyond them was overtaken since.
TEST(Asha, PromotesTheBestThirdOfEachRung) {
  double overtaken_in_all = 0;
  constexpr int kOrders = 30, kTrials = 81;
  for (std::uint32_t order = 0; order < kOrders; ++order) {
    const Sweep sweep = sweep_of(kTrials, 4);
    const auto objective = [&](int number) {
      return chance(static_cast<std::uint32_t>(number), order);
    };
    const auto rank = [&](const std::set<int>& among, int number) {
      return static_cast<std::size_t>(std::count_if(among.begin(), among.end(), [&](int each) {
        return objective(each) < objective(number);
      }));
    };
    const Played played = play(
        sweep, by_number(objective), [&](const SweepHistory& history, const NextActions& next) {
          SweepHistory then = history;
          for (const SweepAction& action : next.actions) {
            if (const auto* const on = std::get_if<ContinueTrial>(&action)) {
              const Rung rung = rungs_of(sweep, then).at(on->budget / 3);
              EXPECT_LT(rank(rung.results, on->number), rung.results.size() / 3);
              EXPECT_EQ(rung.promoted.count(on->number), 0U);
              EXPECT_EQ(rung.results.count(on->number), 1U);
            }
            carry_out(action, &then);
          }
        });
    EXPECT_TRUE(played.ended);
    std::int64_t trained = 0, before = 0;
    for (const auto& [budget, rung] : rungs_of(sweep, played.history)) {
      trained += static_cast<std::int64_t>(rung.results.size()) * (budget - before);
      before = budget;
      if (budget == 27) break;
      std::size_t overtaken = 0;
      for (const int number : rung.promoted) {
        overtaken += rank(rung.results, number) >= rung.results.size() / 3 ? 1 : 0;
      }
      EXPECT_EQ(rung.promoted.size(), rung.results.size() / 3 + overtaken);
      if (budget == 1) overtaken_in_all += static_cast<double>(overtaken);
    }
    EXPECT_EQ(played.trained, trained);
  }
  // Li et al. (section 3.3) expect of the order of √n in vain; here √81 = 9.
  EXPECT_GT(overtaken_in_all / kOrders, 0);
  EXPECT_LT(overtaken_in_all / kOrders, 9);
}

using enum TrialState;

// Three results, of which one place; the best went on and broke. Two are left, and of two none goes
// on; with a third there is a place again, for the best of those left.
TEST(Asha, AFailedTrialTakesNoPlace) {
  const SweepSettings settings = sweep_of(27, 1).settings;
  SweepHistory history;
  history.trials = {trial_at(1, 3, Failed, {{1, 0.1}}), trial_at(2, 1, Paused, {{1, 0.3}}),
                    trial_at(3, 1, Paused, {{1, 0.2}})};
  EXPECT_FALSE(next_promotion(settings, history).has_value());
  history.trials.push_back(trial_at(4, 1, Paused, {{1, 0.4}}));
  EXPECT_EQ(next_promotion(settings, history)->number, 3);
  EXPECT_EQ(next_promotion(settings, history)->budget, 3);
  history.trials[0].state = Running;  // had it not broken, it would have the place of three
  EXPECT_FALSE(next_promotion(settings, history).has_value());
}

TEST(Asha, WhatDivergedCountsAndIsNotPromoted) {
  const SweepSettings settings = sweep_of(27, 1).settings;
  SweepHistory history;
  history.trials = {trial_at(1, 1, Paused, {{1, kNan}}), trial_at(2, 1, Paused, {{1, kNan}}),
                    trial_at(3, 1, Paused, {{1, 7}})};
  EXPECT_EQ(next_promotion(settings, history)->number, 3);
  history.trials[2].reports = {{1, kNan}};
  EXPECT_FALSE(next_promotion(settings, history).has_value());
}

TEST(Asha, TheHighestRungComesFirst) {
  const SweepSettings settings = sweep_of(27, 1).settings;
  SweepHistory history;
  history.trials = {
      trial_at(1, 1, Paused, {{1, 0}}),         trial_at(2, 1, Paused, {{1, 9}}),
      trial_at(3, 1, Paused, {{1, 9}}),         trial_at(4, 3, Paused, {{1, 5}, {3, 4}}),
      trial_at(5, 3, Paused, {{1, 5}, {3, 2}}), trial_at(6, 3, Paused, {{1, 5}, {3, 3}})};
  EXPECT_EQ(next_promotion(settings, history)->number, 5);
  EXPECT_EQ(next_promotion(settings, history)->budget, 9);
  carry_out(*next_promotion(settings, history), &history);
  EXPECT_EQ(next_promotion(settings, history)->number, 1);
}

TEST(Asha, ATrialThatEndedByItselfRanksAndDoesNotGoOn) {
  const SweepSettings settings = sweep_of(27, 1, 10, 270).settings;
  SweepHistory history;
  history.trials = {trial_at(1, 10, Finished, {{4, 0.1}}), trial_at(2, 10, Paused, {{10, 0.3}}),
                    trial_at(3, 10, Paused, {{10, 0.2}})};
  EXPECT_FALSE(next_promotion(settings, history).has_value());
  for (int number = 4; number <= 6; ++number) {
    history.trials.push_back(trial_at(number, 10, Paused, {{10, 1}}));
  }
  EXPECT_EQ(next_promotion(settings, history)->number, 3);
}

// A paused trial of the first rung is kept exactly if it goes on in the best case for it: that all
// to come are worse.
TEST(Asha, KeepsWhoMayBePromoted) {
  int kept = 0, released = 0;
  for (std::uint32_t order = 0; order < 6; ++order) {
    const Sweep sweep = sweep_of(27, 3);
    const World world = by_number(
        [&](int number) { return chance(static_cast<std::uint32_t>(number), 50 + order); });
    (void)play(sweep, world, [&](const SweepHistory& history, const NextActions& next) {
      SweepHistory then = history;
      for (const SweepAction& action : next.actions) {
        carry_out(action, &then);
        const auto* const stop = std::get_if<StopTrial>(&action);
        if (stop == nullptr) continue;
        const auto trial =
            std::find_if(then.trials.begin(), then.trials.end(),
                         [&](const auto& each) { return each.number == stop->number; });
        if (trial->goal != 1) continue;
        SweepHistory best_case = history;
        for (int number = static_cast<int>(history.trials.size()) + 1; number <= 27; ++number) {
          best_case.trials.push_back(trial_at(number, 1, Paused, {{1, 2}}));
        }
        for (SweepTrial& each : best_case.trials) {
          if (each.state == Running && each.goal == 1 && !is_at_goal(each)) each.reports = {{1, 2}};
        }
        std::set<int> gone_on;
        while (const auto on = next_promotion(sweep.settings, best_case)) {
          gone_on.insert(on->number);
          carry_out(*on, &best_case);
        }
        const bool keeps = stop->checkpoints == AfterStop::Keep;
        EXPECT_EQ(gone_on.count(stop->number) != 0, keeps) << stop->number;
        (keeps ? kept : released) += 1;
      }
    });
  }
  EXPECT_GT(kept, 20);
  EXPECT_GT(released, 20);
}

TEST(Asha, SurvivesFailures) {
  for (std::uint32_t order = 0; order < 20; ++order) {
    const Sweep sweep = sweep_of(60, 4);
    World world = by_number(
        [&](int number) { return chance(static_cast<std::uint32_t>(number), 90 + order); });
    world.breaks = [&](int number, std::int64_t goal) {
      return chance(static_cast<std::uint32_t>(number),
                    900 + order + 100 * static_cast<std::uint32_t>(goal)) < 0.3;
    };
    const Played played = play(sweep, world);
    EXPECT_TRUE(played.ended);
    EXPECT_EQ(played.history.trials.size(), 60U);
    for (const RankedTrial& each : ranking(sweep.settings, played.history)) {
      const auto trial = std::find_if(played.history.trials.begin(), played.history.trials.end(),
                                      [&](const auto& one) { return one.number == each.number; });
      EXPECT_NE(trial->state, Failed);
    }
    // 42 of 60 come through the first rung on average, with 14 places.
    EXPECT_GT(rungs_of(sweep, played.history).at(1).promoted.size(), 5U);
  }
}

}  // namespace
}  // namespace regatta::orchestrator::sweeps
