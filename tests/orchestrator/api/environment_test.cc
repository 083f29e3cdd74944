// GET /runs/{id}/environment: the file as it is, or one sentence.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "tests/orchestrator/api/handled_api.h"
#include "trainer/contract/environment_file.h"

namespace regatta::orchestrator::api {
namespace {

using testing::HasSubstr, testing::Not;
using Json = nlohmann::ordered_json;
namespace contract = trainer::contract;

class EnvironmentRoute : public tests::HandledApi {
 protected:
  Response get(const std::string& number = "", const std::string& run = "") {
    return HandledApi::get(run.empty() ? id_ : run, "environment", "attempt", number);
  }
  // The attempt's directory, with the file if there is a text.
  void attempt(const std::string& name, const std::optional<std::string>& text) {
    const base::Path path = HandledApi::attempt(id_, name);
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

  const std::string id_ = submit();
};

TEST_F(EnvironmentRoute, IsOfTheNewestAttemptOrOfOne) {
  EXPECT_EQ(get().status, 404) << "no attempt yet";
  attempt(attempt_name(2, 'a'), file(2));
  attempt(attempt_name(10, 'b'), file(10));
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
  attempt(attempt_name(12, '0'), std::nullopt);
  attempt(attempt_name(12, '5'), file(12));
  attempt(attempt_name(12, 'f'), std::nullopt);
  EXPECT_EQ(Json::parse(get().body)["attempt"]["number"], 12);
  attempt(attempt_name(13, '0'), std::nullopt);
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
    attempt(attempt_name(++number, 'a'), text);
    const Response answer = get();
    EXPECT_EQ(answer.status, 500) << number;
    const Json problem = Json::parse(answer.body, nullptr, false);
    ASSERT_TRUE(problem.is_object()) << answer.body.substr(0, 200);
    EXPECT_LT(answer.body.size(), 1000U);
    EXPECT_THAT(answer.body, HasSubstr("is damaged")) << number;
  }
  attempt(attempt_name(++number, 'a'), R"({"version": "0.1.0", "host": "a"})");
  EXPECT_EQ(get().status, 404) << "of a former trainer";
}

}  // namespace
}  // namespace regatta::orchestrator::api
