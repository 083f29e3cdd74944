// The run file's section `input`, and what the journal has of it.
#include "trainer/contract/input_config.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "trainer/contract/journal.h"
#include "trainer/contract/run_change.h"
#include "trainer/contract/run_config.h"

namespace regatta::trainer {
namespace {

contract::RunConfig input_of(const std::string& more) {
  return contract::parse_run_config("model: {preset: tiny}\ndata: {path: data}\nsteps: 10\n" + more,
                                    "run.yaml");
}

TEST(InputConfig, IsReadAndWrittenBack) {
  EXPECT_EQ(input_of("").input, (contract::InputConfig{0, 0}));
  const contract::RunConfig other = input_of("input: {workers: 3, prefetch: 64}\n");
  EXPECT_EQ(other.input, (contract::InputConfig{3, 64}));
  const std::string text = contract::to_json(other);
  EXPECT_EQ(nlohmann::json::parse(text).at("input").dump(), R"({"prefetch":64,"workers":3})");
  EXPECT_EQ(contract::parse_run_config(text, "run.json").input, other.input);
}

TEST(InputConfig, RefusesWhatCannotBe) {
  for (const auto& [text, message] : std::vector<std::pair<std::string, std::string>>{
           {"input: {workers: -1}", "input.workers: is -1; use 0 to 64"},
           {"input: {workers: 65}", "input.workers: is 65; use 0 to 64"},
           {"input: {prefetch: 65}", "input.prefetch: is 65; use 0 to 64"},
           {"input: {prefetch: some}", "input.prefetch: expected"},
           {"input: {threads: 1}", "input.threads: unknown key"},
           {"input: 4", "input: expected a mapping"}}) {
    try {
      (void)input_of(text + "\n");
      ADD_FAILURE() << text << " is taken";
    } catch (const base::Error& error) {
      EXPECT_NE(std::string(error.what()).find(message), std::string::npos) << error.what();
    }
  }
}

TEST(InputConfig, MayChangeBetweenAttempts) {
  const contract::RunConfig before = input_of("");
  EXPECT_TRUE(
      contract::fixed_differences(before, input_of("input: {workers: 2, prefetch: 5}\n")).empty());
  EXPECT_EQ(contract::fixed_differences(before, input_of("seed: 2\n")).size(), 1U);
}

TEST(InputRecord, IsReadAsItWasWritten) {
  contract::InputRecord input;
  input.step = 10;
  input.workers = 4;
  input.prefetch = 8;
  input.samples_per_second = 1234.5;
  input.demand_per_second = 999.5;
  input.starved = true;
  input.tried_workers = {1, 1, 4};
  input.tried_prefetch = {1, 4, 8};
  input.tried_seconds = {0.3, 0.2, 0.1};
  input.pinned_seconds = 12e-6;
  input.ordinary_seconds = 31e-6;
  input.why = "because";
  contract::JournalRecord record;
  record.body = input;
  std::string line = contract::to_line(record);
  EXPECT_EQ(nlohmann::json::parse(line).at("type"), "input");
  line.pop_back();
  const auto read = contract::parse_record(line);
  ASSERT_TRUE(read && std::holds_alternative<contract::InputRecord>(read->body));
  const auto& again = std::get<contract::InputRecord>(read->body);
  EXPECT_EQ(again.step, 10);
  EXPECT_EQ(again.workers, 4);
  EXPECT_EQ(again.prefetch, 8);
  EXPECT_EQ(again.samples_per_second, 1234.5);
  EXPECT_EQ(again.demand_per_second, 999.5);
  EXPECT_TRUE(again.starved);
  EXPECT_EQ(again.tried_workers, input.tried_workers);
  EXPECT_EQ(again.tried_prefetch, input.tried_prefetch);
  EXPECT_EQ(again.tried_seconds, input.tried_seconds);
  EXPECT_EQ(again.pinned_seconds, 12e-6);
  EXPECT_EQ(again.ordinary_seconds, 31e-6);
  EXPECT_EQ(again.why, "because");
}

}  // namespace
}  // namespace regatta::trainer
