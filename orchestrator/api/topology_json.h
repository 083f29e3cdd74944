// GET /topology: the machines that the controller plans runs for (docs/api.md).
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "orchestrator/api/http.h"
#include "orchestrator/plan/run_plan.h"

namespace regatta::orchestrator::api {

enum class GraphToo { No, Yes };  // the document of `regatta topo -o json` as well

// Nodes by kind, fabrics by tier, where they were read from, and what was measured on them.
[[nodiscard]] nlohmann::ordered_json topology_json(const plan::RunPlanner& planner, GraphToo too);

// The same; 404 where there is no planner.
[[nodiscard]] Response show_topology(const plan::RunPlanner* planner, GraphToo too);

}  // namespace regatta::orchestrator::api
