// States of jobs: one base word and any number of flags. Words that are not known are
// kept, since every release adds some. Words after the manual pages of squeue and sacct.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace regatta::orchestrator::slurm {

enum class JobBase {
  Unknown,  // only flags, or no word that is known
  Pending,
  Running,
  Suspended,
  Completed,
  Cancelled,
  Failed,
  Timeout,
  NodeFail,
  Preempted,
  BootFail,
  Deadline,
  OutOfMemory,
};

enum class JobFlag : std::uint32_t {
  Completing,
  Configuring,
  Expediting,
  LaunchFailed,
  PowerUpNode,
  ReconfigFail,
  Requeued,
  RequeueFed,
  RequeueHold,
  Resizing,
  ReservationDeletedHold,
  Revoked,
  Signaling,
  SpecialExit,
  StageOut,
  Stopped,
  UpdateDb,
};

struct JobState {
  JobBase base = JobBase::Unknown;
  std::uint32_t flags = 0;           // bits 1 << JobFlag
  std::vector<std::string> unknown;  // words that are neither
  std::string raw;                   // as Slurm gave it

  [[nodiscard]] bool has(JobFlag flag) const {
    return (flags >> static_cast<std::uint32_t>(flag) & 1U) != 0;
  }
};

// "RUNNING", "COMPLETING" (squeue shows one word, and a flag hides the base), "CANCELLED by 1000"
// (sacct), "RUNNING+COMPLETING" (newer releases).
[[nodiscard]] JobState parse_job_state(std::string_view text);

// "RUNNING", "COMPLETED+COMPLETING", "UNKNOWN(WARPED)".
[[nodiscard]] std::string to_string(const JobState& state);

enum class JobPhase {
  Unknown,
  Waiting,  // also after a requeue
  Running,  // it has its nodes: starting, running, suspended
  Ending,   // its nodes are being freed: what comes after is not known yet
  Ended,
};

// What the state of the queue (squeue, scontrol) means. An accounting record with Requeued is one
// whose execution has ended; see ended_in_accounting().
[[nodiscard]] JobPhase phase(const JobState& state);
[[nodiscard]] bool ended_in_accounting(const JobState& state);
[[nodiscard]] constexpr bool has_nodes(JobPhase phase) {
  return phase == JobPhase::Running || phase == JobPhase::Ending;
}

}  // namespace regatta::orchestrator::slurm
