// The table of an experiment (layout_table.h) for people.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace regatta::orchestrator::experiments {

// A line for each figure, a column for each layout, the published table below.
[[nodiscard]] std::string table_text(const nlohmann::ordered_json& table);
// The same, of the same cells, in Markdown.
[[nodiscard]] std::string table_markdown(const nlohmann::ordered_json& table);

// "71.23 ± 0.41": two digits of the deviation and as many decimals of the mean; without one, the
// mean with four digits.
[[nodiscard]] std::string mean_text(double mean, const double* deviation);

}  // namespace regatta::orchestrator::experiments
