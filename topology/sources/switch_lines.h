// What the topology formats of Slurm have in common: lines of switches and blocks, made into a
// graph (inside the slurm_ readers only).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "topology/graph/graph.h"

namespace regatta::topology::sources {

struct SwitchLine {
  std::size_t line = 0;
  std::string name;
  std::string nodes;  // hostlists, empty when absent
  std::string switches;
  std::string description;
  bool is_block = false;
};

struct SlurmFabric {
  std::string name;    // "slurm"
  std::string prefix;  // of the names in the ids of switches
  std::size_t line = 0;
  std::vector<SwitchLine> lines;
  std::vector<std::int64_t> block_sizes;
  std::size_t block_sizes_line = 0;
  // scontrol lists below a switch all nodes, however deep, next to its switches.
  bool lists_all_nodes = false;
};

class SwitchReader {
 public:
  SwitchReader(std::string place, graph::Graph* graph);
  void add(const SlurmFabric& fabric);
  [[noreturn]] void refuse(std::size_t line, const std::string& why) const;

 private:
  class Fabric;
  [[nodiscard]] std::vector<std::string> expand(std::size_t line, const std::string& hostlist);

  std::string place_;
  graph::Graph& graph_;
  std::uint32_t source_;
  std::size_t names_left_;
};

// What messages quote of a text: its beginning.
[[nodiscard]] std::string shown(std::string_view text);

// "Key=value" words of a line, keys as they stand; a value may be in double quotes.
struct KeyValue {
  std::string key, value;
};
// Nothing when a word is none.
[[nodiscard]] std::optional<std::vector<KeyValue>> split_pairs(std::string_view line);

}  // namespace regatta::topology::sources
