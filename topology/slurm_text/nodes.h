// What Slurm says of its nodes: `scontrol show node`, in one line a node (-o) or in several.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "topology/slurm_text/node_state.h"
#include "topology/slurm_text/values.h"

namespace regatta::topology::slurm_text {

// Whatever Slurm did not say, or said so that it cannot be read, is absent.
struct NodeRecord {
  std::string name;  // as Slurm has it; nothing is expanded or checked
  NodeState state;
  std::optional<std::string> reason;  // why it is down or drained, in the operator's words
  std::optional<std::int64_t> cpus;
  std::optional<std::int64_t> cpus_allocated;
  std::optional<double> memory_bytes;  // whole, below 2^62
  std::optional<double> memory_free_bytes;
  std::optional<double> load;
  std::optional<Gpus> gpus;
  std::optional<std::int64_t> gpus_allocated;  // scontrol only
  std::vector<std::string> features;           // active ones
  std::vector<std::string> partitions;
};

// A node's text, or a line that is of no node.
struct NodeText {
  std::size_t line = 0;              // its first, from 1
  std::string_view begin;            // that line, a view of what was read
  bool is_node = false;              // it begins with NodeName=
  std::string name;                  // of a node, also of one without a record
  std::optional<NodeRecord> record;  // absent: no name or no state, so the text is cut off
};

// In the order of the text. A line "NodeName=…" begins a node. An indented line goes on with it
// (its values, or its reason); so does any other line behind a node that has a text of people
// (Reason, Comment, Extra), which may hold line breaks. Empty lines are passed over.
//
// Those texts stand behind all that Slurm itself says, so they cannot speak for it; a key that
// comes twice before them is absent.
[[nodiscard]] std::vector<NodeText> read_nodes(std::string_view text);

}  // namespace regatta::topology::slurm_text
