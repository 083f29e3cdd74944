// Time to accuracy as pure functions: one time axis over all attempts of a run, the first
// evaluation that met the target, and where the curve will cross it. It counts evaluations,
// checkpoints, down time and repeated steps, since whoever waits for a model waits for them, too
// (docs/runs.md, "Time").
#pragma once

#include <optional>
#include <vector>

namespace regatta::orchestrator::runs {

// One attempt's clock. Attempts are in order of their number.
struct AttemptClock {
  double start_utc = 0;                    // when its monotonic clock read zero
  std::optional<double> first_step_begin;  // seconds since its start; nothing before the first step
  double last_seconds = 0;                 // of its newest record
};

// Axis seconds of a moment = offsets[attempt] + seconds since that attempt's start. Zero is the
// begin of the first step of the first attempt that took one; what came before is clamped to zero
// by axis_seconds(). Within an attempt only the monotonic clock counts; the way from one attempt to
// the next is the difference of their UTC starts. Where UTC went backwards (an attempt would start
// before the last record of the one before it) the gap is taken as zero and counted.
struct TimeAxis {
  bool started = false;  // some attempt has taken a step
  double origin_utc = 0;
  std::vector<double> offsets;
  int clamped = 0;
};
[[nodiscard]] TimeAxis make_time_axis(const std::vector<AttemptClock>& attempts);
[[nodiscard]] double axis_seconds(const TimeAxis& axis, std::size_t attempt, double seconds);

struct EvaluationPoint {
  double seconds = 0;  // on the axis, at the end of the evaluation
  double value = 0;    // of the target's metric
  bool target_met = false;
};
// The earliest moment at which an evaluation met the target; nothing while none did.
[[nodiscard]] std::optional<double> time_to_accuracy(const std::vector<EvaluationPoint>& points);

enum class Better { Higher, Lower };
struct Crossing {
  double seconds = 0;  // on the axis
  double low = 0;
  double high = 0;
};
// A straight line of the value over ln(seconds), by least squares through the newer half of the
// points (at least 3, at most 32); low and high are two standard errors of the crossing (delta
// method on the inverse of the line). Nothing with fewer than 3 usable points, when the value does
// not improve, or when the crossing lies more than 100 times the time so far away, where the line
// means nothing.
[[nodiscard]] std::optional<Crossing> predict_crossing(const std::vector<EvaluationPoint>& points,
                                                       double target, Better better);

}  // namespace regatta::orchestrator::runs
