// The addresses below /api/v1: what methods and query parameters each takes.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "orchestrator/api/http.h"

namespace regatta::orchestrator::api {

// parts: of the path after "/api/v1/". 404 for no address, 405 for another method, 400 for a query
// parameter that it does not know or that came twice; nothing when the request may be handled.
[[nodiscard]] std::optional<Response> refuse_address(const Request& request,
                                                     const std::vector<std::string>& parts);

// 400 for a query parameter that is not among these, or that came twice.
[[nodiscard]] std::optional<Response> refuse_query(const Request& request,
                                                   const std::vector<std::string>& known);

}  // namespace regatta::orchestrator::api
