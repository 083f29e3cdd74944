// Clusters described by people: kinds of nodes, how many of each, and the fabrics between them, in
// YAML or JSON (docs/formats/topology.md). What the description says has Source::User; what it
// leaves out comes from topology/graph/figures.h and is Source::Derived.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "topology/graph/graph.h"

namespace regatta::topology::sources {

enum class NvlinkShape : std::uint8_t {
  None,
  Pairs,   // bridges: GPU 0 – 1, 2 – 3, …
  Mesh,    // every GPU with every other, the links shared out evenly
  Switch,  // NVSwitches in the node
  Domain,  // NVSwitches that several nodes share
};

struct NicGroup {
  std::string name;    // "compute"
  std::string model;   // "ConnectX-7"
  std::string prefix;  // of the NICs' names; they are numbered through the node
  std::string fabric;  // empty: cabled to nothing that the file describes
  std::string rate;    // "NDR"
  std::string link_layer;
  std::int64_t mbit_per_s = 0;
  int lanes = 4;
  int count = 0;
  bool near_gpus = true;  // below the PCIe switches, else at the NUMA domains
};

struct NodeKind {
  std::string name;
  std::vector<std::string> hosts;
  std::string model;
  std::string gpu_model;
  int gpus = 0;
  NvlinkShape nvlink = NvlinkShape::None;
  int nvlinks = 0;  // per GPU
  double gb_per_s_a_nvlink = 0;
  int nvswitches = 0;        // per node, or per domain
  int nodes_per_domain = 0;  // with NvlinkShape::Domain
  std::string cpu_vendor;
  int sockets = 2;
  int numa_per_socket = 1;
  int cores_per_socket = 0;  // 0: not said
  int threads_per_core = 1;
  double socket_gb_per_s = 0;
  double pcie_gt_s = 16;
  int pcie_width = 16;
  int pcie_switches = 0;         // 0: devices hang at the NUMA domains
  std::vector<int> switch_numa;  // NUMA domains that have switches (or devices), in their order
  std::vector<NicGroup> nics;
};

struct FabricPlan {
  std::string name;
  bool rails = false;  // a leaf sees one NIC of each node, else all of a node's
  std::string link_layer;
  std::string rate;
  std::int64_t mbit_per_s = 0;  // of a port of its switches
  int lanes = 4;
  int radix = 64;               // ports of a switch
  double oversubscription = 1;  // of leaves: down to up
};

struct ClusterDescription {
  std::string name;
  std::string source;  // the file, for provenance
  std::vector<NodeKind> kinds;
  std::vector<FabricPlan> fabrics;
  [[nodiscard]] std::size_t node_count() const;
};

// As many vertices as a description may ask for: 8,192 nodes of a usual kind.
inline constexpr std::size_t kMostVertices = 500'000;

// Throws Code::User with "source:line: path: …": unknown keys, figures out of range, fabrics that
// no NIC uses or that would need a fourth level of switches, more than kMostVertices.
[[nodiscard]] ClusterDescription parse_cluster(std::string_view text, const std::string& source);

// The first kind's node, `node_count` times under the same name with numbers; other kinds go.
[[nodiscard]] ClusterDescription with_nodes(ClusterDescription description, int node_count);

// One node with its cables to the leaves, as a capture of that host and its fabric would give it;
// `number` counts through all kinds.
[[nodiscard]] graph::Graph node_graph(const ClusterDescription& description, std::size_t number);
// The fabrics alone: switches and the cables between them.
[[nodiscard]] graph::Graph fabric_graph(const ClusterDescription& description);
// All of it.
[[nodiscard]] graph::Graph cluster_graph(const ClusterDescription& description);

// cluster_graph of with_nodes.
[[nodiscard]] graph::Graph generate(const ClusterDescription& description, int node_count);

}  // namespace regatta::topology::sources
