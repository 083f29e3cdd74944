#include "orchestrator/runs/time_to_accuracy.h"

#include <algorithm>

#include "base/error.h"

namespace regatta::orchestrator::runs {
TimeAxis make_time_axis(const std::vector<AttemptClock>& attempts) {
  TimeAxis axis;
  // First relative to the start of the first attempt; the origin is subtracted at the end.
  double end_before = 0;
  std::optional<double> origin;
  for (std::size_t i = 0; i < attempts.size(); ++i) {
    double offset = attempts[i].start_utc - attempts[0].start_utc;
    if (i > 0 && offset < end_before) {
      offset = end_before;
      ++axis.clamped;
    }
    axis.offsets.push_back(offset);
    end_before = offset + std::max(0.0, attempts[i].last_seconds);
    if (!origin && attempts[i].first_step_begin) {
      origin = offset + *attempts[i].first_step_begin;
      axis.origin_utc = attempts[i].start_utc + *attempts[i].first_step_begin;
    }
  }
  axis.started = origin.has_value();
  for (double& offset : axis.offsets) offset -= origin.value_or(0);
  return axis;
}

double axis_seconds(const TimeAxis& axis, std::size_t attempt, double seconds) {
  base::check(attempt < axis.offsets.size(), "every record belongs to an attempt of the axis");
  if (!axis.started) return 0;
  return std::max(0.0, axis.offsets[attempt] + seconds);
}

std::optional<double> time_to_accuracy(const std::vector<EvaluationPoint>& points) {
  std::optional<double> first;
  for (const EvaluationPoint& point : points) {
    if (point.target_met && (!first || point.seconds < *first)) first = point.seconds;
  }
  return first;
}

}  // namespace regatta::orchestrator::runs
