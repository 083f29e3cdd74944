// The key `determinism`: its two spellings, the older key, and one clear error for each key that a
// level does not go with.
#include "trainer/contract/determinism.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"
#include "trainer/contract/run_config.h"

namespace regatta::trainer::contract {
namespace {

using testing::HasSubstr;

RunConfig read_with(const std::string& text) {
  return parse_run_config("data: {path: /d}\nmodel: {preset: mini}\n" + text, "f");
}

TEST(DeterminismKey, IsALevelOrAMappingAndAlwaysWrittenAsOne) {
  struct Case {
    const char* text;
    Determinism level;
    int shards;
  };
  const Case cases[] = {
      {"", Determinism::Run, 0},
      {"determinism: fast", Determinism::Fast, 0},
      {"determinism: run", Determinism::Run, 0},
      {"determinism: elastic", Determinism::Elastic, 12},
      {"determinism: portable", Determinism::Portable, 0},
      {"determinism: {level: elastic}", Determinism::Elastic, 12},
      {"determinism: {level: elastic, shards: 0}", Determinism::Elastic, 12},
      {"determinism: {level: elastic, shards: 8}", Determinism::Elastic, 8},
      {"determinism: {level: portable, shards: 6}", Determinism::Portable, 6},
      {"deterministic: true", Determinism::Run, 0},
      {"deterministic: false", Determinism::Fast, 0},
  };
  for (const Case& row : cases) {
    const RunConfig config = read_with(row.text);
    EXPECT_EQ(config.determinism.level, row.level) << row.text;
    EXPECT_EQ(config.determinism.shards, row.shards) << row.text;
    const std::string text = to_json(config);
    const auto json = nlohmann::json::parse(text);
    EXPECT_FALSE(json.contains("deterministic")) << row.text;
    EXPECT_EQ(json["determinism"]["level"], name_of(row.level)) << row.text;
    EXPECT_EQ(json["determinism"].contains("shards"), row.shards > 0) << row.text;
    EXPECT_EQ(parse_run_config(text, "again").determinism, config.determinism) << row.text;
  }
  EXPECT_EQ(to_text(read_with("determinism: elastic").determinism), "elastic, 12 shards");
  EXPECT_EQ(to_text({}), "run");
}

TEST(DeterminismKey, RefusesWhatALevelDoesNotGoWith) {
  struct Case {
    const char* text;
    const char* expected;
  };
  const Case cases[] = {
      {"determinism: bitwise",
       "f:3: determinism: expected one of fast, run, elastic, portable, found 'bitwise'"},
      {"determinism: {level: run, shards: 4}",
       "determinism.shards: does not go with level run; leave it out, or use elastic"},
      {"determinism: {level: elastic, shards: 4097}", "determinism.shards: is 4097; use 0 to 4096"},
      {"determinism: {kind: elastic}", "determinism.kind: unknown key"},
      {"deterministic: true\ndeterminism: fast",
       "deterministic: is the older spelling of determinism; leave it out"},
      {"determinism: elastic\ndevice: cuda", "f:4: device: does not go with determinism elastic;"},
      {"determinism: portable\ndevice: auto", "f:4: device: does not go with determinism portable"},
      {"determinism: elastic\nranks: 5",
       "determinism: has 12 shards, which 5 ranks do not divide; use 1, 2, 3, 4, 6, 12 ranks, or a "
       "multiple of 5 shards"},
      {"determinism: elastic\nranks: 24", "which 24 ranks do not divide"},
      {"determinism: elastic\nbatch: {size: 8}",
       "f:3: determinism: has 12 shards, and batch.size is 8; use at most one shard for each"},
      {"determinism: elastic\nhierarchical: true", "hierarchical: does not go with"},
      {"determinism: elastic\nclip: {mode: bucket}", "f:4: clip.mode: does not go with"},
      {"determinism: elastic\nclip: {mode: rank}", "clip.mode: does not go with"},
      {"determinism: elastic\nbalance: {strategy: exchange}",
       "balance.strategy: exchange does not go with determinism of shards; use global_presort"},
      {"determinism: elastic\nbatch: {micro: 2}\nparallel: {pipeline: 2}",
       "parallel.pipeline: does not go with determinism of shards; use 1"},
      {"determinism: {level: portable, shards: 4}\nranks: 3", "which 3 ranks do not divide"},
  };
  for (const Case& row : cases) {
    try {
      (void)read_with(row.text);
      ADD_FAILURE() << row.text;
    } catch (const base::Error& error) {
      EXPECT_EQ(error.code(), base::Code::User) << row.text;
      EXPECT_THAT(error.what(), HasSubstr(row.expected)) << row.text;
    }
  }
  for (const char* text : {"determinism: elastic\nranks: 6\nsharding: {optimizer: true}",
                           "determinism: elastic\nbalance: {strategy: stratified}",
                           "determinism: portable\nranks: 5\nhierarchical: true",
                           "determinism: fast\nclip: {mode: bucket}"}) {
    EXPECT_NO_THROW((void)read_with(text)) << text;
  }
}

TEST(DeterminismKey, RefusesABatchThatGrows) {
  for (const char* level : {"elastic", "portable"}) {
    try {
      (void)read_with("batch: {growth: adascale, max_size: 64}\ndeterminism: " +
                      std::string(level));
      ADD_FAILURE() << level;
    } catch (const base::Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("batch.growth: does not go with determinism"));
    }
  }
}

}  // namespace
}  // namespace regatta::trainer::contract
