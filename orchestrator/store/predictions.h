// The prediction of a run's crossing (runs/crossing.h) from what the store has: its evaluations,
// and those of finished runs of its kind.
#pragma once

#include <optional>
#include <vector>

#include "orchestrator/runs/crossing.h"
#include "orchestrator/store/store_reads.h"

namespace regatta::orchestrator::store {

// What predictions of one run are made of.
struct PredictionInputs {
  std::vector<runs::EvaluationPoint> points;
  double target = 0;
  runs::Better better = runs::Better::Higher;
};
// Nothing for a run without a target, or whose target is not known yet.
[[nodiscard]] std::optional<PredictionInputs> prediction_inputs(
    StoreReads& store, const runs::Run& run, const std::vector<runs::Attempt>& attempts);

// The newest finished runs of the run's kind that had ended when it was submitted, judged by its
// target: at most kMostPastRuns. The same whenever it is asked for.
[[nodiscard]] std::vector<runs::PastRun> past_runs(StoreReads& store, const runs::Run& run);
inline constexpr int kMostPastRuns = 10;

}  // namespace regatta::orchestrator::store
