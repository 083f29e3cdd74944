// Which machines are alike, so that what is true of one need not be worked out for a thousand.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "topology/graph/graph.h"

namespace regatta::topology::graph {

// Equal for nodes that differ in nothing but their own name and what names their parts in the world
// (GUIDs, UUIDs, LIDs, cables' other ends): the same devices under the same relative ids, with the
// same facts and links. Nodes that are alike but numbered otherwise may differ. Links out of the
// node count by kind, facts and the kind of what they lead to.
[[nodiscard]] std::string shape_of(const Graph& graph, VertexIndex node,
                                   const std::vector<std::vector<std::uint32_t>>& links_of);

// Links of each vertex, by number: what shape_of() wants, made once for all nodes.
[[nodiscard]] std::vector<std::vector<std::uint32_t>> links_by_vertex(const Graph& graph);

}  // namespace regatta::topology::graph
