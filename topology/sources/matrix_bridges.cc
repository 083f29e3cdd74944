#include "topology/sources/matrix_bridges.h"

#include <set>
#include <string>

namespace regatta::topology {
namespace {

std::string cell(const Graph& graph, VertexIndex a, VertexIndex b) {
  return text_of(graph, graph.vertex(a).facts, key::kPath + graph.vertex(b).id);
}

// The classes of devices that chains of the cells connect.
std::vector<std::vector<VertexIndex>> classes(const Graph& graph,
                                              const std::vector<VertexIndex>& devices,
                                              const std::set<std::string>& cells) {
  std::vector<std::vector<VertexIndex>> found;
  std::set<VertexIndex> taken;
  for (const VertexIndex first : devices) {
    if (!taken.insert(first).second) continue;
    std::set<VertexIndex> members = {first};
    std::vector<VertexIndex> open = {first};
    while (!open.empty()) {
      const VertexIndex at = open.back();
      open.pop_back();
      for (const VertexIndex other : devices) {
        if (taken.count(other) != 0 || cells.count(cell(graph, at, other)) == 0) continue;
        taken.insert(other);
        members.insert(other);
        open.push_back(other);
      }
    }
    std::vector<VertexIndex>& list = found.emplace_back();
    for (const VertexIndex device : devices) {
      if (members.count(device) != 0) list.push_back(device);
    }
  }
  return found;
}

}  // namespace

std::vector<BridgeGroup> groups_of_matrix(const Graph& graph,
                                          const std::vector<VertexIndex>& devices) {
  std::vector<BridgeGroup> groups;
  for (const auto& members : classes(graph, devices, {"PIX", "PXB"})) {
    groups.push_back(classes(graph, members, {"PIX"}));
  }
  return groups;
}

bool matrix_crosses_cpus(const Graph& graph, const std::vector<VertexIndex>& devices) {
  for (const VertexIndex a : devices) {
    for (const VertexIndex b : devices) {
      if (a != b && cell(graph, a, b) == "SYS") return true;
    }
  }
  return false;
}

}  // namespace regatta::topology
