// Why a job waits: Slurm's one word, for people. Words after the manual page of squeue (JOB REASON
// CODES) and the table of reasons of releases 22.05 to 25.11, some 190; unknown ones are shown as
// such.
#pragma once

#include <string>
#include <string_view>

namespace regatta::orchestrator::slurm {

enum class ReasonFamily {
  None,        // it does not wait, or Slurm has not looked at it yet
  Queue,       // its turn comes
  Limit,       // an account, user or QOS has used up what it may have
  Impossible,  // as it stands, it never starts
  Held,        // somebody keeps it back
  Stuck,       // Slurm itself keeps it back for good, after starts that failed
  Broken,      // a node, a partition or Slurm itself is out of order
  Ended,       // not a reason for waiting, but for the end
  Unknown,
};

enum class Clears {
  ByItself,
  Perhaps,  // depends on what others do, or on a period's end
  Never,    // somebody has to change something
};

struct PendingReason {
  ReasonFamily family = ReasonFamily::Unknown;
  std::string sentence;  // what it means, with the detail that Slurm gave
  std::string action;    // what to do; empty when nothing is to be done
  Clears clears = Clears::Perhaps;
};

// `reason` as squeue or scontrol spell it: "Priority", "QOSMaxGRESPerUser",
// "(ReqNodeNotAvail, UnavailableNodes:node01)", "launch failed requeued held", or a sentence. Slurm
// shows only one reason even when several hold. The texts are printable.
[[nodiscard]] PendingReason explain_reason(std::string_view reason);

// By which Slurm's sentences are recognised.
[[nodiscard]] inline bool has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

[[nodiscard]] std::string_view to_string(ReasonFamily family);
// "by itself", "perhaps", "never".
[[nodiscard]] std::string_view to_string(Clears clears);

}  // namespace regatta::orchestrator::slurm
