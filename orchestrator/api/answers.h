// Answers of the API, as they leave every route.
#pragma once

#include <cstddef>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "base/error.h"
#include "orchestrator/api/http.h"
#include "orchestrator/control/request_error.h"

namespace regatta::orchestrator::api {

// The JSON of a body; null where it is none, or nests deeper than `depth`.
[[nodiscard]] nlohmann::ordered_json read_body(const std::string& body, int depth);

[[nodiscard]] Response json_response(int status, const nlohmann::ordered_json& json);
// 200 with {name: [each of the rows], …rest}, made row by row: a long list is never in memory as
// JSON, which takes several times as long. row: of the index.
[[nodiscard]] Response list_response(const std::string& name, std::size_t count,
                                     const std::function<nlohmann::ordered_json(std::size_t)>& row,
                                     const nlohmann::ordered_json& rest);

// Problem details (RFC 9457): {"type": "about:blank", "title", "status", "detail", "code"}, and
// "request_id" once it is sent (exchange.h). code: for programs; detail: one line for people.
[[nodiscard]] Response error_response(int status, std::string_view code,
                                      const std::string& message);
// Of an error; `body`: what the request sent. A key of it that is at fault is in "key".
[[nodiscard]] Response error_response(const base::Error& error, const std::string& body);
// 400, with the query parameter at fault in "parameter".
[[nodiscard]] Response parameter_problem(const std::string& name, const std::string& message);
// As its code says, which need not be 400: a run that is not there is 404.
[[nodiscard]] Response parameter_problem(const control::RequestError& error);
// 400 for a filter that is there and says nothing: by a slip everything would fit.
[[nodiscard]] Response empty_filter(const std::string& name);
// 405; allowed: "GET, POST"
[[nodiscard]] Response wrong_method(const std::string& allowed);

[[nodiscard]] std::string_view status_title(int status);

inline constexpr const char* kProblemType = "application/problem+json";

}  // namespace regatta::orchestrator::api
