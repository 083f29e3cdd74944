#include "orchestrator/slurm/slurm_state.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "base/text.h"

namespace regatta::orchestrator::slurm {
namespace {

constexpr std::size_t kMostStateBytes = 256;

template <class T>
struct Word {
  std::string_view name;
  T value;
};

constexpr Word<JobBase> kJobBases[] = {
    {"PENDING", JobBase::Pending},     {"RUNNING", JobBase::Running},
    {"SUSPENDED", JobBase::Suspended}, {"COMPLETED", JobBase::Completed},
    {"CANCELLED", JobBase::Cancelled}, {"FAILED", JobBase::Failed},
    {"TIMEOUT", JobBase::Timeout},     {"NODE_FAIL", JobBase::NodeFail},
    {"PREEMPTED", JobBase::Preempted}, {"BOOT_FAIL", JobBase::BootFail},
    {"DEADLINE", JobBase::Deadline},   {"OUT_OF_MEMORY", JobBase::OutOfMemory},
};

constexpr Word<JobFlag> kJobFlags[] = {
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

constexpr Word<NodeBase> kNodeBases[] = {
    {"IDLE", NodeBase::Idle}, {"MIXED", NodeBase::Mixed}, {"ALLOCATED", NodeBase::Allocated},
    {"DOWN", NodeBase::Down}, {"ERROR", NodeBase::Error}, {"FUTURE", NodeBase::Future},
};

constexpr Word<NodeFlag> kNodeFlags[] = {
    {"DRAIN", NodeFlag::Drain},
    {"NOT_RESPONDING", NodeFlag::NotResponding},
    {"NO_RESPOND", NodeFlag::NotResponding},
    {"FAIL", NodeFlag::Fail},
    {"MAINTENANCE", NodeFlag::Maintenance},
    {"MAINT", NodeFlag::Maintenance},
    {"RESERVED", NodeFlag::Reserved},
    {"COMPLETING", NodeFlag::Completing},
    {"PLANNED", NodeFlag::Planned},
    {"POWERING_UP", NodeFlag::PoweringUp},
    {"POWER_UP", NodeFlag::PoweringUp},
    {"POWERING_DOWN", NodeFlag::PoweringDown},
    {"POWER_DOWN", NodeFlag::PoweringDown},
    {"POWER_DRAIN", NodeFlag::PoweringDown},
    {"POWERED_DOWN", NodeFlag::PoweredDown},
    {"REBOOT_REQUESTED", NodeFlag::RebootRequested},
    {"REBOOT_ISSUED", NodeFlag::RebootRequested},
    {"REBOOT", NodeFlag::RebootRequested},
    {"INVALID_REG", NodeFlag::Invalid},
    {"INVAL", NodeFlag::Invalid},
    {"BLOCKED", NodeFlag::Blocked},
    {"CLOUD", NodeFlag::Cloud},
};

// sinfo's words for combinations, and the base they stand for where it is known.
struct Compound {
  std::string_view name;
  NodeBase base;
  NodeFlag flag;
};
constexpr Compound kCompounds[] = {
    {"DRAINED", NodeBase::Idle, NodeFlag::Drain},
    {"DRAINING", NodeBase::Allocated, NodeFlag::Drain},
    {"FAILING", NodeBase::Allocated, NodeFlag::Fail},
    {"MAINT", NodeBase::Idle, NodeFlag::Maintenance},
    {"RESERVED", NodeBase::Idle, NodeFlag::Reserved},
    {"PLANNED", NodeBase::Idle, NodeFlag::Planned},
    {"COMPLETING", NodeBase::Allocated, NodeFlag::Completing},
};

// The marks behind sinfo's words (manual page, NODE STATE CODES).
constexpr Word<NodeFlag> kMarks[] = {
    {"*", NodeFlag::NotResponding},   {"~", NodeFlag::PoweredDown},
    {"#", NodeFlag::PoweringUp},      {"!", NodeFlag::PoweringDown},
    {"%", NodeFlag::PoweringDown},    {"$", NodeFlag::Maintenance},
    {"@", NodeFlag::RebootRequested}, {"^", NodeFlag::RebootRequested},
    {"-", NodeFlag::Planned},
};

template <class T, std::size_t N>
const Word<T>* find(const Word<T> (&words)[N], std::string_view name) {
  for (const Word<T>& word : words) {
    if (word.name == name) return &word;
  }
  return nullptr;
}

template <class T, std::size_t N>
std::string_view name_of(const Word<T> (&words)[N], T value) {
  for (const Word<T>& word : words) {
    if (word.value == value) return word.name;
  }
  return {};
}

template <class F>
std::uint32_t bit(F flag) {
  return 1U << static_cast<std::uint32_t>(flag);
}

std::string upper(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return out;
}

std::vector<std::string> words(std::string_view text) {
  std::string spaced(text);
  std::replace(spaced.begin(), spaced.end(), ',', '+');
  std::vector<std::string> out;
  for (std::string& word : base::split(spaced, '+')) {
    if (!word.empty()) out.push_back(std::move(word));
  }
  return out;
}

// The known flags in the order of the table, then "UNKNOWN(word)".
template <class F, std::size_t N>
std::string text_of(std::string_view base, std::uint32_t flags, const Word<F> (&table)[N],
                    const std::vector<std::string>& unknown) {
  std::vector<std::string> parts;
  if (!base.empty()) parts.emplace_back(base);
  for (const Word<F>& word : table) {
    if ((flags & bit(word.value)) == 0) continue;
    flags &= ~bit(word.value);  // a flag may have several words
    parts.emplace_back(word.name);
  }
  for (const std::string& word : unknown) parts.push_back("UNKNOWN(" + base::printable(word) + ")");
  return parts.empty() ? "UNKNOWN" : base::join(parts, "+");
}

}  // namespace

JobState parse_job_state(std::string_view text) {
  JobState state;
  text = text.substr(0, kMostStateBytes);
  state.raw = std::string(text);
  std::string_view rest = text;
  if (rest.substr(0, 13) == "CANCELLED by ") rest = rest.substr(0, 9);
  for (const std::string& word : words(rest)) {
    const std::string name = upper(word);
    if (const auto* base = find(kJobBases, name)) {
      state.base = base->value;
    } else if (const auto* flag = find(kJobFlags, name)) {
      state.flags |= bit(flag->value);
    } else {
      state.unknown.push_back(word);
    }
  }
  return state;
}

std::string to_string(const JobState& state) {
  return text_of(name_of(kJobBases, state.base), state.flags, kJobFlags, state.unknown);
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

NodeState parse_node_state(std::string_view text) {
  NodeState state;
  text = text.substr(0, kMostStateBytes);
  state.raw = std::string(text);
  while (!text.empty()) {
    const auto* mark = find(kMarks, text.substr(text.size() - 1));
    if (mark == nullptr) break;
    state.flags |= bit(mark->value);
    text.remove_suffix(1);
  }
  const std::vector<std::string> all = words(text);
  for (const std::string& word : all) {
    const std::string name = upper(word);
    const auto* const compound =
        std::find_if(std::begin(kCompounds), std::end(kCompounds),
                     [&](const Compound& one) { return one.name == name; });
    if (const auto* base = find(kNodeBases, name)) {
      state.base = base->value;
    } else if (compound != std::end(kCompounds) && all.size() == 1) {
      state.base = compound->base;  // alone it is sinfo's, which hides the base
      state.flags |= bit(compound->flag);
    } else if (const auto* flag = find(kNodeFlags, name)) {
      state.flags |= bit(flag->value);
    } else {
      state.unknown.push_back(word);
    }
  }
  return state;
}

std::string to_string(const NodeState& state) {
  return text_of(name_of(kNodeBases, state.base), state.flags, kNodeFlags, state.unknown);
}

bool can_work(const NodeState& state) {
  if (state.base != NodeBase::Idle && state.base != NodeBase::Mixed &&
      state.base != NodeBase::Allocated) {
    return false;
  }
  for (const NodeFlag flag :
       {NodeFlag::Drain, NodeFlag::NotResponding, NodeFlag::Fail, NodeFlag::Maintenance,
        NodeFlag::PoweringDown, NodeFlag::RebootRequested, NodeFlag::Invalid, NodeFlag::Blocked}) {
    if (state.has(flag)) return false;
  }
  return true;
}

}  // namespace regatta::orchestrator::slurm
