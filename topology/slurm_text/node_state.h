// States of nodes: one base word and any number of flags. Words that are not known are kept, since
// every release adds some. Words after the manual pages of sinfo and scontrol.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace regatta::topology::slurm_text {

enum class NodeBase { Unknown, Idle, Mixed, Allocated, Down, Error, Future };

enum class NodeFlag : std::uint32_t {
  Drain,
  NotResponding,
  Fail,
  Maintenance,
  Reserved,
  Completing,
  Planned,
  PoweringUp,
  PoweringDown,
  PoweredDown,
  RebootRequested,
  Invalid,
  Blocked,
  Cloud,
};

struct NodeState {
  NodeBase base = NodeBase::Unknown;
  std::uint32_t flags = 0;  // bits 1 << NodeFlag
  std::vector<std::string> unknown;
  std::string raw;

  [[nodiscard]] bool has(NodeFlag flag) const {
    return (flags >> static_cast<std::uint32_t>(flag) & 1U) != 0;
  }
};

// sinfo's compound words with their marks ("drained*", "mixed-", "idle~"), scontrol's lists
// ("IDLE+DRAIN+NOT_RESPONDING"), and lists whose words have marks ("DOWN*+DRAIN").
[[nodiscard]] NodeState parse_node_state(std::string_view text);
[[nodiscard]] std::string to_string(const NodeState& state);

// Whether the node may be given new work, now or when its present work ends. A node in an unknown
// state is not counted on.
[[nodiscard]] bool can_work(const NodeState& state);

}  // namespace regatta::topology::slurm_text
