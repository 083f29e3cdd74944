// The published comparison beside which the table stands.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace regatta::orchestrator::experiments {

// Its rows as they were published: {"what", "hardware", "layouts": [{"name", "figures":
// {"samples_per_second": 37.98…}}…], "note", "link"}. docs/metrics.md says why these are not the
// same figures from row to row.
[[nodiscard]] nlohmann::ordered_json published_json();

}  // namespace regatta::orchestrator::experiments
