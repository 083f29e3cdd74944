// GET /runs/{id}/learning: from which step on a run learns differently, or one sentence.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "orchestrator/api/attempt_files.h"
#include "tests/orchestrator/api/handled_api.h"
#include "trainer/contract/environment_file.h"
#include "trainer/contract/journal.h"

namespace regatta::orchestrator::api {
namespace {

using testing::HasSubstr;
using Json = nlohmann::ordered_json;
namespace contract = trainer::contract;

class LearningRoute : public tests::HandledApi {
 protected:
  Response get(const std::string& run, const std::string& against) {
    return HandledApi::get(run, "learning", "against", against);
  }
  Json told(const std::string& run, const std::string& against) {
    const Response answer = get(run, against);
    EXPECT_EQ(answer.status, 200) << answer.body;
    return Json::parse(answer.body);
  }
  // An attempt that begins after `first` steps and has these losses.
  base::Path attempt(const std::string& run, int number, std::int64_t first,
                     const std::vector<double>& losses) {
    const base::Path path = HandledApi::attempt(run, attempt_name(number));
    contract::StartRecord start;
    start.first_step = first;
    std::string text = line_of(start);
    for (std::size_t i = 0; i < losses.size(); ++i) {
      contract::StepRecord step;
      step.step = first + static_cast<std::int64_t>(i) + 1;
      step.loss = losses[i];
      text += line_of(step);
    }
    tests::write_file(path / "journal.jsonl", text);
    return path;
  }
  static std::string line_of(auto body) {
    contract::JournalRecord record;
    record.body = std::move(body);
    return contract::to_line(record);
  }
  static std::string environment(const std::string& activations, int seed) {
    Json sections;
    for (const std::string_view name : contract::kEnvironmentSections) {
      sections[std::string(name)] = Json::object();
    }
    sections["numerics"]["activations"] = activations;
    sections["randomness"]["seed"] = seed;
    return contract::sealed_environment(sections).dump();
  }

  const std::string a_ = submit(), b_ = submit();
};

TEST_F(LearningRoute, TellsTheFirstStepAndTheLikelyCause) {
  tests::write_file(attempt(a_, 1, 0, {7, 6, 5}) / "environment.json", environment("float32", 1));
  tests::write_file(attempt(b_, 1, 0, {7, 6.5, 5}) / "environment.json", environment("float32", 2));
  const Json learning = told(b_, a_);
  EXPECT_EQ(learning["runs"][0]["run"], a_);
  EXPECT_EQ(learning["runs"][1]["run"], b_);
  EXPECT_FALSE(learning["equal"].get<bool>());
  EXPECT_EQ(learning["other_bits"]["step"], 2);
  EXPECT_EQ(learning["beyond_rounding"]["loss"], Json::parse("[6.0, 6.5]"));
  ASSERT_EQ(learning["causes"].size(), 1U);
  EXPECT_EQ(learning["causes"][0]["what"], "another seed");
  EXPECT_EQ(learning["causes"][0]["evidence"][0]["values"], Json::parse("[1, 2]"));
}

TEST_F(LearningRoute, NewerAttemptsReplaceTheStepsOfOlderOnes) {
  attempt(a_, 1, 0, {7, 6, 5, 4});
  attempt(b_, 1, 0, {7, 6, 5.5});
  attempt(b_, 2, 2, {5, 4});
  attempt(b_, 10, 4, {});  // began, and did nothing
  const Json learning = told(b_, a_);
  EXPECT_TRUE(learning["equal"].get<bool>());
  EXPECT_EQ(learning["common"], 4);
  EXPECT_TRUE(learning["other_bits"].is_null());
}

// What a coarser run rounds away is a difference to the finer one.
TEST_F(LearningRoute, TheFinerTypeSaysWhatRoundingIs) {
  tests::write_file(attempt(a_, 1, 0, {7}) / "environment.json", environment("bfloat16", 1));
  tests::write_file(attempt(b_, 1, 0, {7.001}) / "environment.json", environment("bfloat16", 1));
  EXPECT_TRUE(told(b_, a_)["beyond_rounding"].is_null());
  const std::string c = submit();
  tests::write_file(attempt(c, 1, 0, {7.001}) / "environment.json", environment("float32", 1));
  const Json learning = told(c, a_);
  EXPECT_EQ(learning["beyond_rounding"]["step"], 1);
  EXPECT_EQ(learning["causes"][0]["what"], "another precision");
}

TEST_F(LearningRoute, WithoutAnEnvironmentTheStepsAreTold) {
  tests::write_file(attempt(a_, 1, 0, {7}) / "environment.json", "{\"format\": 2, \"build\": [");
  attempt(b_, 1, 0, {6});
  const Json learning = told(b_, a_);
  EXPECT_EQ(learning["beyond_rounding"]["step"], 1);
  EXPECT_FALSE(learning["known"].get<bool>());
  EXPECT_TRUE(learning["causes"].empty());
  EXPECT_THAT(learning["runs"][0]["environment_fault"].get<std::string>(),
              HasSubstr("environment.json is damaged"));
  EXPECT_TRUE(learning["runs"][1]["environment_fault"].is_null()) << "it has none";
}

TEST_F(LearningRoute, DamagedJournalsAreToldApartFromShortOnes) {
  attempt(a_, 1, 0, {7, 6});
  const base::Path damaged = attempt(b_, 1, 0, {7, 6}) / "journal.jsonl";
  const std::string whole = base::posix_file_system().read(damaged, 1 << 20);
  tests::write_file(damaged, "garbage\n" + whole + "\x01\x02\n");
  const Json learning = told(b_, a_);
  EXPECT_EQ(learning["common"], 2);
  EXPECT_EQ(learning["runs"][0]["damaged"], 0);
  EXPECT_EQ(learning["runs"][1]["damaged"], 2);
  tests::write_file(damaged, "garbage\n");
  EXPECT_EQ(get(b_, a_).status, 422);
  EXPECT_THAT(get(b_, a_).body, HasSubstr("run " + b_ +
                                          " has no step to compare: its journals "
                                          "have 1 damaged line"));
  EXPECT_THAT(HandledApi::get(a_, "speed", "against", b_).body, HasSubstr("1 damaged line"));
}

TEST(WithoutSteps, SaysWhetherStepsMayStillCome) {
  runs::Run run;
  run.id = "a";
  run.state = runs::RunState::Running;
  EXPECT_STREQ(without_steps(run, 0).what(), "run a has no attempt with steps yet");
  run.state = runs::RunState::Failed;
  EXPECT_STREQ(without_steps(run, 0).what(), "run a has no attempt with steps");
  run.summary.step = 40;  // as the controller read it before
  EXPECT_THAT(without_steps(run, 0).what(),
              HasSubstr("it took 40 steps, of which its journals do not tell any more"));
  EXPECT_EQ(without_steps(run, 0).code(), base::Code::User);
}

TEST_F(LearningRoute, SaysInOneSentenceWhatIsMissing) {
  EXPECT_EQ(get(b_, "").status, 400);
  EXPECT_EQ(get(b_, "none").status, 404);
  EXPECT_EQ(get("none", a_).status, 404);
  attempt(a_, 1, 0, {7});
  EXPECT_EQ(get(b_, a_).status, 404);
  EXPECT_THAT(get(b_, a_).body, HasSubstr("run " + b_ + " has no attempt with steps yet"));
  attempt(b_, 1, 0, {});
  EXPECT_EQ(get(b_, a_).status, 404) << "it began and took no step";
}

}  // namespace
}  // namespace regatta::orchestrator::api
