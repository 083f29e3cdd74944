// The addresses below /api/v1, in one table (Api::routes()) which serves requests and says what
// each address takes.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "orchestrator/api/http.h"

namespace regatta::orchestrator::api {

class Api;

// A request that fits a route.
struct Call {
  const Request& request;
  std::vector<std::string> names;  // the parts of its path that stand for {id} and {name}
};

enum class RequestBody { None, Optional, Needed };

struct Route {
  std::string_view method;
  std::string_view path;   // below /api/v1/; {…} is any one part
  std::string_view query;  // names of its parameters, separated by spaces
  RequestBody body;
  std::string_view summary;  // one line, for the API's document
  Response (Api::*handle)(const Call&);
};

struct RouteMatch {
  const Route* route;
  std::vector<std::string> names;
};
// parts: of the path after "/api/v1/". Of two paths that fit, the first in the table counts. Else
// the answer: 404 for no address, 405 with Allow for another method, 400 for a query parameter that
// the route does not know or that came twice.
[[nodiscard]] std::variant<RouteMatch, Response> find_route(std::span<const Route> routes,
                                                            const Request& request,
                                                            const std::vector<std::string>& parts);

// 400 for a query parameter that is not among these, or that came twice.
[[nodiscard]] std::optional<Response> refuse_query(const Request& request,
                                                   const std::vector<std::string>& known);

}  // namespace regatta::orchestrator::api
