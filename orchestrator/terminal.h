// Text for people: tables, the progress line, the summary. Pure functions of the API's JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace regatta::orchestrator {

// Columns padded to their widest cell, two blanks between; each cell passes through
// base::printable.
[[nodiscard]] std::string table(const std::vector<std::vector<std::string>>& rows);

[[nodiscard]] std::string run_table(const nlohmann::ordered_json& runs);
[[nodiscard]] std::string run_details(const nlohmann::ordered_json& run);
// "[####------] step 412/4000  mlm_accuracy 0.083 of 0.098  341 samples/s  target in 35.0 s", at
// most `width` columns; no bar when width is below 60.
[[nodiscard]] std::string progress_line(const nlohmann::ordered_json& run, int width);
// What a run came to: target reached or not, time to accuracy, throughput, checkpoint path.
[[nodiscard]] std::string run_summary(const nlohmann::ordered_json& run);

[[nodiscard]] bool is_over(const nlohmann::ordered_json& run);

}  // namespace regatta::orchestrator
