// A run's configuration as others may see it.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "orchestrator/api/http.h"

namespace regatta::orchestrator::api {

// `config` (run.json) with null for each value of slurm.environment, which may be a password; the
// names stay. Null when it cannot be read: what is not understood is not shown.
[[nodiscard]] nlohmann::ordered_json shown_config(const std::string& config);
// With the values, for the owner.
[[nodiscard]] nlohmann::ordered_json whole_config(const std::string& config);

// 403 unless the request may have the values: over the controller's own socket only, whose kernel
// says who asks; a token may be read over a shoulder or out of a browser.
[[nodiscard]] std::optional<Response> refuse_secrets(const Request& request);

}  // namespace regatta::orchestrator::api
