// Stores of every earlier version, with rows in every table: what today's program makes of them.
#include "orchestrator/store/migration.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/digest.h"
#include "base/error.h"
#include "orchestrator/store/schema.h"
#include "orchestrator/store/store.h"
#include "tests/orchestrator/store/old_store.h"
#include "tests/orchestrator/store/store_rows.h"
#include "tests/orchestrator/support.h"

namespace regatta::orchestrator {
namespace {

using store::Database;
using testing::ElementsAre;

base::Path file_in(const base::Path& folder) { return folder / "store.sqlite"; }

auto rows_in(const base::Path& folder) {
  Database database(file_in(folder), Database::Access::ReadOnly);
  return tests::all_rows(database);
}
std::int64_t version_in(const base::Path& folder) {
  Database database(file_in(folder), Database::Access::ReadOnly);
  return store::version_of(database);
}

// Of each version as it was released. Old stores of these tests are made of the same texts, so a
// text that is changed later would bring real old stores to other tables than the tests see.
constexpr const char* kDigestsOfVersions[] = {
    "6a1f6f9ced6c03e02e62b80725d3a773", "0efea6af45232a7caa0fcd519b0090e6",
    "3251ce76b8386808cf14a7fe59c40bbc", "c5e0e18af12a961c76c5f62c880bf91d",
    "1cd20afb8030e9ee373cecd71df905f6", "b3606f55af9f58f12d5de28774380297",
    "f0c85315129dc3b71425c47d3a666755", "afb37e53b8cd6c456485d374fe611b40",
    "d5dc06c9006d1c90ae465f30249a0d06", "4c3da605b828565b00cc391616f24d6f",
    "6c2af7904472d9ba9928a4e2580bd868", "aa689f21dae40b64e773c0512c9d5801",
    "232a119ba10d128cb81bb7c31f35f939", "99aa06d3014798d86001c324468d497f",
    "2182cfbe92df9da5114c9daac136c4f5", "63679716e499f149492ee29cf5fce8ae",
    "a4a374169da0459f7da2d9dad35a21e2", "f9d7a0408e4b66ec5face2dfea4df590",
    "44aba103c94f65730396422eaad5dcd8", "12325727b9dcea9b08150d608e011e61",
    "228fbf45da6f25ee6884615002bca72d", "4a87edf26482cef7eefb1973c1ec5516",
    "2c089c5aaa081534ae99b3e3dcfec4b4", "cfb2104ddbf769268b2fb1ac72872e93",
    "e9951160ba002b9e672a2f58ec5fe62c", "299ba300ab9dd7ab4b7bce46f803d03f",
};

TEST(Migration, WhatAVersionBroughtNeverChanges) {
  ASSERT_EQ(std::size(kDigestsOfVersions), std::size(store::kVersions))
      << "a new version gets its digest here";
  for (std::size_t i = 0; i < std::size(store::kVersions); ++i) {
    EXPECT_EQ(base::digest_of(store::kVersions[i]), kDigestsOfVersions[i])
        << "version " << i + 1 << " is in stores already; what is new belongs in a new version";
  }
}

class Versions : public testing::TestWithParam<int> {
 protected:
  tests::TemporaryDirectory folder_;
};
INSTANTIATE_TEST_SUITE_P(Migration, Versions, testing::Range(1, store::kSchemaVersion + 1));

TEST_P(Versions, KeepEveryRowAndWhatItMeans) {
  {
    Database old(file_in(folder_.path()), Database::Access::ReadWrite);
    tests::make_old_store(old, GetParam());
  }
  const auto before = rows_in(folder_.path());
  { const store::Store opened(folder_.path()); }
  EXPECT_EQ(version_in(folder_.path()), store::kSchemaVersion);
  const auto after = rows_in(folder_.path());
  if (GetParam() < store::kSchemaVersion) {
    EXPECT_EQ(tests::lost_by_migration(before, after, GetParam()), "");
  } else {
    EXPECT_EQ(after, before);
  }
}

TEST_P(Versions, AreReadAndWrittenLikeNewOnes) {
  {
    Database old(file_in(folder_.path()), Database::Access::ReadWrite);
    tests::make_old_store(old, GetParam());
  }
  store::Store opened(folder_.path());
  opened.place_runs("/old/runs");
  opened.place_runs("/new/runs");
  const runs::Run over = *opened.run("run-1");
  const runs::Run open = *opened.run("run-2");
  EXPECT_EQ(over.directory, "/new/runs/run-1") << "a runs directory may be moved";
  if (GetParam() < 8) {
    EXPECT_EQ(over.summary.target, 0.25);
  }
  EXPECT_EQ(over.state, runs::RunState::Failed);
  EXPECT_EQ(over.scheduler, "slurm");
  EXPECT_EQ(open.scheduler, "local");
  ASSERT_EQ(opened.unfinished_runs().size(), 1U);
  EXPECT_EQ(opened.unfinished_runs()[0].id, "run-2");
  EXPECT_EQ(opened.launches(over.number).at(0).handle, "slurm:12:0123456789abcdef");
  const runs::Attempt attempt = opened.attempts(open.number).at(0);
  EXPECT_EQ(attempt.row, runs::AttemptNumber{8});
  const store::EvaluationRow evaluation = opened.evaluations(open.number, 0).at(0);
  EXPECT_EQ(evaluation.target_met, true);
  EXPECT_EQ(evaluation.mlm_accuracy, 0.375);
  if (GetParam() < store::kEvaluationMetricsVersion) {
    EXPECT_EQ(evaluation.value, 0.375) << "of its run's metric";
    EXPECT_TRUE(evaluation.metrics.empty());
  }
  EXPECT_EQ(opened.checkpoint_failures(over.number).count, 1);
  EXPECT_EQ(opened.newest_warnings(open.number, 9).size(), 1U);
  if (GetParam() >= 2) {
    EXPECT_THAT(opened.timeline(attempt.row)->bucket_bytes, ElementsAre(2048));
  }
  if (GetParam() >= 4) {
    EXPECT_EQ(opened.node_events().size(), 2U);
  }
  const std::int64_t newest = opened.newest_cursor(open.number);
  opened.append(open, attempt, {step_record(10000, 10000)});
  EXPECT_EQ(opened.steps(open.number, 0, 100).size(), 2U);
  EXPECT_GT(opened.newest_cursor(open.number), newest);
  store::NewRun another = new_run("another");
  another.directory = "/new/runs/another";
  opened.add_run(another);
  EXPECT_EQ(opened.run("another")->directory, "/new/runs/another");
  EXPECT_EQ(opened.list({}).rows.size(), GetParam() >= 7 ? 2U : 3U) << "one is archived";
}

// Of a store that knew two runs directories: a run is where it was.
TEST(Migration, LeavesRunsOfAnotherDirectoryWhereTheyAre) {
  const tests::TemporaryDirectory folder;
  {
    Database old(file_in(folder.path()), Database::Access::ReadWrite);
    tests::make_old_store(old, store::kSchemaVersion - 1);
    old.execute("UPDATE runs SET directory = '/elsewhere/run-2' WHERE id = 'run-2'");
  }
  for (const char* const runs : {"/old/runs", "/new/runs"}) {
    store::Store opened(folder.path());
    opened.place_runs(runs);
    EXPECT_EQ(opened.run("run-1")->directory, std::string(runs) + "/run-1");
    EXPECT_EQ(opened.run("run-2")->directory, "/elsewhere/run-2");
  }
}

// Runs of before the nodes were kept are found by them, too.
TEST_P(Versions, FindRunsByTheirNodes) {
  if (GetParam() >= store::kLabelTablesVersion) return;  // they have the table, and what is in it
  {
    Database old(file_in(folder_.path()), Database::Access::ReadWrite);
    tests::make_old_store(old, GetParam());
  }
  store::Store opened(folder_.path());
  const auto on = [&opened](const std::string& node) {
    store::RunFilter filter;
    filter.archived = store::Archived::Also;
    filter.node = node;
    std::vector<std::string> ids;
    for (const store::RunRow& row : opened.list(filter).rows) ids.push_back(row.run.id);
    return ids;
  };
  EXPECT_THAT(on("gpu1"), ElementsAre("run-1"));
  EXPECT_THAT(on("login1"), ElementsAre("run-2"));
  if (GetParam() >= 4) {  // which brought the nodes of launches and all hosts of attempts
    EXPECT_THAT(on("gpu2"), ElementsAre("run-1"));
    EXPECT_THAT(on("login2"), ElementsAre("run-2"));
  }
  EXPECT_THAT(on("gpu3"), testing::IsEmpty());
}

// A process that migrates is killed at some moment.
TEST(Migration, SurvivesKillMinusNine) {
  int unfinished = 0;
  for (int i = 0; i < 24; ++i) {
    const tests::TemporaryDirectory folder;
    const int version = 1 + i % (store::kSchemaVersion - 1);
    {
      Database old(file_in(folder.path()), Database::Access::ReadWrite);
      tests::make_old_store(old, version);
      if (version < 5) {  // something to do
        old.execute(
            "WITH RECURSIVE n(i) AS (SELECT 1000 UNION ALL SELECT i + 1 FROM n WHERE i < 6000) "
            "INSERT INTO steps(cursor, run, attempt, sequence, step, seconds) "
            "SELECT i, 1, 7, i, i, 1 FROM n");
      }
    }
    const auto before = rows_in(folder.path());
    const pid_t child = ::fork();
    if (child == 0) {
      const store::Store opened(folder.path());
      ::_exit(0);
    }
    const timespec pause{0, 1'000'000L * (1 + 3 * (i % 12))};
    ::nanosleep(&pause, nullptr);
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    // Another reader sees the old tables or the new ones.
    if (version_in(folder.path()) == version) {
      EXPECT_EQ(rows_in(folder.path()), before) << i;
      ++unfinished;
    }
    { const store::Store opened(folder.path()); }
    EXPECT_EQ(version_in(folder.path()), store::kSchemaVersion);
    const auto after = rows_in(folder.path());
    for (const auto& each : before) {
      EXPECT_EQ(after.at(each.first).size(), each.second.size()) << each.first;
    }
  }
  EXPECT_GT(unfinished, 2) << "all were too late: they show nothing";
}

class FullDiskMigration : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directory(disk());
    mounted_ = ::mount("regatta-test", disk().c_str(), "tmpfs", 0, "size=64m") == 0;
    if (!mounted_) {
      GTEST_SKIP() << "SKIPPED, a migration on a full disk is not tested: cannot mount a tmpfs: "
                   << std::strerror(errno);
    }
  }
  void TearDown() override {
    if (mounted_) ::umount2(disk().c_str(), MNT_DETACH);
  }
  base::Path disk() const { return folder_.path() / "disk"; }
  // Leaves so many bytes.
  void fill(std::uintmax_t room) const {
    const std::uintmax_t bytes = std::filesystem::space(disk()).available - room;
    std::ofstream(disk() / "filler") << std::string(bytes, 'x');
  }

  tests::TemporaryDirectory folder_;
  bool mounted_ = false;
};

TEST_F(FullDiskMigration, LeavesTheOldStore) {
  {
    Database old(file_in(disk()), Database::Access::ReadWrite);
    tests::make_old_store(old, 4);
    old.execute(
        "WITH RECURSIVE n(i) AS (SELECT 1000 UNION ALL SELECT i + 1 FROM n WHERE i < 60000) "
        "INSERT INTO steps(cursor, run, attempt, sequence, step, seconds) "
        "SELECT i, 1, 7, i, i, 1 FROM n");
  }
  const auto before = rows_in(disk());
  // With the room of the reserve too little, whether it begins or is half done.
  for (const std::uintmax_t room : {64U << 10U, 512U << 10U, 2048U << 10U}) {
    fill(room);
    try {
      const store::Store opened(disk());
      FAIL() << "there was room for it with " << room;
    } catch (const base::Error& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr("the disk is full")) << room;
      EXPECT_EQ(error.code(), base::Code::Operator);
    }
    std::filesystem::remove(disk() / "filler");
    EXPECT_EQ(version_in(disk()), 4);
    EXPECT_EQ(rows_in(disk()), before);
  }
  { const store::Store opened(disk()); }
  EXPECT_EQ(version_in(disk()), store::kSchemaVersion);
  EXPECT_EQ(rows_in(disk()).at("steps").size(), before.at("steps").size());
}

}  // namespace
}  // namespace regatta::orchestrator
