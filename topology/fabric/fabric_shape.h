// What form a fabric has: which switches are leaves and which are above them, rails, how much
// bandwidth leaves upwards, and how far it is from node to node.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "topology/graph/graph.h"

namespace regatta::topology::fabric {

// Switches farther up than this share the level: real fabrics have four, and a text that names a
// chain of thousands must not nest as deep.
inline constexpr int kMostLevel = 31;

struct SwitchShape {
  graph::VertexIndex vertex = graph::kNoVertex;
  graph::VertexIndex fabric = graph::kNoVertex;
  // 0: a leaf, that is a switch with nodes or adapters on it; else the distance from the next leaf,
  // unless a source (Slurm) says another one; -1: no leaf can be reached.
  int level = -1;
  std::optional<int> rail;  // of a leaf: which one, from 0, in the order of the adapters' numbers
  int adapters = 0;         // on it
  int unnamed = 0;          // of these, of nodes that nobody named
  int down_cables = 0, up_cables = 0;         // to what is on it; to switches of higher levels
  double down_gb_per_s = 0, up_gb_per_s = 0;  // 0: not known
  // Bandwidth to nodes over bandwidth upwards; nothing when one is not known.
  [[nodiscard]] std::optional<double> oversubscription() const;
};

// Nodes and switches that hang together through switches of `level` and lower ones: the leaves
// that share nodes, the pod above them, and so on.
struct TierGroup {
  int level = 0;
  std::vector<graph::VertexIndex> switches;  // of this very level, in order of name
  std::vector<TierGroup> below;
  std::vector<graph::VertexIndex> nodes;  // on `switches` themselves, in order of id
  int unnamed = 0;                        // adapters on `switches` of nodes that nobody named
};

struct Route {
  int switches = 0;          // on the shortest way
  double gb_per_s = 0;       // over all adapters, nobody else sending; 0: not known
  double full_gb_per_s = 0;  // the share of it when every node sends across its leaf's uplinks
};

// A snapshot: changes of the graph after its making are not seen, but the graph must stay.
class FabricShape {
 public:
  explicit FabricShape(const graph::Graph& graph);

  [[nodiscard]] const std::vector<SwitchShape>& switches() const { return switches_; }
  [[nodiscard]] const SwitchShape* find(
      graph::VertexIndex vertex) const;  // null: no switch of a fabric
  // Names of the adapters of each rail, as far as they are known: "mlx5_5" or "HCA-6".
  [[nodiscard]] const std::vector<std::string>& rails() const { return rails_; }
  // The whole, by tiers. Several fabrics (planes) become one where their nodes are the same.
  [[nodiscard]] std::vector<TierGroup> groups(const std::vector<graph::VertexIndex>& fabrics) const;
  // Nothing when no fabric joins the two.
  [[nodiscard]] std::optional<Route> route(graph::VertexIndex node_a,
                                           graph::VertexIndex node_b) const;
  [[nodiscard]] bool is_attached(graph::VertexIndex node) const {
    return ends_of_.count(node) != 0;
  }

  // What hangs on a switch: a NIC, or a node of which no NIC is known.
  struct Attachment {
    graph::VertexIndex end = graph::kNoVertex;
    graph::VertexIndex node = graph::kNoVertex;  // kNoVertex: nobody named it
    std::size_t leaf = 0;                        // in switches()
    int cables = 1;
    double gb_per_s = 0;
    std::optional<int> rail;  // by the adapter's own number, wherever it is plugged in
  };
  [[nodiscard]] const std::vector<Attachment>& attachments() const { return attachments_; }
  struct Neighbour {
    std::size_t shape = 0;  // in switches()
    std::uint32_t link = 0;
    int cables = 1;
    double gb_per_s = 0;
  };
  [[nodiscard]] const std::vector<Neighbour>& neighbours(std::size_t shape) const {
    return neighbours_[shape];
  }

 private:
  void read_links();
  void find_levels();
  void find_rails();
  void add_bandwidth();
  [[nodiscard]] std::vector<int> distances(const std::vector<std::size_t>& from) const;

  const graph::Graph& graph_;
  std::vector<SwitchShape> switches_;
  std::vector<std::size_t> shape_of_;  // by vertex; switches_.size(): none
  std::vector<std::vector<Neighbour>> neighbours_;
  std::vector<Attachment> attachments_;
  std::map<graph::VertexIndex, std::vector<std::size_t>> ends_of_;  // node → attachments_
  std::vector<std::string> rails_;
};

// Sets key::kLevel of switches and key::kRail of leaves and their NICs, as derived facts.
void note_shape(graph::Graph* graph);

// A tree for people: fabrics, tiers, leaves with their bandwidth and their nodes as hostlists.
[[nodiscard]] std::string fabric_text(const graph::Graph& graph);

// By numbers where both have one: "leaf2" before "leaf10".
[[nodiscard]] bool natural_less(std::string_view a, std::string_view b);
// What people call it: its name, else its id.
[[nodiscard]] std::string name_for_people(const graph::Graph& graph, graph::VertexIndex vertex);

}  // namespace regatta::topology::fabric
