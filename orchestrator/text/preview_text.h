#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace regatta::orchestrator::text {

// What a submission would do, of the API's answer to a dry run (docs/api.md): every text in it
// printable. The script comes last, as it is.
[[nodiscard]] std::string preview_text(const nlohmann::ordered_json& preview);

// What was found of each, in columns: its name, "ok", "NO" or "?" with the detail.
[[nodiscard]] std::vector<std::vector<std::string>> check_rows(
    const nlohmann::ordered_json& preview);

// Whether none of its checks found what keeps a run from training.
[[nodiscard]] bool may_train(const nlohmann::ordered_json& preview);

}  // namespace regatta::orchestrator::text
