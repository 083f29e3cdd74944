// Answers of the API, as they leave every route.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "orchestrator/api/http.h"

namespace regatta::orchestrator::api {

[[nodiscard]] Response json_response(int status, const nlohmann::ordered_json& json);
// {"error": {"code", "message"}}
[[nodiscard]] Response error_response(int status, std::string_view code,
                                      const std::string& message);
// 405; allowed: "GET, POST"
[[nodiscard]] Response wrong_method(const std::string& allowed);

}  // namespace regatta::orchestrator::api
