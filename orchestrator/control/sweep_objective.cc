#include "orchestrator/control/sweep_objective.h"

#include <algorithm>
#include <limits>
#include <map>
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

// The run's evaluations on the time that it trained.
std::vector<runs::EvaluationPoint> points_of(store::StoreReads& store, const runs::Run& run) {
  struct Span {
    double begin = 0, before = 0;  // seconds of its clock; trained in the attempts before it
  };
  std::map<runs::AttemptNumber, Span> spans;
  double trained = 0;
  for (const runs::Attempt& attempt : store.attempts(run.number)) {
    if (!attempt.first_step_begin) continue;
    spans[attempt.row] = {*attempt.first_step_begin, trained};
    trained += std::max(0.0, attempt.last_seconds - *attempt.first_step_begin);
  }
  const std::vector<store::EvaluationRow> rows = store.evaluations(run.number, 0);
  std::vector<runs::EvaluationPoint> points =
      store::evaluation_points(store::RunAxis(store.attempts(run.number)), rows, run);
  for (std::size_t i = 0; i < points.size(); ++i) {
    const Span span = spans[rows[i].attempt];
    points[i].seconds = span.before + std::max(0.0, rows[i].seconds - span.begin);
  }
  return points;
}

double time_to_accuracy(store::StoreReads& store, const runs::Run& run) {
  const runs::RunSummary& summary = run.summary;
  const std::vector<runs::EvaluationPoint> points = points_of(store, run);
  if (const auto met = runs::time_to_accuracy(points)) return *met;
  if (!summary.target) return kNone;
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
