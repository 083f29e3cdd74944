#include "topology/graph/paths.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "base/error.h"
#include "base/text.h"
#include "topology/graph/nccl_speeds.h"

namespace regatta::topology::graph {
namespace {

constexpr const char* kTypes[] = {"LOC", "NVL", "NVB", "C2C", "PIX", "PXB",
                                  "P2C", "PXN", "PHB", "SYS", "NET", "DIS"};

// Nothing where one of them is not known.
std::optional<double> narrower(std::optional<double> a, std::optional<double> b) {
  if (!a || !b) return std::nullopt;
  return std::min(*a, *b);
}

}  // namespace

const char* name_of(PathType type) { return kTypes[static_cast<std::size_t>(type)]; }

std::optional<PathType> parse_path_type(std::string_view name) {
  for (std::size_t i = 0; i < std::size(kTypes); ++i) {
    if (name == kTypes[i]) return static_cast<PathType>(i);
  }
  if (name == "NODE") return PathType::Phb;
  if (name == "SOC") return PathType::Sys;
  if (name.starts_with("NV") && base::parse_integer(name.substr(2))) return PathType::Nvl;
  return std::nullopt;
}

bool is_stand_in(const Graph& graph, VertexIndex nvswitch) {
  const Vertex& vertex = graph.vertex(nvswitch);
  if (vertex.kind != Kind::NvSwitch || vertex.parent == kNoVertex ||
      !vertex.id.ends_with("/nvswitch#0")) {
    return false;
  }
  const std::vector<VertexIndex> beside = graph.children(vertex.parent);
  return std::any_of(beside.begin(), beside.end(), [&](VertexIndex other) {
    return other != nvswitch && graph.vertex(other).kind == Kind::NvSwitch;
  });
}

struct Paths::Label {
  PathType type = PathType::Dis;
  int hops = 0;
  double speed = 0;  // to compare; 0: not known
  std::optional<double> gb_per_s;
  std::optional<std::int64_t> count;
  VertexIndex before = kNoVertex;
  bool done = false;

  [[nodiscard]] bool is_better_than(const Label& other) const {
    return std::tuple(type, hops, -speed) < std::tuple(other.type, other.hops, -other.speed);
  }
};

Paths::Paths(const Graph& graph)
    : graph_(graph), ways_(graph.vertices().size()), first_switch_(graph.vertices().size(), 0) {
  std::map<VertexIndex, VertexIndex> first;
  for (VertexIndex index = 0; index < graph.vertices().size(); ++index) {
    const Vertex& vertex = graph.vertex(index);
    first_switch_[index] = index;
    if (vertex.kind == Kind::NvSwitch) {
      first_switch_[index] = first.emplace(vertex.parent, index).first->second;
    }
  }
  for (const Link& link : graph.links()) add_link(link);
  add_containment();
}

// NCCL takes all NVSwitches of a node for one, so links to them add up.
VertexIndex Paths::merged(VertexIndex vertex) const { return first_switch_[vertex]; }

void Paths::add_link(const Link& link) {
  if (link.kind == LinkKind::Fabric) return;
  if (is_stand_in(graph_, link.a) || is_stand_in(graph_, link.b)) return;
  const VertexIndex a = merged(link.a), b = merged(link.b);
  if (a == b) return;
  const Way way = {b, link.kind, number_of(graph_, link.facts, key::kBandwidth),
                   integer_of(graph_, link.facts, key::kCount)};
  add_way(a, b, way);
  add_way(b, a, way);
}

void Paths::add_way(VertexIndex from, VertexIndex to, Way way) {
  way.to = to;
  std::vector<Way>& ways = ways_[from];
  const auto same = std::find_if(ways.begin(), ways.end(), [&](const Way& each) {
    return each.to == to && each.kind == way.kind;
  });
  if (same == ways.end()) {
    ways.push_back(way);
    return;
  }
  const auto sum = [](const auto& x, const auto& y) {
    return x && y ? std::optional(*x + *y) : std::nullopt;
  };
  same->gb_per_s = sum(same->gb_per_s, way.gb_per_s);
  same->count = sum(same->count, way.count);
}

void Paths::add_ways(VertexIndex a, VertexIndex b, LinkKind kind) {
  add_way(a, b, {b, kind, std::nullopt, std::nullopt});
  add_way(b, a, {a, kind, std::nullopt, std::nullopt});
}

// What lies in something reaches it, also where no source describes the link.
void Paths::add_containment() {
  for (VertexIndex index = 0; index < graph_.vertices().size(); ++index) {
    const Vertex& vertex = graph_.vertex(index);
    if (vertex.parent == kNoVertex) continue;
    if (vertex.kind == Kind::Numa) {
      add_ways(index, vertex.parent, LinkKind::Smp);
    } else if ((is_device(vertex.kind) || vertex.kind == Kind::PciSwitch) &&
               !graph_.find_link(LinkKind::Pcie, index, vertex.parent)) {
      add_ways(index, vertex.parent, LinkKind::Pcie);
    }
  }
}

// The type of a path that goes on this way; nothing where none can.
std::optional<PathType> Paths::step(const Label& at, VertexIndex from, const Way& way,
                                    VertexIndex target) const {
  const Kind here = graph_.vertex(from).kind, there = graph_.vertex(way.to).kind;
  const bool start = at.hops == 0;
  if (is_device(there) && way.to != target && !(there == Kind::Gpu && way.kind != LinkKind::Pcie)) {
    return std::nullopt;
  }
  PathType type = PathType::Pix;
  if (way.kind == LinkKind::NvLink || way.kind == LinkKind::Xgmi) {
    type = PathType::Nvl;
  } else if (way.kind == LinkKind::C2c) {
    type = PathType::C2c;
  } else if (way.kind == LinkKind::Smp) {
    type = PathType::Sys;
  } else if (here == Kind::Numa || there == Kind::Numa) {
    const bool over_c2c = at.type == PathType::C2c && here == Kind::Numa;
    const bool to_nic = graph_.vertex(target).kind == Kind::Nic;
    type = over_c2c && to_nic ? PathType::P2c : PathType::Phb;
  } else if (here == Kind::Node || there == Kind::Node) {
    const VertexIndex node = here == Kind::Node ? from : way.to;
    type = graph_.below(node, Kind::Numa).size() > 1 ? PathType::Sys : PathType::Phb;
  } else if (here == Kind::PciSwitch && there == Kind::PciSwitch) {
    type = PathType::Pxb;
  }
  if (!start && is_device(here)) {
    // GPUs pass on what comes over one NVLink and leaves over another, NICs nothing.
    const bool relay = here == Kind::Gpu && at.type == PathType::Nvl && at.hops == 1 &&
                       type == PathType::Nvl && way.to == target && there == Kind::Gpu;
    if (!relay) return std::nullopt;
    type = PathType::Nvb;
  }
  return std::max(at.type, type);
}

Path Paths::search(VertexIndex a, VertexIndex b) const {
  std::map<VertexIndex, Label> labels;
  using Open = std::tuple<PathType, int, double, VertexIndex>;
  std::set<Open> open;
  Label& start = labels[a];
  start.type = PathType::Loc;
  open.emplace(start.type, 0, 0, a);
  while (!open.empty()) {
    const VertexIndex at = std::get<3>(*open.begin());
    open.erase(open.begin());
    Label& label = labels[at];
    if (label.done) continue;
    label.done = true;
    if (at == b) break;
    const Label from = label;
    for (const Way& way : ways_[at]) {
      const auto type = step(from, at, way, b);
      if (!type) continue;
      Label next;
      next.type = *type;
      next.hops = from.hops + 1;
      next.gb_per_s = at == a ? way.gb_per_s : narrower(from.gb_per_s, way.gb_per_s);
      next.speed = next.gb_per_s.value_or(0);
      next.count = at == a || !from.count || !way.count
                       ? way.count
                       : std::optional(std::min(*from.count, *way.count));
      next.before = at;
      Label& old = labels[way.to];
      if (old.done || (old.before != kNoVertex && !next.is_better_than(old))) continue;
      old = next;
      open.emplace(next.type, next.hops, -next.speed, way.to);
    }
  }
  Path path;
  const auto found = labels.find(b);
  if (found == labels.end() || !found->second.done) return path;
  path.type = found->second.type;
  path.gb_per_s = found->second.gb_per_s;
  if (path.type == PathType::Nvl || path.type == PathType::Nvb) path.nvlinks = found->second.count;
  for (VertexIndex at = b; at != kNoVertex; at = labels[at].before) path.via.push_back(at);
  std::reverse(path.via.begin(), path.via.end());
  return path;
}

std::optional<PathType> Paths::told(VertexIndex a, VertexIndex b) const {
  for (const auto& [from, to] : {std::pair(a, b), std::pair(b, a)}) {
    const std::string said =
        text_of(graph_, graph_.vertex(from).facts, key::kPath + graph_.vertex(to).id);
    if (const auto type = parse_path_type(said)) return type;
  }
  return std::nullopt;
}

bool Paths::is_placed(VertexIndex device) const {
  const VertexIndex parent = graph_.vertex(device).parent;
  return parent != kNoVertex && (graph_.vertex(parent).kind == Kind::PciSwitch ||
                                 graph_.find_link(LinkKind::Pcie, device, parent).has_value());
}

bool Paths::is_below_numa(VertexIndex device) const {
  while (device != kNoVertex && graph_.vertex(device).kind != Kind::Numa) {
    device = graph_.vertex(device).parent;
  }
  return device != kNoVertex;
}

bool Paths::has_nic(VertexIndex node) const {
  return node != kNoVertex && !graph_.below(node, Kind::Nic).empty();
}

Path Paths::between(VertexIndex a, VertexIndex b) const {
  const Kind first = graph_.vertex(a).kind, second = graph_.vertex(b).kind;
  base::check(is_device(first) && is_device(second), "paths join GPUs and NICs");
  if (a == b) return {PathType::Loc, true, std::nullopt, std::nullopt, {a}};
  if (first == Kind::Nic && second == Kind::Gpu) {
    Path path = between(b, a);
    std::reverse(path.via.begin(), path.via.end());
    return path;
  }
  Path path = search(a, b);
  if (path.type > PathType::C2c) {
    const auto node = std::find_if(path.via.begin(), path.via.end(), [this](VertexIndex each) {
      return graph_.vertex(each).kind == Kind::Node;
    });
    // A way that leads to the whole node says nothing of which CPUs are between.
    const bool is_vague = node != path.via.end() && !(is_below_numa(a) && is_below_numa(b));
    const bool is_exact = is_placed(a) && is_placed(b) && !is_vague;
    if (const auto type = is_exact ? std::nullopt : told(a, b)) {
      path = {*type, true, std::nullopt, std::nullopt, {a, b}};
    } else {
      path.is_known = !is_vague || graph_.below(*node, Kind::Numa).size() == 1;
    }
  }
  if (path.type == PathType::Dis) {
    const VertexIndex here = graph_.node_of(a), there = graph_.node_of(b);
    if (here != there && has_nic(here) && has_nic(there)) path.type = PathType::Net;
    return path;
  }
  for (const VertexIndex end : {a, b}) {
    const auto port = integer_of(graph_, graph_.vertex(end).facts, key::kSpeed);
    if (port && *port > 0) path.gb_per_s = narrower(path.gb_per_s, nic_gb_per_s(*port));
  }
  return path;
}

Path Paths::to_nic(VertexIndex gpu, VertexIndex nic) const {
  Path best = between(gpu, nic);
  const VertexIndex node = graph_.node_of(gpu);
  if (best.type <= PathType::Pxn || node == kNoVertex || node != graph_.node_of(nic)) return best;
  for (const VertexIndex peer : graph_.below(node, Kind::Gpu)) {
    if (peer == gpu) continue;
    const Path to_peer = between(gpu, peer), rest = between(peer, nic);
    if (to_peer.type > PathType::Nvl || rest.type > PathType::P2c) continue;
    const auto speed = narrower(to_peer.gb_per_s, rest.gb_per_s);
    if (best.type == PathType::Pxn && speed.value_or(0) <= best.gb_per_s.value_or(0)) continue;
    best = {PathType::Pxn, true, speed, std::nullopt, to_peer.via};
    best.via.insert(best.via.end(), rest.via.begin() + 1, rest.via.end());
  }
  return best;
}

Path path_of(const Graph& graph, VertexIndex a, VertexIndex b) {
  return Paths(graph).between(a, b);
}

}  // namespace regatta::topology::graph
