#include "orchestrator/control/journal_pulse.h"

#include <algorithm>

#include "base/text.h"

namespace regatta::orchestrator {

ProcessReport JournalPulse::look(bool news, bool ended, double age, double monotonic) {
  if (news || !newest_) newest_ = monotonic - (news ? 0 : std::max(0.0, age));
  ProcessReport report;
  report.state = ProcessState::Running;
  if (ended) {
    report.state = ProcessState::Gone;
  } else if (monotonic - *newest_ >= kSilentSeconds) {
    report.state = ProcessState::Gone;
    report.words = "its journal has been silent for " + base::human_seconds(kSilentSeconds);
  }
  return report;
}

}  // namespace regatta::orchestrator
