// environment.json of an attempt for people.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace regatta::orchestrator::text {

// Of GET /runs/{id}/environment: the fingerprint, then each section with the first 8 digits of its
// digest and a line for each key, values behind one another in a column. Lists of single values are
// in one line; "not shown" stands for what may be a secret.
[[nodiscard]] std::string environment_text(const nlohmann::ordered_json& environment);

}  // namespace regatta::orchestrator::text
