#include "trainer/contract/run_change.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/base/faulty_file_system.h"
#include "trainer/contract/journal.h"

namespace regatta::trainer::contract {
namespace {

RunConfig run_of(const std::string& more) {
  return parse_run_config("data: {path: /data}\n" + more, "run.yaml");
}
std::vector<std::string> fixed_keys(const std::string& before, const std::string& after) {
  std::vector<std::string> keys;
  for (const KeyDifference& each : fixed_differences(run_of(before), run_of(after))) {
    keys.push_back(each.key);
  }
  return keys;
}
using Keys = std::vector<std::string>;

TEST(RunChange, StepsTargetEvaluationAndRetentionMayChange) {
  for (const char* const more :
       {"steps: 9", "target: {value: 0.4}", "target: {times_baseline: 2}",
        "target: {value: 0.4, stop: false}", "evaluate: {every: 7}", "checkpoint: {every: 7}",
        "checkpoint: {keep_last: 7, keep_best: 2, keep_every: 100}"}) {
    EXPECT_EQ(fixed_keys("", more), Keys()) << more;
    EXPECT_EQ(fixed_keys(more, ""), Keys()) << more;
  }
}

TEST(RunChange, WhatWeightsAndFiguresDependOnMayNot) {
  EXPECT_EQ(fixed_keys("", "steps: 9\nseed: 2"), Keys{"seed"});
  EXPECT_EQ(fixed_keys("", "batch: {size: 8}"), Keys{"batch.size"});
  EXPECT_EQ(fixed_keys("", "optimizer: {learning_rate: 0.5}"), Keys{"optimizer.learning_rate"});
  EXPECT_EQ(fixed_keys("", "evaluate: {samples: 7}"), Keys{"evaluate.samples"});
  EXPECT_EQ(fixed_keys("", "determinism: fast"), Keys{"determinism.level"});
  EXPECT_EQ(fixed_keys("determinism: elastic", "determinism: {level: elastic, shards: 4}"),
            Keys{"determinism.shards"});
  EXPECT_EQ(fixed_keys("deterministic: true", "determinism: run"), Keys());
  EXPECT_EQ(fixed_keys("", "target: {metric: mlm_loss, value: 2}"), Keys{"target.metric"});
  EXPECT_EQ(fixed_keys("target: {value: 0.4}", "target: {metric: mlm_loss, value: 2}"),
            Keys{"target.metric"});
}

template <typename Body>
std::string line_of(Body body) {
  JournalRecord record;
  record.body = std::move(body);
  return to_line(record);
}

class Untrained : public testing::Test {
 protected:
  Untrained()
      : directory_(RunDirectory::create(base::posix_file_system(), folder_.path() / "run", "{}")) {}

  void attempt(const std::string& journal) { write(directory_.create_attempt(), journal); }
  void write(const AttemptName& name, const std::string& journal) {
    std::ofstream(directory_.journal_path(name)) << journal;
  }
  bool untrained() { return is_untrained(base::posix_file_system(), directory_); }

  tests::TemporaryDirectory folder_;
  RunDirectory directory_;
  const std::string start_ = line_of(StartRecord{});
  const std::string end_ = line_of(EndRecord{});
};

TEST_F(Untrained, IsWhatNeverBeganAndWhatEndedBeforeAStep) {
  EXPECT_TRUE(untrained());
  attempt(start_ + end_);
  attempt(end_);
  attempt(start_ + line_of(WarningRecord{"new head"}) + end_);
  EXPECT_TRUE(untrained());
}

TEST_F(Untrained, IsNothingThatMayBeAtWorkOrThatTrained) {
  const std::vector<std::string> journals{
      "",
      start_,
      start_ + line_of(StepRecord{}) + end_,
      start_ + line_of(EvalRecord{}) + end_,
      start_ + line_of(TrialRecord{}) + end_,
      start_ + line_of(CheckpointRecord{}) + end_,
      "damaged\n" + start_ + end_,
      start_ + end_.substr(0, end_.size() / 2),
      std::string(std::size_t{2} << 20U, '\n') + end_,
  };
  for (const std::string& journal : journals) {
    const AttemptName name = directory_.create_attempt();
    write(name, journal);
    EXPECT_FALSE(untrained()) << journal.substr(0, 300);
    std::filesystem::remove_all(directory_.attempt_path(name));
  }
  (void)directory_.create_attempt();
  EXPECT_FALSE(untrained()) << "it has not written a record yet";
}

TEST_F(Untrained, IsNothingWithACheckpoint) {
  attempt(start_ + end_);
  std::filesystem::create_directories(directory_.checkpoints_path() / "step-0000000004-aaaa");
  EXPECT_FALSE(untrained());
}

}  // namespace
}  // namespace regatta::trainer::contract
