// The one table of addresses: it serves all that docs/api.md promises, and nothing else.
#include "orchestrator/api/routes.h"

#include <gmock/gmock.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>

#include "base/text.h"
#include "orchestrator/api/api.h"
#include "orchestrator/api/request_head.h"
#include "tests/orchestrator/control/controller_fixture.h"

namespace regatta::orchestrator::api {
namespace {

using testing::HasSubstr, testing::Not;

std::string text_of(const base::Path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// "GET runs/{id}" of every route in the document's table, but for what Access serves, and what is
// said of it.
std::map<std::string, std::string> documented() {
  const std::string page = text_of(REGATTA_SOURCE_DIR "/docs/api.md");
  const std::regex route("\n\\| `(GET|POST|DELETE) ([^`]+)` \\|([^\n]*)");
  std::map<std::string, std::string> routes;
  for (std::sregex_iterator it(page.begin(), page.end(), route), end; it != end; ++it) {
    std::string path = std::regex_replace((*it)[2].str(), std::regex("^…"), "/runs/{id}");
    if (path == "/tickets" || path == "/session") continue;
    routes[(*it)[1].str() + " " + path.substr(1)] = (*it)[3];
  }
  return routes;
}

class RoutesTest : public ControllerFixture {
 protected:
  RoutesTest() : ControllerFixture(1) {
    id_ = submit();
    ticks();
  }

  std::string path_of(const Route& route) const {
    const std::string path =
        std::regex_replace(std::string(route.path), std::regex("\\{id\\}"), id_);
    return std::regex_replace(path, std::regex("\\{name\\}|\\{file\\}"), "latest");
  }
  Response send(const std::string& method, const std::string& path) {
    Request request;
    request.method = method;
    request.path = "/api/v1/" + path;
    return api_.handle(request);
  }

  std::string id_;
  Api api_{*controller_, base::posix_file_system(), clock_, {folder_.path()}};
};

TEST_F(RoutesTest, EveryRowAnswers) {
  for (const Route& route : Api::routes()) {
    const Response response = send(std::string(route.method), path_of(route));
    EXPECT_NE(response.status, 405) << route.method << " " << route.path;
    EXPECT_LT(response.status, 500) << route.method << " " << route.path << response.body;
    EXPECT_THAT(response.body, Not(HasSubstr("no such address"))) << route.path;
  }
}

TEST_F(RoutesTest, WhatARowDoesNotListIs405WithWhatItDoes) {
  std::map<std::string, std::set<std::string>> methods;
  for (const auto& [route, says] : documented()) {
    methods[route.substr(route.find(' ') + 1)].insert(route.substr(0, route.find(' ')));
  }
  for (const Route& route : Api::routes()) {
    // A checkpoint is not called gc, so that address has no GET.
    std::set<std::string> listed = methods[std::string(route.path)];
    if (listed.count("GET") > 0) listed.insert("HEAD");
    for (const std::string method : {"GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "get"}) {
      if (listed.count(method) > 0) continue;
      const Response response = send(method, path_of(route));
      EXPECT_EQ(response.status, 405) << method << " " << route.path;
      const std::vector<std::string> allowed = base::split(response.headers.at("Allow"), ',');
      EXPECT_EQ(allowed.size(), listed.size()) << route.path;
      for (const std::string& each : listed) {
        EXPECT_THAT(response.headers.at("Allow"), HasSubstr(each)) << route.path;
      }
    }
  }
}

// `curl -X POST` sends no length where it has nothing to send.
TEST_F(RoutesTest, OnlyABodyThatIsReadNeedsItsLength) {
  int without = 0;
  const auto status = [&](const std::string& path) {
    Request request;
    request.method = "POST";
    request.path = "/api/v1/" + path;
    request.has_length = false;
    return api_.handle(request).status;
  };
  for (const Route& route : Api::routes()) {
    if (route.method != "POST") continue;
    without += route.body == RequestBody::None ? 1 : 0;
    EXPECT_EQ(status(path_of(route)) == 411, route.body != RequestBody::None) << route.path;
  }
  EXPECT_GT(without, 3);
  EXPECT_EQ(status("experiments"), 405);
  EXPECT_EQ(status("nothing"), 404);
}

TEST_F(RoutesTest, WhatIsTheOwnersIsAnsweredOverTheSocketAlone) {
  int owners = 0;
  for (const Route& route : Api::routes()) {
    EXPECT_EQ(route.scope(), route.method == "GET" ? Scope::Read : Scope::Change) << route.path;
    for (const Parameter& parameter : route.query) {
      if (parameter.scope != Scope::Owner) continue;
      ++owners;
      ASSERT_EQ(parameter.kind, Parameter::Kind::Flag) << "others are given where they are there";
      for (const char* const value : {"true", "1", "false"}) {
        Request request;
        request.method = route.method;
        request.path = "/api/v1/" + path_of(route);
        request.query[std::string(parameter.name)] = value;
        const bool asked = value != std::string("false");
        EXPECT_EQ(api_.handle(request).status, asked ? 403 : 200) << route.path << value;
        request.peer.local_socket = true;
        EXPECT_EQ(api_.handle(request).status, 200) << route.path << value;
      }
    }
  }
  EXPECT_EQ(owners, 1) << "secrets";
}

TEST_F(RoutesTest, WhatTakesNoBodyRefusesOne) {
  for (const Route& route : Api::routes()) {
    if (route.body != RequestBody::None) continue;
    Request request;
    request.method = route.method;
    request.path = "/api/v1/" + path_of(route);
    request.body = "{\"dry_run\": true}";
    const Response response = api_.handle(request);
    EXPECT_EQ(response.status, 422) << route.method << " " << route.path << response.body;
    EXPECT_THAT(response.body, HasSubstr("takes no body"));
    if (route.path == "runs/{id}/archive") {
      EXPECT_THAT(response.body, HasSubstr("dry_run in the query"));
    }
  }
  EXPECT_FALSE(store_->run(id_)->archived);
  Request request;
  request.method = "POST";
  request.path = "/api/v1/runs/" + id_ + "/cancel";
  request.body = " {}\n";
  EXPECT_EQ(api_.handle(request).status, 202) << "an empty object asks for nothing";
}

TEST_F(RoutesTest, AQueryThatCannotBeReadIsRefused) {
  Request request;
  request.method = "GET";
  request.path = "/api/v1/runs";
  request.unreadable_query = "text=%ff";
  const Response response = api_.handle(request);
  EXPECT_EQ(response.status, 400);
  EXPECT_THAT(response.body, HasSubstr("'text=%ff' in the query cannot be read"));
  EXPECT_THAT(response.body, HasSubstr("\"parameter\":\"text\""));
  request.unreadable_query = "=1";
  EXPECT_THAT(api_.handle(request).body, HasSubstr("\"parameter\":\"=1\"")) << "it has no name";
}

TEST_F(RoutesTest, AListHasNoEmptyPart) {
  for (const auto& [method, path, parameter] :
       std::vector<std::array<std::string, 3>>{{"GET", "runs", "tag"},
                                               {"GET", "events", "kind"},
                                               {"GET", "events/stream", "kind"},
                                               {"GET", "metrics", "runs"},
                                               {"POST", "runs", "tags"},
                                               {"POST", "runs", "after"}}) {
    const std::string good = parameter == "kind" ? "run" : id_;
    for (const std::string& value : {std::string(), std::string(","), good + ",", "," + good,
                                     good + ",," + good, ",," + good + ",,"}) {
      Request request;
      request.method = method;
      request.path = "/api/v1/" + path;
      request.query[parameter] = value;
      if (method == "POST") request.body = tests::run_file();
      const Response response = api_.handle(request);
      EXPECT_EQ(response.status, 400) << path << "?" << parameter << "=" << value;
      EXPECT_THAT(response.body, HasSubstr("\"parameter\":\"" + parameter + "\""));
    }
  }
  EXPECT_EQ(store_->ids().size(), 1U);
}

TEST_F(RoutesTest, AProblemOfTheQueryNamesItsParameter) {
  struct Bad {
    const char *method, *path, *parameter;
    std::string value;
    int status;
  };
  std::string many = id_;
  for (int i = 0; i < 32; ++i) many += "," + id_;
  for (const Bad& bad : std::vector<Bad>{{"POST", "runs", "tags", "\u00e9", 422},
                                         {"POST", "runs", "after", many, 422},
                                         {"POST", "runs", "after", "nope", 404},
                                         {"GET", "metrics", "runs", id_ + ",nope", 404},
                                         {"GET", "events", "run", "nope", 404},
                                         {"GET", "events/stream", "run", "nope", 404}}) {
    Request request;
    request.method = bad.method;
    request.path = std::string("/api/v1/") + bad.path;
    request.query[bad.parameter] = bad.value;
    if (request.method == "POST") request.body = tests::run_file();
    const Response response = api_.handle(request);
    EXPECT_EQ(response.status, bad.status) << bad.path << response.body;
    const auto problem = nlohmann::json::parse(response.body);
    EXPECT_EQ(problem.value("parameter", ""), bad.parameter) << response.body;
    EXPECT_FALSE(problem.contains("key"));
  }
  EXPECT_EQ(store_->ids().size(), 1U);
}

TEST_F(RoutesTest, AKeyThatIsNoneIsRefusedOfDryRunsToo) {
  for (const std::string& path : {std::string("runs"), "runs/" + id_ + "/archive"}) {
    for (const char* const dry : {"true", "false"}) {
      for (const std::string& key :
           {std::string(), std::string("a b"), std::string(8000, 'k'), std::string("\u00e9")}) {
        Request request;
        request.method = "POST";
        request.path = "/api/v1/" + path;
        request.query["dry_run"] = dry;
        request.headers["idempotency-key"] = key;
        if (path == "runs") request.body = tests::run_file();
        const Response response = api_.handle(request);
        EXPECT_EQ(response.status, 422) << path << " " << dry << " " << key.substr(0, 20);
        EXPECT_THAT(response.body, HasSubstr("\"parameter\":\"Idempotency-Key\""));
      }
    }
  }
  EXPECT_EQ(store_->ids().size(), 1U);
}

TEST_F(RoutesTest, TagsAreSetOrAddedToNotBoth) {
  for (const char* const other : {"add_tags", "remove_tags"}) {
    Request request;
    request.method = "POST";
    request.path = "/api/v1/runs/" + id_ + "/labels";
    request.body = std::string(R"({"tags": ["a"], ")") + other + R"(": ["b"]})";
    const Response response = api_.handle(request);
    EXPECT_EQ(response.status, 422) << other << response.body;
    EXPECT_THAT(response.body, HasSubstr("\"key\":\"tags\""));
  }
  EXPECT_TRUE(store_->run(id_)->tags.empty());
}

TEST_F(RoutesTest, APathThatCannotBeReadIsRefused) {
  for (const std::string part : {"%zz", "%ff", "a%", "%C3", "%u0041"}) {
    RequestHead head;
    head.method = "GET";
    head.target = "/api/v1/runs/" + part + "/logs?limit=10";
    Request request = without_path(head);
    request.path = "/api/v1/runs/" + id_ + "/logs";  // whatever was made of it
    const Response response = api_.handle(request);
    EXPECT_EQ(response.status, 400) << part;
    EXPECT_THAT(response.body, HasSubstr("'" + part + "' in the path cannot be read"));
  }
  RequestHead head;
  head.target = "/api/v1/runs/d%C3%A9j%c3%a0+vu%20%2F%25/logs";
  EXPECT_EQ(without_path(head).unreadable_path, "");
}

TEST_F(RoutesTest, AKeyThatStandsTwiceInABodyIsRefused) {
  for (const auto& [path, body] : std::map<std::string, std::string>{
           {"runs/" + id_ + "/labels", R"({"note": "a", "note": "b"})"},
           {"runs/" + id_ + "/fork", R"({"name": "a", "changes": {"steps": 1, "steps": 2}})"},
           {"runs/" + id_ + "/checkpoints/latest/pin", R"({"reason": "a", "reason": "b"})"},
           {"runs/" + id_ + "/checkpoints/latest/export",
            R"({"for": "encoder", "for": "encoder"})"},
           {"references", R"({"name": "a", "name": "b"})"}}) {
    Request request;
    request.method = "POST";
    request.path = "/api/v1/" + path;
    request.body = body;
    const Response response = api_.handle(request);
    EXPECT_EQ(response.status, 422) << path;
    EXPECT_THAT(response.body, HasSubstr("stands twice")) << path;
    EXPECT_THAT(response.body, HasSubstr("\"key\":\"")) << path;
  }
}

TEST_F(RoutesTest, NoBodySaysTwoThings) {
  int taken = 0;
  for (const Route& route : Api::routes()) {
    if (route.body == RequestBody::None) continue;
    ++taken;
    Request request;
    request.method = route.method;
    request.path = "/api/v1/" + path_of(route);
    // As JSON with a plan, none of it reaches the reader of run files as it was written.
    request.body = R"({"plan": {}, "slurm": {"partition": "a", "partition": "b"}})";
    Response response = api_.handle(request);
    EXPECT_EQ(response.status, 422) << route.path << response.body;
    EXPECT_THAT(response.body, HasSubstr("\"key\":\"slurm.partition\"")) << route.path;
    request.body = "{\"reason\": \"\xff\"}";
    response = api_.handle(request);
    EXPECT_EQ(response.status, 422) << route.path << response.body;
    EXPECT_THAT(response.body, HasSubstr("not UTF-8")) << route.path;
  }
  EXPECT_GE(taken, 8);
  EXPECT_EQ(store_->ids().size(), 1U);
}

TEST_F(RoutesTest, OtherAddressesAre404) {
  for (const char* path : {"", "nothing", "runs/x/y", "runs/", "version/", "run", "Runs",
                           "runs/x/cancel/y", "runs/x/checkpoints/1/2/3", "tickets", "session"}) {
    const Response response = send("GET", path);
    EXPECT_EQ(response.status, 404) << path;
  }
}

TEST(RouteTable, IsTheDocumentedOne) {
  const std::map<std::string, std::string> page = documented();
  std::set<std::string> served;
  for (const Route& route : Api::routes()) {
    const std::string name = std::string(route.method) + " " + std::string(route.path);
    EXPECT_TRUE(served.insert(name).second) << name << " stands there twice";
    ASSERT_EQ(page.count(name), 1U) << name << " is not in docs/api.md";
    for (const Parameter& parameter : route.query) {
      if (parameter.name == "secrets") continue;  // of the section on secrets
      EXPECT_THAT(page.at(name), HasSubstr(std::string(parameter.name) + "=")) << name;
      EXPECT_FALSE(parameter.what.empty() || parameter.what.back() == '.') << parameter.name;
    }
    if (route.body == RequestBody::Needed || route.body == RequestBody::Optional) {
      EXPECT_THAT(page.at(name), HasSubstr("body")) << name;
    }
    EXPECT_FALSE(route.summary.empty() || route.summary.back() == '.') << name;
  }
  EXPECT_EQ(served.size(), page.size()) << "docs/api.md promises more";
}

// Nobody else looks at the parts of a path.
TEST(RouteTable, IsTheOnlyPlaceThatReadsAPath) {
  const std::regex reads(R"(parts\[\d\]|parts\.size\(\)|path [=!]=|path\.(rfind|find|substr))");
  std::set<std::string> readers;
  for (const auto& file :
       std::filesystem::directory_iterator(REGATTA_SOURCE_DIR "/orchestrator/api")) {
    if (std::regex_search(text_of(file.path()), reads)) readers.insert(file.path().filename());
  }
  // Beside the table: who may ask, what a controller that starts answers, and what is
  // no API.
  EXPECT_EQ(readers,
            (std::set<std::string>{"access.cc", "api.cc", "opening.cc", "page.cc", "routes.cc"}));
}

}  // namespace
}  // namespace regatta::orchestrator::api
