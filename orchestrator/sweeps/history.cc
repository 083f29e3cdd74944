#include "orchestrator/sweeps/history.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

namespace regatta::orchestrator::sweeps {
namespace {

constexpr double kNoObjective = std::numeric_limits<double>::quiet_NaN();

// The first by budget of those of at least `budget`, of equal ones the first in the list.
const TrialReport* first_from(const SweepTrial& trial, std::int64_t budget) {
  const TrialReport* found = nullptr;
  for (const TrialReport& each : trial.reports) {
    if (each.budget >= budget && (found == nullptr || each.budget < found->budget)) found = &each;
  }
  return found;
}

const TrialReport* last_of(const SweepTrial& trial) {
  const TrialReport* found = nullptr;
  for (const TrialReport& each : trial.reports) {
    if (found == nullptr || each.budget > found->budget) found = &each;
  }
  return found;
}

struct Standing {
  RankedTrial ranked;
  std::size_t rung = 0;
};

// At the highest rung where it has an objective.
std::optional<Standing> standing_of(const SweepTrial& trial,
                                    const std::vector<std::int64_t>& budgets) {
  for (std::size_t rung = budgets.size(); rung-- > 0;) {
    if (trial.goal < budgets[rung]) continue;
    const auto objective = objective_at(trial, budgets[rung]);
    if (!objective) continue;
    const bool ended_early = budgets[rung] != 0 && first_from(trial, budgets[rung]) == nullptr;
    return Standing{{trial.number, *objective, budgets[rung]},
                    ended_early ? budgets.size() - 1 : rung};
  }
  return std::nullopt;
}

}  // namespace

bool is_at_goal(const SweepTrial& trial) {
  return trial.state == TrialState::Running && trial.goal > 0 &&
         first_from(trial, trial.goal) != nullptr;
}

const TrialReport* report_at(const SweepTrial& trial, std::int64_t budget) {
  if (trial.state == TrialState::Failed) return nullptr;
  if (budget > 0) {
    if (const TrialReport* const report = first_from(trial, budget)) return report;
  }
  return trial.state == TrialState::Finished ? last_of(trial) : nullptr;
}

std::optional<double> objective_at(const SweepTrial& trial, std::int64_t budget) {
  if (const TrialReport* const report = report_at(trial, budget)) return report->objective;
  if (trial.state == TrialState::Finished) return kNoObjective;
  return std::nullopt;
}

bool comes_before(double a, double b, runs::Better better) {
  if (!std::isfinite(a) || !std::isfinite(b)) return std::isfinite(a) && !std::isfinite(b);
  return better == runs::Better::Lower ? a < b : a > b;
}

std::vector<RankedTrial> ranking(const SweepSettings& settings, const SweepHistory& history) {
  const std::vector<std::int64_t> budgets = rung_budgets(settings);
  std::vector<Standing> standings;
  for (const SweepTrial& trial : history.trials) {
    if (const auto standing = standing_of(trial, budgets)) standings.push_back(*standing);
  }
  std::sort(standings.begin(), standings.end(), [&](const Standing& a, const Standing& b) {
    const double of_a = a.ranked.objective, of_b = b.ranked.objective;
    const bool both = std::isfinite(of_a) && std::isfinite(of_b);
    if (both && a.rung != b.rung) return a.rung > b.rung;
    if (comes_before(of_a, of_b, settings.better)) return true;
    if (comes_before(of_b, of_a, settings.better)) return false;
    return a.ranked.number < b.ranked.number;
  });
  std::vector<RankedTrial> ranked;
  for (const Standing& each : standings) ranked.push_back(each.ranked);
  return ranked;
}

std::optional<int> best_trial(const SweepSettings& settings, const SweepHistory& history) {
  const std::vector<RankedTrial> ranked = ranking(settings, history);
  if (ranked.empty() || !std::isfinite(ranked.front().objective)) return std::nullopt;
  return ranked.front().number;
}

const std::vector<std::string>& trial_state_names() {
  static const std::vector<std::string> names{"running", "paused", "finished", "failed"};
  return names;
}

}  // namespace regatta::orchestrator::sweeps
