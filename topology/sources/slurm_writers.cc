// The writers of slurm_topology.h. All start from the same tree of tiers.
#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "topology/fabric/fabric_shape.h"
#include "topology/graph/hostlist.h"
#include "topology/sources/slurm_topology.h"

namespace regatta::topology::sources {
namespace {

constexpr std::size_t kMostRealNames = 8;  // in the comment of one switch
// Of topograph; from the tier next to the node upwards.
constexpr const char* kTierLabels[] = {"leaf", "spine", "core"};
constexpr const char* kLabelPrefix = "network.topology.nvidia.com/";

// A switch as Slurm is to see it: one of ours, or several that serve the same nodes.
struct SlurmSwitch {
  std::string name;
  std::string real;  // what it stands for, where its name is another one
  int level = 0;
  std::vector<std::string> nodes;
  std::vector<std::size_t> below;  // in SlurmTree::switches, all before this one
};

struct SlurmTree {
  std::vector<SlurmSwitch> switches;
  std::vector<std::size_t> roots;
  std::string block_sizes;  // that Slurm has for this fabric
};

bool is_slurm_name(const std::string& name) {
  try {
    return graph::expand_hostlist(name, 1) == std::vector<std::string>{name};
  } catch (const base::Error&) {
    return false;
  }
}

class TreeMaker {
 public:
  explicit TreeMaker(const graph::Graph& graph) : graph_(graph), shape_(graph) {}

  SlurmTree make() {
    const auto chosen = fabrics();
    const auto groups = shape_.groups(chosen);
    if (chosen.size() == 1) {
      tree_.block_sizes =
          graph::text_of(graph_, graph_.vertex(chosen[0]).facts, graph::key::kBlockSizes);
    }
    for (const fabric::TierGroup& group : groups) collect_names(group);
    for (const fabric::TierGroup& group : groups) {
      const std::size_t made = add(group);
      if (made != kNone) tree_.roots.push_back(made);
    }
    if (tree_.switches.empty()) {
      throw base::Error(base::Code::User,
                        "no fabric of this graph has a node, so there is no tree for Slurm; read "
                        "ibnetdiscover of a node whose port is active");
    }
    return std::move(tree_);
  }

 private:
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

  [[nodiscard]] bool is_of_slurm(graph::VertexIndex fabric) const {
    const auto& facts = graph_.vertex(fabric).facts;
    return std::any_of(facts.begin(), facts.end(), [this](const graph::Fact& fact) {
      return graph_.sources()[fact.source].source == graph::Source::Slurm;
    });
  }

  // Discovered ones before what somebody wrote by hand; of Slurm's own, one: others are other views
  // of the same nodes.
  [[nodiscard]] std::vector<graph::VertexIndex> fabrics() const {
    std::vector<graph::VertexIndex> found, of_slurm;
    for (const graph::VertexIndex fabric : graph_.of_kind(graph::Kind::Fabric)) {
      (is_of_slurm(fabric) ? of_slurm : found).push_back(fabric);
    }
    if (!found.empty() || of_slurm.empty()) return found;
    const auto has_nodes = [this](graph::VertexIndex fabric) {
      return std::any_of(shape_.attachments().begin(), shape_.attachments().end(),
                         [&](const fabric::FabricShape::Attachment& end) {
                           return shape_.switches()[end.leaf].fabric == fabric;
                         });
    };
    const auto first = std::find_if(of_slurm.begin(), of_slurm.end(), has_nodes);
    return {first == of_slurm.end() ? of_slurm.front() : *first};
  }

  // Names that stay as they are, so that no made-up one is the same.
  void collect_names(const fabric::TierGroup& group) {
    if (group.switches.size() == 1) {
      const std::string name = fabric::name_for_people(graph_, group.switches.front());
      if (is_slurm_name(name)) ++own_names_[name];
    }
    for (const fabric::TierGroup& below : group.below) collect_names(below);
  }

  void name(const fabric::TierGroup& group, SlurmSwitch* made) {
    std::vector<std::string> real;
    for (const graph::VertexIndex vertex : group.switches) {
      real.push_back(fabric::name_for_people(graph_, vertex));
    }
    if (real.size() == 1) {
      made->real = base::printable(graph::text_of(
          graph_, graph_.vertex(group.switches.front()).facts, graph::key::kDescription));
      if (own_names_.count(real[0]) != 0 && own_names_[real[0]] == 1) {
        made->name = real[0];
        return;
      }
    }
    const std::string prefix = group.level == 0   ? "leaf"
                               : group.level == 1 ? "spine"
                                                  : "level" + std::to_string(group.level) + "-";
    do {
      made->name = prefix + std::to_string(++numbers_[group.level]);
    } while (own_names_.count(made->name) != 0);
    const std::size_t count = real.size();
    if (count > kMostRealNames) real.resize(kMostRealNames);
    made->real = base::join(real, ",");
    if (count > real.size()) made->real += " and " + std::to_string(count - real.size()) + " more";
  }

  // The group's place in the tree, or kNone where it has no node.
  std::size_t add(const fabric::TierGroup& group) {
    SlurmSwitch made;
    made.level = group.level;
    for (const fabric::TierGroup& below : group.below) {
      const std::size_t child = add(below);
      if (child != kNone) made.below.push_back(child);
    }
    for (const graph::VertexIndex node : group.nodes) made.nodes.push_back(graph_.vertex(node).id);
    if (made.nodes.empty() && made.below.empty()) return kNone;
    name(group, &made);
    if (!made.nodes.empty() && !made.below.empty()) {
      // Slurm's switches have nodes or switches, so what hangs on a spine gets a leaf of its own.
      SlurmSwitch leaf;
      leaf.nodes = std::move(made.nodes);
      made.nodes.clear();
      leaf.real = "on " + made.name;
      do {
        leaf.name = "leaf" + std::to_string(++numbers_[0]);
      } while (own_names_.count(leaf.name) != 0);
      tree_.switches.push_back(std::move(leaf));
      made.below.push_back(tree_.switches.size() - 1);
    }
    tree_.switches.push_back(std::move(made));
    return tree_.switches.size() - 1;
  }

  const graph::Graph& graph_;
  const fabric::FabricShape shape_;
  std::map<std::string, int> own_names_;
  std::map<int, int> numbers_;  // of made-up names, by level
  SlurmTree tree_;
};

std::string names_below(const SlurmTree& tree, const SlurmSwitch& one) {
  std::vector<std::string> names;
  for (const std::size_t child : one.below) names.push_back(tree.switches[child].name);
  return graph::compress_hosts(names);
}

struct Block {
  std::string name, real;
  std::vector<std::string> nodes;
};

// Nodes whose GPUs one NVLink domain joins; empty where there is no domain of several nodes.
std::vector<Block> nvlink_blocks(const graph::Graph& graph) {
  std::map<graph::VertexIndex, std::set<std::string>> nodes;
  const auto domain_of = [&graph](graph::VertexIndex vertex) {
    while (vertex != graph::kNoVertex && graph.vertex(vertex).kind != graph::Kind::NvlinkDomain) {
      vertex = graph.vertex(vertex).parent;
    }
    return vertex;
  };
  for (const graph::Link& link : graph.links()) {
    for (const auto& [end, other] : {std::pair(link.a, link.b), std::pair(link.b, link.a)}) {
      const graph::VertexIndex domain = domain_of(other), node = graph.node_of(end);
      if (domain != graph::kNoVertex && node != graph::kNoVertex)
        nodes[domain].insert(graph.vertex(node).id);
    }
  }
  std::vector<Block> blocks;
  for (const auto& [domain, names] : nodes) {
    blocks.push_back({"block" + std::to_string(blocks.size() + 1),
                      base::printable(graph.vertex(domain).id),
                      {names.begin(), names.end()}});
  }
  return blocks;
}

struct Blocks {
  std::vector<Block> blocks;
  std::vector<std::string> sizes;
};

Blocks blocks_of(const graph::Graph& graph, const SlurmTree& tree) {
  Blocks made{nvlink_blocks(graph), {}};
  auto& blocks = made.blocks;
  if (blocks.empty()) {
    for (const SlurmSwitch& one : tree.switches) {
      if (!one.nodes.empty()) blocks.push_back({one.name, one.real, one.nodes});
    }
    if (!tree.block_sizes.empty()) {
      made.sizes = base::split(tree.block_sizes, ',');
      return made;
    }
  }
  std::size_t smallest = blocks.front().nodes.size();
  for (const Block& block : blocks) smallest = std::min(smallest, block.nodes.size());
  for (std::size_t times = 1; times <= blocks.size(); times *= 2) {
    made.sizes.push_back(std::to_string(smallest * times));
  }
  return made;
}

std::string comment(const std::string& name, const std::string& real) {
  return real.empty() ? "" : "# " + name + "=" + real + "\n";
}

// Text for YAML and JSON alike; what goes in is printable.
std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}

void add_labels(const SlurmTree& tree, std::size_t number, std::vector<std::string> above,
                std::map<std::string, std::string>* labels) {
  const SlurmSwitch& one = tree.switches[number];
  above.push_back(one.name);
  for (const std::string& node : one.nodes) {
    std::string& text = (*labels)[node];
    for (std::size_t tier = 0; tier < std::min(above.size(), std::size(kTierLabels)); ++tier) {
      text += std::string(" ") + kLabelPrefix + kTierLabels[tier] + "=" +
              above[above.size() - 1 - tier];
    }
  }
  for (const std::size_t child : one.below) add_labels(tree, child, above, labels);
}

}  // namespace

std::string write_tree_conf(const graph::Graph& graph) {
  const SlurmTree tree = TreeMaker(graph).make();
  std::string text;
  for (const SlurmSwitch& one : tree.switches) {
    text += comment(one.name, one.real) + "SwitchName=" + one.name +
            (one.nodes.empty() ? " Switches=" + names_below(tree, one)
                               : " Nodes=" + graph::compress_hosts(one.nodes)) +
            "\n";
  }
  return text;
}

std::string write_block_conf(const graph::Graph& graph) {
  const auto [blocks, sizes] = blocks_of(graph, TreeMaker(graph).make());
  std::string text;
  for (const Block& block : blocks) {
    text += comment(block.name, block.real) + "BlockName=" + block.name +
            " Nodes=" + graph::compress_hosts(block.nodes) + "\n";
  }
  return text + "BlockSizes=" + base::join(sizes, ",") + "\n";
}

std::string write_topology_yaml(const graph::Graph& graph) {
  const SlurmTree tree = TreeMaker(graph).make();
  const auto [blocks, sizes] = blocks_of(graph, tree);
  std::string text = "- topology: tree\n  cluster_default: true\n  tree:\n    switches:\n";
  for (const SlurmSwitch& one : tree.switches) {
    text += "      - switch: " + quoted(one.name) + "\n        " +
            (one.nodes.empty() ? "children: " + quoted(names_below(tree, one))
                               : "nodes: " + quoted(graph::compress_hosts(one.nodes))) +
            "\n";
  }
  text += "- topology: block\n  cluster_default: false\n  block:\n    block_sizes: [" +
          base::join(sizes, ", ") + "]\n    blocks:\n";
  for (const Block& block : blocks) {
    text += "      - block: " + quoted(block.name) +
            "\n        nodes: " + quoted(graph::compress_hosts(block.nodes)) + "\n";
  }
  return text;
}

std::string write_topology_labels(const graph::Graph& graph) {
  const SlurmTree tree = TreeMaker(graph).make();
  std::map<std::string, std::string> labels;
  for (const Block& block : nvlink_blocks(graph)) {
    for (const std::string& node : block.nodes) {
      labels[node] += std::string(" ") + kLabelPrefix + "accelerator=" + block.name;
    }
  }
  for (const std::size_t root : tree.roots) add_labels(tree, root, {}, &labels);
  std::string text;
  for (const auto& [node, line] : labels) text += node + line + "\n";
  return text;
}

}  // namespace regatta::topology::sources
