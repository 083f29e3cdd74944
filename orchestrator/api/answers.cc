#include "orchestrator/api/answers.h"

#include <nlohmann/json.hpp>

#include "base/json.h"

namespace regatta::orchestrator::api {

using Json = nlohmann::ordered_json;

Response json_response(int status, const Json& json) {
  Response response;
  response.status = status;
  response.body = base::json_text(json) + "\n";
  response.headers["Cache-Control"] = "no-store";
  return response;
}

Response error_response(int status, std::string_view code, const std::string& message) {
  return json_response(status, {{"error", {{"code", std::string(code)}, {"message", message}}}});
}

Response wrong_method(const std::string& allowed) {
  Response response = error_response(405, "method_not_allowed",
                                     "this address does not take that method; use " + allowed);
  response.headers["Allow"] = allowed;
  return response;
}

}  // namespace regatta::orchestrator::api
