#include "orchestrator/api/openapi.h"

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/ascii.h"
#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "orchestrator/api/answers.h"
#include "orchestrator/api/api.h"
#include "orchestrator/api/schemas.h"
#include "orchestrator/control/request_key.h"

namespace regatta::orchestrator::api {
namespace {

using Json = nlohmann::ordered_json;

Json content(std::string_view type, std::string_view schema) {
  return {{std::string(type), {{"schema", reference(schema)}}}};
}

Json schema_of(const Parameter& parameter) {
  const std::string choices(parameter.choices);
  Json schema;
  switch (parameter.kind) {
    case Parameter::Kind::Integer:
      schema = {{"type", "integer"}, {"minimum", parameter.low}, {"maximum", parameter.high}};
      if (!parameter.absent.empty()) {
        schema["default"] = base::parse_integer(std::string(parameter.absent)).value_or(0);
      }
      return schema;
    case Parameter::Kind::Flag:
      return {{"type", "boolean"}, {"default", parameter.absent == "true"}};
    case Parameter::Kind::Words:
      return {{"type", "array"},
              {"items", {{"type", "string"}, {"enum", base::split(choices, ' ')}}}};
    case Parameter::Kind::Word:
      schema = {{"type", "string"}, {"enum", base::split(choices, ' ')}};
      break;
    case Parameter::Kind::Moment:
      schema = {{"type", "string"}, {"format", "date-time"}};
      break;
    case Parameter::Kind::List:
    case Parameter::Kind::Text:
      schema = {{"type", "string"}};
      break;
  }
  if (!parameter.absent.empty()) schema["default"] = std::string(parameter.absent);
  return schema;
}

// Of texts, whose schema says nothing of their form. Empty: there is none.
std::string text_example(std::string_view name) {
  static const std::map<std::string_view, std::string_view> examples = {
      {"name", "bert"},
      {"text", "memory"},
      {"tag", "nightly,large"},
      {"tags", "nightly,large"},
      {"owner", "uid 1000"},
      {"by", "uid 1000"},
      {"node", "node01"},
      {"nodes", "node[01-04]"},
      {"partition", "gpu"},
      {"kind", "run.failed,checkpoint"},
      {"run", "bert-1b2c3d"},
      {"against", "bert-0a9b8c"},
      {"runs", "bert-1b2c3d"},
      {"after", "bert-1b2c3d"},
      {"before", "cd41d9600000000000-2a"},
      {"from", "0"},
      {"to", "1000"},
      {"thresholds", "0.5,0.72"},
      {"file", "launch-1.log"},
      {"grep", "loss [0-9.]+"}};
  const auto found = examples.find(name);
  return found == examples.end() ? "" : std::string(found->second);
}

Json example_of(const Parameter& parameter) {
  const std::vector<std::string> choices = base::split(std::string(parameter.choices), ' ');
  switch (parameter.kind) {
    case Parameter::Kind::Integer:
      return base::parse_integer(std::string(parameter.absent)).value_or(parameter.low + 1);
    case Parameter::Kind::Flag:
      return true;
    case Parameter::Kind::Words:
      return {choices.front(), choices.back()};
    case Parameter::Kind::Word:
      return choices.back();
    case Parameter::Kind::Moment:
      return "2026-11-27T10:30:00Z";
    case Parameter::Kind::List:
    case Parameter::Kind::Text:
      break;
  }
  const std::string text =
      parameter.example.empty() ? text_example(parameter.name) : std::string(parameter.example);
  base::check(!text.empty(), "a parameter of any text has an example");
  return text;
}

Json query_parameter(const Parameter& parameter) {
  Json json{{"name", std::string(parameter.name)},
            {"in", "query"},
            {"required", false},
            {"description", std::string(parameter.what)},
            {"schema", schema_of(parameter)},
            {"example", example_of(parameter)}};
  if (parameter.scope != Scope::Read) json["x-scope"] = std::string(name_of(parameter.scope));
  if (parameter.kind == Parameter::Kind::Words) {  // "a,b"
    json["style"] = "form";
    json["explode"] = false;
  }
  return json;
}

std::string described(const std::string& name) {
  if (name == "id") return "of a run: its id, or its name where only one run has it";
  if (name == "node") return "of a node, as `GET /nodes` has it";
  if (name == "bench") return "the id of a bench of the node";
  if (name == "file") return "the name of a file that the checkpoint or the export has";
  return "of a checkpoint, its step, or `latest`";
}

Json path_parameters(std::string_view path) {
  Json list = Json::array();
  for (const std::string& part : base::split(path, '/')) {
    if (part.empty() || part.front() != '{') continue;
    const std::string name = part.substr(1, part.size() - 2);
    list.push_back({{"name", name},
                    {"in", "path"},
                    {"required", true},
                    {"description", described(name)},
                    {"schema", {{"type", "string"}}}});
  }
  return list;
}

// "getRunsCheckpoints"
std::string operation_of(const Route& route) {
  std::string name = base::lower_case(route.method);
  bool begins = true;
  for (const char c : route.path) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (letter) name += begins && c >= 'a' ? static_cast<char>(c - 'a' + 'A') : c;
    begins = !letter;
  }
  return name;
}

Json body_of(const Route& route) {
  Json body{{"required", route.body == RequestBody::Needed},
            {"content", content("application/json", route.body_schema)}};
  Json& json = body["content"]["application/json"];
  if (!route.example.empty()) json["example"] = base::parse_json<Json>(std::string(route.example));
  if (route.body_schema == "RunFile") {
    body["content"]["application/yaml"] = {{"schema", {{"type", "string"}}}};
  }
  return body;
}

bool is_stream(const Route& route) {
  return !route.answers.empty() && route.answers.front().schema == "EventStream";
}
bool is_file(const Route& route) {
  return !route.answers.empty() && route.answers.front().schema == "FileBytes";
}

Json header_parameter(const char* name, const char* what, Json schema = {{"type", "string"}}) {
  return {{"name", name},
          {"in", "header"},
          {"required", false},
          {"description", what},
          {"schema", std::move(schema)}};
}

// What delivery.cc, download.cc and event_api.cc read of a request's head.
void add_headers(const Route& route, Json* parameters) {
  if (is_stream(route)) {
    parameters->push_back(header_parameter("Last-Event-ID",
                                           "the number of the last event that was seen, instead of "
                                           "`since`",
                                           {{"type", "integer"}, {"minimum", 0}}));
  } else if (route.method == "GET") {
    parameters->push_back(
        header_parameter("If-None-Match", "the `ETag` of an answer: 304 if it is still the same"));
  }
  if (is_file(route)) {
    parameters->push_back(
        header_parameter("Range", "one range of bytes (RFC 9110), such as `bytes=1000-`"));
    parameters->push_back(header_parameter(
        "If-Range", "the `ETag` that the range is of; all is sent if it is another by now"));
  }
  if (route.may_have_key) {
    parameters->push_back(header_parameter(
        "Idempotency-Key",
        "an equal request with the same key does nothing again, and answers the same run",
        {{"type", "string"},
         {"minLength", 1},
         {"maxLength", control::kLongestKey},
         {"pattern", "^[!-~]+$"}}));
  }
}

Json answers_of(const Route& route) {
  Json answers = Json::object();
  for (const RouteAnswer& answer : route.answers) {
    const std::string when(answer.when.empty() ? status_title(answer.status) : answer.when);
    answers[std::to_string(answer.status)] = {{"description", when},
                                              {"content", content(answer.type, answer.schema)}};
  }
  if (route.method == "GET" && !is_stream(route)) {
    answers["304"] = {{"description", "it is still what `If-None-Match` names"}};
  }
  if (is_file(route)) {
    answers["416"] = {{"description", "no byte of it is in the range"},
                      {"content", content(kProblemType, "Problem")}};
  }
  answers["default"] = {{"description", "what is wrong, and what to do"},
                        {"content", content(kProblemType, "Problem")}};
  return answers;
}

Json operation(const Route& route) {
  Json json{{"operationId", operation_of(route)},
            {"summary", std::string(route.summary)},
            {"x-scope", std::string(name_of(route.scope()))},
            {"parameters", path_parameters(route.path)}};
  for (const Parameter& parameter : route.query) {
    json["parameters"].push_back(query_parameter(parameter));
  }
  add_headers(route, &json["parameters"]);
  if (route.body != RequestBody::None) json["requestBody"] = body_of(route);
  json["responses"] = answers_of(route);
  return json;
}

// What Access answers before there is an API.
Json access_operation(const char* id, const char* summary, const char* body, const char* answer) {
  static constexpr RouteAnswer kNone[] = {{0}};
  Route route{"POST", "", summary, nullptr, kNone};
  Json json{{"operationId", id}, {"summary", summary}, {"parameters", Json::array()}};
  if (body != nullptr) {
    json["requestBody"] = {{"required", true}, {"content", content("application/json", body)}};
  }
  route.answers = {};
  json["responses"] = answers_of(route);
  json["responses"]["201"] = {{"description", "Created"},
                              {"content", content("application/json", answer)}};
  return json;
}

}  // namespace

Json openapi_document() {
  Json paths = Json::object();
  for (const Route& route : Api::routes()) {
    paths["/" + std::string(route.path)][base::lower_case(route.method)] = operation(route);
  }
  paths["/tickets"]["post"] = access_operation(
      "postTickets", "a one-time link to the page; over the socket only", nullptr, "Ticket");
  paths["/tickets"]["post"]["x-scope"] = std::string(name_of(Scope::Owner));
  paths["/session"]["post"] = access_operation(
      "postSession", "exchanges a ticket for a session; needs no token", "TicketUse", "Session");
  paths["/session"]["post"]["security"] = Json::array();
  return {{"openapi", "3.1.0"},
          {"info",
           {{"title", "Regatta's controller"},
            {"version", REGATTA_VERSION},
            {"description", "Submits and watches training runs (docs/api.md)."},
            {"license", {{"name", "Apache-2.0"}, {"identifier", "Apache-2.0"}}}}},
          {"servers", {{{"url", "/api/v1"}}}},
          {"security", {{{"token", Json::array()}}}},
          {"paths", std::move(paths)},
          {"components",
           {{"securitySchemes",
             {{"token",
               {{"type", "http"},
                {"scheme", "bearer"},
                {"description", "over TCP; over the unix socket the kernel says who asks"}}}}},
            {"schemas", schemas()}}}};
}

}  // namespace regatta::orchestrator::api
