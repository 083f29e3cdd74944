#include "orchestrator/store/predictions.h"

#include "orchestrator/store/series.h"

namespace regatta::orchestrator::store {

std::vector<runs::PastRun> past_runs(StoreReads& store, const runs::Run& run) {
  std::vector<runs::PastRun> past;
  if (run.kind.empty() || !run.forked_from.empty() || !run.summary.target) return past;
  const runs::Better better = runs::better_of(run.summary.metric);
  for (const runs::Run& each : store.runs_alike(run.kind, run.created_utc, kMostPastRuns)) {
    std::vector<runs::EvaluationPoint> points = evaluation_points(
        RunAxis(store.attempts(each.number)), store.evaluations(each.number, 0), run);
    // Its own target may have been another one.
    for (runs::EvaluationPoint& point : points) {
      point.target_met = better == runs::Better::Higher ? point.value >= *run.summary.target
                                                        : point.value <= *run.summary.target;
    }
    if (auto shape = runs::past_run(points, *run.summary.target, better)) {
      past.push_back(std::move(*shape));
    }
  }
  return past;
}

}  // namespace regatta::orchestrator::store
