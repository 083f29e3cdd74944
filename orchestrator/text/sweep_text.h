// Sweeps as text and as tables: pure functions of the API's JSON (docs/api.md).
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace regatta::orchestrator::text {

// One line a sweep.
[[nodiscard]] std::string sweep_table(const nlohmann::ordered_json& sweeps);
// What it is, its best trial, and a line for each trial: the ranked ones first, in their order.
[[nodiscard]] std::string sweep_details(const nlohmann::ordered_json& sweep);
// The best trial and its values; empty where there is none so far.
[[nodiscard]] std::string best_text(const nlohmann::ordered_json& sweep);

// The sweeps as rows without mappings, whose keys have those of a mapping behind a dot: "best.run".
[[nodiscard]] nlohmann::ordered_json sweep_rows(const nlohmann::ordered_json& sweeps);
[[nodiscard]] std::vector<std::string> sweep_columns();

// The ranked trials in their order, then the others by number.
[[nodiscard]] nlohmann::ordered_json best_first(const nlohmann::ordered_json& trials);
// The trials as rows without lists: a key for each parameter, null where it is not active.
[[nodiscard]] nlohmann::ordered_json trial_rows(const nlohmann::ordered_json& sweep);
// Their keys, also where there is no trial.
[[nodiscard]] std::vector<std::string> trial_columns(const nlohmann::ordered_json& sweep);

}  // namespace regatta::orchestrator::text
