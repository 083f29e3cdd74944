#pragma once

#include <cstdint>
#include <functional>

#include "base/clock.h"
#include "trainer/watch/watchdog.h"

namespace regatta::trainer::step {

// Called as each phase of a step begins; may be empty.
using Beat = std::function<void(std::int64_t step, watch::Phase phase)>;

// Where the time of a step goes, from its construction on.
class StepTimer {
 public:
  // Clock and beat outlive the timer.
  StepTimer(const base::Clock& clock, const Beat& beat, std::int64_t step)
      : clock_(clock), beat_(beat), step_(step), start_(clock.monotonic_seconds()), mark_(start_) {}

  void enter(watch::Phase phase) const {
    if (beat_) beat_(step_, phase);
  }
  // Adds the seconds since the last lap, or the start, to `phase`.
  void lap(double* phase) {
    const double now = clock_.monotonic_seconds();
    *phase += now - mark_;
    mark_ = now;
  }
  // Monotonic.
  [[nodiscard]] double start() const { return start_; }
  // Since the start.
  [[nodiscard]] double seconds() const { return clock_.monotonic_seconds() - start_; }

 private:
  const base::Clock& clock_;
  const Beat& beat_;
  std::int64_t step_;
  double start_, mark_;
};

}  // namespace regatta::trainer::step
