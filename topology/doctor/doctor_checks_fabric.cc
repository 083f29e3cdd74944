#include <algorithm>
#include <cmath>
#include <numeric>

#include "topology/doctor/doctor_checks.h"

namespace regatta::topology::doctor {
namespace {

constexpr std::int64_t kMostCables = 1'000;  // between two switches, whatever a file claims

struct Leaf {
  graph::VertexIndex vertex = graph::kNoVertex;
  double down = 0, up = 0;  // GB/s of all cables to NICs and to spines
  double nic = 0;           // GB/s of the fastest NIC
};

// Bandwidth of a switch's cables, GB/s.
struct SwitchBandwidth {
  double nics = 0, switches = 0, fastest_nic = 0;
  // A switch above others: with no NIC, or with a few for management among its cables to switches.
  [[nodiscard]] bool is_spine() const { return nics * 8 < switches; }
};
SwitchBandwidth bandwidth_of(const ClusterView& view, graph::VertexIndex each) {
  SwitchBandwidth sum;
  for (const std::uint32_t link : view.links_of(each)) {
    if (view.graph().links()[link].kind != graph::LinkKind::Fabric) continue;
    const bool is_nic = view.kind(view.other_end(link, each)) == graph::Kind::Nic;
    (is_nic ? sum.nics : sum.switches) += view.gb_per_s(link);
    if (is_nic) sum.fastest_nic = std::max(sum.fastest_nic, view.gb_per_s(link));
  }
  return sum;
}

// Switches that NICs are cabled to. Cables between two leaves lead to no spine: a fabric of a few
// switches that are joined directly has none.
std::vector<Leaf> leaves_of(const ClusterView& view) {
  std::map<graph::VertexIndex, SwitchBandwidth> switches;
  for (const graph::VertexIndex each : view.graph().of_kind(graph::Kind::FabricSwitch)) {
    switches[each] = bandwidth_of(view, each);
  }
  std::vector<Leaf> leaves;
  for (const auto& [each, sum] : switches) {
    if (sum.nics <= 0) continue;
    Leaf leaf{each, sum.nics, 0, sum.fastest_nic};
    for (const std::uint32_t link : view.links_of(each)) {
      const auto other = switches.find(view.other_end(link, each));
      if (other != switches.end() && other->second.is_spine()) leaf.up += view.gb_per_s(link);
    }
    leaves.push_back(leaf);
  }
  return leaves;
}

std::vector<graph::Finding> look_at_oversubscription(const ClusterView& view) {
  Cases cases(view);
  const std::vector<Leaf> leaves = leaves_of(view);
  std::map<std::string, std::size_t> alike;
  for (const Leaf& leaf : leaves) {
    const double ratio = leaf.up > 0 ? leaf.down / leaf.up : 0;
    if (ratio <= 1.05) continue;
    const std::string cause = figure(ratio);
    ++alike[cause];
    cases.add(cause, {leaf.vertex,
                      {view.id(leaf.vertex) + " down/up",
                       figure(leaf.down) + "/" + figure(leaf.up) + " GB/s"},
                      Rates{leaf.nic, leaf.nic / ratio}});
  }
  auto findings = cases.findings([](const std::string& who, const std::string& cause) {
    return who + ": " + cause + " times as much bandwidth to the nodes as to the spines";
  });
  for (std::size_t i = 0; i < findings.size(); ++i) {
    const auto& [cause, same] = *std::next(cases.causes().begin(), static_cast<std::ptrdiff_t>(i));
    // Most are so: built like that.
    if (alike[cause] * 2 > leaves.size()) {
      set_severity(&findings[i], "fabric.oversubscribed", graph::Severity::Note);
    }
  }
  return findings;
}

// Sets of vertices that grow together (Tarjan's forest with path halving).
class Sets {
 public:
  explicit Sets(std::size_t count) : parent_(count) {
    std::iota(parent_.begin(), parent_.end(), graph::VertexIndex{0});
  }
  graph::VertexIndex root(graph::VertexIndex v) {
    while (parent_[v] != v) v = parent_[v] = parent_[parent_[v]];
    return v;
  }
  void join(graph::VertexIndex a, graph::VertexIndex b) { parent_[root(a)] = root(b); }

 private:
  std::vector<graph::VertexIndex> parent_;
};

std::vector<graph::Finding> look_at_islands(const ClusterView& view) {
  Sets sets(view.graph().vertices().size());
  std::set<graph::VertexIndex> discovered;  // fabrics of which cables between switches are known
  for (const graph::Link& link : view.graph().links()) {
    if (link.kind != graph::LinkKind::Fabric) continue;
    sets.join(link.a, link.b);
    if (view.kind(link.a) == graph::Kind::FabricSwitch &&
        view.kind(link.b) == graph::Kind::FabricSwitch) {
      discovered.insert(view.fabric_of(link.a));
    }
  }
  // The parts of each fabric, by the leaves in them.
  std::map<graph::VertexIndex, std::map<graph::VertexIndex, std::vector<graph::VertexIndex>>> parts;
  for (const Leaf& leaf : leaves_of(view)) {
    parts[view.fabric_of(leaf.vertex)][sets.root(leaf.vertex)].push_back(leaf.vertex);
  }
  Cases cases(view);
  for (const auto& [fabric, islands] : parts) {
    if (discovered.count(fabric) == 0 || islands.size() < 2) continue;
    // Rails that meet only in the nodes are one way to build a fabric.
    std::set<std::int64_t> rails;
    bool rail_each = true;
    std::size_t largest = 0;
    for (const auto& [root, leaves] : islands) {
      const auto rail = view.integer(leaves.front(), graph::key::kRail);
      rail_each = rail_each && rail && rails.insert(*rail).second &&
                  std::all_of(leaves.begin(), leaves.end(), [&](graph::VertexIndex leaf) {
                    return view.integer(leaf, graph::key::kRail) == rail;
                  });
      largest = std::max(largest, leaves.size());
    }
    if (rail_each) continue;
    bool kept = false;  // the largest part is the fabric, the others are cut off
    for (const auto& [root, leaves] : islands) {
      if (!kept && leaves.size() == largest) {
        kept = true;
        continue;
      }
      for (const graph::VertexIndex leaf : leaves) {
        cases.add(view.id(fabric), {leaf, {view.id(leaf), "no way to the rest of the fabric"}});
      }
    }
  }
  return cases.findings([](const std::string& who, const std::string& cause) {
    return who + ": cut off from the rest of " + cause;
  });
}

// The leaf a NIC is cabled to; kNoVertex: none.
graph::VertexIndex leaf_of(const ClusterView& view, graph::VertexIndex nic) {
  for (const std::uint32_t link : view.links_of(nic)) {
    if (view.graph().links()[link].kind == graph::LinkKind::Fabric)
      return view.other_end(link, nic);
  }
  return graph::kNoVertex;
}

// The NIC that nearly every node has on this leaf; empty: it is none of a rail.
std::map<graph::VertexIndex, std::string> usual_nic_of_leaves(const ClusterView& view) {
  constexpr std::size_t kFewest = 4;
  constexpr double kShare = 0.8;
  std::map<graph::VertexIndex, std::map<std::string, std::size_t>> counts;
  std::map<graph::VertexIndex, std::size_t> all;
  for (const NodeView& node : view.nodes()) {
    for (const graph::VertexIndex nic : node.nics) {
      const graph::VertexIndex leaf = leaf_of(view, nic);
      if (leaf == graph::kNoVertex) continue;
      ++counts[leaf][view.nic_name(nic)];
      ++all[leaf];
    }
  }
  std::map<graph::VertexIndex, std::string> usual_nic;
  for (const auto& [leaf, names] : counts) {
    for (const auto& [name, count] : names) {
      if (all[leaf] >= kFewest &&
          static_cast<double>(count) >= kShare * static_cast<double>(all[leaf])) {
        usual_nic[leaf] = name;
      }
    }
  }
  return usual_nic;
}

std::vector<graph::Finding> look_at_cabling(const ClusterView& view) {
  Cases cases(view);
  const auto usual_nic = usual_nic_of_leaves(view);
  for (const NodeView& node : view.nodes()) {
    for (const graph::VertexIndex nic : node.nics) {
      const graph::VertexIndex leaf = leaf_of(view, nic);
      if (leaf == graph::kNoVertex) continue;
      const auto rail = view.integer(nic, graph::key::kRail),
                 wanted = view.integer(leaf, graph::key::kRail);
      if (rail && wanted) {
        if (*rail == *wanted) continue;
        cases.add("", {nic,
                       {view.id(nic) + " rail " + std::to_string(*rail),
                        view.id(leaf) + " of rail " + std::to_string(*wanted)}});
        continue;
      }
      const auto found = usual_nic.find(leaf);
      if (found == usual_nic.end() || found->second == view.nic_name(nic)) continue;
      // Only where the one that belongs here is on a leaf of another NIC: cables that are swapped.
      for (const graph::VertexIndex other : node.nics) {
        const auto there = usual_nic.find(leaf_of(view, other));
        if (view.nic_name(other) != found->second || there == usual_nic.end()) continue;
        if (there->second == found->second) continue;
        cases.add("", {nic, {view.id(nic), "on " + view.id(leaf) + " of all " + found->second}});
        break;
      }
    }
  }
  return cases.findings([](const std::string& who, const std::string&) {
    return who + ": cabled to the leaf of another rail";
  });
}

bool is_between_switches(const ClusterView& view, std::uint32_t link) {
  const graph::Link& each = view.graph().links()[link];
  return each.kind == graph::LinkKind::Fabric && view.kind(each.a) == graph::Kind::FabricSwitch &&
         view.kind(each.b) == graph::Kind::FabricSwitch;
}

std::vector<graph::Finding> look_at_slow_cables(const ClusterView& view) {
  std::map<graph::VertexIndex, std::vector<double>>
      speeds;                                    // of cables between switches, by fabric
  std::map<graph::VertexIndex, double> fastest;  // cable of each switch
  const auto& links = view.graph().links();
  for (std::uint32_t i = 0; i < links.size(); ++i) {
    if (links[i].kind != graph::LinkKind::Fabric) continue;
    for (const Cable& cable : view.cables(i)) {
      for (const graph::VertexIndex end : {links[i].a, links[i].b}) {
        fastest[end] = std::max(fastest[end], cable.gb_per_s);
      }
      if (!is_between_switches(view, i)) continue;
      auto& all = speeds[view.fabric_of(links[i].a)];
      // A source that gives only the sum: one cable that stands for all of the link.
      const bool sum_only =
          graph::text_of(view.graph(), links[i].facts, graph::key::kCables).empty();
      all.insert(all.end(),
                 sum_only
                     ? static_cast<std::size_t>(std::min<std::int64_t>(view.count(i), kMostCables))
                     : 1,
                 cable.gb_per_s);
    }
  }
  std::map<graph::VertexIndex, double> healthy;
  for (const auto& [fabric, values] : speeds) healthy[fabric] = usual(values).value_or(0);
  Cases cases(view);
  for (std::uint32_t i = 0; i < links.size(); ++i) {
    if (!is_between_switches(view, i)) continue;
    const double should = healthy[view.fabric_of(links[i].a)];
    // A switch of which no cable is faster is an older one, and its cables do what they can.
    const double possible = std::min({should, fastest[links[i].a], fastest[links[i].b]});
    for (const Cable& cable : view.cables(i)) {
      const double is = cable.gb_per_s;
      const bool narrow = cable.one_lane || is <= 1.25;  // fabric.narrow_link
      if (is >= possible * 0.98 || narrow) continue;
      cases.add(figure(is) + " GB/s where others have " + figure(should),
                {links[i].a,
                 {cable.ends, figure(is) + " GB/s" + (cable.rate.empty() ? "" : ", " + cable.rate)},
                 Rates{should, is}});
    }
  }
  std::vector<graph::Finding> findings =
      cases.findings([](const std::string& who, const std::string& cause) {
        return who + ": a cable between switches has " + cause;
      });
  // One cable is called by its ports.
  std::size_t number = 0;
  for (const auto& [cause, same] : cases.causes()) {
    graph::Finding& finding = findings[number++];
    if (same.size() == 1) finding.words = same.front().evidence.path + ": this cable has " + cause;
  }
  return findings;
}

}  // namespace

std::vector<Check> fabric_checks() {
  return {
      {{"fabric.island", graph::Severity::Error,
        "switches are cut off from the rest of their fabric",
        "jobs that get nodes of both parts cannot start, or fall back to slow sockets",
        "look at the cables between leaf and spine and at the subnet manager's log; until then "
        "keep jobs on one side (`regatta` leaves nodes out with slurm.exclude)"},
       look_at_islands},
      {{"fabric.miscabled", graph::Severity::Warning, "a NIC is cabled to another rail's leaf",
        "its traffic crosses the spines, beside that of all others",
        "swap the cables back at the node or at the leaf, then run the discovery again"},
       look_at_cabling},
      {{"fabric.oversubscribed", graph::Severity::Warning,
        "a leaf has too few cables to the spines",
        "nodes that talk beyond their leaf share what there is",
        "bring the leaf's dead uplinks back (`iblinkinfo`), or keep a job's nodes below one leaf "
        "(slurm.switches: \"1\")"},
       look_at_oversubscription},
      {{"fabric.slow_cable", graph::Severity::Warning,
        "a cable between switches is slower than the rest",
        "routes over it are slower than their neighbours, and collectives wait for them",
        "reseat or change the cable; `iblinkinfo` shows the width and speed of both ends"},
       look_at_slow_cables},
  };
}

}  // namespace regatta::topology::doctor
