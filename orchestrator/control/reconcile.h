// What to do about one run, as a pure function of what was observed.
#pragma once

#include <optional>
#include <string>

#include "orchestrator/runs/run.h"
#include "orchestrator/runs/scheduler.h"

namespace regatta::orchestrator::control {

struct Limits {
  double stop_grace_seconds = 60;   // from TERM to KILL
  double stop_repeat_seconds = 10;  // from TERM to TERM
  int failures = 5;                 // attempts that end early without a newer checkpoint
  double backoff_seconds = 1;       // before the second attempt; doubles with every further one
  double longest_backoff_seconds = 60;
};

// What the journal of the newest attempt of the watched launch said.
struct JournalEnd {
  int exit_code = 0;
  std::string message;
};

// Why a run waits that could start but for --parallel.
inline constexpr const char* kNoFreeSlot = "waits for a free slot (serve --parallel)";

struct Observation {
  runs::Wanted wanted = runs::Wanted::Run;
  runs::RunState state = runs::RunState::Queued;
  std::string reason;  // that the run had so far, and
  runs::Wait wait;
  runs::ProcessReport process;   // of the launch whose end was not dealt with yet
  bool journal_started = false;  // that launch's attempt has written its first record
  std::optional<JournalEnd> end;
  bool goes_further = false;  // that end was one when it began; its run file asks for more now
  std::string last_log_line;  // of that launch; what is left when there is no journal
  std::int64_t checkpoint_step = -1;  // newest written, over all attempts
  int failures = 0;
  std::int64_t progress_step = -1;
  bool replaced = false;             // the controller ends the launch in order to start another
  std::string blocked;               // by runs that it starts after; empty when by none
  runs::Wait blocked_wait;           // what is known of that
  std::string why_not_now;           // nothing can be started; empty when it can
  bool place_free = false;           // fewer runs are active than may be
  double now = 0;                    // monotonic seconds, as all of these:
  double not_before = 0;             // next start
  std::optional<double> stop_sent;   // first
  std::optional<double> stop_asked;  // and last
};

// Replace: end the launch, which cannot start any more, and start another when it is gone.
enum class Act { Nothing, Start, Stop, Kill, Replace };

struct Decision {
  Act act = Act::Nothing;
  bool launch_over = false;  // the watched launch's end is dealt with
  runs::RunState state = runs::RunState::Queued;
  std::string reason;  // why it waits, for people
  runs::Wait wait;
  std::string error;
  int failures = 0;
  std::int64_t progress_step = -1;
  double not_before = 0;
  bool look_for_successor = false;  // a newer attempt, not ours, owns the run: watch that one
};

[[nodiscard]] Decision reconcile(const Observation& seen, const Limits& limits);

}  // namespace regatta::orchestrator::control
