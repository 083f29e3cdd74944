// From a description to its graph.
#include <algorithm>
#include <map>

#include "base/error.h"
#include "topology/graph/figures.h"
#include "topology/sources/cluster_file.h"
#include "topology/sources/fabric_layout.h"

namespace regatta::topology::sources {
namespace {

using Number = std::int64_t;

constexpr double kMbitPerGigabyte = 8000;

std::string leaf_name(const FabricPlan& fabric, const FabricLayout& layout, std::size_t leaf) {
  if (!fabric.rails) return fabric.name + "-leaf" + std::to_string(leaf + 1);
  return fabric.name + "-rail" + std::to_string(leaf % layout.rails) + "-leaf" +
         std::to_string(leaf / layout.rails + 1);
}

class Builder {
 public:
  explicit Builder(const ClusterDescription& cluster)
      : cluster_(cluster),
        user_(graph_.add_source(graph::Source::User, cluster.source)),
        derived_(graph_.add_source(graph::Source::Derived, "figures of the parts")) {
    for (const FabricPlan& fabric : cluster.fabrics) layouts_.push_back(lay_out(cluster, fabric));
  }

  void add_node(const NodeKind& kind, std::size_t in_kind) {
    const std::string& host = kind.hosts[in_kind];
    const graph::VertexIndex node = graph_.add(graph::Kind::Node, host);
    set(node, graph::key::kName, host);
    if (!kind.model.empty()) set(node, graph::key::kModel, kind.model);
    add_numa(kind, host, node);
    switches_.clear();
    for (int i = 0; i < kind.pcie_switches; ++i) {
      const graph::VertexIndex parent = numa_of(kind, i, kind.pcie_switches);
      const graph::VertexIndex pcie =
          graph_.add(graph::Kind::PciSwitch, host + "/pci#" + std::to_string(i), parent);
      switches_.push_back(pcie);
      connect_pcie(pcie, parent, kind.pcie_gt_s, kind.pcie_width);
    }
    add_gpus(kind, host);
    add_nvlinks(kind, in_kind, node);
    add_nics(kind, host, fabric_ordinals(kind, in_kind));
  }

  void add_fabrics() {
    for (std::size_t i = 0; i < cluster_.fabrics.size(); ++i) {
      const FabricPlan& fabric = cluster_.fabrics[i];
      const FabricLayout& layout = layouts_[i];
      std::vector<graph::VertexIndex> leaves;
      for (std::size_t leaf = 0; leaf < layout.leaves; ++leaf) {
        leaves.push_back(add_leaf(fabric, layout, leaf));
      }
      if (layout.spines > 0) {
        connect_levels(fabric, leaves, layout.up,
                       add_switches(fabric, fabric.name + "-spine", layout.spines, 1));
      } else {
        add_pods(fabric, layout, leaves);
      }
    }
  }

  graph::Graph take() { return std::move(graph_); }

 private:
  void set(graph::VertexIndex vertex, const char* key, graph::Value value) {
    graph_.set(vertex, key, std::move(value), user_);
  }
  void derive(graph::VertexIndex vertex, const char* key, graph::Value value) {
    graph_.set(vertex, key, std::move(value), derived_);
  }
  void set_link(std::uint32_t link, int count, double gb_per_s, std::uint32_t source) {
    if (count > 0) graph_.set_link(link, graph::key::kCount, Number{count}, source);
    graph_.set_link(link, graph::key::kBandwidth, gb_per_s, source);
  }
  void connect_pcie(graph::VertexIndex device, graph::VertexIndex parent, double gt_s, int width) {
    derive(device, graph::key::kPcieMaxSpeed, gt_s);
    derive(device, graph::key::kPcieMaxWidth, Number{width});
    set_link(graph_.connect(graph::LinkKind::Pcie, device, parent), 0,
             graph::pcie_gb_per_s(gt_s, width), derived_);
  }

  // Of the `number`-th of `all` devices that are shared out evenly.
  graph::VertexIndex numa_of(const NodeKind& kind, int number, int all) const {
    const auto at =
        static_cast<std::size_t>(number) * kind.switch_numa.size() / static_cast<std::size_t>(all);
    return numa_[static_cast<std::size_t>(kind.switch_numa[at])];
  }
  graph::VertexIndex place_of(const NodeKind& kind, int number, int all) const {
    if (switches_.empty()) return numa_of(kind, number, all);
    return switches_[static_cast<std::size_t>(number) * switches_.size() /
                     static_cast<std::size_t>(all)];
  }

  void add_numa(const NodeKind& kind, const std::string& host, graph::VertexIndex node) {
    numa_.clear();
    const int domains = kind.sockets * kind.numa_per_socket;
    const int cores = kind.cores_per_socket / kind.numa_per_socket;
    for (int i = 0; i < domains; ++i) {
      const graph::VertexIndex numa =
          graph_.add(graph::Kind::Numa, host + "/numa:" + std::to_string(i), node);
      numa_.push_back(numa);
      set(numa, graph::key::kIndex, Number{i});
      if (!kind.cpu_vendor.empty()) set(numa, graph::key::kVendor, kind.cpu_vendor);
      std::string cpus;
      for (int thread = 0; cores > 0 && thread < kind.threads_per_core; ++thread) {
        const int first = (thread * domains + i) * cores;
        cpus += (thread > 0 ? "," : "") + std::to_string(first) + "-" +
                std::to_string(first + cores - 1);
      }
      if (!cpus.empty()) set(numa, graph::key::kCpus, cpus);
    }
    const double figure =
        kind.socket_gb_per_s > 0 ? kind.socket_gb_per_s : graph::socket_gb_per_s(kind.cpu_vendor);
    for (int i = 0; i < domains; ++i) {
      // Inside a socket: a link without a figure, as nobody publishes one. Between sockets: the
      // first domains speak for theirs.
      const int first = i / kind.numa_per_socket * kind.numa_per_socket;
      if (i != first) {
        graph_.connect(graph::LinkKind::Smp, numa(i), numa(first));
        continue;
      }
      for (int other = 0; other < i; other += kind.numa_per_socket) {
        set_link(graph_.connect(graph::LinkKind::Smp, numa(i), numa(other)), 0, figure,
                 kind.socket_gb_per_s > 0 ? user_ : derived_);
      }
    }
  }
  [[nodiscard]] graph::VertexIndex numa(int number) const {
    return numa_[static_cast<std::size_t>(number)];
  }

  void add_gpus(const NodeKind& kind, const std::string& host) {
    gpus_.clear();
    const graph::GpuFigures* const figures = graph::gpu_figures(kind.gpu_model);
    for (int i = 0; i < kind.gpus; ++i) {
      const graph::VertexIndex parent = place_of(kind, i, kind.gpus);
      const graph::VertexIndex gpu =
          graph_.add(graph::Kind::Gpu, host + "/gpu#" + std::to_string(i), parent);
      gpus_.push_back(gpu);
      set(gpu, graph::key::kIndex, Number{i});
      set(gpu, graph::key::kModel, kind.gpu_model);
      if (kind.nvlinks > 0) derive(gpu, graph::key::kNvlinks, Number{kind.nvlinks});
      double gt_s = kind.pcie_gt_s;
      if (figures != nullptr) {
        derive(gpu, graph::key::kComputeCapability, Number{figures->compute_capability});
        gt_s = std::min(gt_s, graph::pcie_gt_s(figures->pcie_generation).value_or(gt_s));
        if (figures->c2c_gb_per_s > 0) {
          const graph::VertexIndex cpu = numa_of(kind, i, kind.gpus);
          set_link(graph_.connect(graph::LinkKind::C2c, gpu, cpu), 0, figures->c2c_gb_per_s,
                   derived_);
        }
      }
      connect_pcie(gpu, parent, gt_s, kind.pcie_width);
    }
  }

  void add_nvlinks(const NodeKind& kind, std::size_t in_kind, graph::VertexIndex node) {
    if (kind.nvlink == NvlinkShape::Pairs || kind.nvlink == NvlinkShape::Mesh) {
      const bool pairs = kind.nvlink == NvlinkShape::Pairs;
      const int links = pairs ? kind.nvlinks : kind.nvlinks / (kind.gpus - 1);
      for (std::size_t i = 0; i < gpus_.size(); ++i) {
        for (std::size_t j = i + 1; j < gpus_.size(); ++j) {
          if (pairs && (i % 2 != 0 || j != i + 1)) continue;
          set_link(graph_.connect(graph::LinkKind::NvLink, gpus_[i], gpus_[j]), links,
                   links * kind.gb_per_s_a_nvlink, derived_);
        }
      }
      return;
    }
    if (kind.nvlink == NvlinkShape::None || gpus_.empty()) return;
    graph::VertexIndex owner = node;
    if (kind.nvlink == NvlinkShape::Domain) {
      const std::size_t number = in_kind / static_cast<std::size_t>(kind.nodes_per_domain) + 1;
      owner = graph_.add(graph::Kind::NvlinkDomain,
                         "domain:" + kind.name + "-" + std::to_string(number));
    }
    // Nobody has named them, so they are one.
    const graph::VertexIndex nvswitch =
        graph_.add(graph::Kind::NvSwitch, graph_.vertex(owner).id + "/nvswitch#0", owner);
    set(nvswitch, graph::key::kCount, Number{kind.nvswitches});
    for (const graph::VertexIndex gpu : gpus_) {
      set_link(graph_.connect(graph::LinkKind::NvLink, gpu, nvswitch), kind.nvlinks,
               kind.nvlinks * kind.gb_per_s_a_nvlink, derived_);
    }
  }

  // For each fabric, the node's number among those that have a NIC in it.
  [[nodiscard]] std::vector<std::size_t> fabric_ordinals(const NodeKind& kind,
                                                         std::size_t in_kind) const {
    std::vector<std::size_t> ordinals;
    for (const FabricPlan& fabric : cluster_.fabrics) {
      std::size_t before = in_kind;
      for (const NodeKind& each : cluster_.kinds) {
        if (&each == &kind) break;
        const bool cabled = std::any_of(each.nics.begin(), each.nics.end(), [&](const auto& nics) {
          return nics.fabric == fabric.name;
        });
        if (cabled) before += each.hosts.size();
      }
      ordinals.push_back(before);
    }
    return ordinals;
  }

  void add_nics(const NodeKind& kind, const std::string& host,
                const std::vector<std::size_t>& ordinals) {
    std::map<std::string, int> by_prefix;
    std::vector<std::size_t> in_fabric(cluster_.fabrics.size());
    int index = 0;
    for (const NicGroup& group : kind.nics) {
      for (int i = 0; i < group.count; ++i) {
        const std::string name = group.prefix + std::to_string(by_prefix[group.prefix]++);
        const graph::VertexIndex parent =
            group.near_gpus ? place_of(kind, i, group.count) : numa_of(kind, i, group.count);
        const graph::VertexIndex nic = graph_.add(graph::Kind::Nic, host + "/nic:" + name, parent);
        set(nic, graph::key::kName, name);
        derive(nic, graph::key::kIndex, Number{index++});
        if (!group.model.empty()) set(nic, graph::key::kModel, group.model);
        set(nic, graph::key::kLinkLayer, group.link_layer);
        set(nic, graph::key::kSpeed, group.mbit_per_s);
        connect_pcie(nic, parent, kind.pcie_gt_s, kind.pcie_width);
        for (std::size_t f = 0; f < cluster_.fabrics.size(); ++f) {
          if (cluster_.fabrics[f].name == group.fabric) {
            cable(nic, group, f, ordinals[f], in_fabric[f]++);
          }
        }
      }
    }
  }

  void cable(graph::VertexIndex nic, const NicGroup& group, std::size_t f, std::size_t node,
             std::size_t number) {
    const FabricPlan& fabric = cluster_.fabrics[f];
    const FabricLayout& layout = layouts_[f];
    if (fabric.rails) set(nic, graph::key::kRail, static_cast<Number>(number));
    // What the switch is, the fabric's own graph says.
    const graph::VertexIndex root = graph_.add(graph::Kind::Fabric, "fabric:" + fabric.name);
    const graph::VertexIndex leaf = graph_.add(
        graph::Kind::FabricSwitch,
        "switch:" + leaf_name(fabric, layout, leaf_of(layout, fabric, node, number)), root);
    connect_fabric(nic, leaf, 1, std::min(group.mbit_per_s, fabric.mbit_per_s),
                   std::min(group.lanes, fabric.lanes));
  }

  void connect_fabric(graph::VertexIndex a, graph::VertexIndex b, std::size_t cables,
                      std::int64_t mbit_per_s, int lanes) {
    const auto link = graph_.connect(graph::LinkKind::Fabric, a, b);
    set_link(link, static_cast<int>(cables),
             static_cast<double>(cables) * static_cast<double>(mbit_per_s) / kMbitPerGigabyte,
             derived_);
    if (lanes > 1) graph_.set_link(link, graph::key::kLanes, Number{lanes}, derived_);
  }

  graph::VertexIndex add_switch(const FabricPlan& fabric, const std::string& name, int level) {
    const graph::VertexIndex root = graph_.add(graph::Kind::Fabric, "fabric:" + fabric.name);
    const graph::VertexIndex vertex = graph_.add(graph::Kind::FabricSwitch, "switch:" + name, root);
    set(root, graph::key::kName, fabric.name);
    set(root, graph::key::kLinkLayer, fabric.link_layer);
    set(vertex, graph::key::kName, name);
    derive(vertex, graph::key::kLevel, Number{level});
    return vertex;
  }
  graph::VertexIndex add_leaf(const FabricPlan& fabric, const FabricLayout& layout,
                              std::size_t leaf) {
    const graph::VertexIndex vertex = add_switch(fabric, leaf_name(fabric, layout, leaf), 0);
    if (fabric.rails) derive(vertex, graph::key::kRail, static_cast<Number>(leaf % layout.rails));
    return vertex;
  }
  std::vector<graph::VertexIndex> add_switches(const FabricPlan& fabric, const std::string& name,
                                               std::size_t count, int level) {
    std::vector<graph::VertexIndex> switches;
    for (std::size_t i = 1; i <= count; ++i) {
      switches.push_back(add_switch(fabric, name + std::to_string(i), level));
    }
    return switches;
  }
  void connect_levels(const FabricPlan& fabric, const std::vector<graph::VertexIndex>& below,
                      std::size_t ports, const std::vector<graph::VertexIndex>& above) {
    for (std::size_t i = 0; i < below.size(); ++i) {
      for (const auto& [which, cables] : spread(i, ports, above.size())) {
        connect_fabric(below[i], above[which], cables, fabric.mbit_per_s, fabric.lanes);
      }
    }
  }

  void add_pods(const FabricPlan& fabric, const FabricLayout& layout,
                const std::vector<graph::VertexIndex>& leaves) {
    const auto half = static_cast<std::size_t>(fabric.radix) / 2;
    std::vector<std::vector<graph::VertexIndex>> by_number;  // spines of all pods
    for (std::size_t p = 0; p < layout.pods.size(); ++p) {
      std::vector<graph::VertexIndex> own;
      for (const std::size_t leaf : layout.pods[p]) own.push_back(leaves[leaf]);
      const std::size_t count = (own.size() * layout.up + half - 1) / half;
      const auto spines =
          add_switches(fabric, fabric.name + "-pod" + std::to_string(p + 1) + "-spine", count, 1);
      connect_levels(fabric, own, layout.up, spines);
      if (by_number.size() < count) by_number.resize(count);
      for (std::size_t i = 0; i < count; ++i) by_number[i].push_back(spines[i]);
    }
    for (std::size_t i = 0; i < by_number.size(); ++i) {
      const std::size_t cores =
          (by_number[i].size() * half + static_cast<std::size_t>(fabric.radix) - 1) /
          static_cast<std::size_t>(fabric.radix);
      connect_levels(
          fabric, by_number[i], half,
          add_switches(fabric, fabric.name + "-core" + std::to_string(i + 1) + "-", cores, 2));
    }
  }

  const ClusterDescription& cluster_;
  graph::Graph graph_;
  std::uint32_t user_, derived_;
  std::vector<FabricLayout> layouts_;  // by fabric
  // Of the node that is being added.
  std::vector<graph::VertexIndex> numa_, switches_, gpus_;
};

}  // namespace

graph::Graph node_graph(const ClusterDescription& description, std::size_t number) {
  Builder builder(description);
  for (const NodeKind& kind : description.kinds) {
    if (number < kind.hosts.size()) {
      builder.add_node(kind, number);
      return builder.take();
    }
    number -= kind.hosts.size();
  }
  throw base::Error(base::Code::Developer, "the description has no node of this number");
}

graph::Graph fabric_graph(const ClusterDescription& description) {
  Builder builder(description);
  builder.add_fabrics();
  return builder.take();
}

graph::Graph cluster_graph(const ClusterDescription& description) {
  Builder builder(description);
  for (const NodeKind& kind : description.kinds) {
    for (std::size_t i = 0; i < kind.hosts.size(); ++i) builder.add_node(kind, i);
  }
  builder.add_fabrics();
  return builder.take();
}

}  // namespace regatta::topology::sources
