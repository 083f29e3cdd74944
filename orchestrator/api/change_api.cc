#include "orchestrator/api/change_api.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "orchestrator/api/answers.h"

namespace regatta::orchestrator::api {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kForkDepth = 9;  // a run file's, and one

}  // namespace

std::optional<std::string> key_of(const Request& request) {
  const auto header = request.headers.find("idempotency-key");
  if (header == request.headers.end()) return std::nullopt;
  return header->second;
}

control::ForkRequest parse_fork(const std::string& body) {
  const Json json = read_body(body, kForkDepth);
  control::ForkRequest request;
  std::string wrong;  // the first key that is
  bool good = json.is_object();
  for (const auto& [key, value] : json.items()) {
    if (key == "checkpoint" && value.is_string()) {
      request.checkpoint = value.get<std::string>();
    } else if (key == "name" && value.is_string()) {
      request.name = value.get<std::string>();
    } else if (key == "changes" && value.is_object()) {
      request.changes = base::json_text(value);
    } else {
      if (json.is_object() && wrong.empty()) wrong = base::printable(key);
      good = false;
    }
  }
  if (good) return request;
  throw base::Error(
      base::Code::User,
      R"(the body is not {"checkpoint": "…", "name": "…", "changes": {…}}; send that, )"
      R"(or a part of it)",
      wrong);
}

}  // namespace regatta::orchestrator::api
