#include "topology/sources/switch_lines.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "topology/graph/hostlist.h"

namespace regatta::topology::sources {
namespace {

// All names of a text together: each node on every one of four levels of the largest cluster.
constexpr std::size_t kMostNames = 4 * graph::kMostHosts;

}  // namespace

std::string shown(std::string_view text) { return "'" + base::printable(text.substr(0, 80)) + "'"; }

SwitchReader::SwitchReader(std::string place, graph::Graph* graph)
    : place_(std::move(place)),
      graph_(*graph),
      source_(graph->add_source(graph::Source::Slurm, place_)),
      names_left_(kMostNames) {}

void SwitchReader::refuse(std::size_t line, const std::string& why) const {
  throw base::Error(base::Code::User,
                    place_ + (line == 0 ? "" : ":" + std::to_string(line)) + ": " + why);
}

std::vector<std::string> SwitchReader::expand(std::size_t line, const std::string& hostlist) {
  if (names_left_ == 0) {
    refuse(line, "more than " + std::to_string(kMostNames) + " names in one topology");
  }
  try {
    auto names = graph::expand_hostlist(hostlist, std::min(names_left_, graph::kMostHosts));
    names_left_ -= names.size();
    return names;
  } catch (const base::Error& error) {
    refuse(line, error.what());
  }
}

// One topology on its way into the graph.
class SwitchReader::Fabric {
 public:
  Fabric(SwitchReader& reader, const SlurmFabric& text) : reader_(reader), text_(text) {}

  void add() {
    graph::Graph& graph = reader_.graph_;
    check_lines();
    const std::string id = "fabric:" + text_.name;
    if (graph.find(id) != graph::kNoVertex) {
      reader_.refuse(text_.line, "a second topology " + shown(text_.name));
    }
    const graph::VertexIndex fabric = graph.add(graph::Kind::Fabric, id);
    const char* const kind = text_.lines.empty()            ? "flat"
                             : text_.lines.front().is_block ? "block"
                                                            : "tree";
    graph.set(fabric, graph::key::kTopology, std::string(kind), reader_.source_);
    add_sizes(fabric);
    for (const SwitchLine& line : text_.lines) {
      const graph::VertexIndex vertex =
          graph.add(graph::Kind::FabricSwitch, id_of(line.name), fabric);
      vertices_.push_back(vertex);
      graph.set(vertex, graph::key::kName, line.name, reader_.source_);
      if (!line.description.empty()) {
        graph.set(vertex, graph::key::kDescription, line.description, reader_.source_);
      }
    }
    find_levels();
    for (std::size_t i = 0; i < text_.lines.size(); ++i) add_links(i);
  }

 private:
  [[nodiscard]] std::string id_of(const std::string& name) const {
    return "switch:" + text_.prefix + name;
  }

  void check_lines() {
    for (std::size_t i = 0; i < text_.lines.size(); ++i) {
      const SwitchLine& line = text_.lines[i];
      const char* const what = line.is_block ? "block " : "switch ";
      if (line.is_block != text_.lines.front().is_block) {
        reader_.refuse(line.line, "switches and blocks in one topology; Slurm takes only one kind");
      }
      // A name is one that a hostlist can have, since that is how others name it.
      if (reader_.expand(line.line, line.name) != std::vector<std::string>{line.name}) {
        reader_.refuse(line.line, shown(line.name) + " is not the name of one switch");
      }
      if (!number_of_.emplace(line.name, i).second) {
        reader_.refuse(line.line, "a second " + std::string(what) + shown(line.name));
      }
      if (line.nodes.empty() && line.switches.empty()) {
        reader_.refuse(line.line,
                       std::string(what) + shown(line.name) +
                           (line.is_block ? " has no nodes" : " has neither nodes nor switches") +
                           "; if this is the output of scontrol, it may be cut off: "
                           "unset SLURM_TOPO_LEN");
      }
      if (!line.nodes.empty() && !line.switches.empty() && !text_.lists_all_nodes) {
        reader_.refuse(line.line, "switch " + shown(line.name) +
                                      " has nodes and switches; Slurm takes only one of them");
      }
    }
    // Last, since a switch may be named before its own line.
    below_.resize(text_.lines.size());
    for (std::size_t i = 0; i < text_.lines.size(); ++i) {
      const SwitchLine& line = text_.lines[i];
      if (line.switches.empty()) continue;
      for (const std::string& name : reader_.expand(line.line, line.switches)) {
        const auto found = number_of_.find(name);
        if (found == number_of_.end()) {
          reader_.refuse(line.line, "switch " + shown(line.name) + " has the switch " +
                                        shown(name) + ", which has no line of its own");
        }
        below_[i].push_back(found->second);
      }
    }
  }

  void add_sizes(graph::VertexIndex fabric) {
    const auto& sizes = text_.block_sizes;
    if (sizes.empty()) return;
    std::string listed;
    for (const std::int64_t size : sizes) {
      std::int64_t times = size > 0 && sizes[0] > 0 && size % sizes[0] == 0 ? size / sizes[0] : 0;
      if (times == 0 || (times & (times - 1)) != 0) {
        reader_.refuse(text_.block_sizes_line, "block size " + std::to_string(size) +
                                                   " is not a power of two times " +
                                                   std::to_string(sizes[0]) + ", the first one");
      }
      listed += (listed.empty() ? "" : ",") + std::to_string(size);
    }
    reader_.graph_.set(fabric, graph::key::kBlockSizes, listed, reader_.source_);
  }

  // 0 for a leaf, else one more than the highest switch below. Refuses rings.
  void find_levels() {
    std::vector<int> level(text_.lines.size(), -1);
    std::vector<bool> open(text_.lines.size(), false);
    std::vector<std::pair<std::size_t, std::size_t>> stack;  // switch, its next child
    for (std::size_t start = 0; start < text_.lines.size(); ++start) {
      if (level[start] < 0) stack.emplace_back(start, 0);
      while (!stack.empty()) {
        auto& [one, next] = stack.back();
        open[one] = true;
        if (next == below_[one].size()) {
          int highest = -1;
          for (const std::size_t child : below_[one]) highest = std::max(highest, level[child]);
          level[one] = highest + 1;
          open[one] = false;
          stack.pop_back();
          continue;
        }
        const std::size_t child = below_[one][next++];
        if (open[child]) {
          reader_.refuse(text_.lines[child].line,
                         "switch " + shown(text_.lines[child].name) + " is below itself");
        }
        if (level[child] < 0) stack.emplace_back(child, 0);
      }
    }
    for (std::size_t i = 0; i < level.size(); ++i) {
      reader_.graph_.set(vertices_[i], graph::key::kLevel, std::int64_t{level[i]}, reader_.source_);
    }
  }

  void add_links(std::size_t number) {
    graph::Graph& graph = reader_.graph_;
    const SwitchLine& line = text_.lines[number];
    for (const std::size_t child : below_[number]) {
      graph.connect(graph::LinkKind::Fabric, vertices_[number], vertices_[child]);
    }
    const auto names =
        line.nodes.empty() ? std::vector<std::string>{} : reader_.expand(line.line, line.nodes);
    if (below_[number].empty()) {
      for (const std::string& name : names) {
        graph.connect(graph::LinkKind::Fabric, vertices_[number],
                      graph.add(graph::Kind::Node, name));
      }
      return;
    }
    for (const std::string& name : names) upper_nodes_[number].insert(name);
  }

 public:
  // What scontrol lists below an upper switch must be what the switches below it have: a hostlist
  // that is cut off between two names is one, too.
  void check_upper_nodes() const {
    for (const auto& [number, names] : upper_nodes_) {
      std::set<std::string> found;
      std::vector<std::size_t> open = {number};
      std::set<std::size_t> seen;
      while (!open.empty()) {
        const std::size_t one = open.back();
        open.pop_back();
        if (!seen.insert(one).second) continue;
        open.insert(open.end(), below_[one].begin(), below_[one].end());
        if (!below_[one].empty()) continue;
        for (const std::string& name : graph::expand_hostlist(text_.lines[one].nodes))
          found.insert(name);
      }
      if (found == names) continue;
      reader_.refuse(text_.lines[number].line,
                     "switch " + shown(text_.lines[number].name) + " lists " +
                         std::to_string(names.size()) + " nodes, and the switches below it " +
                         std::to_string(found.size()) +
                         "; the text is cut off: unset SLURM_TOPO_LEN and take it again");
    }
  }

 private:
  SwitchReader& reader_;
  const SlurmFabric& text_;
  std::map<std::string, std::size_t> number_of_;  // of lines, by name
  std::vector<std::vector<std::size_t>> below_;
  std::vector<graph::VertexIndex> vertices_;
  std::map<std::size_t, std::set<std::string>> upper_nodes_;
};

void SwitchReader::add(const SlurmFabric& fabric) {
  Fabric made(*this, fabric);
  made.add();
  made.check_upper_nodes();
}

std::optional<std::vector<KeyValue>> split_pairs(std::string_view line) {
  std::vector<KeyValue> pairs;
  std::size_t at = 0;
  while (true) {
    at = line.find_first_not_of(" \t\r", at);
    if (at == std::string_view::npos) return pairs;
    const std::size_t equals = line.find('=', at);
    if (equals == std::string_view::npos || equals == at) return std::nullopt;
    const std::string_view key = line.substr(at, equals - at);
    if (key.find_first_of(" \t\"") != std::string_view::npos) return std::nullopt;
    std::size_t start = equals + 1;
    const bool quoted = start < line.size() && line[start] == '"';
    if (quoted) ++start;
    const std::size_t end =
        quoted ? line.find('"', start) : std::min(line.find_first_of(" \t\r", start), line.size());
    if (end == std::string_view::npos) return std::nullopt;
    pairs.push_back({std::string(key), std::string(line.substr(start, end - start))});
    at = end + (quoted ? 1 : 0);
  }
}

}  // namespace regatta::topology::sources
