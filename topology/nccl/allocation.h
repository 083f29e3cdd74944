// What the cost model has to know of an allocation, from the graph of its machines.
#pragma once

#include <vector>

#include "topology/graph/graph.h"
#include "topology/nccl/cost_model.h"

namespace regatta::topology::nccl {

// The first `ranks_per_node` GPUs of each of these nodes, by index. Nodes that share an NVLink
// domain are one node, as NCCL counts them, when every domain has as many. Of unlike nodes the
// slowest figure counts. NICs are those that are nearest to some GPU. That SHARP may be used is for
// the caller to say.
//
// Throws Code::User for what the cost model needs and the graph does not have: too few GPUs, a
// compute capability, bandwidths, NICs where there are several nodes.
[[nodiscard]] Allocation allocation_of(const graph::Graph& graph,
                                       const std::vector<graph::VertexIndex>& nodes,
                                       int ranks_per_node);

}  // namespace regatta::topology::nccl
