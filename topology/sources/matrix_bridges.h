// The PCIe bridges that nvidia-smi's matrix implies where nobody has seen them.
#pragma once

#include <vector>

#include "topology/graph/graph.h"

namespace regatta::topology::sources {

// Devices that reach each other without a CPU (PIX, PXB), by the bridge that they share (PIX).
using BridgeGroup = std::vector<std::vector<graph::VertexIndex>>;

// Every device once; groups, bridges and devices in the order of `devices`. A device without path
// facts is alone.
[[nodiscard]] std::vector<BridgeGroup> groups_of_matrix(
    const graph::Graph& graph, const std::vector<graph::VertexIndex>& devices);

// Whether the matrix says that two of the devices are at different CPUs.
[[nodiscard]] bool matrix_crosses_cpus(const graph::Graph& graph,
                                       const std::vector<graph::VertexIndex>& devices);

}  // namespace regatta::topology::sources
