// A run's configuration as others may see it.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace regatta::orchestrator::api {

// `config` (run.json) with null for each value of slurm.environment, which may be a password; the
// names stay. Null when it cannot be read: what is not understood is not shown.
[[nodiscard]] nlohmann::ordered_json shown_config(const std::string& config);
// With the values, for the owner (Scope::Owner).
[[nodiscard]] nlohmann::ordered_json whole_config(const std::string& config);

}  // namespace regatta::orchestrator::api
