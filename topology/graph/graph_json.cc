// graph.json; docs/formats/topology.md has the format.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "topology/graph/graph.h"

namespace regatta::topology::graph {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t kVersion = 1;
constexpr int kDeepest = 64;  // that a vertex lies in others

Json facts_json(const std::vector<Fact>& facts) {
  Json list = Json::array();
  for (const Fact& fact : facts) {
    Json value;
    std::visit([&value](const auto& held) { value = held; }, fact.value);
    list.push_back({fact.key, std::move(value), fact.source});
  }
  return list;
}

class GraphReader {
 public:
  GraphReader(const std::string& text, const std::string& source) : source_(source) {
    root_ = base::parse_json<Json>(text);
    if (root_.is_discarded() || !root_.is_object()) fail("", "is no JSON object");
  }

  Graph read() {
    const Json& version = member(root_, "regatta_graph", "");
    if (version != kVersion) {
      fail("regatta_graph", "is " + base::json_text(version) + ", and only version 1 is known");
    }
    read_sources();
    read_vertices();
    read_links();
    return std::move(graph_);
  }

 private:
  [[noreturn]] void fail(const std::string& where, const std::string& what) const {
    throw base::Error(base::Code::User, base::printable(source_) + ": " +
                                            (where.empty() ? "it" : base::printable(where)) + " " +
                                            base::printable(what));
  }
  const Json& member(const Json& object, const char* name, const std::string& where) const {
    const auto found = object.is_object() ? object.find(name) : object.end();
    if (found == object.end()) fail(where, std::string("has no '") + name + "'");
    return *found;
  }
  const Json& list(const char* name) const {
    const Json& found = member(root_, name, "");
    if (!found.is_array()) fail(name, "is not a list");
    return found;
  }
  std::string text(const Json& object, const char* name, const std::string& where) const {
    const Json& found = member(object, name, where);
    if (!found.is_string()) fail(where + "." + name, "is not a string");
    return found.get<std::string>();
  }
  std::string place(const char* name, std::size_t index) const {
    return std::string(name) + "[" + std::to_string(index) + "]";
  }

  void read_sources() {
    const Json& sources = list("sources");
    for (std::size_t i = 0; i < sources.size(); ++i) {
      const std::string where = place("sources", i);
      const auto source = parse_source(text(sources[i], "source", where));
      if (!source) fail(where, "names a source that is not known");
      if (graph_.add_source(*source, text(sources[i], "place", where)) != i) {
        fail(where, "appears twice");
      }
    }
  }

  void read_vertices() {
    const Json& vertices = list("vertices");
    for (std::size_t i = 0; i < vertices.size(); ++i) {
      const std::string where = place("vertices", i);
      const Json& json = vertices[i];
      const auto kind = parse_kind(text(json, "kind", where));
      if (!kind) fail(where, "has a kind that is not known");
      VertexIndex parent = kNoVertex;
      if (json.contains("parent")) {
        parent = graph_.find(text(json, "parent", where));
        if (parent == kNoVertex) fail(where, "has a parent that does not stand before it");
      }
      depth_.push_back(parent == kNoVertex ? 0 : depth_[parent] + 1);
      if (depth_.back() > kDeepest) fail(where, "lies in too many others");
      const std::string id = text(json, "id", where);
      if (id.empty() || graph_.find(id) != kNoVertex) fail(where, "has no id of its own");
      const VertexIndex vertex = graph_.add(*kind, id, parent);
      read_facts(json, where, [&](const std::string& key, Value value, std::uint32_t source) {
        graph_.set(vertex, key, std::move(value), source);
      });
    }
  }

  void read_links() {
    const Json& links = list("links");
    for (std::size_t i = 0; i < links.size(); ++i) {
      const std::string where = place("links", i);
      const auto kind = parse_link_kind(text(links[i], "kind", where));
      if (!kind) fail(where, "has a kind that is not known");
      const VertexIndex a = graph_.find(text(links[i], "a", where));
      const VertexIndex b = graph_.find(text(links[i], "b", where));
      if (a == kNoVertex || b == kNoVertex || a == b) fail(where, "has no two ends");
      const std::uint32_t link = graph_.connect(*kind, a, b);
      read_facts(links[i], where, [&](const std::string& key, Value value, std::uint32_t source) {
        graph_.set_link(link, key, std::move(value), source);
      });
    }
  }

  template <class Take>
  void read_facts(const Json& json, const std::string& where, Take&& take) const {
    const Json& facts = member(json, "facts", where);
    if (!facts.is_array()) fail(where + ".facts", "is not a list");
    for (const Json& fact : facts) {
      if (!fact.is_array() || fact.size() != 3 || !fact[0].is_string() ||
          !fact[2].is_number_unsigned() ||
          fact[2].get<std::uint64_t>() >= graph_.sources().size()) {
        fail(where, "has a fact that is not [key, value, source]: " + base::json_text(fact));
      }
      Value value;
      if (fact[1].is_number_integer()) {
        value = fact[1].get<std::int64_t>();
      } else if (fact[1].is_number_float()) {
        value = fact[1].get<double>();
      } else if (fact[1].is_string()) {
        value = fact[1].get<std::string>();
      } else {
        fail(where, "has a fact that is neither a number nor a string: " + base::json_text(fact));
      }
      take(fact[0].get<std::string>(), std::move(value), fact[2].get<std::uint32_t>());
    }
  }

  std::string source_;
  Json root_;
  Graph graph_;
  std::vector<int> depth_;  // by vertex
};

std::string dumped(const Json& json) { return base::json_text(json); }

// Parents before their children, which follow in order of id.
void append_vertex(const Graph& graph, VertexIndex index, std::vector<std::string>* lines) {
  const Vertex& vertex = graph.vertex(index);
  Json json{{"kind", name_of(vertex.kind)}, {"id", vertex.id}};
  if (vertex.parent != kNoVertex) json["parent"] = graph.vertex(vertex.parent).id;
  json["facts"] = facts_json(vertex.facts);
  lines->push_back(dumped(json));
  for (const VertexIndex child : graph.children(index)) append_vertex(graph, child, lines);
}

std::vector<std::string> vertex_lines(const Graph& graph) {
  std::vector<VertexIndex> roots;
  for (VertexIndex index = 0; index < graph.vertices().size(); ++index) {
    if (graph.vertex(index).parent == kNoVertex) roots.push_back(index);
  }
  std::sort(roots.begin(), roots.end(), [&graph](VertexIndex a, VertexIndex b) {
    return graph.vertex(a).id < graph.vertex(b).id;
  });
  std::vector<std::string> lines;
  for (const VertexIndex root : roots) append_vertex(graph, root, &lines);
  return lines;
}

std::vector<std::string> link_lines(const Graph& graph) {
  std::vector<std::string> lines;
  for (const Link& link : graph.links()) {
    const auto& [a, b] = std::minmax(graph.vertex(link.a).id, graph.vertex(link.b).id);
    lines.push_back(dumped(
        {{"kind", name_of(link.kind)}, {"a", a}, {"b", b}, {"facts", facts_json(link.facts)}}));
  }
  std::sort(lines.begin(), lines.end());
  return lines;
}

std::string list_of(const char* name, const std::vector<std::string>& lines) {
  return std::string(" \"") + name + "\": [" + (lines.empty() ? "" : "\n  ") +
         base::join(lines, ",\n  ") + "]";
}

}  // namespace

std::string to_json(const Graph& graph) {
  std::vector<std::string> sources;
  for (const Provenance& source : graph.sources()) {
    sources.push_back(dumped({{"source", name_of(source.source)}, {"place", source.place}}));
  }
  return "{\"regatta_graph\": " + std::to_string(kVersion) + ",\n" + list_of("sources", sources) +
         ",\n" + list_of("vertices", vertex_lines(graph)) + ",\n" +
         list_of("links", link_lines(graph)) + "}\n";
}

Graph parse_graph(const std::string& text, const std::string& source) {
  return GraphReader(text, source).read();
}

}  // namespace regatta::topology::graph
