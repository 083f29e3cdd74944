#include "orchestrator/api/routes.h"

#include <algorithm>
#include <ctime>
#include <utility>

#include "base/ascii.h"
#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "orchestrator/api/answers.h"

namespace regatta::orchestrator::api {
namespace {

constexpr std::size_t kMostShown = 50;  // bytes of a name or a value that a message repeats
constexpr int kDeepestLooked = 64;      // of JSON that is looked at; readers take less

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

std::string shown(const std::string& text) {
  return "'" + base::printable(text.substr(0, kMostShown)) + "'";
}

std::vector<std::string> choices_of(const Parameter& parameter) {
  return base::split(parameter.choices, ' ');
}

bool is_choice(const Parameter& parameter, const std::string& word) {
  const std::vector<std::string> choices = choices_of(parameter);
  return std::find(choices.begin(), choices.end(), word) != choices.end();
}

std::optional<bool> parse_flag(const std::string& text) {
  if (text == "true" || text == "1") return true;
  if (text == "false" || text == "0") return false;
  return std::nullopt;
}

// ".258" at the front, which is taken off.
double take_fraction(std::string_view* text) {
  if (text->empty() || text->front() != '.') return 0;
  const std::size_t end = std::min(text->find_first_not_of("0123456789", 1), text->size());
  const auto fraction = base::parse_number("0" + std::string(text->substr(0, end)));
  if (end == 1 || !fraction) return 0;  // what is left is no zone
  text->remove_prefix(end);
  return *fraction;
}

// Of "Z" or "+05:30", whose plus a query has as a space where it was not sent as %2B.
std::optional<double> seconds_east(std::string_view zone) {
  if (zone == "Z") return 0;
  const auto is_digit = [&](std::size_t at) { return zone[at] >= '0' && zone[at] <= '9'; };
  if (zone.size() != 6 || std::string_view("+- ").find(zone[0]) == std::string_view::npos ||
      zone[3] != ':' || !is_digit(1) || !is_digit(2) || !is_digit(4) || !is_digit(5)) {
    return std::nullopt;
  }
  const int hours = 10 * (zone[1] - '0') + zone[2] - '0';
  const int minutes = 10 * (zone[4] - '0') + zone[5] - '0';
  if (hours > 23 || minutes > 59) return std::nullopt;
  return (zone[0] == '-' ? -60.0 : 60.0) * (60 * hours + minutes);
}

// What a value has to be; empty where it is that.
std::string wanted_of(const Parameter& parameter, const std::string& value) {
  switch (parameter.kind) {
    case Parameter::Kind::Integer: {
      const auto number = base::parse_integer(value);
      if (number && *number >= parameter.low && *number <= parameter.high) return "";
      return "a whole number from " + std::to_string(parameter.low) + " to " +
             std::to_string(parameter.high);
    }
    case Parameter::Kind::Flag:
      return parse_flag(value) ? "" : "true or false";
    case Parameter::Kind::Word:
      return is_choice(parameter, value) ? "" : "one of " + base::join(choices_of(parameter), ", ");
    case Parameter::Kind::Words:
      for (const std::string& word : base::split(value, ',')) {
        if (!is_choice(parameter, word)) {
          return "one or more of " + base::join(choices_of(parameter), ", ") +
                 " with commas between them";
        }
      }
      return "";
    case Parameter::Kind::List: {
      const std::vector<std::string> all = base::split(value, ',');
      const bool none = value.empty() || std::find(all.begin(), all.end(), "") != all.end();
      return none ? "one or more with a comma between each two, or leave it out" : "";
    }
    case Parameter::Kind::Moment:
      return parse_moment(value) ? "" : "a moment such as 2026-11-27T10:30:00Z";
    case Parameter::Kind::Text:
      return "";
  }
  return "";
}

Response body_problem(const std::string& message, const std::string& key = {}) {
  return error_response(base::Error(base::Code::User, message, key), "a body");
}

// A run file may be YAML, of which its own reader says the same.
std::optional<Response> refuse_unclear(const std::string& body) {
  if (!base::is_utf8(body)) return body_problem("the body is not UTF-8; send it in UTF-8");
  if (!base::json_depth_at_most(body, kDeepestLooked)) return std::nullopt;
  const auto twice = base::repeated_key(body);
  if (!twice) return std::nullopt;
  const std::string key = base::printable(*twice);
  return body_problem(key + " stands twice in the body; give it once", key);
}

std::optional<Response> refuse_parameters(const Call& call) {
  for (const Parameter& parameter : call.route.query) {
    if (!call.text(parameter.name)) continue;
    if (parameter.kind == Parameter::Kind::Flag && !call.flag(parameter.name)) continue;
    auto refused = refuse_scope(call.request, parameter.scope,
                                std::string(parameter.name) +
                                    " is answered over the controller's own socket only; ask on "
                                    "its machine, without --server");
    if (refused) return refused;
  }
  return std::nullopt;
}

}  // namespace

std::string_view name_of(Scope scope) {
  switch (scope) {
    case Scope::Read:
      return "read";
    case Scope::Change:
      return "change";
    case Scope::Owner:
      return "owner";
  }
  return "owner";
}

std::optional<Response> refuse_scope(const Request& request, Scope scope,
                                     const std::string& message) {
  if (scope != Scope::Owner || request.peer.local_socket) return std::nullopt;
  return error_response(403, "forbidden", message);
}

std::optional<Response> refuse_body(const Request& request, RequestBody taken, Parameters known) {
  if (taken != RequestBody::None) return refuse_unclear(request.body);
  // What is sent and not read would be believed to have been taken: {"dry_run": true} above all.
  const std::string_view body = base::trimmed(request.body, " \t\r\n");
  if (body.empty() || body == "{}") return std::nullopt;
  std::vector<std::string> names;
  for (const Parameter& parameter : known) names.emplace_back(parameter.name);
  return body_problem("this address takes no body; send none" +
                      (names.empty() ? "" : ", and " + base::join(names, ", ") + " in the query"));
}

std::optional<double> parse_moment(const std::string& text) {
  constexpr const char* kForms[] = {"%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M", "%Y-%m-%d"};
  for (const char* const form : kForms) {
    std::tm parts{};
    const char* const end = ::strptime(text.c_str(), form, &parts);
    if (end == nullptr) continue;
    const std::tm before = parts;
    const std::time_t moment = ::timegm(&parts);  // which makes March 2 of February 30
    if (before.tm_mday != parts.tm_mday) return std::nullopt;
    std::string_view rest(end, static_cast<std::size_t>(text.c_str() + text.size() - end));
    if (form == kForms[2] && rest.empty()) return static_cast<double>(moment);
    const double fraction = form == kForms[0] ? take_fraction(&rest) : 0;
    const auto east = form == kForms[2] ? std::nullopt : seconds_east(rest);
    if (!east) return std::nullopt;
    return static_cast<double>(moment) + fraction - *east;
  }
  return std::nullopt;
}

const Parameter& Call::parameter(std::string_view name) const {
  const auto found =
      std::find_if(route.query.begin(), route.query.end(),
                   [&](const Parameter& parameter) { return parameter.name == name; });
  base::check(found != route.query.end(), "a route reads only the parameters of its row");
  return *found;
}

const std::string* Call::given(std::string_view name) const {
  const auto found = request.query.find(std::string(name));
  return found == request.query.end() ? nullptr : &found->second;
}

std::optional<std::string> Call::text(std::string_view name) const {
  const Parameter& known = parameter(name);
  if (const std::string* const value = given(name)) return *value;
  if (known.absent.empty()) return std::nullopt;
  return std::string(known.absent);
}

std::int64_t Call::integer(std::string_view name) const {
  return base::parse_integer(text(name).value_or("")).value_or(0);
}
bool Call::flag(std::string_view name) const {
  return parse_flag(text(name).value_or("")).value_or(false);
}
std::vector<std::string> Call::words(std::string_view name) const {
  const auto value = text(name);
  return value ? base::split(*value, ',') : std::vector<std::string>();
}
std::optional<double> Call::moment(std::string_view name) const {
  const auto value = text(name);
  return value ? parse_moment(*value) : std::nullopt;
}

std::optional<Response> refuse_query(const Request& request, Parameters known) {
  if (!request.unreadable_query.empty()) {
    const std::string name = request.unreadable_query.substr(0, request.unreadable_query.find('='));
    return parameter_problem(name.empty() ? request.unreadable_query : name,
                             shown(request.unreadable_query) +
                                 " in the query cannot be read; send NAME=VALUE in UTF-8, with %XX "
                                 "for what has a meaning there");
  }
  for (const auto& asked : request.query) {
    const std::string& name = asked.first;
    const std::string& value = asked.second;
    const auto found = std::find_if(known.begin(), known.end(), [&](const Parameter& parameter) {
      return parameter.name == name;
    });
    if (found == known.end()) {
      std::vector<std::string> names;
      for (const Parameter& parameter : known) names.emplace_back(parameter.name);
      return parameter_problem(name, "unknown query parameter " + shown(name) +
                                         (names.empty() ? "; this address takes none"
                                                        : "; use " + base::join(names, ", ")));
    }
    const std::string wanted = wanted_of(*found, value);
    if (!wanted.empty()) {
      return parameter_problem(name, name + " is " + shown(value) + "; use " + wanted);
    }
  }
  if (request.repeated_query.empty()) return std::nullopt;
  return parameter_problem(
      request.repeated_query,
      "query parameter " + shown(request.repeated_query) + " is repeated; send it once");
}

std::variant<Call, Response> find_route(std::span<const Route> routes, const Request& request,
                                        const std::vector<std::string>& parts) {
  if (!request.unreadable_path.empty()) {
    return error_response(400, "bad_request",
                          shown(request.unreadable_path) +
                              " in the path cannot be read; send it in UTF-8, with %XX for what "
                              "has a meaning there");
  }
  const auto first = std::find_if(routes.begin(), routes.end(),
                                  [&](const Route& route) { return fits(route.path, parts); });
  if (first == routes.end()) {
    return error_response(404, "not_found", "no such address below /api/v1");
  }
  std::vector<std::string> methods;
  for (const Route& route : routes) {
    if (route.path != first->path) continue;
    if (route.method == request.method) {
      if (const auto refused = refuse_query(request, route.query)) return *refused;
      // Whoever sent a body, and did not say so, would take it for read.
      if (!request.has_length && route.body != RequestBody::None) {
        return error_response(411, "length_required", "send the body with Content-Length");
      }
      if (const auto refused = refuse_body(request, route.body, route.query)) return *refused;
      Call call{request, route, names_in(route.path, parts)};
      if (auto refused = refuse_parameters(call)) return *std::move(refused);
      return call;
    }
    methods.emplace_back(route.method);
    if (route.method == "GET") methods.emplace_back("HEAD");
  }
  return wrong_method(base::join(methods, ", "));
}

}  // namespace regatta::orchestrator::api
