#include "orchestrator/slurm/slurm_state.h"

#include "base/ascii.h"
#include "topology/slurm_text/state_words.h"

namespace regatta::orchestrator::slurm {

using topology::slurm_text::find_word;
using topology::slurm_text::flag_bit;
using topology::slurm_text::name_of;
using topology::slurm_text::state_text;
using topology::slurm_text::state_words;
using topology::slurm_text::StateWord;

namespace {

constexpr StateWord<JobBase> kJobBases[] = {
    {"PENDING", JobBase::Pending},     {"RUNNING", JobBase::Running},
    {"SUSPENDED", JobBase::Suspended}, {"COMPLETED", JobBase::Completed},
    {"CANCELLED", JobBase::Cancelled}, {"FAILED", JobBase::Failed},
    {"TIMEOUT", JobBase::Timeout},     {"NODE_FAIL", JobBase::NodeFail},
    {"PREEMPTED", JobBase::Preempted}, {"BOOT_FAIL", JobBase::BootFail},
    {"DEADLINE", JobBase::Deadline},   {"OUT_OF_MEMORY", JobBase::OutOfMemory},
};

constexpr StateWord<JobFlag> kJobFlags[] = {
    {"COMPLETING", JobFlag::Completing},
    {"CONFIGURING", JobFlag::Configuring},
    {"EXPEDITING", JobFlag::Expediting},
    {"LAUNCH_FAILED", JobFlag::LaunchFailed},
    {"POWER_UP_NODE", JobFlag::PowerUpNode},
    {"RECONFIG_FAIL", JobFlag::ReconfigFail},
    {"REQUEUED", JobFlag::Requeued},
    {"REQUEUE_FED", JobFlag::RequeueFed},
    {"REQUEUE_HOLD", JobFlag::RequeueHold},
    {"RESIZING", JobFlag::Resizing},
    {"RESV_DEL_HOLD", JobFlag::ReservationDeletedHold},
    {"REVOKED", JobFlag::Revoked},
    {"SIGNALING", JobFlag::Signaling},
    {"SPECIAL_EXIT", JobFlag::SpecialExit},
    {"STAGE_OUT", JobFlag::StageOut},
    {"STOPPED", JobFlag::Stopped},
    {"UPDATE_DB", JobFlag::UpdateDb},
};

}  // namespace

JobState parse_job_state(std::string_view text) {
  JobState state;
  text = text.substr(0, topology::slurm_text::kMostStateBytes);
  state.raw = std::string(text);
  std::string_view rest = text;
  if (rest.substr(0, 13) == "CANCELLED by ") rest = rest.substr(0, 9);
  for (const std::string& word : state_words(rest)) {
    const std::string name = base::upper_case(word);
    if (const auto* base = find_word(kJobBases, name)) {
      state.base = base->value;
    } else if (const auto* flag = find_word(kJobFlags, name)) {
      state.flags |= flag_bit(flag->value);
    } else {
      state.unknown.push_back(word);
    }
  }
  return state;
}

std::string to_string(const JobState& state) {
  return state_text(name_of(kJobBases, state.base), state.flags, kJobFlags, state.unknown);
}

JobPhase phase(const JobState& state) {
  for (const JobFlag flag : {JobFlag::Completing, JobFlag::StageOut}) {
    if (state.has(flag)) return JobPhase::Ending;
  }
  for (const JobFlag flag :
       {JobFlag::Requeued, JobFlag::RequeueFed, JobFlag::RequeueHold, JobFlag::SpecialExit,
        JobFlag::ReservationDeletedHold, JobFlag::Expediting}) {
    if (state.has(flag)) return JobPhase::Waiting;
  }
  if (state.has(JobFlag::Revoked)) return JobPhase::Ended;
  switch (state.base) {
    case JobBase::Pending:
      return JobPhase::Waiting;
    case JobBase::Running:
    case JobBase::Suspended:
      return JobPhase::Running;
    case JobBase::Unknown:
      break;
    default:
      return JobPhase::Ended;
  }
  for (const JobFlag flag : {JobFlag::Configuring, JobFlag::PowerUpNode, JobFlag::Resizing,
                             JobFlag::Signaling, JobFlag::Stopped}) {
    if (state.has(flag)) return JobPhase::Running;
  }
  return JobPhase::Unknown;
}

bool ended_in_accounting(const JobState& state) {
  if (state.has(JobFlag::Requeued) || state.has(JobFlag::Revoked)) return true;
  return state.base != JobBase::Unknown && state.base != JobBase::Pending &&
         state.base != JobBase::Running && state.base != JobBase::Suspended;
}

}  // namespace regatta::orchestrator::slurm
