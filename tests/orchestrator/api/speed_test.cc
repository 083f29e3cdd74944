// GET /runs/{id}/speed: what makes a run slower than another, or one sentence.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "tests/orchestrator/api/handled_api.h"
#include "tests/orchestrator/compare/made_journal.h"
#include "trainer/contract/environment_file.h"

namespace regatta::orchestrator::api {
namespace {

using testing::HasSubstr;
using Json = nlohmann::ordered_json;
namespace contract = trainer::contract;

class SpeedRoute : public tests::HandledApi {
 protected:
  Response get(const std::string& run, const std::string& against) {
    return HandledApi::get(run, "speed", "against", against);
  }
  base::Path attempt(const std::string& run, int number, const std::string& journal) {
    const base::Path path = HandledApi::attempt(run, attempt_name(number));
    tests::write_file(path / "journal.jsonl", journal);
    return path;
  }
  static std::string text(const compare::MadeSteps& of, const std::string& device = "CPU, 1 thread",
                          int ranks = 1) {
    std::string lines;
    for (contract::JournalRecord& record : compare::made_journal(of)) {
      if (auto* start = std::get_if<contract::StartRecord>(&record.body)) {
        start->device = device;
        start->ranks = ranks;
      }
      lines += contract::to_line(record);
      if (!lines.ends_with('\n')) lines += "\n";
    }
    return lines;
  }
  static std::string environment(const std::string& instructions) {
    Json sections;
    for (const std::string_view name : contract::kEnvironmentSections) {
      sections[std::string(name)] = Json::object();
    }
    sections["numerics"]["instruction_set"] = instructions;
    return contract::sealed_environment(sections).dump();
  }

  const std::string a_ = submit(), b_ = submit();
};

compare::MadeSteps slower() {
  compare::MadeSteps steps;
  steps.backward = 0.028;  // 8 ms of a step, 1 ms of a sample
  return steps;
}

TEST_F(SpeedRoute, TellsPartsThatAddUpAndTheirCause) {
  tests::write_file(attempt(a_, 1, text({})) / "environment.json", environment("avx512"));
  tests::write_file(attempt(b_, 1, text(slower())) / "environment.json", environment("avx2"));
  const Response answer = get(b_, a_);
  ASSERT_EQ(answer.status, 200) << answer.body;
  const Json speed = Json::parse(answer.body);
  EXPECT_EQ(speed["attempts"][0]["run"], a_);
  EXPECT_EQ(speed["attempts"][1]["run"], b_);
  EXPECT_NEAR(speed["difference"].get<double>(), 0.001, 1e-9);
  double sum = 0;
  for (const Json& part : speed["parts"]) sum += part["difference"].get<double>();
  EXPECT_NEAR(sum, 0.001, 1e-9);
  ASSERT_EQ(speed["causes"].size(), 1U) << answer.body;
  EXPECT_EQ(speed["causes"][0]["part"], "compute");
  EXPECT_EQ(speed["causes"][0]["evidence"][0]["key"], "numerics instruction_set");
  // The other way round it is as much faster.
  EXPECT_NEAR(Json::parse(get(a_, b_).body)["difference"].get<double>(), -0.001, 1e-9);
}

TEST_F(SpeedRoute, TakesTheNewestAttemptThatHasSteps) {
  attempt(a_, 1, text({}));
  attempt(b_, 1, text({}));
  attempt(b_, 2, text(slower()));
  attempt(b_, 10, "");  // began, and did nothing
  const Json speed = Json::parse(get(b_, a_).body);
  EXPECT_EQ(speed["attempts"][1]["attempt"], 2);
  EXPECT_NEAR(speed["difference"].get<double>(), 0.001, 1e-9);
}

TEST_F(SpeedRoute, AnEnvironmentThatCannotBeReadLeavesTheParts) {
  tests::write_file(attempt(a_, 1, text({})) / "environment.json", "{\"format\": 2, \"build\": [");
  tests::write_file(attempt(b_, 1, text(slower())) / "environment.json", environment("avx2"));
  const Response answer = get(b_, a_);
  ASSERT_EQ(answer.status, 200) << answer.body;
  EXPECT_NEAR(Json::parse(answer.body)["difference"].get<double>(), 0.001, 1e-9);
  EXPECT_THAT(answer.body, testing::Not(HasSubstr("avx2"))) << "of one alone nobody knows";
}

// What ranks wait for one another is no unknown rest.
TEST_F(SpeedRoute, OfSeveralRanksWaitingIsCommunication) {
  compare::MadeSteps waits;
  waits.reduce = 0.008;
  attempt(a_, 1, text({}));
  attempt(b_, 1, text(waits, "CPU, 1 thread", 2));
  const Json speed = Json::parse(get(b_, a_).body);
  for (const Json& part : speed["parts"]) {
    EXPECT_NEAR(part["difference"].get<double>(), part["part"] == "communication" ? 0.001 : 0, 1e-9)
        << part["part"];
  }
}

// The host of a GPU only enqueues: what its journal calls forward is nobody's forward.
TEST_F(SpeedRoute, OfAGpuForwardAndOptimizerAreOne) {
  attempt(a_, 1, text({}, "NVIDIA H200"));
  attempt(b_, 1, text(slower(), "NVIDIA H200"));
  const Json speed = Json::parse(get(b_, a_).body);
  for (const Json& part : speed["parts"]) {
    if (part["part"] == "optimizer") {
      EXPECT_EQ(part["seconds_per_sample"][0], 0);
    }
  }
}

TEST_F(SpeedRoute, SaysInOneSentenceWhatIsMissing) {
  EXPECT_EQ(get(b_, "").status, 400);
  EXPECT_THAT(get(b_, "").body, HasSubstr("against is missing"));
  EXPECT_EQ(get(b_, "none").status, 404);
  EXPECT_EQ(get("none", a_).status, 404);
  attempt(a_, 1, text({}));
  EXPECT_EQ(get(b_, a_).status, 404);
  EXPECT_THAT(get(b_, a_).body, HasSubstr("has no attempt with steps yet"));
  compare::MadeSteps few;
  few.steps = 9;
  attempt(b_, 1, text(few));
  EXPECT_EQ(get(b_, a_).status, 422) << get(b_, a_).body;
  EXPECT_THAT(get(b_, a_).body, HasSubstr(b_));
}

TEST_F(SpeedRoute, ADamagedJournalIsReadAsFarAsItGoes) {
  attempt(a_, 1, text({}));
  std::string cut = text(slower());
  cut.resize(cut.size() - 40);
  attempt(b_, 1, cut + "\x1b[2J{{{{\n" + std::string(1U << 16U, '['));
  const Response answer = get(b_, a_);
  ASSERT_EQ(answer.status, 200) << answer.body;
  EXPECT_NEAR(Json::parse(answer.body)["difference"].get<double>(), 0.001, 1e-9);
}

}  // namespace
}  // namespace regatta::orchestrator::api
