#include "orchestrator/control/reconcile.h"

#include <signal.h>

#include <algorithm>
#include <cmath>

#include "trainer/contract/exit_code.h"

namespace regatta::orchestrator::control {
namespace {

using trainer::contract::ExitCode;

constexpr const char* kStoppedBySignal =
    "a signal asked it to stop, not `regatta cancel`; `regatta resume` lets it go on where that "
    "was not meant";

constexpr const char* kRequeues = "is started again when it has ended";
constexpr const char* kRequeued = "was requeued";

// How the watched launch ended: a code, or nothing when it was killed or vanished.
struct End {
  std::optional<int> code;
  std::string words;
};

End end_of(const Observation& seen) {
  End end;
  // A process that wrote its end record and was then killed did end as the record says. And what is
  // finished stays so: slurmctld has taken the late end of a requeued job's first start for the end
  // of its second, and shows that one's exit code.
  const bool finished = seen.end && seen.end->exit_code == static_cast<int>(ExitCode::Finished);
  if (seen.process.exit_code && !finished) {
    end.code = seen.process.exit_code;
  } else if (seen.end) {
    end.code = seen.end->exit_code;
  }
  if (seen.end && !seen.end->message.empty()) {
    end.words = seen.end->message;
  } else if (!seen.last_log_line.empty()) {
    end.words = seen.last_log_line;
  } else if (end.code) {
    end.words = "the trainer returned " + std::to_string(*end.code);
  }
  if (!end.code) {
    const std::string how = !seen.process.words.empty() ? seen.process.words
                            : seen.process.signal
                                ? "killed by signal " + std::to_string(*seen.process.signal)
                                : "vanished";
    end.words = end.words.empty() ? how : how + "; last log line: " + end.words;
  }
  return end;
}

Decision unchanged(const Observation& seen) {
  Decision decision;
  decision.state = seen.state;
  decision.failures = seen.failures;
  decision.progress_step = seen.progress_step;
  decision.not_before = seen.not_before;
  return decision;
}

Decision retry(const Observation& seen, const Limits& limits, const std::string& words) {
  Decision decision = unchanged(seen);
  decision.launch_over = true;
  if (seen.wanted == runs::Wanted::Observe) {
    decision.state = runs::RunState::Stopped;
    decision.error =
        "the attempt ended early (" + words + "); it was not started by this controller";
    return decision;
  }
  decision.failures = seen.checkpoint_step > seen.progress_step ? 1 : seen.failures + 1;
  decision.progress_step = std::max(seen.progress_step, seen.checkpoint_step);
  if (decision.failures >= limits.failures) {
    decision.state = runs::RunState::Failed;
    decision.error = std::to_string(decision.failures) +
                     " attempts ended early without progress; the last: " + words;
    return decision;
  }
  const double pause = std::min(limits.longest_backoff_seconds,
                                limits.backoff_seconds * std::exp2(decision.failures - 1));
  decision.state = runs::RunState::Queued;
  decision.not_before = seen.now + pause;
  decision.reason = "retry pending: " + words;
  return decision;
}

// Whether a person asked it to stop, and not something that befell its job or its machine. Of a
// process of this machine nobody can say who sent the signal.
bool is_a_wish(const Observation& seen, int code) {
  return code == static_cast<int>(ExitCode::Stopped) && seen.process.cause == runs::Cause::None &&
         !seen.process.tells_cancels;
}

std::string why_it_saved(const Observation& seen, int code) {
  if (code == static_cast<int>(ExitCode::Finished)) {
    return "its run file was changed since the attempt began";
  }
  if (code == static_cast<int>(ExitCode::Continue)) return "the time of its attempt was over";
  if (!seen.process.words.empty()) return seen.process.words;
  return "a signal that was no cancel stopped its ranks";
}

Decision ended(const Observation& seen, const Limits& limits) {
  const End end = end_of(seen);
  Decision decision = unchanged(seen);
  decision.launch_over = true;
  const auto finish = [&](runs::RunState state, const std::string& error) {
    decision.state = state;
    decision.error = error;
    return decision;
  };
  const bool finished = end.code == static_cast<int>(ExitCode::Finished);
  if (finished && !seen.goes_further) return finish(runs::RunState::Succeeded, "");
  if (seen.wanted == runs::Wanted::Cancel) {
    const bool clean = finished || end.code == static_cast<int>(ExitCode::Stopped);
    return finish(runs::RunState::Cancelled, clean ? "" : "while stopping: " + end.words);
  }
  if (seen.wanted == runs::Wanted::Requeue && end.code != static_cast<int>(ExitCode::Fenced)) {
    if (seen.checkpoint_step > seen.progress_step) decision.failures = 0;
    decision.progress_step = std::max(seen.progress_step, seen.checkpoint_step);
    decision.not_before = seen.now;
    decision.reason = kRequeued;
    return finish(runs::RunState::Queued, "");
  }
  if (seen.replaced) return retry(seen, limits, end.words);
  if (seen.process.cause == runs::Cause::Cancelled) {
    return finish(runs::RunState::Stopped, "somebody cancelled its job; " + end.words);
  }
  // It would need as much the next time; and a deadline that is over stays over.
  if (seen.process.cause == runs::Cause::OutOfMemory ||
      seen.process.cause == runs::Cause::Deadline) {
    const std::string& action = seen.process.action;
    return finish(runs::RunState::Failed,
                  seen.process.words + (action.empty() ? "" : "; " + action));
  }
  if (!end.code || *end.code == static_cast<int>(ExitCode::Retry)) {
    return retry(seen, limits, end.words);
  }
  if (is_a_wish(seen, *end.code)) {
    const bool by_hand = seen.wanted == runs::Wanted::Observe;
    return finish(runs::RunState::Stopped, by_hand ? "" : kStoppedBySignal);
  }
  if (finished || *end.code == static_cast<int>(ExitCode::Continue) ||
      *end.code == static_cast<int>(ExitCode::Stopped)) {
    const std::string why = why_it_saved(seen, *end.code);
    // Each attempt must bring something, else its time is too short for any.
    if (seen.checkpoint_step <= seen.progress_step) {
      return retry(seen, limits, why + " before it had trained a step");
    }
    decision.failures = 0;
    decision.progress_step = seen.checkpoint_step;
    decision.not_before = seen.now;
    decision.reason = "goes on: " + why;
    return finish(
        seen.wanted == runs::Wanted::Observe ? runs::RunState::Stopped : runs::RunState::Queued,
        "");
  }
  if (*end.code == static_cast<int>(ExitCode::Fenced)) {
    decision.look_for_successor = true;
    return finish(runs::RunState::Stopped, "another attempt took the run over");
  }
  return finish(runs::RunState::Failed, end.words);
}

Decision running(const Observation& seen, const Limits& limits) {
  Decision decision = unchanged(seen);
  if (seen.wanted == runs::Wanted::Cancel || seen.wanted == runs::Wanted::Requeue) {
    decision.state = runs::RunState::Stopping;
    if (seen.wanted == runs::Wanted::Requeue) decision.reason = kRequeues;
    if (!seen.stop_sent) {
      decision.act = Act::Stop;
    } else if (seen.now - *seen.stop_sent >= limits.stop_grace_seconds) {
      decision.act = Act::Kill;
    } else if (seen.now - seen.stop_asked.value_or(*seen.stop_sent) >= limits.stop_repeat_seconds) {
      decision.act = Act::Stop;  // a signal that comes while ranks are being started is lost
    }
    return decision;
  }
  decision.state = seen.journal_started ? runs::RunState::Running : runs::RunState::Starting;
  // Also again, after its job was requeued. Slurm is asked seldom: a journal that goes on is newer.
  if (seen.process.state == runs::ProcessState::Waiting && (!seen.journal_started || seen.end)) {
    decision.state = runs::RunState::Queued;
    decision.reason = seen.process.words;
    decision.wait = {seen.process.category, seen.process.action, seen.process.clears,
                     seen.process.expected_start, std::nullopt};
    if (seen.process.cause == runs::Cause::Stuck && !seen.replaced) decision.act = Act::Replace;
  } else if (seen.process.category == runs::kSuspended) {
    decision.reason = seen.process.words;
    decision.wait = {seen.process.category, seen.process.action, seen.process.clears, std::nullopt,
                     std::nullopt};
  }
  return decision;
}

Decision idle(const Observation& seen) {
  Decision decision = unchanged(seen);
  if (seen.wanted == runs::Wanted::Cancel) {
    decision.state = runs::RunState::Cancelled;
  } else if (seen.wanted == runs::Wanted::Observe) {
    decision.state = runs::RunState::Stopped;
  } else if (seen.now < seen.not_before) {
    decision.state = runs::RunState::Queued;
    decision.reason = seen.reason.empty() ? "waits before the next attempt" : seen.reason;
    decision.wait = seen.wait;
  } else if (!seen.blocked.empty()) {
    decision.state = runs::RunState::Queued;
    decision.reason = seen.blocked;
    decision.wait = seen.blocked_wait;
  } else if (!seen.why_not_now.empty()) {
    decision.state = runs::RunState::Queued;
    decision.reason = seen.why_not_now;
  } else if (!seen.place_free) {
    decision.state = runs::RunState::Queued;
    decision.reason = kNoFreeSlot;
  } else {
    decision.state = runs::RunState::Starting;
    decision.act = Act::Start;
  }
  return decision;
}

}  // namespace

Decision reconcile(const Observation& seen, const Limits& limits) {
  if (runs::is_over(seen.state)) return unchanged(seen);
  switch (seen.process.state) {
    case runs::ProcessState::None:
      return idle(seen);
    case runs::ProcessState::Waiting:
    case runs::ProcessState::Running:
      return running(seen, limits);
    case runs::ProcessState::Ended:
    case runs::ProcessState::Gone:
      return ended(seen, limits);
    case runs::ProcessState::Unknown: {
      Decision decision = unchanged(seen);
      decision.reason = seen.process.words.empty() ? seen.reason : seen.process.words;
      decision.wait = seen.wait;
      if (seen.wanted == runs::Wanted::Cancel || seen.wanted == runs::Wanted::Requeue) {
        decision.state = runs::RunState::Stopping;
      }
      return decision;
    }
  }
  return unchanged(seen);
}

}  // namespace regatta::orchestrator::control
