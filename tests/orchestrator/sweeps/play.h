// A sweep played on simulated slots: trials train at their own speeds, report at their goals, fail.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "orchestrator/sweeps/next_actions.h"

namespace regatta::orchestrator::sweeps {

struct World {
  // The objective of a trial that has trained so much.
  std::function<double(const SweepTrial&, std::int64_t)> objective;
  // Whether the trial breaks on its way to this goal.
  std::function<bool(int number, std::int64_t goal)> breaks = [](int, std::int64_t) {
    return false;
  };
  // Whether the trial ends by itself, half way to this goal, with a last report there.
  std::function<bool(int number, std::int64_t goal)> ends = [](int, std::int64_t) { return false; };
  // Seconds for one unit of budget.
  std::function<double(int number)> pace = [](int) { return 1.0; };
};

struct Played {
  SweepHistory history;
  std::int64_t trained = 0;  // units of budget, of all trials
  int most_at_once = 0;      // trials that trained
  bool ended = false;        // done, and not stuck or endless
};

// What was asked, and what was answered.
using Watcher = std::function<void(const SweepHistory&, const NextActions&)>;

[[nodiscard]] Played play(
    const Sweep& sweep, const World& world,
    const Watcher& watch = [](const SweepHistory&, const NextActions&) {});

[[nodiscard]] SweepTrial trial_at(int number, std::int64_t goal, TrialState state,
                                  std::vector<TrialReport> reports);

// Some uniform number in [0, 1) of a and b, for worlds.
[[nodiscard]] double chance(std::uint32_t a, std::uint32_t b);

// Two numbers, an integer, a choice and two levels of conditions.
[[nodiscard]] Space mixed_space();
// Of ranges alone, each from 0 to 1: "x0", "x1", …
[[nodiscard]] Space unit_space(int parameters);

[[nodiscard]] double number_of(const SweepTrial& trial, const char* key);

}  // namespace regatta::orchestrator::sweeps
