// Where the time of a run went since its submission. Pure.
#pragma once

#include <vector>

namespace regatta::orchestrator::runs {

// One attempt, in order of their starts. Seconds of an attempt count from its start.
struct AttemptTime {
  double start_utc = 0;
  double first_step = 0;  // when its first step began; at its end where it took none
  double end = 0;         // of its newest record, or now where it goes on
  double training = 0;    // of its steps
};

// The parts add up to `whole`, and none is negative.
struct TimeAccount {
  double whole = 0;     // from the submission to the end, or to now
  double waiting = 0;   // no attempt was under way: in the queue, or between two attempts
  double starting = 0;  // from an attempt's start to its first step
  double training = 0;  // steps
  double other = 0;     // evaluations, checkpoints and whatever else stood between steps
};
// An attempt that began before the one before it had ended counts from that end on.
[[nodiscard]] TimeAccount account_of(double created_utc, double end_utc,
                                     const std::vector<AttemptTime>& attempts);

}  // namespace regatta::orchestrator::runs
