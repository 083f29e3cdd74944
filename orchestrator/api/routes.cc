#include "orchestrator/api/routes.h"

#include <algorithm>

#include "base/text.h"
#include "orchestrator/api/answers.h"

namespace regatta::orchestrator::api {
namespace {

constexpr std::size_t kMostShown = 50;  // bytes of a name that a message repeats

bool is_name(const std::string& part) { return part.front() == '{'; }

bool fits(std::string_view path, const std::vector<std::string>& parts) {
  const std::vector<std::string> wanted = base::split(path, '/');
  return std::equal(wanted.begin(), wanted.end(), parts.begin(), parts.end(),
                    [](const std::string& want, const std::string& part) {
                      return is_name(want) || want == part;
                    });
}

std::vector<std::string> names_in(std::string_view path, const std::vector<std::string>& parts) {
  const std::vector<std::string> wanted = base::split(path, '/');
  std::vector<std::string> names;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (is_name(wanted[i])) names.push_back(parts[i]);
  }
  return names;
}

std::string shown(const std::string& name) {
  return "'" + base::printable(name.substr(0, kMostShown)) + "'";
}

}  // namespace

std::optional<Response> refuse_query(const Request& request,
                                     const std::vector<std::string>& known) {
  for (const auto& [name, value] : request.query) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    return error_response(
        400, "user",
        "unknown query parameter " + shown(name) +
            (known.empty() ? "; this address takes none" : "; use " + base::join(known, ", ")));
  }
  if (request.repeated_query.empty()) return std::nullopt;
  return error_response(
      400, "user",
      "query parameter " + shown(request.repeated_query) + " is repeated; send it once");
}

std::variant<RouteMatch, Response> find_route(std::span<const Route> routes, const Request& request,
                                              const std::vector<std::string>& parts) {
  const auto first = std::find_if(routes.begin(), routes.end(),
                                  [&](const Route& route) { return fits(route.path, parts); });
  if (first == routes.end()) {
    return error_response(404, "not_found", "no such address below /api/v1");
  }
  std::vector<std::string> methods;
  for (const Route& route : routes) {
    if (route.path != first->path) continue;
    if (route.method == request.method) {
      const auto refused =
          refuse_query(request, route.query.empty() ? std::vector<std::string>()
                                                    : base::split(route.query, ' '));
      if (refused) return *refused;
      return RouteMatch{&route, names_in(route.path, parts)};
    }
    methods.emplace_back(route.method);
  }
  return wrong_method(base::join(methods, ", "));
}

}  // namespace regatta::orchestrator::api
