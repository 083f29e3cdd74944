// The readers of topology.conf, topology.yaml and scontrol's view of them.
#include "topology/sources/slurm_topology.h"

#include <algorithm>

#include "base/ascii.h"
#include "base/document.h"
#include "base/text.h"
#include "topology/sources/switch_lines.h"

namespace regatta::topology::sources {
namespace {

using View = std::string_view;

// Lines without their comments; a backslash at the end joins the next one.
struct ConfLine {
  std::size_t number = 0;
  std::string text;
  std::string comment;  // of a line that is nothing else
};
std::vector<ConfLine> conf_lines(View text) {
  std::vector<ConfLine> lines;
  std::size_t number = 0;
  bool goes_on = false;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    View line = text.substr(at, end - at);
    at = end + 1;
    ++number;
    const std::size_t hash = line.find('#');
    const View comment = hash == View::npos ? View() : base::trimmed(line.substr(hash + 1));
    line = base::trimmed(line.substr(0, hash));
    const bool joins = !line.empty() && line.back() == '\\';
    if (joins) line.remove_suffix(1);
    if (goes_on) {
      lines.back().text += " " + std::string(line);
    } else {
      lines.push_back({number, std::string(line), line.empty() ? std::string(comment) : ""});
    }
    goes_on = joins;
  }
  return lines;
}

std::vector<std::int64_t> parse_sizes(const SwitchReader& reader, std::size_t line, View text) {
  std::vector<std::int64_t> sizes;
  for (const std::string& part : base::split(text, ',')) {
    const auto size = base::parse_integer(part);
    if (!size || *size < 1 || sizes.size() == 64) {
      reader.refuse(line, shown(text) + " is not a list of block sizes, like 4,8,16");
    }
    sizes.push_back(*size);
  }
  return sizes;
}

// A line of topology.conf.
void read_conf_line(const SwitchReader& reader, const ConfLine& line, SlurmFabric* fabric) {
  const auto pairs = split_pairs(line.text);
  if (!pairs) reader.refuse(line.number, shown(line.text) + " is not a list of Key=value");
  SwitchLine made;
  made.line = line.number;
  for (const KeyValue& pair : *pairs) {
    const std::string key = base::lower_case(pair.key);
    if (pair.value.empty()) reader.refuse(line.number, shown(pair.key) + " has no value");
    if (key == "switchname" || key == "blockname") {
      if (!made.name.empty()) reader.refuse(line.number, "two names in one line");
      made.name = pair.value;
      made.is_block = key == "blockname";
    } else if (key == "nodes") {
      made.nodes = pair.value;
    } else if (key == "switches") {
      made.switches = pair.value;
    } else if (key == "blocksizes") {
      fabric->block_sizes = parse_sizes(reader, line.number, pair.value);
      fabric->block_sizes_line = line.number;
      if (pairs->size() != 1) reader.refuse(line.number, "BlockSizes stands in a line of its own");
      return;
    } else if (key == "blocklevels") {
      reader.refuse(line.number, "BlockLevels is of Slurm 23.11; write BlockSizes=<sizes>");
    } else if (key != "linkspeed") {  // which Slurm reads, and does not use either
      const auto guess = base::closest(
          pair.key, {"SwitchName", "BlockName", "Nodes", "Switches", "LinkSpeed", "BlockSizes"});
      reader.refuse(line.number, "unknown key " + shown(pair.key) +
                                     (guess ? "; did you mean " + *guess + "?" : ""));
    }
  }
  if (made.name.empty()) reader.refuse(line.number, "names no switch and no block");
  if (made.is_block && !made.switches.empty())
    reader.refuse(line.number, "a block has no switches");
  fabric->lines.push_back(std::move(made));
}

// A line of `scontrol show topology`.
void read_scontrol_line(const SwitchReader& reader, std::size_t number, View line,
                        SlurmFabric* fabric) {
  const auto pairs = split_pairs(line);
  if (!pairs || pairs->empty()) {
    reader.refuse(number,
                  shown(line) +
                      " is not a line of scontrol show topology, or one that is cut off: unset "
                      "SLURM_TOPO_LEN and take it again");
  }
  SwitchLine made;
  made.line = number;
  std::optional<std::int64_t> level, size;
  bool aggregated = false;
  for (const KeyValue& pair : *pairs) {
    if (pair.key == "SwitchName" || pair.key == "BlockName") made.name = pair.value;
    if (pair.key == "BlockName") made.is_block = true;
    if (pair.key == "AggregatedBlock") aggregated = true;
    if (pair.key == "Nodes") made.nodes = pair.value;
    if (pair.key == "Switches") made.switches = pair.value;
    if (pair.key == "Level") level = base::parse_integer(pair.value);
    if (pair.key == "BlockSize") size = base::parse_integer(pair.value);
  }
  if (size && *size > 0 &&
      std::find(fabric->block_sizes.begin(), fabric->block_sizes.end(), *size) ==
          fabric->block_sizes.end() &&
      fabric->block_sizes.size() < 64) {
    fabric->block_sizes.push_back(*size);
    fabric->block_sizes_line = number;
  }
  if (aggregated) return;  // blocks again, several together
  if (made.name.empty()) reader.refuse(number, shown(line) + " names no switch and no block");
  if (!made.is_block && (!level || (*level > 0) == made.switches.empty())) {
    reader.refuse(number, "switch " + shown(made.name) +
                              (level ? " of level " + std::to_string(*level) +
                                           (*level > 0 ? " has no switches" : " has switches")
                                     : " has no level") +
                              "; the text is cut off: unset SLURM_TOPO_LEN and take it again");
  }
  fabric->lines.push_back(std::move(made));
}

}  // namespace

graph::Graph read_topology_conf(std::string_view text, const std::string& place) {
  graph::Graph graph;
  SwitchReader reader(place, &graph);
  SlurmFabric fabric;
  fabric.name = "slurm";
  std::string comment;
  for (const ConfLine& line : conf_lines(text)) {
    if (line.text.empty()) {
      comment = line.comment;
      continue;
    }
    read_conf_line(reader, line, &fabric);
    if (!fabric.lines.empty() && fabric.lines.back().line == line.number) {
      SwitchLine& made = fabric.lines.back();
      if (comment.rfind(made.name + "=", 0) == 0) {
        made.description = base::printable(comment.substr(made.name.size() + 1));
      }
    }
    comment.clear();
  }
  if (fabric.lines.empty()) {
    reader.refuse(0, "names no switch and no block; is it a topology.conf?");
  }
  reader.add(fabric);
  return graph;
}

graph::Graph read_scontrol_topology(std::string_view text, const std::string& place) {
  graph::Graph graph;
  SwitchReader reader(place, &graph);
  SlurmFabric fabric;
  fabric.name = "slurm";
  fabric.lists_all_nodes = true;
  std::size_t number = 0;
  for (const std::string& line : base::split(text, '\n')) {
    ++number;
    if (!base::trimmed(line).empty()) read_scontrol_line(reader, number, line, &fabric);
  }
  if (fabric.lines.empty()) {
    reader.refuse(0,
                  "names no switch and no block; Slurm has no topology plugin, or did not answer");
  }
  std::sort(fabric.block_sizes.begin(), fabric.block_sizes.end());
  reader.add(fabric);
  return graph;
}

namespace {

using base::Table;

void read_yaml_tree(Table tree, SlurmFabric* fabric) {
  for (Table& entry : tree.tables("switches")) {
    SwitchLine line;
    line.line = static_cast<std::size_t>(entry.line("switch"));
    entry.read("switch", &line.name);
    entry.read("children", &line.switches);
    entry.read("nodes", &line.nodes);
    if (line.name.empty()) entry.fail("switch", "expected the name of a switch");
    entry.finish();
    fabric->lines.push_back(std::move(line));
  }
  if (fabric->lines.empty()) tree.fail("switches", "expected a list of switches");
  tree.finish();
}

void read_yaml_block(const SwitchReader& reader, Table block, SlurmFabric* fabric) {
  std::vector<std::string> sizes;
  block.read("block_sizes", &sizes);
  fabric->block_sizes_line = static_cast<std::size_t>(block.line("block_sizes"));
  if (!sizes.empty()) {
    fabric->block_sizes = parse_sizes(reader, fabric->block_sizes_line, base::join(sizes, ","));
  }
  for (Table& entry : block.tables("blocks")) {
    SwitchLine line;
    line.is_block = true;
    line.line = static_cast<std::size_t>(entry.line("block"));
    entry.read("block", &line.name);
    entry.read("nodes", &line.nodes);
    if (line.name.empty()) entry.fail("block", "expected the name of a block");
    entry.finish();
    fabric->lines.push_back(std::move(line));
  }
  if (fabric->lines.empty()) block.fail("blocks", "expected a list of blocks");
  block.finish();
}

SlurmFabric read_yaml_topology(const SwitchReader& reader, Table& entry) {
  SlurmFabric fabric;
  entry.read("topology", &fabric.name);
  if (fabric.name.empty()) entry.fail("topology", "expected the name of a topology");
  fabric.prefix = fabric.name + "/";
  fabric.line = static_cast<std::size_t>(entry.line("topology"));
  bool is_default = false, flat = false;
  entry.read("cluster_default", &is_default);
  entry.read("flat", &flat);
  for (const char* const kind : {"ring", "torus3d"}) {
    if (entry.has(kind)) {
      entry.fail(kind, "this kind of topology is not understood; take this one out of the list");
    }
  }
  const int kinds = static_cast<int>(entry.has("tree")) + static_cast<int>(entry.has("block")) +
                    static_cast<int>(flat);
  if (kinds != 1) entry.fail("topology", "expected one of tree, block and flat: true in it");
  if (entry.has("tree")) read_yaml_tree(entry.table("tree"), &fabric);
  if (entry.has("block")) read_yaml_block(reader, entry.table("block"), &fabric);
  entry.finish();
  return fabric;
}

}  // namespace

graph::Graph read_topology_yaml(std::string_view text, const std::string& place) {
  graph::Graph graph;
  SwitchReader reader(place, &graph);
  std::vector<Table> entries = Table::parse_list(text, place);
  if (entries.empty()) reader.refuse(0, "names no topology; is it a topology.yaml?");
  for (Table& entry : entries) reader.add(read_yaml_topology(reader, entry));
  return graph;
}

}  // namespace regatta::topology::sources
