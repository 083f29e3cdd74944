// Which rank sits where, and what the scheduler is asked for so that they sit close together.
#pragma once

#include <vector>

#include "topology/graph/graph.h"
#include "topology/plan/plan.h"

namespace regatta::orchestrator::plan {

// Rank r has the GPU with the (r mod ranks_per_node)-th smallest number of the (r ÷
// ranks_per_node)-th node, and the NIC that is nearest to it: of equally near ones those that
// fewest GPUs of the node have, then by name. Bonds and cards without RDMA are taken only where a
// node has nothing else.
[[nodiscard]] std::vector<topology::plan::Seat> seats_of(
    const topology::graph::Graph& machines, const std::vector<topology::graph::VertexIndex>& nodes,
    int ranks_per_node);

// One leaf switch where a switch of the machines' trees has that many nodes (waited for 10 minutes
// at most), and whole NVLink domains. Rails give nothing: every node is below all of them.
[[nodiscard]] topology::plan::Placement placement_of(
    const topology::graph::Graph& machines, const std::vector<topology::graph::VertexIndex>& nodes);

}  // namespace regatta::orchestrator::plan
