// Time to accuracy as pure functions: one time axis over all attempts of a run, and the first
// evaluation that met the target. It counts evaluations, checkpoints, down time and repeated steps,
// since whoever waits for a model waits for them, too (docs/runs.md, "Time"). When the target will
// be met: crossing.h.
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

}  // namespace regatta::orchestrator::runs
