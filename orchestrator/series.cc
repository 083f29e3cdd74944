#include "orchestrator/series.h"

#include <algorithm>

namespace regatta::orchestrator {

RunAxis::RunAxis(const std::vector<Attempt>& attempts) {
  std::vector<AttemptClock> clocks;
  for (const Attempt& attempt : attempts) {
    if (!attempt.started) continue;
    rows_.push_back(attempt.row);
    clocks.push_back({attempt.start_utc, attempt.first_step_begin, attempt.last_seconds});
  }
  axis_ = make_time_axis(clocks);
  if (!clocks.empty()) last_ = axis_seconds(axis_, clocks.size() - 1, clocks.back().last_seconds);
}

double RunAxis::at(AttemptNumber attempt, double seconds) const {
  const auto it = std::find(rows_.begin(), rows_.end(), attempt);
  if (it == rows_.end()) return 0;
  return axis_seconds(axis_, static_cast<std::size_t>(it - rows_.begin()), seconds);
}

std::vector<EvaluationPoint> evaluation_points(const RunAxis& axis,
                                               const std::vector<EvaluationRow>& rows,
                                               const std::string& metric) {
  std::vector<EvaluationPoint> points;
  for (const EvaluationRow& row : rows) {
    points.push_back({axis.at(row.attempt, row.seconds),
                      metric == "mlm_loss" ? row.mlm_loss : row.mlm_accuracy, row.target_met});
  }
  return points;
}

}  // namespace regatta::orchestrator
