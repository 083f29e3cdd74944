// What the API says of checkpoints and of ranks, by the journal.
#include <gmock/gmock.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include "orchestrator/api/run_json.h"
#include "tests/orchestrator/control/controller_fixture.h"

namespace regatta::orchestrator::api {
namespace {

using Json = nlohmann::ordered_json;

class CheckpointRows : public ControllerFixture {
 protected:
  CheckpointRows() : ControllerFixture(1) {}

  Json rows(const std::string& id) { return checkpoints_json(*store_, run(id))["checkpoints"]; }
};

// A run that kept three of 400 checkpoints was shown as one that had written three.
TEST_F(CheckpointRows, ARemovedOneHasWhatItTook) {
  const std::string id = submit();
  ticks();
  tests::JournalAuthor journal(directory(id), clock_.utc_seconds());
  journal.start(1);
  trainer::contract::CheckpointRecord saved;
  saved.step = 10;
  saved.name = "step-0000000010-00c0ffee00c0ffee";
  saved.status = "written";
  saved.bytes = 1'000'000;
  saved.seconds = 2.5;
  saved.stall_seconds = 0.0625;
  journal.add(3, saved);
  journal.checkpoint(4, 20);
  ticks();
  const Json before = rows(id);
  ASSERT_EQ(before.size(), 2U);
  trainer::contract::CheckpointRecord removed;  // says nothing of what that took
  removed.step = 40;
  removed.name = saved.name;
  removed.status = "removed";
  journal.add(8, removed);
  removed.name = "step-0000000030-00c0ffee00c0ffee";  // of which nothing else is known
  journal.add(9, removed);
  ticks();
  const Json after = rows(id);
  ASSERT_EQ(after.size(), 3U);
  EXPECT_EQ(after[0]["status"], "removed");
  for (const char* key : {"name", "step", "at", "bytes", "seconds", "stall_seconds"}) {
    EXPECT_EQ(after[0][key], before[0][key]) << key;
  }
  EXPECT_EQ(after[1], before[1]);
  EXPECT_EQ(after[2]["status"], "removed");
  EXPECT_EQ(after[2]["step"], 30);
}

TEST_F(CheckpointRows, WhatEachRankDidIsThatOfTheNewestAttempt) {
  const std::string id = submit();
  ticks();
  const auto shares = [&] { return metrics_json(*store_, run(id), 0, 10)["rank_shares"]; };
  EXPECT_TRUE(shares().is_null());
  tests::JournalAuthor journal(directory(id), clock_.utc_seconds());
  trainer::contract::StartRecord start;
  start.ranks = 2;
  journal.start(1, 0, 1, start);
  ticks();
  EXPECT_TRUE(shares().is_null());
  journal.add(2, tests::JournalAuthor::step_of_four_ranks(1));
  journal.add(2.5, trainer::contract::RanksRecord{1, {4096, 3980}, {0.25, NAN}});
  ticks();
  EXPECT_EQ(shares(), Json::parse(R"({"step": 1, "tokens": [4096.0, 3980.0],
                                      "compute_seconds": [0.25, null]})"));
}

}  // namespace
}  // namespace regatta::orchestrator::api
