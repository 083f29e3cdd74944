// The API's document: whole, consistent, and the one in docs/openapi.json. That answers are as it
// says, tests/orchestrator/api/openapi_test.py looks at.
#include "orchestrator/api/openapi.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "base/ascii.h"
#include "orchestrator/api/api.h"
#include "orchestrator/api/node_json.h"

namespace regatta::orchestrator::api {
namespace {

using Json = nlohmann::ordered_json;

// Of every object below `json` with a key "$ref".
void references(const Json& json, std::set<std::string>* found) {
  if (!json.is_structured()) return;
  if (json.is_object() && json.contains("$ref")) found->insert(json["$ref"].get<std::string>());
  for (const auto& each : json) references(each, found);
}

TEST(OpenApi, IsTheOneInTheDocs) {
  const std::string path = REGATTA_SOURCE_DIR "/docs/openapi.json";
  const std::string text = openapi_document().dump(1) + "\n";
  if (std::getenv("REGATTA_WRITE_GOLDEN") != nullptr) std::ofstream(path) << text;
  std::ostringstream written;
  written << std::ifstream(path).rdbuf();
  EXPECT_EQ(Json::parse(text), Json::parse(written.str(), nullptr, false))
      << path << "; if the new document is right, run with REGATTA_WRITE_GOLDEN=1";
}

TEST(OpenApi, HasEveryRouteOnceWithItsParametersAndAnswers) {
  const Json document = openapi_document();
  std::set<std::string> ids;
  std::size_t operations = 0;
  for (const auto& path : document["paths"]) {
    for (const auto& operation : path) {
      ++operations;
      EXPECT_TRUE(ids.insert(operation["operationId"]).second) << operation["operationId"];
      EXPECT_EQ(operation["responses"]["default"]["content"]["application/problem+json"]["schema"],
                (Json{{"$ref", "#/components/schemas/Problem"}}));
    }
  }
  EXPECT_EQ(operations, Api::routes().size() + 2) << "and what Access answers";
  for (const Route& route : Api::routes()) {
    const Json& operation =
        document["paths"]["/" + std::string(route.path)][base::lower_case(route.method)];
    std::set<std::string> named;
    for (const Json& parameter : operation["parameters"]) named.insert(parameter["name"]);
    for (const Parameter& parameter : route.query) {
      EXPECT_EQ(named.count(std::string(parameter.name)), 1U) << route.path << parameter.name;
    }
    const std::regex variable("\\{([a-z]+)\\}");
    const std::string path(route.path);
    for (std::sregex_iterator it(path.begin(), path.end(), variable), end; it != end; ++it) {
      EXPECT_EQ(named.count((*it)[1]), 1U) << path;
    }
    for (const RouteAnswer& answer : route.answers) {
      EXPECT_EQ(operation["responses"].count(std::to_string(answer.status)), 1U) << path;
    }
    EXPECT_EQ(operation.contains("requestBody"), route.body != RequestBody::None) << path;
  }
}

// Of a request's head, and of what it alone brings about.
TEST(OpenApi, HasTheHeadersThatAreRead) {
  const Json document = openapi_document();
  for (const Route& route : Api::routes()) {
    const Json& operation =
        document["paths"]["/" + std::string(route.path)][base::lower_case(route.method)];
    std::map<std::string, Json> headers;
    for (const Json& parameter : operation["parameters"]) {
      if (parameter["in"] == "header") headers[parameter["name"]] = parameter["schema"];
    }
    const bool stream = route.path == "events/stream";
    const bool file = operation["responses"].contains("206");
    const bool tagged = route.method == "GET" && !stream;
    const std::string what = std::string(route.method) + " " + std::string(route.path);
    EXPECT_EQ(headers.count("Last-Event-ID"), stream ? 1U : 0U) << what;
    EXPECT_EQ(headers.count("If-None-Match"), tagged ? 1U : 0U) << what;
    EXPECT_EQ(operation["responses"].contains("304"), tagged) << what;
    EXPECT_EQ(headers.count("Range"), file ? 1U : 0U) << what;
    EXPECT_EQ(headers.count("If-Range"), file ? 1U : 0U) << what;
    EXPECT_EQ(operation["responses"].contains("416"), file) << what;
    ASSERT_EQ(headers.count("Idempotency-Key"), route.may_have_key ? 1U : 0U) << what;
    if (!route.may_have_key) continue;
    EXPECT_EQ(
        headers["Idempotency-Key"],
        (Json{{"type", "string"}, {"minLength", 1}, {"maxLength", 200}, {"pattern", "^[!-~]+$"}}));
  }
}

TEST(OpenApi, SaysWhatEachOperationNeeds) {
  const Json document = openapi_document();
  for (const auto& [path, methods] : document["paths"].items()) {
    for (const auto& [method, operation] : methods.items()) {
      const std::string what = method + " " + path;
      if (path == "/session") {  // which needs a ticket, and nothing before it
        EXPECT_FALSE(operation.contains("x-scope"));
        continue;
      }
      const char* const scope = method == "get" ? "read" : path == "/tickets" ? "owner" : "change";
      EXPECT_EQ(operation["x-scope"], scope) << what;
      for (const Json& parameter : operation["parameters"]) {
        const bool secrets = what == "get /runs/{id}" && parameter["name"] == "secrets";
        EXPECT_EQ(parameter.value("x-scope", "read"), secrets ? "owner" : "read") << what;
      }
    }
  }
}

TEST(OpenApi, OfANodeHasTheKeysOfItsAnswer) {
  NodesAnswer answer;
  answer.nodes.rows = {slurm::NodeRow()};
  NodeQuery slim;
  slim.full = false;
  const Json schemas = openapi_document()["components"]["schemas"];
  const auto keys = [](const Json& object) {
    std::vector<std::string> names;
    for (const auto& [key, value] : object.items()) names.push_back(key);
    return names;
  };
  EXPECT_EQ(keys(nodes_json(answer)["nodes"][0]), keys(schemas["Node"]["properties"]));
  EXPECT_EQ(keys(nodes_json(answer, slim)["nodes"][0]), keys(schemas["SlimNode"]["properties"]));
}

TEST(OpenApi, NamesEachSchemaThatItUsesAndUsesEachThatItNames) {
  const Json document = openapi_document();
  std::set<std::string> used;
  references(document, &used);
  std::set<std::string> named;
  for (const auto& [name, schema] : document["components"]["schemas"].items()) {
    named.insert("#/components/schemas/" + name);
  }
  EXPECT_EQ(used, named);
}

}  // namespace
}  // namespace regatta::orchestrator::api
