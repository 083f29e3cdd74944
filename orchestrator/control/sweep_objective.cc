#include "orchestrator/control/sweep_objective.h"

#include <limits>
#include <optional>
#include <vector>

#include "orchestrator/runs/crossing.h"
#include "orchestrator/store/series.h"

namespace regatta::orchestrator::control {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

// Steps may come twice, after a crash: the later one counts.
double metric_at(const std::vector<store::EvaluationRow>& rows, std::int64_t steps) {
  const store::EvaluationRow* at = nullptr;
  for (const store::EvaluationRow& row : rows) {
    if (at == nullptr) {
      at = &row;
    } else if (at->step < steps ? row.step >= at->step
                                : row.step >= steps && row.step <= at->step) {
      at = &row;
    }
  }
  return at == nullptr ? kNone : at->value;
}

double time_to_accuracy(store::StoreReads& store, const runs::Run& run) {
  const runs::RunSummary& summary = run.summary;
  if (summary.time_to_accuracy_seconds) return *summary.time_to_accuracy_seconds;
  if (!summary.target) return kNone;
  const auto points = store::evaluation_points(store::RunAxis(store.attempts(run.number)),
                                               store.evaluations(run.number, 0), run);
  const auto crossing = runs::predict_crossing(points, *summary.target,
                                               runs::better_of(summary.metric), {}, summary.metric);
  return crossing ? crossing->seconds : kNone;
}

}  // namespace

double objective_of(store::StoreReads& store, const runs::Run& run, sweeps::ObjectiveKind objective,
                    std::int64_t steps) {
  switch (objective) {
    case sweeps::ObjectiveKind::Metric:
      return metric_at(store.evaluations(run.number, 0), steps);
    case sweeps::ObjectiveKind::TimeToAccuracy:
      return time_to_accuracy(store, run);
    case sweeps::ObjectiveKind::Goodput:
      return run.summary.goodput.value_or(kNone);
  }
  return kNone;
}

}  // namespace regatta::orchestrator::control
