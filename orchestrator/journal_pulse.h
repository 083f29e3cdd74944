// Whether an attempt goes on of which nothing is known but its journal: the handle of its launch is
// kByJournal.
#pragma once

#include <optional>
#include <string>

#include "orchestrator/run.h"
#include "orchestrator/scheduler.h"

namespace regatta::orchestrator {

inline constexpr const char* kByJournal = "journal";
// A journal has a record a step, and with several ranks one a second. What is silent for longer is
// taken for gone; steps, evaluations and checkpoints of a run made by hand must not take longer.
inline constexpr double kSilentSeconds = 600;

class JournalPulse {
 public:
  // attempt: the newest one. utc: now, by the clock that records are compared with once, at the
  // beginning; later only monotonic time counts.
  [[nodiscard]] ProcessReport look(const Run& run, const Attempt* attempt, double utc,
                                   double monotonic);

 private:
  std::optional<double> record_utc_;  // of the newest record that was seen
  double changed_ = 0;                // monotonic: when it was new
};

}  // namespace regatta::orchestrator
