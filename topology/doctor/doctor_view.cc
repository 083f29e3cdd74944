#include "topology/doctor/doctor_view.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <iterator>
#include <limits>
#include <queue>

#include "base/error.h"
#include "base/text.h"
#include "base/wording.h"
#include "topology/fabric/ibnetdiscover.h"
#include "topology/graph/figures.h"
#include "topology/graph/hostlist.h"

namespace regatta::topology::doctor {
namespace {

constexpr std::size_t kMostEvidence = 8;  // of one finding; more helps nobody

bool is_bond(const std::string& name) { return name.find("bond") != std::string::npos; }

// As drivers and udev name RDMA devices.
bool is_rdma_name(const std::string& name) {
  constexpr const char* kPrefixes[] = {"mlx", "bnxt_re", "irdma", "roce", "efa", "rdmap"};
  return std::any_of(std::begin(kPrefixes), std::end(kPrefixes),
                     [&](const char* prefix) { return name.rfind(prefix, 0) == 0; });
}

// As the kernel, udev and what runs containers and virtual machines name interfaces: a prefix, then
// a number, or whatever they like.
bool is_interface_name(const std::string& name) {
  constexpr const char* kNumbered[] = {"eth", "eno", "ens", "enp", "em",  "br",  "tun",
                                       "tap", "gre", "sit", "wlp", "lxc", "vnet"};
  constexpr const char* kFree[] = {"enx",  "veth", "br-",     "docker", "virbr",  "tunl", "cni",
                                   "cali", "vlan", "flannel", "vxlan",  "cilium", "dummy"};
  const auto digit = [&](std::size_t at) {
    return at < name.size() && std::isdigit(static_cast<unsigned char>(name[at])) != 0;
  };
  return name == "lo" ||
         std::any_of(std::begin(kNumbered), std::end(kNumbered),
                     [&](std::string_view prefix) {
                       return name.rfind(prefix, 0) == 0 && digit(prefix.size());
                     }) ||
         std::any_of(std::begin(kFree), std::end(kFree),
                     [&](const char* prefix) { return name.rfind(prefix, 0) == 0; });
}

// "35-32 4xDDR": the numbers of two ports and what they run at.
struct CableText {
  std::string port_a, port_b, rate;
};
std::optional<CableText> parse_cable(const std::string& text) {
  const std::size_t begin = text.find_first_not_of(' ');
  const std::size_t space = text.rfind(' ');
  const std::size_t dash = text.find('-', begin == std::string::npos ? 0 : begin);
  if (begin == std::string::npos || dash == std::string::npos || space == std::string::npos ||
      space < dash) {
    return std::nullopt;
  }
  return CableText{text.substr(begin, dash - begin), text.substr(dash + 1, space - dash - 1),
                   text.substr(space + 1)};
}

// "dgx[01-32]", or as they are where a name is none that Slurm knows.
std::string short_form(const std::vector<std::string>& nodes) {
  try {
    return graph::compress_hosts(nodes);
  } catch (const base::Error&) {
    return base::join(nodes, ", ");
  }
}

const char* plural_of(graph::Kind kind) {
  switch (kind) {
    case graph::Kind::Gpu:
      return "GPUs";
    case graph::Kind::Nic:
      return "NICs";
    case graph::Kind::Node:
      return "nodes";
    case graph::Kind::FabricSwitch:
      return "switches";
    case graph::Kind::PciSwitch:
      return "PCIe bridges";
    default:
      return "parts";
  }
}

}  // namespace

const char* name_of(Reach reach) {
  constexpr const char* kReaches[] = {"behind one PCIe switch", "at the same chip",
                                      "at one NUMA domain", "across NUMA domains", "unknown"};
  return kReaches[static_cast<std::size_t>(reach)];
}

ClusterView::ClusterView(const Subject& subject) : subject_(subject) {
  const auto& vertices = graph().vertices();
  std::vector<std::uint32_t> node_number(vertices.size(), graph::kNoVertex);
  std::vector<graph::VertexIndex> in_order(vertices.size());
  for (graph::VertexIndex i = 0; i < vertices.size(); ++i) in_order[i] = i;
  std::sort(in_order.begin(), in_order.end(), [&](graph::VertexIndex a, graph::VertexIndex b) {
    return vertices[a].id < vertices[b].id;
  });
  for (const graph::VertexIndex i : in_order) {
    if (vertices[i].kind != graph::Kind::Node) continue;
    node_number[i] = static_cast<std::uint32_t>(nodes_.size());
    nodes_.push_back({i, {}, {}, {}, {}});
  }
  for (const graph::VertexIndex i : in_order) {
    const graph::VertexIndex owner = graph().node_of(i);
    if (owner == graph::kNoVertex || owner == i) continue;
    NodeView& node = nodes_[node_number[owner]];
    if (vertices[i].kind == graph::Kind::Gpu) node.gpus.push_back(i);
    if (vertices[i].kind == graph::Kind::Nic) node.nics.push_back(i);
    if (vertices[i].kind == graph::Kind::Numa) node.numas.push_back(i);
    if (vertices[i].kind == graph::Kind::PciSwitch) node.bridges.push_back(i);
  }
  first_link_.assign(vertices.size() + 1, 0);
  for (const graph::Link& link : graph().links())
    ++first_link_[link.a + 1], ++first_link_[link.b + 1];
  for (std::size_t i = 1; i < first_link_.size(); ++i) first_link_[i] += first_link_[i - 1];
  links_.resize(graph().links().size() * 2);
  std::vector<std::uint32_t> next(first_link_.begin(), first_link_.end() - 1);
  for (std::uint32_t i = 0; i < graph().links().size(); ++i) {
    links_[next[graph().links()[i].a]++] = i;
    links_[next[graph().links()[i].b]++] = i;
  }
}

std::optional<std::int64_t> ClusterView::integer(graph::VertexIndex vertex, const char* key) const {
  return graph::integer_of(graph(), graph().vertex(vertex).facts, key);
}
std::optional<double> ClusterView::number(graph::VertexIndex vertex, const char* key) const {
  return graph::number_of(graph(), graph().vertex(vertex).facts, key);
}
std::string ClusterView::text(graph::VertexIndex vertex, const char* key) const {
  return graph::text_of(graph(), graph().vertex(vertex).facts, key);
}

std::string ClusterView::node_name(graph::VertexIndex vertex) const {
  const graph::VertexIndex node = graph().node_of(vertex);
  return node == graph::kNoVertex ? "" : id(node);
}

std::string ClusterView::nic_name(graph::VertexIndex nic) const {
  const std::string name = text(nic, graph::key::kName);
  if (!name.empty()) return name;
  const std::string& whole = id(nic);
  const std::size_t at = whole.rfind("/nic:");
  return at == std::string::npos ? whole : whole.substr(at + 5);
}

std::vector<std::uint32_t> ClusterView::links_of(graph::VertexIndex vertex) const {
  return {links_.begin() + first_link_[vertex], links_.begin() + first_link_[vertex + 1]};
}

graph::VertexIndex ClusterView::other_end(std::uint32_t link, graph::VertexIndex vertex) const {
  const graph::Link& each = graph().links()[link];
  return each.a == vertex ? each.b : each.a;
}

double ClusterView::gb_per_s(std::uint32_t link) const {
  return graph::number_of(graph(), graph().links()[link].facts, graph::key::kBandwidth).value_or(0);
}

std::int64_t ClusterView::count(std::uint32_t link) const {
  constexpr std::int64_t kMost = 1'000'000;  // whatever a file claims
  return std::clamp<std::int64_t>(
      graph::integer_of(graph(), graph().links()[link].facts, graph::key::kCount).value_or(1), 1,
      kMost);
}

std::vector<Cable> ClusterView::cables(std::uint32_t link) const {
  const graph::Link& each = graph().links()[link];
  std::string a = id(each.a), b = id(each.b);
  if (b < a) std::swap(a, b);  // as key::kCables has its ports
  std::vector<Cable> all;
  for (const std::string& text :
       base::split(graph::text_of(graph(), each.facts, graph::key::kCables), ',')) {
    const auto cable = parse_cable(text);
    const double megabits = cable ? fabric::parse_infiniband_rate(cable->rate) : 0;
    if (megabits <= 0) continue;
    all.push_back({a + " port " + cable->port_a + " – " + b + " port " + cable->port_b, cable->rate,
                   megabits / 8000, cable->rate.rfind("1x", 0) == 0});
  }
  if (!all.empty() || gb_per_s(link) <= 0) return all;
  return {{a + " – " + b, "", gb_per_s(link) / static_cast<double>(count(link)),
           graph::integer_of(graph(), each.facts, graph::key::kLanes) == 1}};
}

double ClusterView::nic_speed(graph::VertexIndex nic) const {
  if (const auto speed = number(nic, graph::key::kSpeed)) return *speed;
  for (const std::uint32_t link : links_of(nic)) {
    if (graph().links()[link].kind == graph::LinkKind::Fabric) {
      return gb_per_s(link) * 8000 / static_cast<double>(count(link));
    }
  }
  return 0;
}

graph::VertexIndex ClusterView::fabric_of(graph::VertexIndex vertex) const {
  if (kind(vertex) == graph::Kind::Nic) {
    for (const std::uint32_t link : links_of(vertex)) {
      if (graph().links()[link].kind == graph::LinkKind::Fabric) {
        return graph().vertex(other_end(link, vertex)).parent;
      }
    }
    return graph::kNoVertex;
  }
  return graph().vertex(vertex).parent;
}

bool ClusterView::is_plain_card(graph::VertexIndex nic) const {
  const std::string layer = text(nic, graph::key::kLinkLayer);
  if (kind(nic) != graph::Kind::Nic || layer == "InfiniBand") return false;
  const std::string name = nic_name(nic);
  // RDMA devices number their ports from 1, in sysfs and in NCCL's XML.
  if (integer(nic, graph::key::kPort).value_or(0) > 0 || is_rdma_name(name)) return false;
  // NCCL's XML has no link layer: there the name tells.
  return is_interface_name(name) || (layer == "Ethernet" && text(nic, graph::key::kModel).empty());
}

std::vector<graph::VertexIndex> ClusterView::compute_nics(const NodeView& node) const {
  const bool infiniband = std::any_of(
      node.nics.begin(), node.nics.end(),
      [this](graph::VertexIndex nic) { return text(nic, graph::key::kLinkLayer) == "InfiniBand"; });
  std::vector<graph::VertexIndex> nics;
  for (const graph::VertexIndex nic : node.nics) {
    if (is_bond(nic_name(nic)) || is_plain_card(nic)) continue;
    if (infiniband && text(nic, graph::key::kLinkLayer) == "Ethernet") continue;
    nics.push_back(nic);
  }
  return nics;
}

// What nvidia-smi's matrix says; Unknown where there was none.
Reach ClusterView::path_reach(graph::VertexIndex from, graph::VertexIndex to) const {
  constexpr std::string_view kPrefix = graph::key::kPath;
  const std::string& wanted = id(to);
  for (const graph::Fact& fact : graph().vertex(from).facts) {
    const std::string_view name = fact.key;
    if (name.size() != kPrefix.size() + wanted.size() ||
        name.substr(0, kPrefix.size()) != kPrefix || name.substr(kPrefix.size()) != wanted) {
      continue;
    }
    const auto* const path = std::get_if<std::string>(&fact.value);
    if (path == nullptr) continue;
    if (*path == "PIX" || *path == "PXB") return Reach::SameSwitch;
    if (*path == "PHB" || *path == "NODE") return Reach::SameNuma;
    if (*path == "SYS" || *path == "SOC") return Reach::OtherNuma;
  }
  return Reach::Unknown;
}

Reach ClusterView::reach(graph::VertexIndex gpu, graph::VertexIndex nic) const {
  graph::VertexIndex gpu_numa = graph::kNoVertex, nic_numa = graph::kNoVertex;
  for (graph::VertexIndex v = graph().vertex(gpu).parent; v != graph::kNoVertex;
       v = graph().vertex(v).parent) {
    if (kind(v) == graph::Kind::Numa) gpu_numa = v;
    for (graph::VertexIndex w = graph().vertex(nic).parent;
         w != graph::kNoVertex && kind(v) == graph::Kind::PciSwitch; w = graph().vertex(w).parent) {
      if (v == w) return Reach::SameSwitch;
    }
  }
  for (graph::VertexIndex v = graph().vertex(nic).parent; v != graph::kNoVertex;
       v = graph().vertex(v).parent) {
    if (kind(v) == graph::Kind::Numa) nic_numa = v;
  }
  const Reach told = std::min(path_reach(gpu, nic), path_reach(nic, gpu));
  if (told != Reach::Unknown) return told;
  if (gpu_numa == graph::kNoVertex || nic_numa == graph::kNoVertex) return Reach::Unknown;
  if (gpu_numa != nic_numa) return Reach::OtherNuma;
  return graph().find_link(graph::LinkKind::C2c, gpu, nic_numa) ? Reach::Chip : Reach::SameNuma;
}

Reach ClusterView::best_reach(graph::VertexIndex gpu,
                              const std::vector<graph::VertexIndex>& nics) const {
  Reach best = Reach::Unknown;
  for (const graph::VertexIndex nic : nics) best = std::min(best, reach(gpu, nic));
  return best;
}

std::optional<double> ClusterView::bottleneck_gb_per_s(graph::VertexIndex a,
                                                       graph::VertexIndex b) const {
  // Dijkstra's way with "narrowest link so far" for the distance, widest first.
  std::map<graph::VertexIndex, double> widest;
  std::priority_queue<std::pair<double, graph::VertexIndex>> open;
  open.emplace(std::numeric_limits<double>::infinity(), a);
  while (!open.empty()) {
    const auto [width, vertex] = open.top();
    open.pop();
    if (!widest.emplace(vertex, width).second) continue;
    if (vertex == b) return std::isinf(width) ? std::nullopt : std::optional(width);
    for (const std::uint32_t link : links_of(vertex)) {
      const graph::LinkKind kind = graph().links()[link].kind;
      if (kind == graph::LinkKind::Fabric || kind == graph::LinkKind::NvLink) continue;
      const double figure = gb_per_s(link);
      const graph::VertexIndex next = other_end(link, vertex);
      if (widest.count(next) == 0) open.emplace(figure > 0 ? std::min(width, figure) : width, next);
    }
  }
  return std::nullopt;
}

bool ClusterView::is_flat(const NodeView& node) const {
  if (node.gpus.size() < 2 || node.nics.empty()) return false;
  if (!node.bridges.empty() || node.numas.size() > 1) return false;
  for (const TopologyFile& file : subject_.topology_files) {
    if (file.node.empty() || file.node == id(node.vertex)) return false;
  }
  if (setting("NCCL_TOPO_FILE") != nullptr) return false;
  if (integer(node.vertex, graph::key::kVirtual) == 1) return true;
  // Not said to be one, but no machine of metal looks like this.
  return std::all_of(node.nics.begin(), node.nics.end(), [this](graph::VertexIndex nic) {
    return integer(nic, graph::key::kNuma) == -1;
  });
}

const Setting* ClusterView::setting(const char* name) const {
  for (const Setting& each : subject_.environment) {
    if (each.name == name) return &each;
  }
  return nullptr;
}

std::string Cases::who(const std::vector<Case>& cases) const {
  std::set<graph::VertexIndex> vertices;
  std::set<std::string> nodes;
  for (const Case& each : cases) {
    vertices.insert(each.vertex);
    const std::string node = view_.node_name(each.vertex);
    if (!node.empty()) nodes.insert(node);
  }
  const graph::Kind kind = view_.kind(cases.front().vertex);
  if (vertices.size() == 1) return view_.id(cases.front().vertex);
  const std::string hosts = short_form({nodes.begin(), nodes.end()});
  if (kind == graph::Kind::Node && !nodes.empty()) return hosts;
  return std::to_string(vertices.size()) + " " + plural_of(kind) +
         (nodes.empty() ? "" : " of " + hosts);
}

graph::Finding Cases::finding(const std::vector<Case>& cases) const {
  graph::Finding found;
  found.subject = view_.id(cases.front().vertex);
  std::optional<Rates> worst;
  for (const Case& each : cases) {
    if (found.evidence.size() < kMostEvidence) found.evidence.push_back(each.evidence);
    if (each.rates && (!worst || each.rates->now < worst->now)) worst = each.rates;
  }
  if (cases.size() > kMostEvidence) {
    found.evidence.push_back({"and", std::to_string(cases.size() - kMostEvidence) + " more"});
  }
  if (worst) set_cost(&found, *worst);
  return found;
}

void set_cost(graph::Finding* finding, const Rates& rates) {
  if (rates.healthy <= rates.now) return;
  finding->cost_gb_per_s = rates.healthy - rates.now;
  if (rates.now > 0) {
    finding->cost_milliseconds =
        graph::kGradientBytesMoved / 1e6 * (1 / rates.now - 1 / rates.healthy);
  }
}

std::string figure(double value) { return base::short_number(value, 3); }

}  // namespace regatta::topology::doctor
