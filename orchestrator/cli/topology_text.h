// Machines and fabrics for people.
#pragma once

#include <string>

#include "topology/graph/graph.h"

namespace regatta::orchestrator::cli {

// What people read: every kind of node with its devices and how they reach each other, machines
// that are alike together, then the fabrics. Escapes and line breaks of foreign text are shown.
[[nodiscard]] std::string topology_text(const topology::graph::Graph& graph);

}  // namespace regatta::orchestrator::cli
