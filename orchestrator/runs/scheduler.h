// Who runs attempts: processes of this machine, or Slurm. A handle is the scheduler's own
// text for one started thing; it stays valid across restarts of the controller.
#pragma once

#include <cstdint>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "base/file_system.h"
#include "trainer/contract/slurm_resources.h"

namespace regatta::trainer::contract {
struct RunConfig;
}

namespace regatta::orchestrator::runs {

enum class ProcessState {
  None,     // nothing was started, or its end has been dealt with
  Waiting,  // the scheduler has it and has not started it
  Running,
  Ended,    // with an exit code or a signal
  Gone,     // it is not there any more, and how it ended is not known
  Unknown,  // the scheduler cannot be asked now
};

// What the scheduler itself says of a wait or an end; None leaves it to the exit code.
enum class Cause {
  None,
  TimeLimit,      // ended at its time limit
  NodeFailure,    // a node was lost
  LaunchFailure,  // it could not be started on its nodes
  OutOfMemory,
  Preempted,
  Deadline,    // it could not end before the last moment that its user allows (sbatch --deadline)
  Cancelled,   // by somebody else, or by Act::Replace
  Held,        // waits until the person who holds it releases it
  Stuck,       // waits for ever after failed starts: another has to take its place
  Impossible,  // waits, and as it stands can never start
};
// "time limit", "node failure", …; "" for None. The word in the store and the API.
[[nodiscard]] const char* name_of(Cause cause);
[[nodiscard]] Cause parse_cause(std::string_view name);  // None for any other word

// The category of a report about what has its nodes and stands still.
inline constexpr std::string_view kSuspended = "suspended";

struct ProcessReport {
  ProcessState state = ProcessState::Unknown;
  std::optional<int> exit_code;
  std::optional<int> signal;
  std::string words{};  // why it waits, or how it ended; for people, may be empty
  Cause cause = Cause::None;
  // Somebody's cancel would be told as Cause::Cancelled: any other end is nobody's doing.
  bool tells_cancels = false;
  std::string action{};                 // what somebody should do about it; may be empty
  std::string nodes{};                  // that it has or had, as a hostlist; may be empty
  std::vector<std::string> suspects{};  // nodes that the scheduler blames
  std::optional<std::int64_t> gpus{};   // that it has or had
  // When it was started the last time, seconds since 1970: a job may start again by itself.
  std::optional<double> started{};
  // Of what waits or stands still. Family of the reason ("queue", "limit", "held", …, kSuspended),
  // "by itself", "perhaps" or "never", and when it is expected to start, seconds since 1970.
  std::string category{};
  std::string clears{};
  std::optional<double> expected_start{};
};

// The answer about a token.
struct SchedulerFinding {
  bool known = true;  // false: ask again later, it may or may not have been started
  std::optional<std::string> handle;
};

// Whether a scheduler that has to be asked answers.
struct Contact {
  std::optional<double> answered_utc{};  // its newest answer; absent: none so far
  std::string trouble{};                 // why the newest question has none; empty: it has one
  // Since when the end that somebody wants of a job waits until the scheduler can be told.
  std::optional<double> end_waits_utc{};
};

// What asking the scheduler costs it.
struct Asking {
  int calls = 0;              // within the last minute
  double most_calls = 0;      // that it allows itself a minute, now
  double call_seconds = 0;    // what an answer takes; 0: none has come
  double paused_seconds = 0;  // still, because the scheduler said that it is asked too often
};

struct LimitAnswer {
  std::int64_t minutes = 0;  // that were asked for
  std::string refusal{};     // the scheduler's words; empty: they are the limit now
};

struct LaunchRequest {
  base::Path run_directory;
  base::Path log_path;               // stdout and stderr are appended there
  std::string token;                 // unique; find() looks it up
  std::vector<std::string> avoid{};  // nodes
  std::stop_token stop{};            // requested: nobody waits for the answer any more
};

// What would start an attempt.
struct StartPreview {
  std::vector<std::string> command{};  // program and arguments
  std::string script{};                // that the command is given; empty: none
};

// The scheduler that a run belongs to, from the name of one: "slurm" of "slurm_cli".
[[nodiscard]] std::string family_of(std::string_view scheduler);

// Called by the controller's tick only, but for submit(), contact(), asking() and somebody_looks().
// Every call but submit() returns at once: it runs no command and reads no shared file system, so a
// scheduler that has to does so in threads of its own, within bounds and deadlines, and its
// destructor waits for none of them.
class Scheduler {
 public:
  virtual ~Scheduler() = default;
  [[nodiscard]] virtual std::string name() const = 0;
  // How many threads may be in submit() at once, beside the tick; 1: it takes no time, and the tick
  // calls it itself.
  [[nodiscard]] virtual int most_submissions() const { return 1; }
  // Why nothing can be submitted now, for people; empty when it can.
  [[nodiscard]] virtual std::string why_not_now() { return {}; }
  // Starts one attempt. Throws Code::Retry when nobody can say whether it was started (find() will
  // tell), soon after request.stop at the latest; anything else when it was not: Code::Conflict
  // when it may be asked again later.
  [[nodiscard]] virtual std::string submit(const LaunchRequest& request) = 0;
  // What submit() would do for a run of this configuration and plan.json in this directory; from
  // any thread, asking nobody. Throws Code::User as submit() does.
  [[nodiscard]] virtual StartPreview preview(const base::Path&, const trainer::contract::RunConfig&,
                                             const std::optional<std::string>&) const {
    return {};
  }
  // What was started under `token`, when the controller died before it could write the handle down.
  // since_utc: it was not started before.
  [[nodiscard]] virtual SchedulerFinding find(const std::string& token, double since_utc) = 0;
  // A running attempt that somebody else started: process id `process` working on `run_directory`.
  [[nodiscard]] virtual std::optional<std::string> adopt(std::int64_t process,
                                                         const base::Path& run_directory) = 0;
  // Whether there certainly is no such process on this machine any more; false: not known.
  [[nodiscard]] virtual bool is_gone(std::int64_t) const { return false; }
  [[nodiscard]] virtual ProcessReport poll(const std::string& handle) = 0;
  // Nodes that may be given what asks for these resources, now or soon; nothing: not known.
  [[nodiscard]] virtual std::optional<std::vector<std::string>> usable_nodes(
      const trainer::contract::SlurmResources&) {
    return std::nullopt;
  }
  // Nodes that the scheduler shows as dead now.
  [[nodiscard]] virtual std::vector<std::string> lost_nodes() { return {}; }
  // avoid, limit, stop and kill are requests that are carried out soon, and tried again while that
  // makes sense; trouble is logged. Asking again for what is under way adds nothing. What waits
  // under the handle shall not start on these nodes (names or hostlists); they replace what was
  // said before.
  virtual void avoid(const std::string&, const std::vector<std::string>&) {}
  // What was started under the handle shall have this time limit, in minutes.
  virtual void limit(const std::string&, std::int64_t) {}
  // How the newest limit() of the handle that was told came out, once. Nothing: not known so far,
  // or there are no limits.
  [[nodiscard]] virtual std::optional<LimitAnswer> take_limit_answer(const std::string&) {
    return std::nullopt;
  }
  // Asks for a checkpoint and an end (TERM). Nothing happens to what is already gone.
  virtual void stop(const std::string& handle) = 0;
  // Ends it and all that it started (KILL).
  virtual void kill(const std::string& handle) = 0;
  // A journal says that an attempt has ended: what the scheduler says of it is wanted soon.
  virtual void look_soon() {}
  // Nothing: nobody has to be asked. handle: of the launch whose end is told of; may be empty.
  [[nodiscard]] virtual std::optional<Contact> contact(const std::string&) { return std::nullopt; }
  // Nothing: nobody has to be asked. From any thread.
  [[nodiscard]] virtual std::optional<Asking> asking() { return std::nullopt; }
  // What is known is being read, so it is to be renewed soon.
  virtual void somebody_looks() {}
};

}  // namespace regatta::orchestrator::runs
