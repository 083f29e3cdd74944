#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "orchestrator/text/terminal.h"

namespace regatta::orchestrator::text {

// Rows of objects as comma-separated values (RFC 4180), with a line of all their keys; null and
// absent are empty, lists have spaces between their parts. A text that a spreadsheet would take for
// a formula has a quote before it; for a terminal it is printable. if_empty: the keys where there
// is no row that has them.
[[nodiscard]] std::string csv_of(const nlohmann::ordered_json& rows,
                                 Audience reader = Audience::Program,
                                 const std::vector<std::string>& if_empty = {});

// YAML 1.2, block style, which readers of YAML 1.1 understand alike.
[[nodiscard]] std::string yaml_of(const nlohmann::ordered_json& json);

}  // namespace regatta::orchestrator::text
