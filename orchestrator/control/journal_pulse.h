// Whether an attempt goes on of which nothing is known but its journal: the handle of its launch is
// kByJournal.
#pragma once

#include <optional>

#include "orchestrator/runs/scheduler.h"

namespace regatta::orchestrator::control {

inline constexpr const char* kByJournal = "journal";
// A journal has a record a step, and with several ranks one a second. What is silent for longer is
// taken for gone; steps, evaluations and checkpoints of a run made by hand must not take longer.
inline constexpr double kSilentSeconds = 600;

class JournalPulse {
 public:
  // news: the journal had some just now. ended: it has an end record. age: of the newest record by
  // the clocks of the two machines, which counts at the first look only, and only without news.
  // monotonic: now.
  [[nodiscard]] runs::ProcessReport look(bool news, bool ended, double age, double monotonic);

 private:
  std::optional<double> newest_;  // monotonic: when there was news last
};

}  // namespace regatta::orchestrator::control
