// What looks wrong in a discovered fabric. The planned cabling is unknown, so the fabric is
// compared with itself: what most leaves or most cables have is what the others are held against.
#pragma once

#include <cstddef>
#include <vector>

#include "topology/graph/finding.h"
#include "topology/graph/graph.h"

namespace regatta::topology::fabric {

// Ports, adapters or switches in one finding's evidence.
inline constexpr std::size_t kMostListed = 16;

// By id: "fabric.slow_cable" (trained down, or an older port), "fabric.missing_cables" (a leaf with
// fewer cables upwards than most), "fabric.wrong_rail" (an adapter on the leaf of another rail),
// "fabric.port_down", "fabric.unnamed_adapters". In order of id and subject.
[[nodiscard]] std::vector<graph::Finding> check_fabric(const graph::Graph& graph);

}  // namespace regatta::topology::fabric
