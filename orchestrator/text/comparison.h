#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace regatta::orchestrator::text {

// Runs as the API answers them (docs/api.md), beside each other:
// {"runs": ["id"…], "figures": {"loss": [2.1, 2.0]…}, "differences": {"optimizer.name": ["lamb",
// "adamw"]…}}. Figures are those that a run is judged by; differences are the keys of the
// configurations that are not equal in all, null where a run has none. The name is no difference,
// and what has no configuration at all (a reference) differs in none.
[[nodiscard]] nlohmann::ordered_json comparison_of(const nlohmann::ordered_json& runs);

// The same as two tables, in which equal figures are shown, too.
[[nodiscard]] std::string comparison_text(const nlohmann::ordered_json& comparison);

}  // namespace regatta::orchestrator::text
