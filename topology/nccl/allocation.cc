#include "topology/nccl/allocation.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "topology/doctor/doctor_view.h"
#include "topology/graph/nccl_speeds.h"
#include "topology/graph/node_shape.h"
#include "topology/graph/paths.h"

namespace regatta::topology::nccl {
namespace {

class Surveyor {
 public:
  Surveyor(const graph::Graph& graph, int ranks_per_node)
      : subject_{graph}, view_(subject_), paths_(graph), ranks_(ranks_per_node) {
    allocation_.ranks_per_node = ranks_per_node;
  }

  Allocation survey(const std::vector<graph::VertexIndex>& nodes) {
    if (nodes.empty() || ranks_ < 1) {
      throw base::Error(base::Code::User, "an allocation has at least one node and one rank on it");
    }
    allocation_.nodes = static_cast<int>(nodes.size());
    const auto links = graph::links_by_vertex(subject_.graph);
    for (const graph::VertexIndex node : nodes) {
      // What one node has shown, another one just like it would only show again.
      const bool is_new = shapes_.insert(graph::shape_of(subject_.graph, node, links)).second;
      take_node(node, is_new);
    }
    join_domains();
    if (nodes_with_switch_ == static_cast<int>(nodes.size())) allocation_.nvswitch = true;
    if (amd_) {
      allocation_.host = HostCpu::Amd;
    } else if (!intel_) {
      allocation_.host = HostCpu::Other;
    }
    return allocation_;
  }

 private:
  [[noreturn]] void fail(graph::VertexIndex of, const std::string& what) const {
    throw base::Error(base::Code::User, base::printable(view_.id(of)) + ": " + what);
  }

  void take_node(graph::VertexIndex node, bool is_new) {
    const auto found =
        std::find_if(view_.nodes().begin(), view_.nodes().end(),
                     [&](const doctor::NodeView& each) { return each.vertex == node; });
    if (found == view_.nodes().end()) fail(node, "is not a node");
    const std::vector<graph::VertexIndex> gpus = first_gpus(*found);
    take_domain(gpus);
    if (!is_new) return;
    for (const graph::VertexIndex gpu : gpus) take_capability(gpu);
    take_host(*found);
    take_links(gpus);
    // A node alone needs no network, and its graph may not know it.
    if (allocation_.nodes > 1) take_nics(*found, gpus);
  }

  std::vector<graph::VertexIndex> first_gpus(const doctor::NodeView& node) const {
    std::vector<graph::VertexIndex> gpus = node.gpus;
    std::stable_sort(gpus.begin(), gpus.end(), [this](graph::VertexIndex a, graph::VertexIndex b) {
      return view_.integer(a, graph::key::kIndex).value_or(1 << 20) <
             view_.integer(b, graph::key::kIndex).value_or(1 << 20);
    });
    if (static_cast<int>(gpus.size()) < ranks_) {
      fail(node.vertex, "has " + std::to_string(gpus.size()) + " GPUs for " +
                            std::to_string(ranks_) + " ranks; use fewer");
    }
    gpus.resize(static_cast<std::size_t>(ranks_));
    return gpus;
  }

  void take_capability(graph::VertexIndex gpu) {
    auto capability = view_.integer(gpu, graph::key::kComputeCapability);
    if (!capability) capability = graph::compute_capability_of(view_.text(gpu, graph::key::kModel));
    if (!capability || *capability < 1 || *capability > 1000) {
      fail(gpu, "its compute capability is not known; give its model");
    }
    int& oldest = allocation_.compute_capability;
    const int own = static_cast<int>(*capability);
    if (oldest != 0 && own != oldest) allocation_.one_capability = false;
    oldest = oldest == 0 ? own : std::min(oldest, own);
  }

  void take_host(const doctor::NodeView& node) {
    for (const graph::VertexIndex numa : node.numas) {
      const std::string vendor = view_.text(numa, graph::key::kVendor);
      amd_ = amd_ || vendor == "AuthenticAMD";
      intel_ = intel_ || vendor == "GenuineIntel";
    }
  }

  void slow_down(double* figure, double to) const {
    *figure = *figure == 0 ? to : std::min(*figure, to);
  }

  // Of every node: which NVSwitches its GPUs have.
  void take_domain(const std::vector<graph::VertexIndex>& gpus) {
    bool switched = false;
    graph::VertexIndex domain = graph::kNoVertex;
    for (const graph::VertexIndex gpu : gpus) {
      for (const std::uint32_t link : view_.links_of(gpu)) {
        const graph::VertexIndex peer = view_.other_end(link, gpu);
        if (view_.graph().links()[link].kind != graph::LinkKind::NvLink ||
            view_.kind(peer) != graph::Kind::NvSwitch || graph::is_stand_in(view_.graph(), peer)) {
          continue;
        }
        switched = true;
        const graph::VertexIndex owner = view_.graph().vertex(peer).parent;
        if (owner != graph::kNoVertex && view_.kind(owner) == graph::Kind::NvlinkDomain)
          domain = owner;
      }
    }
    ++nodes_of_domain_[domain];
    if (switched) ++nodes_with_switch_;
  }

  // What leaves a GPU over NVLink, as NCCL reckons it; without NVLink between all, the narrowest
  // way.
  void take_links(const std::vector<graph::VertexIndex>& gpus) {
    const std::set<graph::VertexIndex> peers(gpus.begin(), gpus.end());
    graph::PathType worst = graph::PathType::Loc;
    for (std::size_t i = 0; i < gpus.size(); ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        worst = std::max(worst, paths_.between(gpus[i], gpus[j]).type);
      }
    }
    for (const graph::VertexIndex gpu : gpus) {
      double out = 0;
      for (const std::uint32_t link : view_.links_of(gpu)) {
        const graph::VertexIndex peer = view_.other_end(link, gpu);
        const bool is_switch = view_.kind(peer) == graph::Kind::NvSwitch;
        if (view_.graph().links()[link].kind != graph::LinkKind::NvLink) continue;
        if ((!is_switch && peers.count(peer) == 0) || graph::is_stand_in(view_.graph(), peer))
          continue;
        out += static_cast<double>(view_.count(link)) *
               graph::nvlink_gb_per_s(allocation_.compute_capability).value_or(0);
      }
      if (worst <= graph::PathType::Nvb && out > 0) slow_down(&allocation_.gb_per_s_within, out);
    }
    allocation_.within = gpus.size() > 1 ? std::max(allocation_.within, worst) : allocation_.within;
    if (gpus.size() < 2 || worst <= graph::PathType::Nvb) return;
    for (std::size_t i = 0; i < gpus.size(); ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        const auto way = paths_.between(gpus[i], gpus[j]).gb_per_s;
        if (!way) fail(gpus[i], "no bandwidth to " + view_.id(gpus[j]) + " is known");
        slow_down(&allocation_.gb_per_s_within, *way);
      }
    }
  }

  void take_nics(const doctor::NodeView& node, const std::vector<graph::VertexIndex>& gpus) {
    const std::vector<graph::VertexIndex> all = view_.compute_nics(node);
    std::set<graph::VertexIndex> nearest;
    for (const graph::VertexIndex gpu : gpus) {
      graph::PathType best = graph::PathType::Dis, best_over_gpus = graph::PathType::Dis;
      for (const graph::VertexIndex nic : all) {
        best = std::min(best, paths_.between(gpu, nic).type);
        best_over_gpus = std::min(best_over_gpus, paths_.to_nic(gpu, nic).type);
      }
      for (const graph::VertexIndex nic : all) {
        if (paths_.between(gpu, nic).type == best) nearest.insert(nic);
      }
      allocation_.to_nic = std::max(allocation_.to_nic, best_over_gpus);
    }
    if (nearest.empty()) fail(node.vertex, "no NIC is known; merge a source that knows them");
    for (const graph::VertexIndex nic : nearest) {
      const double mbit_per_s = view_.nic_speed(nic);
      if (mbit_per_s <= 0) fail(nic, "its speed is not known");
      slow_down(&allocation_.gb_per_s_a_nic, mbit_per_s / 8000);
    }
    const int count = static_cast<int>(nearest.size());
    allocation_.nics = allocation_.nics == 0 ? count : std::min(allocation_.nics, count);
  }

  void join_domains() {
    const int in_each = nodes_of_domain_.begin()->second;
    const bool even = std::all_of(nodes_of_domain_.begin(), nodes_of_domain_.end(), [&](auto& one) {
      return one.first != graph::kNoVertex && one.second == in_each;
    });
    if (!even) return;
    allocation_.nodes /= in_each;
    allocation_.ranks_per_node *= in_each;
    allocation_.nics *= in_each;
  }

  doctor::Subject subject_;
  doctor::ClusterView view_;
  graph::Paths paths_;
  int ranks_;
  std::set<std::string> shapes_;  // of nodes that were looked at
  Allocation allocation_;
  bool amd_ = false, intel_ = false;
  int nodes_with_switch_ = 0;
  std::map<graph::VertexIndex, int> nodes_of_domain_;
};

}  // namespace

Allocation allocation_of(const graph::Graph& graph, const std::vector<graph::VertexIndex>& nodes,
                         int ranks_per_node) {
  return Surveyor(graph, ranks_per_node).survey(nodes);
}

}  // namespace regatta::topology::nccl
