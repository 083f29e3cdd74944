#include "topology/graph/graph.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"

namespace regatta::topology::graph {
namespace {

constexpr const char* kSources[] = {"measured",   "user",     "sysfs",      "nvml",
                                    "nvidia-smi", "nccl-xml", "nccl-graph", "ibnetdiscover",
                                    "slurm",      "derived"};
constexpr const char* kKinds[] = {"fabric", "fabric_switch", "nvlink_domain", "node",    "numa",
                                  "pci",    "gpu",           "nic",           "nvswitch"};
constexpr const char* kLinkKinds[] = {"pcie", "nvlink", "c2c", "xgmi", "smp", "fabric"};
// Figures of two sources that differ by less are the same: sources round.
constexpr double kSameFigure = 0.02;
constexpr std::int64_t kFirstPort = 1;  // of an adapter

// Names and descriptions of devices are any bytes, and JSON holds UTF-8: what is none becomes
// U+FFFD at once, so that a graph that was written is the same when it is read.
std::string as_utf8(std::string_view text) {
  const bool is_plain = std::all_of(text.begin(), text.end(),
                                    [](char c) { return static_cast<unsigned char>(c) < 0x80; });
  if (is_plain) return std::string(text);
  return base::parse_json<nlohmann::json>(base::json_text(nlohmann::json(text)));
}

template <class Enum, std::size_t N>
std::optional<Enum> parse_name(std::string_view name, const char* const (&names)[N]) {
  for (std::size_t i = 0; i < N; ++i) {
    if (name == names[i]) return static_cast<Enum>(i);
  }
  return std::nullopt;
}

const Fact* find_fact(const std::vector<Fact>& facts, std::string_view key) {
  const auto found =
      std::find_if(facts.begin(), facts.end(), [key](const Fact& fact) { return fact.key == key; });
  return found == facts.end() ? nullptr : &*found;
}

bool agree(const Value& a, const Value& b) {
  const auto number = [](const Value& value) -> std::optional<double> {
    if (const auto* whole = std::get_if<std::int64_t>(&value)) return static_cast<double>(*whole);
    if (const auto* real = std::get_if<double>(&value)) return *real;
    return std::nullopt;
  };
  const auto x = number(a), y = number(b);
  if (!x || !y) return a == b;
  return std::abs(*x - *y) <= kSameFigure * std::max(std::abs(*x), std::abs(*y));
}

std::string shown(const Value& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  if (const auto* whole = std::get_if<std::int64_t>(&value)) return std::to_string(*whole);
  char text[40];
  std::snprintf(text, sizeof text, "%g", std::get<double>(value));
  return text;
}

}  // namespace

const char* name_of(Source source) { return kSources[static_cast<std::size_t>(source)]; }
std::optional<Source> parse_source(std::string_view name) {
  return parse_name<Source>(name, kSources);
}
const char* name_of(Kind kind) { return kKinds[static_cast<std::size_t>(kind)]; }
std::optional<Kind> parse_kind(std::string_view name) { return parse_name<Kind>(name, kKinds); }
const char* name_of(LinkKind kind) { return kLinkKinds[static_cast<std::size_t>(kind)]; }
std::optional<LinkKind> parse_link_kind(std::string_view name) {
  return parse_name<LinkKind>(name, kLinkKinds);
}
const char* name_of(Severity severity) {
  constexpr const char* kSeverities[] = {"note", "warning", "error"};
  return kSeverities[static_cast<std::size_t>(severity)];
}

std::uint32_t Graph::add_source(Source source, std::string place) {
  Provenance provenance{source, std::move(place)};
  // Merging many nodes asks for the newest ones again and again.
  const auto found = std::find(sources_.rbegin(), sources_.rend(), provenance);
  if (found != sources_.rend()) {
    return static_cast<std::uint32_t>(std::distance(found, sources_.rend()) - 1);
  }
  sources_.push_back(std::move(provenance));
  return static_cast<std::uint32_t>(sources_.size() - 1);
}

VertexIndex Graph::add(Kind kind, const std::string& told, VertexIndex parent) {
  const std::string id = as_utf8(told);
  const auto found = by_id_.find(id);
  if (found == by_id_.end()) {
    const auto index = static_cast<VertexIndex>(vertices_.size());
    vertices_.push_back({kind, id, parent, {}});
    children_.emplace_back();
    by_id_.emplace(id, index);
    if (parent != kNoVertex) children_.at(parent).push_back(index);
    return index;
  }
  const VertexIndex index = found->second;
  Vertex& vertex = vertices_[index];
  if (vertex.kind != kind) {
    throw base::Error(base::Code::User, "'" + base::printable(id) + "' is a " +
                                            name_of(vertex.kind) + " here and a " + name_of(kind) +
                                            " there; give one of them another id");
  }
  if (parent != kNoVertex && parent != vertex.parent && !is_below(parent, index) &&
      (vertex.parent == kNoVertex || is_below(parent, vertex.parent))) {
    move_below(index, parent);
  }
  return index;
}

void Graph::move_below(VertexIndex vertex, VertexIndex parent) {
  const VertexIndex old = vertices_[vertex].parent;
  if (old != kNoVertex) {
    auto& siblings = children_[old];
    siblings.erase(std::find(siblings.begin(), siblings.end(), vertex));
  }
  vertices_[vertex].parent = parent;
  children_.at(parent).push_back(vertex);
}

void Graph::rename(VertexIndex vertex, const std::string& id) {
  by_id_.erase(vertices_[vertex].id);
  vertices_[vertex].id = id;
  by_id_.emplace(id, vertex);
}

bool Graph::is_below(VertexIndex vertex, VertexIndex ancestor) const {
  while (vertex != kNoVertex && vertex != ancestor) vertex = vertices_[vertex].parent;
  return vertex == ancestor;
}

VertexIndex Graph::find(std::string_view id) const {
  const auto found = by_id_.find(as_utf8(id));
  return found == by_id_.end() ? kNoVertex : found->second;
}

std::uint32_t Graph::connect(LinkKind kind, VertexIndex a, VertexIndex b) {
  base::check(a != b && std::max(a, b) < vertices_.size(), "a link joins two different vertices");
  if (a > b) std::swap(a, b);
  const auto [found, made] =
      by_ends_.try_emplace({kind, a, b}, static_cast<std::uint32_t>(links_.size()));
  if (made) links_.push_back({kind, a, b, {}});
  return found->second;
}

std::optional<std::uint32_t> Graph::find_link(LinkKind kind, VertexIndex a, VertexIndex b) const {
  if (a > b) std::swap(a, b);
  const auto found = by_ends_.find({kind, a, b});
  if (found == by_ends_.end()) return std::nullopt;
  return found->second;
}

void Graph::set_in(std::vector<Fact>* facts, std::string_view key, Value value,
                   std::uint32_t source) {
  base::check(source < sources_.size(), "a fact has a source");
  if (auto* const text = std::get_if<std::string>(&value)) *text = as_utf8(*text);
  const std::string name = as_utf8(key);
  for (Fact& fact : *facts) {
    if (fact.key == name && fact.source == source) {
      fact.value = std::move(value);
      return;
    }
  }
  facts->push_back({name, std::move(value), source});
}

void Graph::set(VertexIndex vertex, std::string_view key, Value value, std::uint32_t source) {
  if (key == key::kGuid && vertices_.at(vertex).kind == Kind::Nic) {
    if (const auto* guid = std::get_if<std::string>(&value)) {
      std::vector<VertexIndex>& ports = nics_by_guid_[*guid];
      if (std::find(ports.begin(), ports.end(), vertex) == ports.end()) ports.push_back(vertex);
    }
  }
  set_in(&vertices_.at(vertex).facts, key, std::move(value), source);
}

void Graph::set_link(std::uint32_t link, std::string_view key, Value value, std::uint32_t source) {
  set_in(&links_.at(link).facts, key, std::move(value), source);
}

std::vector<VertexIndex> Graph::children(VertexIndex parent) const {
  std::vector<VertexIndex> found = children_.at(parent);
  std::sort(found.begin(), found.end(),
            [this](VertexIndex a, VertexIndex b) { return vertices_[a].id < vertices_[b].id; });
  return found;
}

std::vector<VertexIndex> Graph::of_kind(Kind kind) const {
  std::vector<VertexIndex> found;
  for (VertexIndex index = 0; index < vertices_.size(); ++index) {
    if (vertices_[index].kind == kind) found.push_back(index);
  }
  return found;
}

std::vector<VertexIndex> Graph::below(VertexIndex ancestor, Kind kind) const {
  std::vector<VertexIndex> found;
  std::vector<VertexIndex> open = children_.at(ancestor);
  while (!open.empty()) {
    const VertexIndex index = open.back();
    open.pop_back();
    if (vertices_[index].kind == kind) found.push_back(index);
    open.insert(open.end(), children_[index].begin(), children_[index].end());
  }
  std::sort(found.begin(), found.end(),
            [this](VertexIndex a, VertexIndex b) { return vertices_[a].id < vertices_[b].id; });
  return found;
}

VertexIndex Graph::node_of(VertexIndex vertex) const {
  while (vertex != kNoVertex && vertices_[vertex].kind != Kind::Node) {
    vertex = vertices_[vertex].parent;
  }
  return vertex;
}

// Takes one graph into another.
class Graph::Merge {
 public:
  Merge(Graph& into, const Graph& from)
      : into_(into), from_(from), vertices_(from.vertices_.size(), kNoVertex) {
    for (const Provenance& source : from.sources_) {
      sources_.push_back(into_.add_source(source.source, source.place));
    }
  }

  void run() {
    for (VertexIndex index = 0; index < from_.vertices_.size(); ++index) take(index);
    take_paths();
    for (const Link& link : from_.links_) {
      if (vertices_[link.a] == vertices_[link.b]) continue;
      const std::uint32_t own = into_.connect(link.kind, vertices_[link.a], vertices_[link.b]);
      for (const Fact& fact : link.facts) {
        into_.set_link(own, fact.key, fact.value, sources_[fact.source]);
      }
    }
  }

 private:
  VertexIndex take(VertexIndex index) {
    if (vertices_[index] != kNoVertex) return vertices_[index];
    const Vertex& theirs = from_.vertices_[index];
    const VertexIndex parent = theirs.parent == kNoVertex ? kNoVertex : take(theirs.parent);
    VertexIndex own = into_.find(theirs.id);
    if (own == kNoVertex && theirs.kind == Kind::Nic) own = guid_twin_of(theirs, parent);
    if (own == kNoVertex && is_device(theirs.kind)) own = twin_of(theirs, parent);
    if (own == kNoVertex) {
      own = into_.add(theirs.kind, theirs.id, parent);
    } else {
      const Vertex before = {into_.vertices_[own].kind, "", into_.vertices_[own].parent, {}};
      into_.add(theirs.kind, into_.vertices_[own].id, parent);
      note_other_place(own, before.parent, parent, theirs);
    }
    for (const Fact& fact : theirs.facts) {
      if (!is_path(fact)) into_.set(own, fact.key, fact.value, sources_[fact.source]);
    }
    if (theirs.kind == Kind::Nic) taken_nics_.insert(own);
    return vertices_[index] = own;
  }

  static bool is_path(const Fact& fact) { return fact.key.starts_with(key::kPath); }
  static std::string path_key(const std::string& id) { return key::kPath + id; }

  // Keys of paths hold the id of a peer, and the peer may have another one by now.
  void take_paths() {
    const std::size_t prefix = path_key("").size();
    if (!renamed_.empty()) {
      for (Vertex& vertex : into_.vertices_) {
        for (Fact& fact : vertex.facts) {
          if (!is_path(fact)) continue;
          const auto found = renamed_.find(fact.key.substr(prefix));
          if (found != renamed_.end()) fact.key = path_key(found->second);
        }
      }
    }
    for (VertexIndex index = 0; index < from_.vertices_.size(); ++index) {
      for (const Fact& fact : from_.vertices_[index].facts) {
        if (!is_path(fact)) continue;
        const VertexIndex peer = from_.find(std::string_view(fact.key).substr(prefix));
        into_.set(vertices_[index],
                  peer == kNoVertex ? fact.key : path_key(into_.vertices_[vertices_[peer]].id),
                  fact.value, sources_[fact.source]);
      }
    }
  }

  // Neither place contains the other: both are said, for check_graph() to find.
  void note_other_place(VertexIndex own, VertexIndex before, VertexIndex other,
                        const Vertex& theirs) {
    if (before == kNoVertex || other == kNoVertex || into_.is_below(before, other) ||
        into_.is_below(other, before)) {
      return;
    }
    const Vertex& vertex = into_.vertices_[own];
    if (!vertex.facts.empty()) {
      into_.set(own, key::kParent, into_.vertices_[before].id, vertex.facts.front().source);
    }
    if (!theirs.facts.empty()) {
      into_.set(own, key::kParent, into_.vertices_[other].id,
                sources_[theirs.facts.front().source]);
    }
  }

  // The NIC with this GUID and port. A fabric often knows adapters of which it does not know the
  // host, or by names that the host does not use; the name that the host gives is kept.
  VertexIndex guid_twin_of(const Vertex& theirs, VertexIndex parent) {
    const auto found = into_.nics_by_guid_.find(text_of(from_, theirs.facts, key::kGuid));
    if (found == into_.nics_by_guid_.end()) return kNoVertex;
    const VertexIndex node = parent == kNoVertex ? kNoVertex : into_.node_of(parent);
    VertexIndex twin = kNoVertex;
    for (const VertexIndex candidate : found->second) {
      if (!is_port_of(theirs, node, candidate)) continue;
      if (twin == kNoVertex || port_in(into_, candidate) < port_in(into_, twin)) twin = candidate;
    }
    if (twin == kNoVertex) return kNoVertex;
    const bool places_it = into_.node_of(twin) == kNoVertex ||
                           (text_of(into_, into_.vertices_[twin].facts, key::kBusId).empty() &&
                            fact_of(from_, theirs.facts, key::kBusId) != nullptr);
    if (node != kNoVertex && places_it) into_.rename(twin, theirs.id);
    return twin;
  }

  // Whether a NIC with the GUID of `theirs` can be the same port. NCCL's dumps give all ports of an
  // adapter its one GUID; what does not name its port is the adapter's first one.
  bool is_port_of(const Vertex& theirs, VertexIndex node, VertexIndex own) const {
    if (taken_nics_.count(own) != 0) return false;  // one graph does not list a device twice
    const VertexIndex own_node = into_.node_of(own);
    if (node != kNoVertex && own_node != kNoVertex && node != own_node) return false;
    const std::string bus = text_of(from_, theirs.facts, key::kBusId);
    const std::string own_bus = text_of(into_, into_.vertices_[own].facts, key::kBusId);
    if (!bus.empty() && !own_bus.empty() && bus != own_bus) return false;
    const auto port = integer_of(from_, theirs.facts, key::kPort);
    const auto own_port = integer_of(into_, into_.vertices_[own].facts, key::kPort);
    if (port && own_port) return *port == *own_port;
    return !port || is_first_port(theirs, *port);
  }
  bool is_first_port(const Vertex& theirs, std::int64_t port) const {
    const auto& ports = from_.nics_by_guid_.find(text_of(from_, theirs.facts, key::kGuid))->second;
    return std::all_of(ports.begin(), ports.end(),
                       [&](VertexIndex each) { return port <= port_in(from_, each); });
  }
  static std::int64_t port_in(const Graph& graph, VertexIndex nic) {
    return integer_of(graph, graph.vertices_[nic].facts, key::kPort).value_or(kFirstPort);
  }

  // The same device under another id; takes over an id that has the bus id.
  VertexIndex twin_of(const Vertex& theirs, VertexIndex parent) {
    const VertexIndex node = parent == kNoVertex ? kNoVertex : into_.node_of(parent);
    if (node == kNoVertex) return kNoVertex;
    const std::string bus = text_of(from_, theirs.facts, key::kBusId);
    for (const VertexIndex index : into_.below(node, theirs.kind)) {
      const Vertex& own = into_.vertices_[index];
      const std::string own_bus = text_of(into_, own.facts, key::kBusId);
      if (!bus.empty() && !own_bus.empty()) {
        if (bus == own_bus) return index;
        continue;
      }
      const std::string guid = text_of(from_, theirs.facts, key::kGuid);
      const std::string own_guid = text_of(into_, own.facts, key::kGuid);
      if (!guid.empty() && !own_guid.empty() && guid != own_guid) continue;
      const char* const name = theirs.kind == Kind::Gpu ? key::kIndex : key::kName;
      const Fact* const a = fact_of(from_, theirs.facts, name);
      const Fact* const b = fact_of(into_, own.facts, name);
      if (a == nullptr || b == nullptr || !agree(a->value, b->value)) continue;
      if (own_bus.empty() && !bus.empty()) {
        renamed_.emplace(own.id, theirs.id);
        into_.rename(index, theirs.id);
      }
      return index;
    }
    return kNoVertex;
  }

  Graph& into_;
  const Graph& from_;
  std::vector<VertexIndex> vertices_;  // theirs → ours
  std::set<VertexIndex> taken_nics_;   // ours that one of theirs is
  std::vector<std::uint32_t> sources_;
  std::map<std::string, std::string> renamed_;  // ours, from → to
};

void Graph::merge(const Graph& other) { Merge(*this, other).run(); }

const Fact* fact_of(const Graph& graph, const std::vector<Fact>& facts, std::string_view key) {
  const Fact* best = nullptr;
  for (const Fact& fact : facts) {
    if (fact.key != key) continue;
    const Source source = graph.sources()[fact.source].source;
    if (best == nullptr || source < graph.sources()[best->source].source) best = &fact;
  }
  return best;
}

std::optional<double> number_of(const Graph& graph, const std::vector<Fact>& facts,
                                std::string_view key) {
  const Fact* const fact = fact_of(graph, facts, key);
  if (fact == nullptr) return std::nullopt;
  if (const auto* whole = std::get_if<std::int64_t>(&fact->value)) {
    return static_cast<double>(*whole);
  }
  if (const auto* real = std::get_if<double>(&fact->value)) return *real;
  return std::nullopt;
}

std::optional<std::int64_t> integer_of(const Graph& graph, const std::vector<Fact>& facts,
                                       std::string_view key) {
  const Fact* const fact = fact_of(graph, facts, key);
  if (fact == nullptr) return std::nullopt;
  const auto* const whole = std::get_if<std::int64_t>(&fact->value);
  return whole == nullptr ? std::nullopt : std::optional(*whole);
}

std::string text_of(const Graph& graph, const std::vector<Fact>& facts, std::string_view key) {
  const Fact* const fact = fact_of(graph, facts, key);
  if (fact == nullptr) return "";
  const auto* const text = std::get_if<std::string>(&fact->value);
  return text == nullptr ? "" : *text;
}

namespace {

void check_facts(const Graph& graph, const std::string& subject, const std::vector<Fact>& facts,
                 std::vector<Finding>* findings) {
  for (const Fact& fact : facts) {
    const Fact* const first = find_fact(facts, fact.key);
    if (first == &fact || agree(first->value, fact.value)) continue;
    // A derived figure is a stand-in until somebody looks.
    const Provenance& a = graph.sources()[first->source];
    const Provenance& b = graph.sources()[fact.source];
    if (a.source == Source::Derived || b.source == Source::Derived) continue;
    Finding finding;
    finding.id = "graph.conflict";
    finding.subject = subject;
    finding.words = std::string(name_of(a.source)) + " and " + name_of(b.source) + " disagree on " +
                    fact.key + " of " + subject;
    finding.evidence = {{a.place, shown(first->value)}, {b.place, shown(fact.value)}};
    finding.remedy = "look which one is right; the figure of " +
                     std::string(name_of(std::min(a.source, b.source))) + " is used";
    findings->push_back(std::move(finding));
  }
}

}  // namespace

std::vector<Finding> check_graph(const Graph& graph) {
  std::vector<Finding> findings;
  for (const Vertex& vertex : graph.vertices()) {
    check_facts(graph, vertex.id, vertex.facts, &findings);
  }
  for (const Link& link : graph.links()) {
    const std::string subject = graph.vertex(link.a).id + " – " + graph.vertex(link.b).id;
    check_facts(graph, subject, link.facts, &findings);
  }
  return findings;
}

std::optional<std::string> normal_bus_id(std::string_view text) {
  // [domain:]bus:device[.function]
  std::vector<std::string> parts = base::split(text, ':');
  if (parts.size() == 2) parts.insert(parts.begin(), "0000");
  if (parts.size() != 3) return std::nullopt;
  std::string function = "0";
  if (const std::size_t point = parts[2].find('.'); point != std::string::npos) {
    function = parts[2].substr(point + 1);
    parts[2] = parts[2].substr(0, point);
  }
  while (parts[0].size() > 4 && parts[0].front() == '0') parts[0].erase(0, 1);
  if (parts[0].size() < 4) parts[0].insert(0, 4 - parts[0].size(), '0');
  if (parts[0].size() > 8 || parts[1].size() != 2 || parts[2].size() != 2 || function.size() != 1) {
    return std::nullopt;
  }
  std::string normal = parts[0] + ":" + parts[1] + ":" + parts[2] + "." + function;
  for (char& c : normal) {
    if (c >= 'A' && c <= 'F') c = static_cast<char>(c - 'A' + 'a');
    const bool hex = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
    if (!hex && c != ':' && c != '.') return std::nullopt;
  }
  return normal;
}

}  // namespace regatta::topology::graph
