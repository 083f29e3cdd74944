#include "topology/fabric/fabric_shape.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "base/text.h"
#include "topology/fabric/ibnetdiscover.h"
#include "topology/graph/hostlist.h"

namespace regatta::topology::fabric {
namespace {

using graph::is_digit;

// A leaf is of a rail when so many of its adapters have the same number: a few plugs in the wrong
// place are a finding (check_fabric), not the end of the rail.
constexpr double kRailMajority = 2.0 / 3.0;

// Adapters of one rail have one key in every node: the driver's number (mlx5_5, or HCA-6 as some
// installations count from 1), else the name.
using RailKey = std::pair<std::int64_t, std::string>;
RailKey rail_key(const std::string& device) {
  const std::size_t end = device.find_last_not_of("0123456789");
  const auto number = base::parse_integer(
      end == std::string::npos ? device : std::string_view(device).substr(end + 1));
  if (!number) return {0, device};
  if (device.rfind("HCA-", 0) == 0 && end == 3) return {*number - 1, "mlx"};
  if (device.rfind("mlx", 0) == 0 && end == 4 && device[end] == '_') return {*number, "mlx"};
  return {0, device};
}

std::string device_name(const graph::Graph& graph, graph::VertexIndex nic) {
  const auto& facts = graph.vertex(nic).facts;
  const std::string device =
      parse_adapter_name(graph::text_of(graph, facts, graph::key::kDescription)).device;
  return device.empty() ? graph::text_of(graph, facts, graph::key::kName) : device;
}

// What somebody other than us says.
std::optional<int> level_given(const graph::Graph& graph, const std::vector<graph::Fact>& facts) {
  const graph::Fact* const fact = graph::fact_of(graph, facts, graph::key::kLevel);
  if (fact == nullptr || graph.sources()[fact->source].source == graph::Source::Derived) {
    return std::nullopt;
  }
  const auto* const level = std::get_if<std::int64_t>(&fact->value);
  if (level == nullptr || *level < 0) return std::nullopt;
  return static_cast<int>(std::min<std::int64_t>(*level, kMostLevel));
}

graph::VertexIndex fabric_of(const graph::Graph& graph, graph::VertexIndex vertex) {
  while (vertex != graph::kNoVertex && graph.vertex(vertex).kind != graph::Kind::Fabric) {
    vertex = graph.vertex(vertex).parent;
  }
  return vertex;
}

}  // namespace

bool natural_less(std::string_view a, std::string_view b) {
  std::size_t i = 0, j = 0;
  while (i < a.size() && j < b.size()) {
    if (!is_digit(a[i]) || !is_digit(b[j])) {
      if (a[i] != b[j]) return a[i] < b[j];
      ++i, ++j;
      continue;
    }
    while (i < a.size() && a[i] == '0') ++i;
    while (j < b.size() && b[j] == '0') ++j;
    std::size_t m = i, n = j;
    while (m < a.size() && is_digit(a[m])) ++m;
    while (n < b.size() && is_digit(b[n])) ++n;
    if (m - i != n - j) return m - i < n - j;
    const int order = a.substr(i, m - i).compare(b.substr(j, n - j));
    if (order != 0) return order < 0;
    i = m, j = n;
  }
  if (a.size() - i != b.size() - j) return a.size() - i < b.size() - j;
  return a < b;
}

std::string name_for_people(const graph::Graph& graph, graph::VertexIndex vertex) {
  const std::string name = graph::text_of(graph, graph.vertex(vertex).facts, graph::key::kName);
  return base::printable(name.empty() ? graph.vertex(vertex).id : name);
}

std::optional<double> SwitchShape::oversubscription() const {
  if (down_gb_per_s <= 0 || up_gb_per_s <= 0) return std::nullopt;
  return down_gb_per_s / up_gb_per_s;
}

FabricShape::FabricShape(const graph::Graph& graph) : graph_(graph) {
  for (const graph::VertexIndex vertex : graph.of_kind(graph::Kind::FabricSwitch)) {
    SwitchShape shape;
    shape.vertex = vertex;
    shape.fabric = fabric_of(graph, vertex);
    switches_.push_back(shape);
  }
  shape_of_.assign(graph.vertices().size(), switches_.size());
  for (std::size_t i = 0; i < switches_.size(); ++i) shape_of_[switches_[i].vertex] = i;
  neighbours_.resize(switches_.size());
  read_links();
  find_levels();
  find_rails();
  add_bandwidth();
}

const SwitchShape* FabricShape::find(graph::VertexIndex vertex) const {
  const std::size_t shape = shape_of_.at(vertex);
  return shape == switches_.size() ? nullptr : &switches_[shape];
}

void FabricShape::read_links() {
  for (std::uint32_t number = 0; number < graph_.links().size(); ++number) {
    const graph::Link& link = graph_.links()[number];
    if (link.kind != graph::LinkKind::Fabric) continue;
    const std::int64_t count =
        graph::integer_of(graph_, link.facts, graph::key::kCount).value_or(1);
    const int cables = static_cast<int>(std::clamp<std::int64_t>(count, 1, 1'000'000));
    const double gb_per_s =
        graph::number_of(graph_, link.facts, graph::key::kBandwidth).value_or(0);
    for (const auto& [end, other] : {std::pair(link.a, link.b), std::pair(link.b, link.a)}) {
      const std::size_t shape = shape_of_[other];
      if (shape == switches_.size()) continue;
      if (shape_of_[end] != switches_.size()) {
        neighbours_[shape].push_back({shape_of_[end], number, cables, gb_per_s});
        continue;
      }
      const graph::VertexIndex node = graph_.node_of(end);
      if (node != graph::kNoVertex) ends_of_[node].push_back(attachments_.size());
      attachments_.push_back({end, node, shape, cables, gb_per_s, std::nullopt});
    }
  }
}

std::vector<int> FabricShape::distances(const std::vector<std::size_t>& from) const {
  std::vector<int> distance(switches_.size(), -1);
  std::vector<std::size_t> open = from;
  for (const std::size_t shape : from) distance[shape] = 0;
  for (std::size_t next = 0; next < open.size(); ++next) {
    for (const Neighbour& neighbour : neighbours_[open[next]]) {
      if (distance[neighbour.shape] >= 0) continue;
      distance[neighbour.shape] = distance[open[next]] + 1;
      open.push_back(neighbour.shape);
    }
  }
  return distance;
}

void FabricShape::find_levels() {
  std::set<std::size_t> leaves;
  for (const Attachment& attachment : attachments_) leaves.insert(attachment.leaf);
  const auto distance = distances({leaves.begin(), leaves.end()});
  for (std::size_t i = 0; i < switches_.size(); ++i) {
    const auto given = level_given(graph_, graph_.vertex(switches_[i].vertex).facts);
    switches_[i].level = given ? *given : std::min(distance[i], kMostLevel);
  }
}

void FabricShape::find_rails() {
  struct Tally {
    int named = 0;
    std::map<RailKey, std::set<graph::VertexIndex>> nodes;
  };
  std::map<std::size_t, Tally> tallies;
  std::map<RailKey, std::set<std::string>> names;
  std::map<std::size_t, RailKey> keys;  // of attachments
  for (std::size_t i = 0; i < attachments_.size(); ++i) {
    const Attachment& attachment = attachments_[i];
    if (attachment.node == graph::kNoVertex || attachment.end == attachment.node) continue;
    const std::string device = device_name(graph_, attachment.end);
    if (device.empty()) continue;
    Tally& tally = tallies[attachment.leaf];
    ++tally.named;
    const RailKey key = rail_key(device);
    tally.nodes[key].insert(attachment.node);
    names[key].insert(device);
    keys[i] = key;
  }
  std::map<std::size_t, RailKey> majority;
  std::map<RailKey, int> rails;
  for (const auto& [leaf, tally] : tallies) {
    for (const auto& [key, nodes] : tally.nodes) {
      if (nodes.size() < 2 || static_cast<double>(nodes.size()) < kRailMajority * tally.named) {
        continue;
      }
      majority[leaf] = key;
      rails[key] = 0;
    }
  }
  if (rails.size() < 2) return;  // nodes with one adapter have no rails
  for (auto& [key, number] : rails) {
    number = static_cast<int>(rails_.size());
    rails_.push_back(base::join({names[key].begin(), names[key].end()}, "/"));
  }
  for (const auto& [leaf, key] : majority) switches_[leaf].rail = rails[key];
  for (const auto& [i, key] : keys) {
    if (const auto found = rails.find(key); found != rails.end()) {
      attachments_[i].rail = found->second;
    }
  }
}

void FabricShape::add_bandwidth() {
  for (const Attachment& attachment : attachments_) {
    SwitchShape& shape = switches_[attachment.leaf];
    ++shape.adapters;
    if (attachment.node == graph::kNoVertex) ++shape.unnamed;
    shape.down_cables += attachment.cables;
    shape.down_gb_per_s += attachment.gb_per_s;
  }
  for (std::size_t i = 0; i < switches_.size(); ++i) {
    for (const Neighbour& neighbour : neighbours_[i]) {
      if (switches_[neighbour.shape].level <= switches_[i].level) continue;
      switches_[i].up_cables += neighbour.cables;
      switches_[i].up_gb_per_s += neighbour.gb_per_s;
    }
  }
}

std::optional<Route> FabricShape::route(graph::VertexIndex node_a,
                                        graph::VertexIndex node_b) const {
  const auto a = ends_of_.find(node_a), b = ends_of_.find(node_b);
  if (a == ends_of_.end() || b == ends_of_.end() || node_a == node_b) return std::nullopt;
  Route route;
  bool reached = false;
  double alone[2] = {0, 0}, full[2] = {0, 0};
  for (const int side : {0, 1}) {
    std::vector<std::size_t> leaves;
    for (const std::size_t end : (side == 0 ? b : a)->second) {
      leaves.push_back(attachments_[end].leaf);
    }
    const auto distance = distances(leaves);
    for (const std::size_t end : (side == 0 ? a : b)->second) {
      const Attachment& attachment = attachments_[end];
      const int between = distance[attachment.leaf];
      if (between < 0) continue;
      route.switches = reached ? std::min(route.switches, between + 1) : between + 1;
      reached = true;
      const double over = switches_[attachment.leaf].oversubscription().value_or(1);
      alone[side] += attachment.gb_per_s;
      full[side] += between == 0 ? attachment.gb_per_s : attachment.gb_per_s / std::max(over, 1.0);
    }
  }
  if (!reached) return std::nullopt;
  route.gb_per_s = std::min(alone[0], alone[1]);
  route.full_gb_per_s = std::min(full[0], full[1]);
  return route;
}

namespace {

// Joins what hangs together, level by level.
class Grouping {
 public:
  explicit Grouping(std::size_t vertices) : parent_(vertices) {
    std::iota(parent_.begin(), parent_.end(), graph::VertexIndex{0});
  }
  graph::VertexIndex root(graph::VertexIndex vertex) {
    while (parent_[vertex] != vertex) {
      parent_[vertex] = parent_[parent_[vertex]];
      vertex = parent_[vertex];
    }
    return vertex;
  }
  void join(graph::VertexIndex a, graph::VertexIndex b) { parent_[root(a)] = root(b); }

 private:
  std::vector<graph::VertexIndex> parent_;
};

graph::VertexIndex any_switch(const TierGroup& group) { return group.switches.front(); }

}  // namespace

std::vector<TierGroup> FabricShape::groups(const std::vector<graph::VertexIndex>& fabrics) const {
  const std::set<graph::VertexIndex> wanted(fabrics.begin(), fabrics.end());
  std::map<int, std::vector<std::size_t>> by_level;
  for (std::size_t i = 0; i < switches_.size(); ++i) {
    if (switches_[i].level >= 0 && wanted.count(switches_[i].fabric) != 0) {
      by_level[switches_[i].level].push_back(i);
    }
  }
  std::map<std::size_t, std::vector<const Attachment*>> on_switch;
  for (const Attachment& attachment : attachments_)
    on_switch[attachment.leaf].push_back(&attachment);
  const auto by_name = [this](graph::VertexIndex a, graph::VertexIndex b) {
    return natural_less(name_for_people(graph_, a), name_for_people(graph_, b));
  };

  Grouping grouping(graph_.vertices().size());
  std::vector<TierGroup> groups;
  std::set<graph::VertexIndex> placed;  // nodes
  for (const auto& [level, shapes] : by_level) {
    for (const std::size_t i : shapes) {
      for (const Attachment* end : on_switch[i]) {
        grouping.join(switches_[i].vertex, end->node == graph::kNoVertex ? end->end : end->node);
      }
      for (const Neighbour& neighbour : neighbours_[i]) {
        const SwitchShape& other = switches_[neighbour.shape];
        if (other.level >= 0 && other.level <= level && wanted.count(other.fabric) != 0) {
          grouping.join(switches_[i].vertex, other.vertex);
        }
      }
    }
    std::map<graph::VertexIndex, TierGroup> made;  // by root
    for (const std::size_t i : shapes) {
      TierGroup& group = made[grouping.root(switches_[i].vertex)];
      group.level = level;
      group.switches.push_back(switches_[i].vertex);
      group.unnamed += switches_[i].unnamed;
      for (const Attachment* end : on_switch[i]) {
        if (end->node != graph::kNoVertex && placed.insert(end->node).second) {
          group.nodes.push_back(end->node);
        }
      }
    }
    std::vector<TierGroup> rest;
    for (TierGroup& group : groups) {
      const auto above = made.find(grouping.root(any_switch(group)));
      (above == made.end() ? rest : above->second.below).push_back(std::move(group));
    }
    for (auto& [root, group] : made) {
      std::sort(group.switches.begin(), group.switches.end(), by_name);
      std::sort(group.nodes.begin(), group.nodes.end(),
                [this](graph::VertexIndex a, graph::VertexIndex b) {
                  return natural_less(graph_.vertex(a).id, graph_.vertex(b).id);
                });
      std::sort(group.below.begin(), group.below.end(),
                [&](const TierGroup& a, const TierGroup& b) {
                  return by_name(any_switch(a), any_switch(b));
                });
      rest.push_back(std::move(group));
    }
    groups = std::move(rest);
  }
  std::sort(groups.begin(), groups.end(), [&](const TierGroup& a, const TierGroup& b) {
    return by_name(any_switch(a), any_switch(b));
  });
  return groups;
}

void note_shape(graph::Graph* graph) {
  const FabricShape shape(*graph);
  const std::uint32_t source = graph->add_source(graph::Source::Derived, "cabling");
  for (const SwitchShape& one : shape.switches()) {
    if (one.level >= 0) graph->set(one.vertex, graph::key::kLevel, std::int64_t{one.level}, source);
    if (one.rail) graph->set(one.vertex, graph::key::kRail, std::int64_t{*one.rail}, source);
  }
  for (const FabricShape::Attachment& attachment : shape.attachments()) {
    const auto& rail = shape.switches()[attachment.leaf].rail;
    if (rail && graph->vertex(attachment.end).kind == graph::Kind::Nic) {
      graph->set(attachment.end, graph::key::kRail, std::int64_t{*rail}, source);
    }
  }
}

}  // namespace regatta::topology::fabric
