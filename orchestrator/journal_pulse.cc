#include "orchestrator/journal_pulse.h"

#include <algorithm>

#include "base/text.h"

namespace regatta::orchestrator {

ProcessReport JournalPulse::look(const Run& run, const Attempt* attempt, double utc,
                                 double monotonic) {
  const double record = run.summary.last_record_utc;
  if (!record_utc_) {
    changed_ = record > 0 ? monotonic - std::max(0.0, utc - record) : monotonic;
  } else if (record != *record_utc_) {
    changed_ = monotonic;
  }
  record_utc_ = record;
  ProcessReport report;
  report.state = ProcessState::Running;
  if (attempt != nullptr && attempt->exit_code) {
    report.state = ProcessState::Gone;
  } else if (monotonic - changed_ >= kSilentSeconds) {
    report.state = ProcessState::Gone;
    report.words = "its journal has been silent for " + base::human_seconds(kSilentSeconds);
  }
  return report;
}

}  // namespace regatta::orchestrator
