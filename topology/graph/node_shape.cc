#include "topology/graph/node_shape.h"

#include <algorithm>
#include <array>

namespace regatta::topology::graph {
namespace {

bool names_a_part(std::string_view name) {
  constexpr std::array<std::string_view, 8> kNames = {key::kUuid,   key::kGuid,  key::kPortGuid,
                                                      key::kLid,    key::kRail,  key::kDescription,
                                                      key::kParent, key::kCables};
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end() ||
         name.rfind("xml.", 0) == 0;
}

// The node's own name is in ids of its parts, also in the keys of facts about paths.
std::string without(std::string text, const std::string& name) {
  if (const std::size_t at = text.find(name + "/"); at != std::string::npos) {
    text.replace(at, name.size(), "");
  }
  return text;
}

void append(const std::vector<Fact>& facts, const Graph& graph, const std::string& name,
            std::string* shape) {
  for (const Fact& fact : facts) {
    if (names_a_part(fact.key)) continue;
    *shape += without(fact.key, name) + "=";
    if (const auto* const text = std::get_if<std::string>(&fact.value)) {
      *shape += *text;
    } else if (const auto* const number = std::get_if<double>(&fact.value)) {
      *shape += std::to_string(*number);
    } else {
      *shape += std::to_string(std::get<std::int64_t>(fact.value));
    }
    *shape += std::string("@") + name_of(graph.sources()[fact.source].source) + ";";
  }
}

}  // namespace

std::vector<std::vector<std::uint32_t>> links_by_vertex(const Graph& graph) {
  std::vector<std::vector<std::uint32_t>> links(graph.vertices().size());
  for (std::uint32_t i = 0; i < graph.links().size(); ++i) {
    links[graph.links()[i].a].push_back(i);
    links[graph.links()[i].b].push_back(i);
  }
  return links;
}

std::string shape_of(const Graph& graph, VertexIndex node,
                     const std::vector<std::vector<std::uint32_t>>& links_of) {
  const std::string& name = graph.vertex(node).id;
  std::string shape;
  std::vector<VertexIndex> open = {node};
  while (!open.empty()) {
    const VertexIndex vertex = open.back();
    open.pop_back();
    for (const VertexIndex child : graph.children(vertex)) open.push_back(child);
    const Vertex& part = graph.vertex(vertex);
    if (vertex != node) {
      shape += "\n" + std::string(name_of(part.kind)) + " " + without(part.id, name) + " in " +
               (part.parent == node ? "it" : without(graph.vertex(part.parent).id, name)) + ": ";
      append(part.facts, graph, name, &shape);
    }
    std::vector<std::string> links;
    for (const std::uint32_t number : links_of[vertex]) {
      const Link& link = graph.links()[number];
      const VertexIndex peer = link.a == vertex ? link.b : link.a;
      const bool inside = graph.node_of(peer) == node;
      std::string text = std::string(name_of(link.kind)) + " to " +
                         (inside ? without(graph.vertex(peer).id, name)
                                 : std::string(name_of(graph.vertex(peer).kind))) +
                         ": ";
      append(link.facts, graph, name, &text);
      links.push_back(std::move(text));
    }
    std::sort(links.begin(), links.end());
    for (const std::string& text : links) shape += "\n  " + text;
  }
  return shape;
}

}  // namespace regatta::topology::graph
