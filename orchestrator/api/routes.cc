#include "orchestrator/api/routes.h"

#include <algorithm>
#include <string_view>

#include "base/text.h"
#include "orchestrator/api/answers.h"

namespace regatta::orchestrator::api {
namespace {

struct Route {
  std::string_view method;
  std::string_view pattern;  // "*" is any one part
  std::string_view query;    // names, separated by spaces
};

// Of two patterns that fit a path the first counts.
constexpr Route kRoutes[] = {
    {"GET", "version", ""},
    {"GET", "nodes", ""},
    {"GET", "runs", "archived before limit state"},
    {"POST", "runs", "after"},
    {"GET", "runs/*", "secrets"},
    {"DELETE", "runs/*", "dry_run pinned_too"},
    {"POST", "runs/*/archive", "dry_run"},
    {"POST", "runs/*/cancel", ""},
    {"POST", "runs/*/resume", ""},
    {"GET", "runs/*/metrics", "since"},
    {"GET", "runs/*/logs", "offset"},
    {"GET", "runs/*/explain", ""},
    {"GET", "runs/*/plan", ""},
    {"GET", "runs/*/checkpoints", ""},
    {"POST", "runs/*/checkpoints/gc", "dry_run"},
    {"GET", "runs/*/checkpoints/*", ""},
    {"POST", "runs/*/checkpoints/*/verify", ""},
    {"POST", "runs/*/checkpoints/*/pin", ""},
    {"POST", "runs/*/checkpoints/*/unpin", ""},
    {"GET", "runs/*/checkpoints/*/export", ""},
    {"POST", "runs/*/checkpoints/*/export", ""},
};

constexpr std::size_t kMostShown = 50;  // bytes of a name that a message repeats

bool fits(std::string_view pattern, const std::vector<std::string>& parts) {
  const std::vector<std::string> wanted = base::split(pattern, '/');
  return std::equal(
      wanted.begin(), wanted.end(), parts.begin(), parts.end(),
      [](const std::string& want, const std::string& part) { return want == "*" || want == part; });
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

std::optional<Response> refuse_address(const Request& request,
                                       const std::vector<std::string>& parts) {
  const auto* const first =
      std::find_if(std::begin(kRoutes), std::end(kRoutes),
                   [&](const Route& route) { return fits(route.pattern, parts); });
  if (first == std::end(kRoutes)) {
    return error_response(404, "not_found", "no such address below /api/v1");
  }
  std::vector<std::string> methods;
  for (const Route& route : kRoutes) {
    if (route.pattern != first->pattern) continue;
    if (route.method == request.method) {
      return refuse_query(request, route.query.empty() ? std::vector<std::string>()
                                                       : base::split(route.query, ' '));
    }
    methods.emplace_back(route.method);
  }
  return wrong_method(base::join(methods, ", "));
}

}  // namespace regatta::orchestrator::api
