#include "trainer/contract/run_change.h"

#include <gtest/gtest.h>

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
  EXPECT_EQ(fixed_keys("", "target: {metric: mlm_loss, value: 2}"), Keys{"target.metric"});
  EXPECT_EQ(fixed_keys("target: {value: 0.4}", "target: {metric: mlm_loss, value: 2}"),
            Keys{"target.metric"});
}

}  // namespace
}  // namespace regatta::trainer::contract
