// What a run file may say of the model that a run begins with.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "base/error.h"
#include "trainer/contract/run_config.h"
#include "trainer/contract/run_schema.h"

namespace regatta::trainer::contract {
namespace {

using testing::HasSubstr;

std::optional<StartConfig> start_of(const std::string& text) {
  return parse_run_config("data: {path: /d}\n" + text + "\n", "f").from;
}

TEST(StartConfig, IsAPathARunOrATextThatMayBeEither) {
  EXPECT_FALSE(start_of(""));
  struct Row {
    const char* text;
    StartConfig start;
  };
  const Row rows[] = {
      {"from: base", {"base", false, "", true}},
      {"from: base@best", {"base@best", false, "", true}},
      {"from: 7", {"7", false, "", true}},
      {"from: {path: ../base}", {"../base", false, "", false}},
      {"from: {path: /m, optimizer: true}", {"/m", true, "", false}},
      {"from: {run: 'base@40'}", {"", false, "base@40", false}},
      {"from: {run: base, optimizer: true}", {"", true, "base", false}},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.text);
    const StartConfig start = start_of(row.text).value();
    EXPECT_EQ(start.path, row.start.path);
    EXPECT_EQ(start.run, row.start.run);
    EXPECT_EQ(start.optimizer, row.start.optimizer);
    EXPECT_EQ(start.is_short, row.start.is_short);
  }
}

TEST(StartConfig, ItsCanonicalTextIsReadBackAsItIs) {
  for (const char* const text :
       {"from: {path: /m, optimizer: true}", "from: {run: 'base@best'}", "from: /m"}) {
    SCOPED_TRACE(text);
    const RunConfig config = parse_run_config("data: {path: /d}\n" + std::string(text), "f");
    const RunConfig again = parse_run_config(to_json(config), "f");
    EXPECT_EQ(to_json(again), to_json(config));
    EXPECT_EQ(again.from->path, config.from->path);
    EXPECT_EQ(again.from->run, config.from->run);
    EXPECT_EQ(again.from->optimizer, config.from->optimizer);
  }
}

TEST(StartConfig, RefusesWhatNamesNoModel) {
  struct Row {
    const char* text;
    const char* key;
    const char* says;
  };
  const std::string long_path = "from: " + std::string(5000, 'a');
  const Row rows[] = {
      {"from: ''", "from", "names nothing"},
      {"from: {}", "from", "names nothing"},
      {"from: {optimizer: true}", "from", "names nothing"},
      {"from: {path: ''}", "from", "names nothing"},
      {"from: {path: /m, run: base}", "from.run", "two models"},
      {"from: {runs: base}", "from.runs", "unknown key"},
      {"from: {path: /m, optimizer: 7}", "from.optimizer", ""},
      {"from: [a]", "from", ""},
      {"from: \"a\\tb\"", "from", "not a path"},
      {"from: {run: \"a\\nb\"}", "from.run", "not a path"},
      {long_path.c_str(), "from", "not a path"},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(std::string(row.text).substr(0, 60));
    try {
      (void)start_of(row.text);
      ADD_FAILURE() << "was taken";
    } catch (const base::Error& error) {
      EXPECT_EQ(error.code(), base::Code::User);
      EXPECT_EQ(error.key(), row.key) << error.what();
      EXPECT_THAT(error.what(), HasSubstr(row.says));
    }
  }
}

TEST(StartConfig, ATrainerRefusesARunOfAController) {
  RunConfig config;
  EXPECT_NO_THROW(refuse_runs_of_controllers(config, "f"));
  config.from = StartConfig{"/m", false};
  EXPECT_NO_THROW(refuse_runs_of_controllers(config, "f"));
  config.from = StartConfig{"", false, "base@best"};
  try {
    refuse_runs_of_controllers(config, "f");
    ADD_FAILURE();
  } catch (const base::Error& error) {
    EXPECT_EQ(error.key(), "from.run");
    EXPECT_THAT(error.what(), HasSubstr("f: from.run: 'base@best' is a run of a controller"));
    EXPECT_THAT(error.what(), HasSubstr("`regatta submit`"));
  }
}

TEST(StartConfig, TheSchemaTakesAllForms) {
  const auto from = nlohmann::json::parse(run_file_schema())["properties"]["from"];
  EXPECT_EQ(from["type"], nlohmann::json({"object", "string"}));
  EXPECT_EQ(from["anyOf"].size(), 2U);
  EXPECT_TRUE(from["properties"].contains("run"));
  EXPECT_FALSE(from.contains("required"));
}

}  // namespace
}  // namespace regatta::trainer::contract
