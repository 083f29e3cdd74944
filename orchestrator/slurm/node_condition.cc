#include "orchestrator/slurm/node_condition.h"

#include "base/text.h"

namespace regatta::orchestrator::slurm {
namespace {

const char* base_word(NodeBase base) {
  switch (base) {
    case NodeBase::Idle:
      return "idle";
    case NodeBase::Mixed:
      return "mixed";
    case NodeBase::Allocated:
      return "allocated";
    case NodeBase::Down:
      return "down";
    case NodeBase::Error:
      return "error";
    case NodeBase::Future:
      return "future";
    case NodeBase::Unknown:
      break;
  }
  return "unknown";
}

// States that a flag decides, whatever the base; the first that holds counts.
struct FlagRow {
  NodeFlag flag;
  const char* word;
  const char* action;
};
constexpr FlagRow kFlags[] = {
    {NodeFlag::Invalid, "invalid",
     "it has less than slurm.conf says: correct one of the two and restart slurmd there"},
    {NodeFlag::PoweringDown, "powering down", ""},
    {NodeFlag::RebootRequested, "rebooting", ""},
    {NodeFlag::Maintenance, "maintenance",
     "nothing until its reservation ends ('scontrol show reservation')"},
    {NodeFlag::Fail, "failing", "see its reason; Slurm gives it no new jobs"},
    {NodeFlag::NotResponding, "not responding",
     "if it lasts, see that the machine is on and slurmd runs there"},
    {NodeFlag::Blocked, "blocked", "it waits for another node's job that has both exclusively"},
    {NodeFlag::PoweredDown, "powered down", ""},  // Slurm starts it when a job needs it
    {NodeFlag::PoweringUp, "powering up", ""},
    {NodeFlag::Reserved, "reserved", ""},
    {NodeFlag::Completing, "completing", ""},
};

const FlagRow* flag_of(const NodeState& state) {
  for (const FlagRow& row : kFlags) {
    if (state.has(row.flag)) return &row;
  }
  return nullptr;
}

bool is_dead(const NodeState& state) {
  return state.base == NodeBase::Down || state.base == NodeBase::Error;
}

}  // namespace

std::string word_of(const NodeState& state) {
  const bool drains = state.has(NodeFlag::Drain);
  if (is_dead(state)) return std::string(base_word(state.base)) + (drains ? ", drained" : "");
  if (drains) return state.base == NodeBase::Idle ? "drained" : "draining";
  const FlagRow* const flag = flag_of(state);
  return flag != nullptr ? flag->word : base_word(state.base);
}

NodeCondition condition_of(const NodeRow& node) {
  const NodeState& state = node.state;
  const std::string word = word_of(state);
  const std::string resume =
      "'scontrol update nodename=" + base::printable(node.name) + " state=resume'";
  if (is_dead(state) && state.has(NodeFlag::NotResponding)) {
    return {word, "see that the machine is on and slurmd runs there; if it stays so, " + resume};
  }
  if (is_dead(state) || word == "drained") return {word, "once it is well, " + resume};
  if (state.has(NodeFlag::Drain)) {
    return {word, "its jobs end as they are; once it is well, " + resume};
  }
  if (const FlagRow* const flag = flag_of(state)) return {word, flag->action};
  if (state.base == NodeBase::Unknown) {
    return {word, "'scontrol show node " + base::printable(node.name) + "' says more"};
  }
  return {word, ""};
}

}  // namespace regatta::orchestrator::slurm
