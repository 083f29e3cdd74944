#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace regatta::orchestrator::text {

// Rows of objects with the same keys as comma-separated values (RFC 4180), with a line of their
// keys; null is empty, lists have spaces between their parts. A text that a spreadsheet would take
// for a formula has a quote before it.
[[nodiscard]] std::string csv_of(const nlohmann::ordered_json& rows);

// The same as YAML 1.2, block style.
[[nodiscard]] std::string yaml_of(const nlohmann::ordered_json& json);

}  // namespace regatta::orchestrator::text
