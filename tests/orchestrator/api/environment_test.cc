// GET /runs/{id}/environment: the file as it is, or one sentence.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "orchestrator/api/api.h"
#include "tests/orchestrator/support.h"
#include "trainer/contract/environment_file.h"

namespace regatta::orchestrator::api {
namespace {

using testing::HasSubstr, testing::Not;
using Json = nlohmann::ordered_json;
namespace contract = trainer::contract;

class EnvironmentRoute : public testing::Test {
 protected:
  EnvironmentRoute()
      : store_(folder_.path() / "state"),
        controller_(base::posix_file_system(), clock_, store_, scheduler_, options()),
        api_(controller_, base::posix_file_system(), clock_, {}) {
    controller_.adopt();
    Request request;
    request.method = "POST";
    request.path = "/api/v1/runs";
    request.body = tests::run_file();
    id_ = Json::parse(api_.handle(request).body)["id"];
  }
  control::ControllerOptions options() const {
    control::ControllerOptions settings;
    settings.runs_directory = folder_.path() / "runs";
    return settings;
  }
  Response get(const std::string& attempt = "", const std::string& run = "") {
    Request request;
    request.method = "GET";
    request.path = "/api/v1/runs/" + (run.empty() ? id_ : run) + "/environment";
    if (!attempt.empty()) request.query["attempt"] = attempt;
    return api_.handle(request);
  }
  // The attempt's directory, with the file if there is a text.
  void attempt(const std::string& name, const std::optional<std::string>& text) {
    const base::Path path = base::Path(store_.run(id_)->directory) / "attempts" / name;
    std::filesystem::create_directories(path);
    if (text) tests::write_file(path / "environment.json", *text);
  }
  static std::string file(int number) {
    Json sections;
    for (const std::string_view name : contract::kEnvironmentSections) {
      sections[std::string(name)] = {{"text", "\x1b[2J"}};
    }
    Json json = contract::sealed_environment(sections);
    json["attempt"] = {{"number", number}};
    return json.dump(2);
  }
  static std::string name(int number, char digit) {
    return std::to_string(number) + "-" + std::string(16, digit);
  }

  tests::TemporaryDirectory folder_;
  tests::SimulatedClock clock_;
  tests::ScriptedScheduler scheduler_;
  store::Store store_;
  control::Controller controller_;
  Api api_;
  std::string id_;
};

TEST_F(EnvironmentRoute, IsOfTheNewestAttemptOrOfOne) {
  EXPECT_EQ(get().status, 404) << "no attempt yet";
  attempt(name(2, 'a'), file(2));
  attempt(name(10, 'b'), file(10));
  attempt("11-no-attempt", file(11));
  const Response newest = get();
  ASSERT_EQ(newest.status, 200) << newest.body;
  EXPECT_EQ(Json::parse(newest.body), Json::parse(file(10))) << "10 comes after 2";
  EXPECT_THAT(newest.body, Not(HasSubstr("\x1b")));
  EXPECT_EQ(Json::parse(get("2").body)["attempt"]["number"], 2);
  EXPECT_EQ(get("3").status, 404);
  EXPECT_EQ(get("0").status, 400);
  EXPECT_EQ(get("x").status, 400);
  EXPECT_EQ(get("", "none").status, 404);

  // Two that began at once: one of them trained.
  attempt(name(12, '0'), std::nullopt);
  attempt(name(12, '5'), file(12));
  attempt(name(12, 'f'), std::nullopt);
  EXPECT_EQ(Json::parse(get().body)["attempt"]["number"], 12);
  attempt(name(13, '0'), std::nullopt);
  EXPECT_EQ(get().status, 404);
  EXPECT_THAT(get().body, HasSubstr("attempt 13 of run"));
}

TEST_F(EnvironmentRoute, AnswersOneSentenceForADamagedFile) {
  const std::string good = file(1);
  std::string changed = good;
  changed.replace(changed.find("[2J"), 3, "[3J");
  int number = 0;
  for (const std::string& text :
       {std::string(), std::string("{"), good.substr(0, good.size() / 2), changed,
        std::string(10U << 20U, 'x'), good + std::string(10U << 20U, ' '),
        std::string(1U << 19U, '['), std::string("{\"format\": 2, \"build\": []}"),
        std::string("\x00\x1b\x9b\xff", 4)}) {
    attempt(name(++number, 'a'), text);
    const Response answer = get();
    EXPECT_EQ(answer.status, 500) << number;
    const Json problem = Json::parse(answer.body, nullptr, false);
    ASSERT_TRUE(problem.is_object()) << answer.body.substr(0, 200);
    EXPECT_LT(answer.body.size(), 1000U);
    EXPECT_THAT(answer.body, HasSubstr("is damaged")) << number;
  }
  attempt(name(++number, 'a'), R"({"version": "0.1.0", "host": "a"})");
  EXPECT_EQ(get().status, 404) << "of a former trainer";
}

}  // namespace
}  // namespace regatta::orchestrator::api
