#include "orchestrator/api/answers.h"

#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/json.h"
#include "base/text.h"

namespace regatta::orchestrator::api {
namespace {

using Json = nlohmann::ordered_json;

Response problem(int status, std::string_view code, const std::string& message, Json more) {
  Json json{{"type", "about:blank"},
            {"title", std::string(status_title(status))},
            {"status", status},
            {"detail", message},
            {"code", std::string(code)}};
  json.update(more);
  Response response = json_response(status, json);
  response.content_type = kProblemType;
  return response;
}

Response text_response(int status, std::string json) {
  Response response;
  response.status = status;
  response.body = std::move(json);
  response.headers["Cache-Control"] = "no-store";
  return response;
}

}  // namespace

std::string_view status_title(int status) {
  static const std::map<int, std::string_view> kTitles{{200, "OK"},
                                                       {201, "Created"},
                                                       {202, "Accepted"},
                                                       {304, "Not Modified"},
                                                       {400, "Bad Request"},
                                                       {401, "Unauthorized"},
                                                       {403, "Forbidden"},
                                                       {404, "Not Found"},
                                                       {405, "Method Not Allowed"},
                                                       {408, "Request Timeout"},
                                                       {409, "Conflict"},
                                                       {411, "Length Required"},
                                                       {412, "Precondition Failed"},
                                                       {413, "Content Too Large"},
                                                       {414, "URI Too Long"},
                                                       {415, "Unsupported Media Type"},
                                                       {416, "Range Not Satisfiable"},
                                                       {417, "Expectation Failed"},
                                                       {422, "Unprocessable Content"},
                                                       {431, "Request Header Fields Too Large"},
                                                       {500, "Internal Server Error"},
                                                       {501, "Not Implemented"},
                                                       {503, "Service Unavailable"},
                                                       {505, "HTTP Version Not Supported"},
                                                       {507, "Insufficient Storage"}};
  const auto found = kTitles.find(status);
  return found == kTitles.end() ? "Error" : found->second;
}

Json read_body(const std::string& body, int depth) {
  if (!base::json_depth_at_most(body, depth)) return {};
  Json json = base::parse_json<Json>(body);
  return json.is_discarded() ? Json() : json;
}

Response json_response(int status, const Json& json) {
  return text_response(status, base::json_text(json) + "\n");
}

Response list_response(const std::string& name, std::size_t count,
                       const std::function<Json(std::size_t)>& row, const Json& rest) {
  std::string body = "{" + base::json_text(Json(name)) + ":[";
  for (std::size_t i = 0; i < count; ++i) {
    if (i > 0) body += ',';
    body += base::json_text(row(i));
  }
  body += ']';
  for (const auto& [key, value] : rest.items()) {
    body += ',' + base::json_text(Json(key)) + ':' + base::json_text(value);
  }
  return text_response(200, body + "}\n");
}

Response error_response(int status, std::string_view code, const std::string& message) {
  return problem(status, code, message, Json::object());
}

Response error_response(const base::Error& error, const std::string& body) {
  const base::CodeMeaning meaning = base::meaning(error.code());
  Json more = Json::object();
  // Without a body the key is one of a file that was read for the answer.
  const bool asked = error.code() == base::Code::User || error.code() == base::Code::NotFound;
  if (asked && !body.empty() && !error.key().empty()) more["key"] = error.key();
  return problem(meaning.http_status, meaning.name, error.what(), std::move(more));
}

Response parameter_problem(const std::string& name, const std::string& message) {
  return problem(400, "user", message, {{"parameter", base::printable(name.substr(0, 50))}});
}

Response parameter_problem(const control::RequestError& error) {
  const base::CodeMeaning meaning = base::meaning(error.code());
  return problem(meaning.http_status, meaning.name, error.what(),
                 {{"parameter", error.parameter()}});
}

Response empty_filter(const std::string& name) {
  return parameter_problem(name, name + " is empty; leave it out where everything is wanted");
}

Response wrong_method(const std::string& allowed) {
  Response response = error_response(405, "method_not_allowed",
                                     "this address does not take that method; use " + allowed);
  response.headers["Allow"] = allowed;
  return response;
}

}  // namespace regatta::orchestrator::api
