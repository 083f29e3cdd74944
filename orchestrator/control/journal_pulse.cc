#include "orchestrator/control/journal_pulse.h"

#include <algorithm>

#include "base/text.h"

namespace regatta::orchestrator::control {

runs::ProcessReport JournalPulse::look(bool news, bool ended, double age, double monotonic) {
  if (news || !newest_) newest_ = monotonic - (news ? 0 : std::max(0.0, age));
  runs::ProcessReport report;
  report.state = runs::ProcessState::Running;
  if (ended) {
    report.state = runs::ProcessState::Gone;
  } else if (monotonic - *newest_ >= kSilentSeconds) {
    report.state = runs::ProcessState::Gone;
    report.words = "its journal has been silent for " + base::human_seconds(kSilentSeconds);
  }
  return report;
}

}  // namespace regatta::orchestrator::control
