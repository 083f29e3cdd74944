// What the doctor finds, as `regatta doctor -o json` prints it and GET /topology/findings answers.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "topology/graph/finding.h"

namespace regatta::orchestrator::text {

[[nodiscard]] nlohmann::ordered_json finding_json(const topology::graph::Finding& finding);

}  // namespace regatta::orchestrator::text
