// The PCIe bridges that nvidia-smi's matrix implies where nobody has seen them.
#pragma once

#include <vector>

#include "topology/graph/graph.h"

namespace regatta::topology {

// Devices that reach each other without a CPU (PIX, PXB), by the bridge that they share (PIX).
using BridgeGroup = std::vector<std::vector<VertexIndex>>;

// Every device once; groups, bridges and devices in the order of `devices`. A device without path
// facts is alone.
[[nodiscard]] std::vector<BridgeGroup> groups_of_matrix(const Graph& graph,
                                                        const std::vector<VertexIndex>& devices);

// Whether the matrix says that two of the devices are at different CPUs.
[[nodiscard]] bool matrix_crosses_cpus(const Graph& graph, const std::vector<VertexIndex>& devices);

}  // namespace regatta::topology
