#include "orchestrator/runs/time_to_accuracy.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace regatta::orchestrator::runs {
namespace {

constexpr std::size_t kFewestPoints = 3;
constexpr std::size_t kMostPoints = 32;
constexpr double kFarthest = 100;          // times the time so far
constexpr double kEarliestSeconds = 1e-3;  // ln(0) has no place on the line

struct Line {
  double mean_x = 0, mean_y = 0, slope = 0;
  double spread = 0;    // Σ (x − mean)²
  double residual = 0;  // standard deviation of y about the line
  double count = 0;
};

Line fit(const std::vector<double>& x, const std::vector<double>& y) {
  Line line;
  line.count = static_cast<double>(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    line.mean_x += x[i] / line.count;
    line.mean_y += y[i] / line.count;
  }
  double products = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    line.spread += (x[i] - line.mean_x) * (x[i] - line.mean_x);
    products += (x[i] - line.mean_x) * (y[i] - line.mean_y);
  }
  if (line.spread <= 0) return line;
  line.slope = products / line.spread;
  double squares = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double error = y[i] - line.mean_y - line.slope * (x[i] - line.mean_x);
    squares += error * error;
  }
  line.residual = std::sqrt(squares / (line.count - 2));
  return line;
}

}  // namespace

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

std::optional<Crossing> predict_crossing(const std::vector<EvaluationPoint>& points, double target,
                                         Better better) {
  const double sign = better == Better::Higher ? 1.0 : -1.0;
  std::vector<double> x;
  std::vector<double> y;
  double last = 0;
  for (const EvaluationPoint& point : points) {
    if (point.target_met) return std::nullopt;
    if (point.seconds < kEarliestSeconds || !std::isfinite(point.value)) continue;
    x.push_back(std::log(point.seconds));
    y.push_back(sign * point.value);
    last = std::max(last, point.seconds);
  }
  const std::size_t used =
      std::min({x.size(), kMostPoints, std::max(kFewestPoints, (x.size() + 1) / 2)});
  if (used < kFewestPoints) return std::nullopt;
  x.erase(x.begin(), x.end() - static_cast<std::ptrdiff_t>(used));
  y.erase(y.begin(), y.end() - static_cast<std::ptrdiff_t>(used));
  const Line line = fit(x, y);
  if (line.slope <= 0) return std::nullopt;
  const double at = line.mean_x + (sign * target - line.mean_y) / line.slope;
  if (at > std::log(last * kFarthest)) return std::nullopt;
  const double distance = at - line.mean_x;
  const double error =
      line.residual / line.slope * std::sqrt(1 / line.count + distance * distance / line.spread);
  // The target is not met yet, so the crossing cannot lie in the past.
  const auto not_past = [&](double log_seconds) { return std::max(last, std::exp(log_seconds)); };
  return Crossing{not_past(at), not_past(at - 2 * error),
                  std::min(not_past(at + 2 * error), last * kFarthest)};
}

}  // namespace regatta::orchestrator::runs
