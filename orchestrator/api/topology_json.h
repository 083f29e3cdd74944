// GET /topology and GET /topology/findings: the machines that the controller plans runs for, and
// what is wrong with them (docs/api.md).
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>

#include "orchestrator/api/http.h"
#include "orchestrator/plan/run_plan.h"

namespace regatta::orchestrator::api {

inline constexpr std::size_t kMostFindings = 1000;

enum class GraphToo { No, Yes };  // the document of `regatta topo -o json` as well

// Nodes by kind, fabrics by tier, where they were read from, and what was measured on them.
[[nodiscard]] nlohmann::ordered_json topology_json(const plan::RunPlanner& planner, GraphToo too);

// What the doctor finds in these machines, worst first (kMostFindings of them at most):
// finding_json() with the node that it is of, if it is of one.
[[nodiscard]] nlohmann::ordered_json findings_json(const plan::RunPlanner& planner);

// The same of each; 404 where there is no planner.
[[nodiscard]] Response show_topology(const plan::RunPlanner* planner, GraphToo too);
[[nodiscard]] Response show_findings(const plan::RunPlanner* planner);

}  // namespace regatta::orchestrator::api
