// What the trials of a sweep have reached so far, and which is best.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "orchestrator/sweeps/settings.h"

namespace regatta::orchestrator::sweeps {

// The objective when so much was trained, in the unit of the sweep. May be not finite: the trial
// diverged, or did not reach its target.
struct TrialReport {
  std::int64_t budget = 0;
  double objective = 0;
};

// README.md, "From history to actions".
enum class TrialState { Running, Paused, Finished, Failed };
[[nodiscard]] const std::vector<std::string>& trial_state_names();  // in this order

struct SweepTrial {
  int number = 0;  // from 1
  SweepValues values;
  std::int64_t goal = 0;  // the budget that it was last told to reach; 0: its run file's own
  TrialState state = TrialState::Running;
  std::string reason;                // of Failed: what broke, for people
  std::vector<TrialReport> reports;  // in any order
};

struct SweepHistory {
  std::vector<SweepTrial> trials;  // in any order, each number once
};

// Whether it runs and has a report at its goal, so that it holds no slot.
[[nodiscard]] bool is_at_goal(const SweepTrial& trial);

// The first report of `budget` or more; of two of one budget, that which is first in the list.
// Where a finished trial has none, its last one by budget. budget 0: the last one of a finished
// trial. Null while there is none, and of a failed trial.
[[nodiscard]] const TrialReport* report_at(const SweepTrial& trial, std::int64_t budget);
// Its objective; of a finished trial without any report NaN. Nothing while it is not known, and of
// a failed trial.
[[nodiscard]] std::optional<double> objective_at(const SweepTrial& trial, std::int64_t budget);

// Whether a's objective comes before b's: the better one, those not finite last. Equal ones, and
// two that are not finite, do not come before each other.
[[nodiscard]] bool comes_before(double a, double b, runs::Better better);

struct RankedTrial {
  int number = 0;
  double objective = 0;
  std::int64_t budget =
      0;  // where it is ranked: its highest rung with an objective, or the goal of all
};
// Best first. By the objective at the end of the budget; under Asha those that got to a higher rung
// come first, and whoever ended by itself before its goal counts as having got to the last. Ties go
// by number. Those whose objective is not finite come last, by number. Left out: failed trials, and
// those without an objective so far.
[[nodiscard]] std::vector<RankedTrial> ranking(const SweepSettings& settings,
                                               const SweepHistory& history);
// The number of the first, if its objective is finite.
[[nodiscard]] std::optional<int> best_trial(const SweepSettings& settings,
                                            const SweepHistory& history);

}  // namespace regatta::orchestrator::sweeps
