// What the doctor's checks share: short ways into the graph, and cases that become one finding.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "topology/doctor/doctor.h"

namespace regatta::topology::doctor {

struct NodeView {
  graph::VertexIndex vertex = graph::kNoVertex;
  std::vector<graph::VertexIndex> gpus, nics, numas, bridges;  // in order of id
};

// How near a NIC is to a GPU, nearest first.
enum class Reach : std::uint8_t { SameSwitch, Chip, SameNuma, OtherNuma, Unknown };
[[nodiscard]] const char* name_of(Reach reach);

// One of the cables that a link of a fabric stands for.
struct Cable {
  // "switch:0x… port 35 – switch:0x… port 32"; the ids alone where no source numbers ports.
  std::string ends;
  std::string rate;  // "4xDDR"; empty: not known
  double gb_per_s = 0;
  bool one_lane = false;
};

// The graph, indexed once for all checks.
class ClusterView {
 public:
  explicit ClusterView(const Subject& subject);

  [[nodiscard]] const Subject& subject() const { return subject_; }
  [[nodiscard]] const graph::Graph& graph() const { return subject_.graph; }
  [[nodiscard]] const std::vector<NodeView>& nodes() const { return nodes_; }
  [[nodiscard]] const std::string& id(graph::VertexIndex vertex) const {
    return graph().vertex(vertex).id;
  }
  [[nodiscard]] graph::Kind kind(graph::VertexIndex vertex) const {
    return graph().vertex(vertex).kind;
  }

  [[nodiscard]] std::optional<std::int64_t> integer(graph::VertexIndex vertex,
                                                    const char* key) const;
  [[nodiscard]] std::optional<double> number(graph::VertexIndex vertex, const char* key) const;
  [[nodiscard]] std::string text(graph::VertexIndex vertex, const char* key) const;
  // "dgx01"; empty for what is in no node.
  [[nodiscard]] std::string node_name(graph::VertexIndex vertex) const;
  [[nodiscard]] std::string nic_name(graph::VertexIndex nic) const;

  // Numbers of the links of a vertex.
  [[nodiscard]] std::vector<std::uint32_t> links_of(graph::VertexIndex vertex) const;
  [[nodiscard]] graph::VertexIndex other_end(std::uint32_t link, graph::VertexIndex vertex) const;
  [[nodiscard]] double gb_per_s(std::uint32_t link) const;  // 0: not known
  [[nodiscard]] std::int64_t count(std::uint32_t link) const;
  // Each cable of a fabric's link with its own speed. Where a source gives only their sum: one that
  // stands for all, with its share of the sum. None of unknown speed.
  [[nodiscard]] std::vector<Cable> cables(std::uint32_t link) const;

  // Mbit/s of a NIC: its own word, or its cable's; 0: not known.
  [[nodiscard]] double nic_speed(graph::VertexIndex nic) const;
  // The fabric that a NIC or a switch belongs to; kNoVertex: not known.
  [[nodiscard]] graph::VertexIndex fabric_of(graph::VertexIndex vertex) const;
  // An Ethernet card or a virtual interface without RDMA, which NCCL takes only when there is
  // nothing else, and then by sockets: eth0, veth1a2b, br-0f3c, tunl0. Interfaces on InfiniBand
  // (ib0) or Slingshot (hsn0) are none: sockets on these are a fault.
  [[nodiscard]] bool is_plain_card(graph::VertexIndex nic) const;
  // NICs that can carry a job's traffic: no bonds, no plain cards, and where there is InfiniBand,
  // only that.
  [[nodiscard]] std::vector<graph::VertexIndex> compute_nics(const NodeView& node) const;
  [[nodiscard]] Reach reach(graph::VertexIndex gpu, graph::VertexIndex nic) const;
  [[nodiscard]] Reach best_reach(graph::VertexIndex gpu,
                                 const std::vector<graph::VertexIndex>& nics) const;
  // The narrowest link of the widest way between two parts of a node (PCIe, sockets, C2C); nothing
  // when no way is known.
  [[nodiscard]] std::optional<double> bottleneck_gb_per_s(graph::VertexIndex a,
                                                          graph::VertexIndex b) const;
  // A virtual machine that shows neither switches nor NUMA domains, and has no topology file.
  [[nodiscard]] bool is_flat(const NodeView& node) const;
  // The value of a variable; null: nobody sets it.
  [[nodiscard]] const Setting* setting(const char* name) const;

 private:
  [[nodiscard]] Reach path_reach(graph::VertexIndex from, graph::VertexIndex to) const;

  const Subject& subject_;
  std::vector<NodeView> nodes_;
  std::vector<std::uint32_t> first_link_, links_;  // of vertex v: first_link_[v] to [v + 1]
};

// Bandwidth as it should be and as it is, GB/s.
struct Rates {
  double healthy = 0, now = 0;
};

struct Case {
  graph::VertexIndex vertex = graph::kNoVertex;
  graph::Evidence evidence;
  std::optional<Rates> rates{};
};

// What shows the same fault for the same cause. Each cause becomes one finding.
class Cases {
 public:
  explicit Cases(const ClusterView& view) : view_(view) {}
  void add(const std::string& cause, Case one) { causes_[cause].push_back(std::move(one)); }
  [[nodiscard]] bool empty() const { return causes_.empty(); }
  [[nodiscard]] const std::map<std::string, std::vector<Case>>& causes() const { return causes_; }

  // "dgx03/gpu#1", or "4 GPUs of dgx[03-04]".
  [[nodiscard]] std::string who(const std::vector<Case>& cases) const;
  // One finding for each cause, with `words(who, cause)`, all evidence up to a bound, and the cost
  // of the worst case: a collective goes at the pace of its slowest member.
  template <class Words>
  [[nodiscard]] std::vector<graph::Finding> findings(Words&& words) const {
    std::vector<graph::Finding> found;
    for (const auto& [cause, cases] : causes_) {
      found.push_back(finding(cases));
      found.back().words = words(who(cases), cause);
    }
    return found;
  }
  [[nodiscard]] graph::Finding finding(const std::vector<Case>& cases) const;

 private:
  const ClusterView& view_;
  std::map<std::string, std::vector<Case>> causes_;
};

void set_cost(graph::Finding* finding, const Rates& rates);

// The value that more than half have; nothing when none has, or with fewer than three.
template <class T>
[[nodiscard]] std::optional<T> usual(const std::vector<T>& values) {
  std::map<T, std::size_t> counts;
  for (const T& value : values) ++counts[value];
  for (const auto& [value, times] : counts) {
    if (values.size() >= 3 && times * 2 > values.size()) return value;
  }
  return std::nullopt;
}

// "16", "0.25": figures for people.
[[nodiscard]] std::string figure(double value);

}  // namespace regatta::topology::doctor
