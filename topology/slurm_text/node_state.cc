#include "topology/slurm_text/node_state.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/ascii.h"
#include "topology/slurm_text/state_words.h"

namespace regatta::topology::slurm_text {
namespace {

constexpr StateWord<NodeBase> kNodeBases[] = {
    {"IDLE", NodeBase::Idle}, {"MIXED", NodeBase::Mixed}, {"ALLOCATED", NodeBase::Allocated},
    {"DOWN", NodeBase::Down}, {"ERROR", NodeBase::Error}, {"FUTURE", NodeBase::Future},
};

constexpr StateWord<NodeFlag> kNodeFlags[] = {
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
constexpr StateWord<NodeFlag> kMarks[] = {
    {"*", NodeFlag::NotResponding},   {"~", NodeFlag::PoweredDown},
    {"#", NodeFlag::PoweringUp},      {"!", NodeFlag::PoweringDown},
    {"%", NodeFlag::PoweringDown},    {"$", NodeFlag::Maintenance},
    {"@", NodeFlag::RebootRequested}, {"^", NodeFlag::RebootRequested},
    {"-", NodeFlag::Planned},
};

}  // namespace

std::vector<std::string> state_words(std::string_view text) {
  std::string spaced(text);
  std::replace(spaced.begin(), spaced.end(), ',', '+');
  std::vector<std::string> out;
  for (std::string& word : base::split(spaced, '+')) {
    if (!word.empty()) out.push_back(std::move(word));
  }
  return out;
}

NodeState parse_node_state(std::string_view text) {
  NodeState state;
  text = text.substr(0, kMostStateBytes);
  state.raw = std::string(text);
  const std::vector<std::string> all = state_words(text);
  for (std::string word : all) {
    while (!word.empty()) {
      const auto* mark = find_word(kMarks, std::string_view(word).substr(word.size() - 1));
      if (mark == nullptr) break;
      state.flags |= flag_bit(mark->value);
      word.pop_back();
    }
    if (word.empty()) continue;
    const std::string name = base::upper_case(word);
    const auto* const compound =
        std::find_if(std::begin(kCompounds), std::end(kCompounds),
                     [&](const Compound& one) { return one.name == name; });
    if (const auto* base = find_word(kNodeBases, name)) {
      state.base = base->value;
    } else if (compound != std::end(kCompounds) && all.size() == 1) {
      state.base = compound->base;  // alone it is sinfo's, which hides the base
      state.flags |= flag_bit(compound->flag);
    } else if (const auto* flag = find_word(kNodeFlags, name)) {
      state.flags |= flag_bit(flag->value);
    } else {
      state.unknown.push_back(word);
    }
  }
  return state;
}

std::string to_string(const NodeState& state) {
  return state_text(name_of(kNodeBases, state.base), state.flags, kNodeFlags, state.unknown);
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

}  // namespace regatta::topology::slurm_text
