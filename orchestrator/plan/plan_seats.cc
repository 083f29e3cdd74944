#include "orchestrator/plan/plan_seats.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "topology/doctor/doctor_view.h"
#include "topology/graph/node_shape.h"
#include "topology/graph/paths.h"

namespace regatta::orchestrator::plan {
namespace {

using topology::graph::Graph;
using topology::graph::Kind;
using topology::graph::LinkKind;
using topology::graph::PathType;
using topology::graph::VertexIndex;

constexpr const char* kWaitForOneSwitch = "1@10";  // minutes

std::vector<VertexIndex> gpus_of(const Graph& machines, VertexIndex node) {
  std::vector<VertexIndex> gpus = machines.below(node, Kind::Gpu);
  std::stable_sort(gpus.begin(), gpus.end(), [&](VertexIndex a, VertexIndex b) {
    const auto number = [&](VertexIndex gpu) {
      return topology::graph::integer_of(machines, machines.vertex(gpu).facts,
                                         topology::graph::key::kIndex)
          .value_or(std::int64_t{1} << 40);
    };
    return number(a) < number(b);
  });
  return gpus;
}

std::string name_of(const Graph& machines, VertexIndex nic) {
  const auto& vertex = machines.vertex(nic);
  const std::string name =
      topology::graph::text_of(machines, vertex.facts, topology::graph::key::kName);
  return name.empty() ? vertex.id.substr(vertex.id.find(':') + 1) : name;
}

// What the GPUs of one node have of its NICs.
class NicShares {
 public:
  NicShares(const Graph& machines, const topology::graph::Paths& paths,
            const topology::doctor::ClusterView& view, VertexIndex node)
      : machines_(machines), paths_(paths) {
    for (const topology::doctor::NodeView& each : view.nodes()) {
      if (each.vertex == node) nics_ = view.compute_nics(each);
    }
    // Sockets are all that some machines have.
    if (nics_.empty()) nics_ = machines.below(node, Kind::Nic);
  }

  std::string take(VertexIndex gpu) {
    VertexIndex best = topology::graph::kNoVertex;
    std::pair<PathType, int> least;
    for (const VertexIndex nic : nics_) {
      const std::pair<PathType, int> rank{paths_.between(gpu, nic).type, taken_[nic]};
      if (rank.first == PathType::Dis) continue;
      if (best != topology::graph::kNoVertex && least <= rank) continue;
      best = nic;
      least = rank;
    }
    if (best == topology::graph::kNoVertex) return "";
    ++taken_[best];
    return name_of(machines_, best);
  }

 private:
  const Graph& machines_;
  const topology::graph::Paths& paths_;
  std::vector<VertexIndex> nics_;
  std::map<VertexIndex, int> taken_;
};

// Nodes below each switch that a NIC is cabled to.
std::map<VertexIndex, std::set<VertexIndex>> nodes_of_leaves(const Graph& machines) {
  std::map<VertexIndex, std::set<VertexIndex>> nodes;
  for (const topology::graph::Link& link : machines.links()) {
    if (link.kind != LinkKind::Fabric) continue;
    for (const auto& [end, other] : {std::pair{link.a, link.b}, std::pair{link.b, link.a}}) {
      const VertexIndex node = machines.node_of(end);
      if (node != topology::graph::kNoVertex && machines.vertex(other).kind == Kind::FabricSwitch) {
        nodes[other].insert(node);
      }
    }
  }
  return nodes;
}

// Of each NVLink domain the nodes that have a GPU in it.
std::map<VertexIndex, std::set<VertexIndex>> nodes_of_domains(const Graph& machines) {
  std::map<VertexIndex, std::set<VertexIndex>> nodes;
  for (const topology::graph::Link& link : machines.links()) {
    if (link.kind != LinkKind::NvLink) continue;
    for (const auto& [end, other] : {std::pair{link.a, link.b}, std::pair{link.b, link.a}}) {
      const VertexIndex owner = machines.vertex(other).parent;
      const VertexIndex node = machines.node_of(end);
      if (node == topology::graph::kNoVertex || owner == topology::graph::kNoVertex) continue;
      if (machines.vertex(owner).kind == Kind::NvlinkDomain) nodes[owner].insert(node);
    }
  }
  return nodes;
}

}  // namespace

std::vector<topology::plan::Seat> seats_of(const Graph& machines,
                                           const std::vector<VertexIndex>& nodes,
                                           int ranks_per_node) {
  const topology::graph::Paths paths(machines);
  const topology::doctor::Subject subject{machines};
  const topology::doctor::ClusterView view(subject);
  const auto links = topology::graph::links_by_vertex(machines);
  std::map<std::string, std::vector<std::string>> known;  // NICs of nodes by their shape
  std::vector<topology::plan::Seat> seats;
  for (const VertexIndex node : nodes) {
    const auto [found, is_new] =
        known.try_emplace(topology::graph::shape_of(machines, node, links));
    if (is_new) {
      const std::vector<VertexIndex> gpus = gpus_of(machines, node);
      NicShares nics(machines, paths, view, node);
      for (int i = 0; i < ranks_per_node; ++i) {
        found->second.push_back(nics.take(gpus.at(static_cast<std::size_t>(i))));
      }
    }
    for (int i = 0; i < ranks_per_node; ++i) {
      seats.push_back({machines.vertex(node).id, i, found->second[static_cast<std::size_t>(i)]});
    }
  }
  return seats;
}

topology::plan::Placement placement_of(const Graph& machines,
                                       const std::vector<VertexIndex>& nodes) {
  topology::plan::Placement placement;
  if (nodes.size() < 2) return placement;
  // On rails a node has NICs below many leaves, and no leaf is nearer than another.
  std::map<VertexIndex, int> leaves_of;
  std::size_t most = 0;
  const auto leaves = nodes_of_leaves(machines);
  for (const auto& [leaf, below] : leaves) {
    for (const VertexIndex node : below) ++leaves_of[node];
    most = std::max(most, below.size());
  }
  const bool is_tree = std::all_of(leaves_of.begin(), leaves_of.end(),
                                   [](const auto& node) { return node.second == 1; });
  if (is_tree && leaves.size() > 1 && most >= nodes.size()) placement.switches = kWaitForOneSwitch;
  std::size_t domain = 0;
  for (const auto& [owner, below] : nodes_of_domains(machines)) {
    domain = domain == 0 ? below.size() : std::min(domain, below.size());
  }
  if (domain > 1) placement.segment = static_cast<int>(std::min(domain, nodes.size()));
  return placement;
}

}  // namespace regatta::orchestrator::plan
