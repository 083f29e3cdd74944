#include "topology/sources/matrix_bridges.h"

#include <set>
#include <string>

namespace regatta::topology::sources {
namespace {

std::string cell(const graph::Graph& graph, graph::VertexIndex a, graph::VertexIndex b) {
  return graph::text_of(graph, graph.vertex(a).facts, graph::key::kPath + graph.vertex(b).id);
}

// The classes of devices that chains of the cells connect.
std::vector<std::vector<graph::VertexIndex>> classes(const graph::Graph& graph,
                                                     const std::vector<graph::VertexIndex>& devices,
                                                     const std::set<std::string>& cells) {
  std::vector<std::vector<graph::VertexIndex>> found;
  std::set<graph::VertexIndex> taken;
  for (const graph::VertexIndex first : devices) {
    if (!taken.insert(first).second) continue;
    std::set<graph::VertexIndex> members = {first};
    std::vector<graph::VertexIndex> open = {first};
    while (!open.empty()) {
      const graph::VertexIndex at = open.back();
      open.pop_back();
      for (const graph::VertexIndex other : devices) {
        if (taken.count(other) != 0 || cells.count(cell(graph, at, other)) == 0) continue;
        taken.insert(other);
        members.insert(other);
        open.push_back(other);
      }
    }
    std::vector<graph::VertexIndex>& list = found.emplace_back();
    for (const graph::VertexIndex device : devices) {
      if (members.count(device) != 0) list.push_back(device);
    }
  }
  return found;
}

}  // namespace

std::vector<BridgeGroup> groups_of_matrix(const graph::Graph& graph,
                                          const std::vector<graph::VertexIndex>& devices) {
  std::vector<BridgeGroup> groups;
  for (const auto& members : classes(graph, devices, {"PIX", "PXB"})) {
    groups.push_back(classes(graph, members, {"PIX"}));
  }
  return groups;
}

bool matrix_crosses_cpus(const graph::Graph& graph,
                         const std::vector<graph::VertexIndex>& devices) {
  for (const graph::VertexIndex a : devices) {
    for (const graph::VertexIndex b : devices) {
      if (a != b && cell(graph, a, b) == "SYS") return true;
    }
  }
  return false;
}

}  // namespace regatta::topology::sources
