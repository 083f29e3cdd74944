#include "topology/sources/cluster_file.h"

#include <algorithm>
#include <set>

#include "base/document.h"
#include "base/error.h"
#include "base/text.h"
#include "topology/graph/figures.h"
#include "topology/graph/hostlist.h"
#include "topology/sources/fabric_layout.h"

namespace regatta::topology::sources {
namespace {

using base::Table;

int whole(Table& table, const std::string& key, int otherwise, int low, int high) {
  int value = otherwise;
  table.read(key, &value);
  if (value < low || value > high) {
    table.fail(key, std::to_string(value) + " is not between " + std::to_string(low) + " and " +
                        std::to_string(high));
  }
  return value;
}

double positive(Table& table, const std::string& key, double otherwise, double high) {
  double value = otherwise;
  table.read(key, &value);
  if (value < 0 || value > high || (value == 0 && otherwise > 0)) {
    table.fail(key, "must be above 0 and at most " + std::to_string(static_cast<int>(high)));
  }
  return value;
}

// Names become parts of ids and of names in Slurm.
void check_word(const Table& table, const std::string& key, const std::string& word) {
  const bool good =
      !word.empty() && word.size() <= 64 && std::all_of(word.begin(), word.end(), [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               c == '_' || c == '-' || c == '.';
      });
  if (!good) table.fail(key, "must be 1 to 64 letters, digits, '.', '_' or '-'");
}

template <class Port>
void read_rate(Table& table, Port* port) {
  table.read("rate", &port->rate);
  const auto rate = graph::network_rate(port->rate);
  if (!rate) {
    table.fail("rate", port->rate.empty() ? "is missing; give it as NDR, HDR or 100GbE"
                                          : "'" + base::printable(port->rate) +
                                                "' is not known; give it as NDR, HDR100 or 100GbE");
  }
  port->mbit_per_s = rate->mbit_per_s;
  port->lanes = rate->lanes;
  port->link_layer = rate->link_layer;
}

void read_hosts(Table& table, NodeKind* kind) {
  std::string names;
  table.read("names", &names);
  const int count = whole(table, "count", 0, 0, static_cast<int>(graph::kMostHosts));
  if (names.empty() == (count == 0)) {
    table.fail("names", "give either names, as in 'node[01-32]', or count");
  }
  if (count > 0) {
    kind->hosts = numbered_hosts(kind->name, count);
    return;
  }
  try {
    kind->hosts = graph::expand_hostlist(names);
  } catch (const base::Error& error) {
    table.fail("names", error.what());
  }
  if (kind->hosts.empty()) table.fail("names", "names no node");
  for (const std::string& host : kind->hosts) check_word(table, "names", host);
}

void read_nvlink(Table& gpus, NodeKind* kind, const graph::GpuFigures* figures) {
  gpus.read_enum("nvlink", {"none", "pairs", "mesh", "switch", "domain"}, &kind->nvlink);
  if (kind->nvlink == NvlinkShape::None) return;
  const bool known = figures != nullptr && figures->nvlinks > 0;
  kind->nvlinks = whole(gpus, "nvlinks", known ? figures->nvlinks : 0, 0, 64);
  kind->gb_per_s_a_nvlink =
      positive(gpus, "gb_per_s_a_nvlink", known ? figures->gb_per_s_a_nvlink : 0, 1000);
  if (kind->nvlinks == 0 || kind->gb_per_s_a_nvlink == 0) {
    gpus.fail("nvlink", "no figures are known of the NVLinks of '" +
                            base::printable(kind->gpu_model) +
                            "'; give nvlinks and gb_per_s_a_nvlink");
  }
  if (kind->nvlink == NvlinkShape::Switch || kind->nvlink == NvlinkShape::Domain) {
    kind->nvswitches = whole(gpus, "nvswitches", 1, 1, 64);
  }
  if (kind->nvlink == NvlinkShape::Domain) {
    kind->nodes_per_domain = whole(gpus, "nodes_per_domain", 1, 1, 1024);
  }
  if (kind->nvlink == NvlinkShape::Mesh && (kind->gpus < 2 || kind->nvlinks < kind->gpus - 1)) {
    gpus.fail("nvlink", "a mesh needs two GPUs, and as many NVLinks as there are other GPUs");
  }
}

void read_gpus(Table& table, NodeKind* kind) {
  Table gpus = table.table("gpus");
  gpus.read("model", &kind->gpu_model);
  kind->gpus = whole(gpus, "count", 0, 0, 64);
  if (kind->gpus > 0 && kind->gpu_model.empty()) {
    gpus.fail("model", "is missing; give it as nvidia-smi shows it, as in 'NVIDIA H100 80GB HBM3'");
  }
  read_nvlink(gpus, kind, graph::gpu_figures(kind->gpu_model));
  gpus.finish();
}

void read_cpus(Table& table, NodeKind* kind) {
  Table cpus = table.table("cpus");
  cpus.read("vendor", &kind->cpu_vendor);
  kind->sockets = whole(cpus, "sockets", 2, 1, 8);
  kind->numa_per_socket = whole(cpus, "numa_per_socket", 1, 1, 8);
  kind->cores_per_socket = whole(cpus, "cores_per_socket", 0, 0, 1024);
  kind->threads_per_core = whole(cpus, "threads_per_core", 1, 1, 8);
  if (kind->cores_per_socket % kind->numa_per_socket != 0) {
    cpus.fail("cores_per_socket", "must divide by numa_per_socket");
  }
  kind->socket_gb_per_s = positive(cpus, "socket_gb_per_s", 0, 10000);
  cpus.finish();
}

void read_pcie(Table& table, NodeKind* kind) {
  Table pcie = table.table("pcie");
  kind->pcie_gt_s = *graph::pcie_gt_s(whole(pcie, "generation", 4, 1, 6));
  kind->pcie_width = whole(pcie, "width", 16, 1, 32);
  kind->pcie_switches = whole(pcie, "switches", 0, 0, 64);
  std::vector<std::string> numbers;
  pcie.read("numa", &numbers);
  const int domains = kind->sockets * kind->numa_per_socket;
  for (const std::string& text : numbers) {
    const auto number = base::parse_integer(text);
    if (!number || *number < 0 || *number >= domains || kind->switch_numa.size() >= 64) {
      pcie.fail("numa", "'" + base::printable(text) + "' is none of the " +
                            std::to_string(domains) + " NUMA domains, which count from 0");
    }
    kind->switch_numa.push_back(static_cast<int>(*number));
  }
  if (kind->switch_numa.empty()) {
    for (int i = 0; i < domains; ++i) kind->switch_numa.push_back(i);
  }
  pcie.finish();
}

void read_nics(Table& table, NodeKind* kind) {
  Table groups = table.table("nics");
  for (const std::string& name : groups.keys()) {
    check_word(groups, name, name);
    Table group = groups.table(name);
    NicGroup nics;
    nics.name = name;
    nics.prefix = "mlx5_";
    group.read("model", &nics.model);
    group.read("prefix", &nics.prefix);
    check_word(group, "prefix", nics.prefix);
    group.read("fabric", &nics.fabric);
    nics.count = whole(group, "count", 1, 1, 64);
    read_rate(group, &nics);
    group.read_enum("near", {"numa", "gpus"}, &nics.near_gpus);
    group.finish();
    kind->nics.push_back(std::move(nics));
  }
  groups.finish();
}

NodeKind read_kind(Table table, const std::string& name) {
  NodeKind kind;
  kind.name = name;
  read_hosts(table, &kind);
  table.read("model", &kind.model);
  read_gpus(table, &kind);
  read_cpus(table, &kind);
  read_pcie(table, &kind);
  read_nics(table, &kind);
  table.finish();
  return kind;
}

FabricPlan read_fabric(Table table, const std::string& name) {
  FabricPlan fabric;
  fabric.name = name;
  table.read_enum("shape", {"fat_tree", "rails"}, &fabric.rails);
  read_rate(table, &fabric);
  fabric.radix = whole(table, "radix", 64, 2, 1024);
  fabric.oversubscription = positive(table, "oversubscription", 1, 64);
  table.finish();
  return fabric;
}

// Between the parts of the description.
void check_whole(Table& root, const ClusterDescription& cluster) {
  std::set<std::string> hosts, cabled;
  std::size_t vertices = 0;
  for (const NodeKind& kind : cluster.kinds) {
    for (const std::string& host : kind.hosts) {
      if (!hosts.insert(host).second) root.fail("nodes", "the node " + host + " appears twice");
    }
    std::size_t devices = static_cast<std::size_t>(2 + kind.sockets * kind.numa_per_socket +
                                                   kind.pcie_switches + kind.gpus);
    for (const NicGroup& nics : kind.nics) {
      devices += static_cast<std::size_t>(nics.count);
      const auto fabric = std::find_if(cluster.fabrics.begin(), cluster.fabrics.end(),
                                       [&](const auto& each) { return each.name == nics.fabric; });
      if (!nics.fabric.empty() && fabric == cluster.fabrics.end()) {
        root.fail("nodes", kind.name + ".nics." + nics.name + ".fabric: there is no fabric '" +
                               base::printable(nics.fabric) + "'");
      }
      cabled.insert(nics.fabric);
    }
    vertices += kind.hosts.size() * devices;
  }
  // Before the fabrics are laid out, whose size follows from the nodes.
  if (vertices <= kMostVertices) {
    for (const FabricPlan& fabric : cluster.fabrics) {
      if (cabled.count(fabric.name) == 0) {
        root.fail("fabrics", fabric.name + ": no NIC is cabled to it; name it as a group's fabric");
      }
      const FabricLayout layout = lay_out(cluster, fabric);
      if (!layout.trouble.empty()) root.fail("fabrics", fabric.name + ": " + layout.trouble);
      vertices += layout.leaves * 3;
    }
  }
  if (vertices > kMostVertices) {
    root.fail("nodes", "make more than " + std::to_string(kMostVertices) +
                           " parts; describe a part of the cluster");
  }
}

}  // namespace

std::size_t ClusterDescription::node_count() const {
  std::size_t count = 0;
  for (const NodeKind& kind : kinds) count += kind.hosts.size();
  return count;
}

std::vector<std::string> numbered_hosts(const std::string& name, int count) {
  const std::size_t digits = std::max<std::size_t>(2, std::to_string(count).size());
  std::vector<std::string> hosts;
  for (int i = 1; i <= count; ++i) {
    const std::string number = std::to_string(i);
    hosts.push_back(name + std::string(digits - number.size(), '0') + number);
  }
  return hosts;
}

ClusterDescription parse_cluster(std::string_view text, const std::string& source) {
  Table root = Table::parse(text, source);
  ClusterDescription cluster;
  cluster.source = source;
  cluster.name = "cluster";
  root.read("cluster", &cluster.name);
  check_word(root, "cluster", cluster.name);
  Table nodes = root.table("nodes");
  for (const std::string& name : nodes.keys()) {
    check_word(nodes, name, name);
    cluster.kinds.push_back(read_kind(nodes.table(name), name));
  }
  if (cluster.kinds.empty()) root.fail("nodes", "is missing; describe at least one kind of node");
  nodes.finish();
  Table fabrics = root.table("fabrics");
  for (const std::string& name : fabrics.keys()) {
    check_word(fabrics, name, name);
    cluster.fabrics.push_back(read_fabric(fabrics.table(name), name));
  }
  fabrics.finish();
  root.finish();
  check_whole(root, cluster);
  return cluster;
}

ClusterDescription with_nodes(ClusterDescription description, int node_count) {
  if (node_count < 1 || node_count > static_cast<int>(graph::kMostHosts)) {
    throw base::Error(base::Code::User, "a cluster has 1 to " + std::to_string(graph::kMostHosts) +
                                            " nodes, not " + std::to_string(node_count));
  }
  description.kinds.resize(1);
  description.kinds[0].hosts = numbered_hosts(description.kinds[0].name, node_count);
  return description;
}

graph::Graph generate(const ClusterDescription& description, int node_count) {
  return cluster_graph(with_nodes(description, node_count));
}

}  // namespace regatta::topology::sources
