// Tables of runs with the columns that a user chooses: keys of a run in the API.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace regatta::orchestrator::text {

// Only these keys of each run, in this order; what a run does not have is null.
[[nodiscard]] nlohmann::ordered_json chosen_columns(const nlohmann::ordered_json& runs,
                                                    const std::vector<std::string>& columns);

// The same as a table for people: moments are local, seconds are durations. At most `width` columns
// (0: as wide as it gets) where that leaves each but the id 8: the widest are cut.
[[nodiscard]] std::string column_table(const nlohmann::ordered_json& runs,
                                       const std::vector<std::string>& columns, int width = 0);

}  // namespace regatta::orchestrator::text
