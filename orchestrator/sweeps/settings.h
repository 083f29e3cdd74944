// What a sweep is, beside its space.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "orchestrator/runs/metrics.h"
#include "orchestrator/sweeps/space.h"

namespace regatta::orchestrator::sweeps {

enum class SweepMethod { Grid, Random, Asha, Tpe };
[[nodiscard]] const std::vector<std::string>& method_names();  // as in run files, in this order
// Metric: that which the run is judged by, at the end of the budget. TimeToAccuracy: seconds.
// Goodput: useful samples per second.
enum class ObjectiveKind { Metric, TimeToAccuracy, Goodput };
[[nodiscard]] const std::vector<std::string>& objective_names();
enum class BudgetUnit { Steps, Samples };

struct SweepSettings {
  SweepMethod method = SweepMethod::Random;
  int trials = 0;       // tried in all, failed ones too; at least 1; of a grid at most its points
  int concurrency = 1;  // trials that train at once, at least 1
  std::uint64_t seed = 1;  // of all draws
  ObjectiveKind objective = ObjectiveKind::Metric;
  runs::Better better = runs::Better::Lower;
  BudgetUnit unit = BudgetUnit::Steps;
  std::int64_t max_budget = 0;  // of one trial; 0, not with Asha: what its run file says
  std::int64_t min_budget = 0;  // of Asha: its first rung
  int factor = 3;               // of Asha: η, at least 2
};

struct Sweep {
  SweepSettings settings;
  Space space;
};

// Of Asha, min · factor^k up to max (Li et al. 2020, algorithm 2 with s = 0); of others max alone.
[[nodiscard]] std::vector<std::int64_t> rung_budgets(const SweepSettings& settings);

}  // namespace regatta::orchestrator::sweeps
