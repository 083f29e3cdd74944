#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace regatta::orchestrator::text {

// What a submission would do, of the API's answer to a dry run (docs/api.md): every text in it
// printable. The script comes last, as it is.
[[nodiscard]] std::string preview_text(const nlohmann::ordered_json& preview);

}  // namespace regatta::orchestrator::text
