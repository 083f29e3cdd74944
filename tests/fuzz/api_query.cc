// Any bytes are a request's method, path and query: a problem in one plain line, or a call of a
// route whose every parameter has a value that the route's row allows. "METHOD target".
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/text.h"
#include "orchestrator/api/api.h"
#include "orchestrator/api/request_head.h"

using regatta::base::check;
using namespace regatta::orchestrator::api;

namespace {

void check_problem(const Response& response) {
  check(response.status == 400 || response.status == 404 || response.status == 405,
        "what fits no route is the client's to change");
  const auto problem = nlohmann::json::parse(response.body, nullptr, false);
  check(problem.is_object() && problem.value("status", 0) == response.status, "a problem is JSON");
  const std::string detail = problem.value("detail", "");
  check(!detail.empty() && regatta::base::printable(detail) == detail, "one plain line");
  check(response.status != 405 || response.headers.count("Allow") == 1, "405 names the methods");
}

bool is_among(std::string_view choices, const std::string& word) {
  const auto known = regatta::base::split(choices, ' ');
  return std::find(known.begin(), known.end(), word) != known.end();
}

void check_call(const Call& call) {
  for (const Parameter& parameter : call.route.query) {
    const bool is_given = call.request.query.count(std::string(parameter.name)) > 0;
    switch (parameter.kind) {
      case Parameter::Kind::Integer: {
        const std::int64_t value = call.integer(parameter.name);
        check(!is_given || (value >= parameter.low && value <= parameter.high), "within its range");
        break;
      }
      case Parameter::Kind::Flag:
        (void)call.flag(parameter.name);
        break;
      case Parameter::Kind::Word:
        check(!is_given || is_among(parameter.choices, *call.text(parameter.name)), "a choice");
        break;
      case Parameter::Kind::Words:
        for (const std::string& word : call.words(parameter.name)) {
          check(is_among(parameter.choices, word), "choices");
        }
        break;
      case Parameter::Kind::List:
        for (const std::string& each : call.words(parameter.name)) check(!each.empty(), "a text");
        break;
      case Parameter::Kind::Moment: {
        const auto moment = call.moment(parameter.name);
        check(moment.has_value() == is_given && std::isfinite(moment.value_or(0)), "a moment");
        break;
      }
      case Parameter::Kind::Text:
        break;
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::size_t space = text.find(' ');
  if (space == std::string_view::npos) return 0;
  RequestHead head;
  head.method = text.substr(0, space);
  head.target = text.substr(space + 1);
  Request request = without_path(head);
  request.method = head.method;
  request.path = head.target.substr(0, head.target.find('?'));
  const auto found = find_route(Api::routes(), request, regatta::base::split(request.path, '/'));
  if (const auto* refused = std::get_if<Response>(&found)) {
    check_problem(*refused);
  } else {
    check_call(std::get<Call>(found));
  }
  return 0;
}
