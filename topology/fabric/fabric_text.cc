// The fabric as a tree for people (fabric_shape.h).
#include <algorithm>
#include <set>

#include "base/text.h"
#include "base/wording.h"
#include "topology/fabric/fabric_shape.h"
#include "topology/graph/hostlist.h"

namespace regatta::topology::fabric {
namespace {

std::string leaves_text(std::size_t count) {
  return std::to_string(count) + (count == 1 ? " leaf" : " leaves");
}

std::string figure(double value) {
  return value < 100 ? base::short_number(value, 3) : base::formatted("%.0f", value);
}

// Hostlists where the names allow it.
std::string listed(const graph::Graph& graph, const std::vector<graph::VertexIndex>& vertices) {
  std::vector<std::string> plain, odd;
  for (const graph::VertexIndex vertex : vertices) {
    std::string name = name_for_people(graph, vertex);
    const bool is_plain = !name.empty() && name.front() != '-' &&
                          name.find_first_not_of(
                              "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUV"
                              "WXYZ0123456789._-") == std::string::npos;
    (is_plain ? plain : odd).push_back(std::move(name));
  }
  std::string text = graph::compress_hosts(plain);
  for (const std::string& name : odd) text += (text.empty() ? "" : ",") + name;
  return text;
}

class Writer {
 public:
  Writer(const graph::Graph& graph, const FabricShape& shape) : graph_(graph), shape_(shape) {}

  std::string write() {
    for (const graph::VertexIndex fabric : graph_.of_kind(graph::Kind::Fabric))
      write_fabric(fabric);
    std::vector<graph::VertexIndex> apart;
    for (const graph::VertexIndex node : graph_.of_kind(graph::Kind::Node)) {
      if (!shape_.is_attached(node)) apart.push_back(node);
    }
    if (!apart.empty()) {
      out_ += base::plural(apart.size(), "node") + " on no known fabric: " + listed(graph_, apart) +
              "\n";
    }
    return out_;
  }

 private:
  void line(int depth, const std::string& text) {
    out_ += std::string(static_cast<std::size_t>(depth) * 2, ' ') + text + "\n";
  }

  void write_fabric(graph::VertexIndex fabric) {
    std::set<graph::VertexIndex> nodes;
    std::size_t switches = 0, adapters = 0, unnamed = 0;
    for (const SwitchShape& one : shape_.switches()) {
      if (one.fabric != fabric) continue;
      ++switches;
      adapters += static_cast<std::size_t>(one.adapters);
      unnamed += static_cast<std::size_t>(one.unnamed);
    }
    for (const FabricShape::Attachment& end : shape_.attachments()) {
      if (shape_.switches()[end.leaf].fabric == fabric && end.node != graph::kNoVertex) {
        nodes.insert(end.node);
      }
    }
    const auto& facts = graph_.vertex(fabric).facts;
    std::string kind = graph::text_of(graph_, facts, graph::key::kLinkLayer);
    if (kind.empty()) kind = graph::text_of(graph_, facts, graph::key::kTopology);
    std::string head = base::printable(graph_.vertex(fabric).id);
    if (!kind.empty()) head += " (" + base::printable(kind) + ")";
    head += ": " + base::plural(switches, "switch") + ", " + base::plural(nodes.size(), "node");
    if (adapters != nodes.size()) head += ", " + base::plural(adapters, "adapter");
    if (unnamed != 0) head += " (" + std::to_string(unnamed) + " of nodes that nobody named)";
    line(0, head);
    write_rails(fabric);
    for (const TierGroup& group : shape_.groups({fabric})) write_group(group, 1);
  }

  void write_rails(graph::VertexIndex fabric) {
    std::map<int, int> leaves;
    for (const SwitchShape& one : shape_.switches()) {
      if (one.fabric == fabric && one.rail) ++leaves[*one.rail];
    }
    for (const auto& [rail, count] : leaves) {
      line(1, "rail " + std::to_string(rail) + ": " +
                  base::printable(shape_.rails()[static_cast<std::size_t>(rail)]) + " on " +
                  leaves_text(static_cast<std::size_t>(count)));
    }
  }

  void write_group(const TierGroup& group, int depth) {
    if (group.level > 0) {
      line(depth, "level " + std::to_string(group.level) + ": " +
                      base::plural(group.switches.size(), "switch") + " " +
                      listed(graph_, group.switches));
    }
    const bool has_hosts = group.level == 0 || !group.nodes.empty() || group.unnamed != 0;
    if (has_hosts) write_leaves(group, depth + (group.level > 0 ? 1 : 0));
    for (const TierGroup& below : group.below) write_group(below, depth + 1);
  }

  // Leaves of one group that are alike share a line.
  void write_leaves(const TierGroup& group, int depth) {
    std::string nodes = base::plural(group.nodes.size(), "node");
    if (!group.nodes.empty()) nodes += " " + listed(graph_, group.nodes);
    if (group.unnamed != 0) nodes += ", " + std::to_string(group.unnamed) + " unnamed";
    std::map<std::string, std::vector<graph::VertexIndex>> alike;
    std::map<std::string, std::set<int>> rails;
    for (const graph::VertexIndex vertex : group.switches) {
      const SwitchShape& leaf = *shape_.find(vertex);
      const std::string figures = figures_of(leaf);
      alike[figures].push_back(vertex);
      if (leaf.rail) rails[figures].insert(*leaf.rail);
    }
    if (group.switches.size() == 1) {
      line(depth, listed(graph_, group.switches) + ": " + nodes + alike.begin()->first);
      return;
    }
    line(depth, nodes);
    for (const auto& [figures, leaves] : alike) {
      std::string text = leaves_text(leaves.size()) + " " + listed(graph_, leaves);
      std::string numbers;
      for (const int rail : rails[figures])
        numbers += (numbers.empty() ? "" : ",") + std::to_string(rail);
      if (!numbers.empty()) text += ", rail " + numbers;
      line(depth + 1, text + figures);
    }
  }

  static std::string figures_of(const SwitchShape& leaf) {
    std::string text;
    if (leaf.down_gb_per_s > 0) text += ", down " + figure(leaf.down_gb_per_s) + " GB/s";
    if (leaf.up_gb_per_s > 0) text += ", up " + figure(leaf.up_gb_per_s) + " GB/s";
    if (const auto over = leaf.oversubscription()) text += " (" + figure(*over) + ":1)";
    return text;
  }

  const graph::Graph& graph_;
  const FabricShape& shape_;
  std::string out_;
};

}  // namespace

std::string fabric_text(const graph::Graph& graph) {
  const FabricShape shape(graph);
  return Writer(graph, shape).write();
}

}  // namespace regatta::topology::fabric
