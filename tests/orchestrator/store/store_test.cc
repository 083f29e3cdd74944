#include "orchestrator/store/store.h"

#include <gmock/gmock.h>

#include <limits>

#include "base/error.h"
#include "orchestrator/store/schema.h"
#include "tests/orchestrator/store/store_rows.h"
#include "tests/orchestrator/support.h"

namespace regatta::orchestrator {
namespace {

using testing::HasSubstr;
using tests::TemporaryDirectory;

TEST(Store, KeepsRunsAcrossOpening) {
  const TemporaryDirectory folder;
  {
    store::Store store(folder.path() / "state");
    orchestrator::runs::Run run = *store.run(store.add_run(new_run("a")));
    EXPECT_EQ(run.state, runs::RunState::Queued);
    EXPECT_EQ(run.summary.steps, 10);
    run.state = runs::RunState::Failed;
    run.error = "why";
    run.ended_utc = 7;
    run.summary.value = 0.25;
    run.summary.crossing = 9;
    run.summary.phase = "training";
    store.update_run(run);
  }
  store::Store store(folder.path() / "state");
  const auto run = store.run("a");
  ASSERT_TRUE(run);
  EXPECT_EQ(run->state, runs::RunState::Failed);
  EXPECT_EQ(run->error, "why");
  EXPECT_EQ(run->ended_utc, 7);
  EXPECT_EQ(run->summary.value, 0.25);
  EXPECT_EQ(run->summary.crossing, 9);
  EXPECT_EQ(run->summary.crossing_low, std::nullopt);
  EXPECT_EQ(run->summary.phase, "training");
  EXPECT_FALSE(store.run("b"));
}

TEST(Store, ListsNewestFirstByState) {
  const TemporaryDirectory folder;
  store::Store store(folder.path());
  store.add_run(new_run("old", 1));
  orchestrator::runs::Run run = *store.run(store.add_run(new_run("new", 2)));
  run.state = runs::RunState::Running;
  store.update_run(run);
  const auto all = store.list({}).rows;
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].run.id, "new");
  EXPECT_EQ(all[0].run.config, "") << "lists are without";
  store::RunFilter one;
  one.limit = 1;
  const store::RunList first = store.list(one);
  ASSERT_EQ(first.rows.size(), 1U);
  one.after = first.next.value();
  const store::RunList second = store.list(one);
  ASSERT_EQ(second.rows.size(), 1U);
  EXPECT_EQ(second.rows[0].run.id, "old");
  EXPECT_FALSE(second.next);
  store::RunFilter filter;
  filter.states = {runs::RunState::Queued};
  const auto queued = store.list(filter).rows;
  ASSERT_EQ(queued.size(), 1U);
  EXPECT_EQ(queued[0].run.id, "old");
}

TEST(Store, ListsTheNewestLaunchAndAttempts) {
  const TemporaryDirectory folder;
  store::Store store(folder.path());
  const orchestrator::runs::Run run = *store.run(store.add_run(new_run("a")));
  store.add_run(new_run("b"));
  for (int number = 1; number <= 3; ++number) {
    runs::Launch launch;
    launch.number = number;
    launch.token = "t" + std::to_string(number);
    store.put_launch(run.number, launch);
    runs::Attempt attempt;
    attempt.row = store.add_attempt(run.number, number, "0123456789abcdef");
    attempt.started = number < 3;
    attempt.ranks = number;
    if (attempt.started) store.append(run, attempt, {});
  }
  store.add_attempt(run.number, 3, "00000000000000ff");
  for (const auto& row : store.list({}).rows) {
    EXPECT_EQ(row.attempts, row.run.id == "a" ? 4 : 0);
    EXPECT_FALSE(row.launch || row.attempt || row.begun) << "they were not asked for";
  }
  store::RunFilter with_parts;
  with_parts.with_parts = true;
  const store::RunList list = store.list(with_parts);
  ASSERT_EQ(list.rows.size(), 2U);
  const auto& row = list.rows[list.rows[0].run.id == "a" ? 0 : 1];
  EXPECT_EQ(row.attempts, 4);
  EXPECT_EQ(row.launch.value().token, "t3");
  EXPECT_EQ(row.attempt.value().number, 3);
  EXPECT_EQ(row.attempt.value().execution, "0123456789abcdef");
  EXPECT_EQ(row.begun.value().ranks, 2) << "the third has not begun";
  const auto& other = list.rows[list.rows[0].run.id == "a" ? 1 : 0];
  EXPECT_EQ(other.attempts, 0);
  EXPECT_FALSE(other.launch || other.attempt || other.begun);
  ASSERT_EQ(store.open_launches().size(), 1U);
  EXPECT_EQ(store.open_launches()[0].run, "a");
  EXPECT_EQ(store.open_launches()[0].launch.token, "t3");
}

TEST(Store, WantedIsNotOverwrittenByTheTick) {
  const TemporaryDirectory folder;
  store::Store store(folder.path());
  const orchestrator::runs::Run stale = *store.run(store.add_run(new_run("a")));
  store.set_wanted(stale.number, runs::Wanted::Cancel);
  store.update_run(stale);
  EXPECT_EQ(store.run("a")->wanted, runs::Wanted::Cancel);
}

TEST(Store, WhatIsResumedIsReadAgain) {
  const TemporaryDirectory folder;
  store::Store store(folder.path());
  store::NewRun over = new_run("a");
  over.state = runs::RunState::Failed;
  over.drained = true;
  const runs::RunNumber number = store.add_run(over);
  store.set_wanted(number, runs::Wanted::Cancel);
  EXPECT_TRUE(store.run("a")->drained);
  runs::Run run = *store.run(number);
  run.state = runs::RunState::Queued;
  EXPECT_FALSE(store.take_up(run)) << "a cancel overtook it";
  EXPECT_EQ(store.run(number)->wanted, runs::Wanted::Cancel);
  EXPECT_EQ(store.run(number)->state, runs::RunState::Failed);
  store.set_wanted(number, runs::Wanted::Resume);
  EXPECT_FALSE(store.run("a")->drained);
  EXPECT_TRUE(store.take_up(run));
  EXPECT_EQ(store.run(number)->wanted, runs::Wanted::Run);
  EXPECT_EQ(store.run(number)->state, runs::RunState::Queued);
}

TEST(Store, NothingOfARemovedRunStays) {
  const TemporaryDirectory folder;
  store::Store store(folder.path());
  const orchestrator::runs::Run run = *store.run(store.add_run(new_run("a")));
  const orchestrator::runs::Run other = *store.run(store.add_run(new_run("b")));
  for (const runs::RunNumber number : {run.number, other.number}) {
    runs::Launch launch;
    launch.number = 1;
    store.put_launch(number, launch);
    store.add_attempt(number, 1, "0123456789abcdef");
  }
  store.remove_run(run);
  EXPECT_FALSE(store.run("a"));
  EXPECT_TRUE(store.launches(run.number).empty());
  EXPECT_TRUE(store.attempts(run.number).empty());
  EXPECT_EQ(store.launches(other.number).size(), 1U);
  EXPECT_EQ(store.attempts(other.number).size(), 1U);
}

TEST(Store, AddsARunThatHasAPastInOneWrite) {
  const TemporaryDirectory folder;
  store::Store store(folder.path());
  store::NewRun found = new_run("a");
  found.state = runs::RunState::Failed;
  found.reason = "why it waits";
  found.error = "why it failed";
  found.failures = 5;
  found.progress_step = 40;
  found.ended_utc = 99;
  found.drained = true;
  found.settled = true;
  const orchestrator::runs::Run run = *store.run(store.add_run(found));
  EXPECT_EQ(run.state, runs::RunState::Failed);
  EXPECT_EQ(run.reason, "why it waits");
  EXPECT_EQ(run.error, "why it failed");
  EXPECT_EQ(run.failures, 5);
  EXPECT_EQ(run.progress_step, 40);
  EXPECT_EQ(run.ended_utc, 99);
  EXPECT_TRUE(run.drained);
  EXPECT_TRUE(run.settled);
  EXPECT_TRUE(store.unfinished_runs().empty());
  const orchestrator::runs::Run fresh = *store.run(store.add_run(new_run("b")));
  EXPECT_EQ(fresh.state, runs::RunState::Queued);
  EXPECT_EQ(fresh.progress_step, -1);
  EXPECT_EQ(fresh.ended_utc, std::nullopt);
  EXPECT_FALSE(fresh.drained);
  EXPECT_FALSE(fresh.settled);
}

TEST(Store, TellsWhichEndsAreNotWrittenDown) {
  const TemporaryDirectory folder;
  store::Store store(folder.path());
  for (const char* const id : {"c", "a", "b"}) store.add_run(new_run(id));
  EXPECT_TRUE(store.unsettled_runs(10).empty()) << "none is over";
  EXPECT_EQ(store.ids(), (std::vector<std::string>{"a", "b", "c"}));
  for (const char* const id : {"a", "b", "c"}) {
    orchestrator::runs::Run run = *store.run(id);
    run.state = runs::RunState::Cancelled;
    store.update_run(run);
  }
  EXPECT_EQ(store.unsettled_runs(10).size(), 3U);
  EXPECT_EQ(store.unsettled_runs(2).size(), 2U);
  orchestrator::runs::Run run = store.unsettled_runs(1).at(0);
  EXPECT_EQ(run.id, "c") << "the oldest first";
  run.settled = true;
  store.update_run(run);
  EXPECT_EQ(store.unsettled_runs(10).at(0).id, "a");
  EXPECT_TRUE(store.run("c")->settled);
}

TEST(Store, RefusesTheSameIdAndTheSameKeyTwice) {
  const TemporaryDirectory folder;
  store::Store store(folder.path());
  store::NewRun first = new_run("a");
  first.idempotency_key = "key";
  store.add_run(first);
  EXPECT_THROW(store.add_run(new_run("a")), base::Error);
  store::NewRun second = new_run("b");
  second.idempotency_key = "key";
  EXPECT_THROW(store.add_run(second), base::Error);
  ASSERT_TRUE(store.submitted_with("key"));
  EXPECT_EQ(store.submitted_with("key")->id, "a");
  EXPECT_FALSE(store.submitted_with("other"));
}

TEST(Store, AppendsARecordOnce) {
  const TemporaryDirectory folder;
  store::Store store(folder.path());
  const orchestrator::runs::Run run = *store.run(store.add_run(new_run("a")));
  runs::Attempt attempt;
  attempt.row = store.add_attempt(run.number, 1, "0123456789abcdef");
  store.append(run, attempt, {step_record(0, 1), step_record(1, 2)});
  const std::int64_t cursor = store.newest_cursor(run.number);
  store.append(run, attempt, {step_record(1, 2), step_record(2, 3)});
  EXPECT_EQ(store.steps(run.number, cursor, 100).size(), 1U) << "and sent once";
  EXPECT_EQ(store.steps(run.number, 0, 100).size(), 3U);
}

TEST(Store, CursorsGrowAndSurviveOpening) {
  const TemporaryDirectory folder;
  std::int64_t cursor = 0;
  {
    store::Store store(folder.path());
    const orchestrator::runs::Run run = *store.run(store.add_run(new_run("a")));
    runs::Attempt attempt;
    attempt.row = store.add_attempt(run.number, 1, "0123456789abcdef");
    store.append(run, attempt, {step_record(0, 1)});
    cursor = store.newest_cursor(run.number);
    EXPECT_GT(cursor, 0);
  }
  store::Store store(folder.path());
  const orchestrator::runs::Run run = *store.run("a");
  const runs::Attempt attempt = store.attempts(run.number).at(0);
  EXPECT_TRUE(store.steps(run.number, cursor, 100).empty());
  store.append(run, attempt, {step_record(1, 2)});
  const auto rows = store.steps(run.number, cursor, 100);
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].step, 2);
  EXPECT_GT(rows[0].cursor, cursor);
}

TEST(Store, ThinsLongSeriesEvenlyAndKeepsTheNewest) {
  const TemporaryDirectory folder;
  store::Store store(folder.path());
  const orchestrator::runs::Run run = *store.run(store.add_run(new_run("a")));
  runs::Attempt attempt;
  attempt.row = store.add_attempt(run.number, 1, "0123456789abcdef");
  std::vector<trainer::contract::JournalRecord> records;
  for (int i = 0; i < 1001; ++i) records.push_back(step_record(i, i + 1));
  store.append(run, attempt, records);
  for (const int limit : {1, 7, 100, 1000}) {
    const auto rows = store.steps(run.number, 0, limit);
    EXPECT_LE(rows.size(), static_cast<std::size_t>(limit));
    EXPECT_GT(rows.size(), static_cast<std::size_t>(limit) / 2);
    EXPECT_EQ(rows.back().step, 1001) << limit;
    for (std::size_t i = 2; i < rows.size(); ++i) {
      EXPECT_EQ(rows[i].step - rows[i - 1].step, rows[1].step - rows[0].step);
    }
  }
  EXPECT_EQ(store.steps(run.number, 0, 1001).size(), 1001U);
}

TEST(Store, WritesRecordsAndOffsetTogether) {
  const TemporaryDirectory folder;
  store::Store store(folder.path());
  orchestrator::runs::Run run = *store.run(store.add_run(new_run("a")));
  runs::Attempt attempt;
  attempt.row = store.add_attempt(run.number, 1, "0123456789abcdef");
  attempt.offset = 55;
  attempt.exit_code = 0;
  run.summary.target = 0.5;
  store.append(run, attempt, {step_record(0, 1)});
  EXPECT_EQ(store.attempts(run.number).at(0).offset, 55);
  EXPECT_EQ(store.attempts(run.number).at(0).exit_code, 0);
  EXPECT_EQ(store.run("a")->summary.target, 0.5);
}

TEST(Store, KeepsLaunches) {
  const TemporaryDirectory folder;
  store::Store store(folder.path());
  const runs::RunNumber run = store.add_run(new_run("a"));
  runs::Launch launch;
  launch.number = 1;
  launch.token = "t";
  store.put_launch(run, launch);
  launch.handle = "h";
  launch.over = true;
  launch.signal = 9;
  store.put_launch(run, launch);
  const auto launches = store.launches(run);
  ASSERT_EQ(launches.size(), 1U);
  EXPECT_EQ(launches[0].handle, "h");
  EXPECT_TRUE(launches[0].over);
  EXPECT_EQ(launches[0].signal, 9);
  EXPECT_EQ(launches[0].exit_code, std::nullopt);
}

std::string error_of(const base::Path& directory) {
  try {
    const store::Store store(directory);
  } catch (const base::Error& error) {
    return error.what();
  }
  return "";
}

TEST(Store, IsHeldByOneController) {
  const TemporaryDirectory folder;
  const store::Store store(folder.path());
  EXPECT_THAT(error_of(folder.path()), HasSubstr("in use by another controller"));
}

TEST(Store, RefusesANewerSchema) {
  const TemporaryDirectory folder;
  { const store::Store store(folder.path()); }
  store::Database(folder.path() / "store.sqlite", store::Database::Access::ReadWrite)
      .execute("PRAGMA user_version = 99");
  EXPECT_THAT(error_of(folder.path()), HasSubstr("newer regatta"));
}

TEST(Store, BringsAnOldStoreUpToDate) {
  const TemporaryDirectory folder;
  {
    store::Database old(folder.path() / "store.sqlite", store::Database::Access::ReadWrite);
    old.execute(store::kVersion1);
    old.execute(
        "INSERT INTO runs(number, id, name, config, directory, created_utc, wanted, body_digest, "
        "value) VALUES(1, 'a', 'demo', '{}', '/runs/a', 1, 0, 'd', 0.25)");
    old.execute(
        "INSERT INTO attempts(row, run, number, execution, offset, started) "
        "VALUES(7, 1, 1, '0123456789abcdef', 55, 1)");
    old.execute("INSERT INTO steps VALUES(3, 1, 7, 0, 1, 2.5, 6, 5, 8, 800, 0.5)");
    old.execute(
        "INSERT INTO checkpoints VALUES(4, 1, 7, 9, 1, 2.75, 'step-1', 'written', 10, 0.125, 99)");
    old.execute("PRAGMA user_version = 1");
  }
  for (int opening = 0; opening < 2; ++opening) {
    store::Store store(folder.path());
    const auto run = store.run("a");
    ASSERT_TRUE(run);
    EXPECT_EQ(run->summary.value, 0.25);
    EXPECT_EQ(run->summary.mfu, std::nullopt);
    EXPECT_TRUE(run->after.empty());
    EXPECT_FALSE(run->archived);
    const runs::Attempt attempt = store.attempts(run->number).at(0);
    EXPECT_EQ(attempt.offset, 55);
    EXPECT_EQ(attempt.ranks, 1);
    EXPECT_FALSE(attempt.slowest);
    EXPECT_FALSE(store.timeline(attempt.row));
    const auto rows = store.steps(run->number, 0, 10);
    ASSERT_EQ(rows.size(), static_cast<std::size_t>(opening + 1));
    EXPECT_EQ(rows[0].loss, 6);
    EXPECT_EQ(rows[0].imbalance, std::nullopt);
    const auto checkpoints = store.checkpoints(run->number, 0);
    ASSERT_EQ(checkpoints.size(), 1U);
    EXPECT_EQ(checkpoints[0].name, "step-1");
    EXPECT_EQ(checkpoints[0].bytes, 10);
    EXPECT_EQ(checkpoints[0].whole_seconds, 0.125);
    EXPECT_EQ(checkpoints[0].utc, 99);
    EXPECT_EQ(checkpoints[0].stall_seconds, std::nullopt);
    EXPECT_EQ(checkpoints[0].write_seconds, std::nullopt);
    EXPECT_EQ(checkpoints[0].message, "");
    EXPECT_EQ(store.checkpoint_failures(run->number).count, 0);
    store.append(*run, attempt, {step_record(opening + 1, opening + 2)});
  }
}

TEST(Store, BringsAStoreOfVersion4UpToDate) {
  const TemporaryDirectory folder;
  {
    store::Database old(folder.path() / "store.sqlite", store::Database::Access::ReadWrite);
    for (int version = 0; version < 4; ++version) old.execute(store::kVersions[version]);
    old.execute(
        "INSERT INTO runs(number, id, name, config, directory, created_utc, wanted, body_digest, "
        "state, drained) VALUES(1, 'over', 'demo', '{}', '/runs/over', 2, 0, 'd', 'failed', 1), "
        "(2, 'open', 'demo', '{}', '/runs/open', 1, 0, 'd', 'running', 0)");
    old.execute(
        "INSERT INTO attempts(row, run, number, execution) VALUES(7, 1, 1, '01'), (8, 2, 1, '02')");
    // Two runs whose rows came in turn.
    for (int i = 0; i < 30; ++i) {
      const std::string run = i % 3 == 0 ? "2, 8" : "1, 7";
      old.execute("INSERT INTO steps(cursor, run, attempt, sequence, step, seconds) VALUES(" +
                  std::to_string(10 + i) + ", " + run + ", " + std::to_string(i) + ", " +
                  std::to_string(i) + ", 1)");
    }
    old.execute("INSERT INTO node_events VALUES(1, 'n1', 5, 'shared', 1, 'over', 'w')");
    old.execute("PRAGMA user_version = 4");
  }
  store::Store store(folder.path());
  EXPECT_EQ(store.list({}).rows.at(0).run.id, "over");
  ASSERT_EQ(store.unsettled_runs(10).size(), 1U);
  EXPECT_EQ(store.unsettled_runs(10)[0].id, "over");
  ASSERT_EQ(store.unfinished_runs().size(), 1U);
  EXPECT_EQ(store.unfinished_runs()[0].id, "open");
  EXPECT_EQ(store.node_events().size(), 1U);
  EXPECT_EQ(store.steps(runs::RunNumber{1}, 0, 100).size(), 20U);
  EXPECT_EQ(store.steps(runs::RunNumber{2}, 0, 100).size(), 10U);
  std::vector<std::int64_t> steps;
  for (const store::StepRow& row : store.steps(runs::RunNumber{2}, 0, 5)) steps.push_back(row.step);
  EXPECT_EQ(steps, (std::vector<std::int64_t>{3, 9, 15, 21, 27}));
  // New rows follow the old ones.
  runs::Attempt attempt = store.attempts(runs::RunNumber{2}).at(0);
  store.append(*store.run("open"), attempt, {step_record(100, 100)});
  EXPECT_EQ(store.steps(runs::RunNumber{2}, 0, 100).size(), 11U);
  EXPECT_EQ(store.steps(runs::RunNumber{2}, 0, 1).at(0).step, 100);
}

TEST(Store, TellsTheSchedulerOfOlderRunsByTheirHandles) {
  const TemporaryDirectory folder;
  const std::map<std::string, std::pair<std::string, std::string>> runs = {
      // id → handle of its launch, scheduler
      {"job", {"slurm:12:0123456789abcdef", "slurm"}},
      {"process", {"4711:815:b4a3ee3c", "local"}},
      {"unknown", {"", ""}},
      {"elsewhere", {"journal", ""}},
      {"by-hand", {"4712:815:b4a3ee3c", ""}}};
  {
    store::Database old(folder.path() / "store.sqlite", store::Database::Access::ReadWrite);
    for (int version = 0; version < 5; ++version) old.execute(store::kVersions[version]);
    for (const auto& [id, each] : runs) {
      old.execute(
          "INSERT INTO runs(id, name, config, directory, created_utc, wanted, body_digest) "
          "VALUES('" +
          id + "', 'demo', '{}', '/runs/" + id + "', 1, " + (id == "by-hand" ? "2" : "0") +
          ", 'd')");
      old.execute(
          "INSERT INTO launches(run, number, token, handle, attempts_before, started_utc, "
          "over) VALUES(last_insert_rowid(), 1, 't', '" +
          each.first + "', 0, 1, 0)");
    }
    old.execute("PRAGMA user_version = 5");
  }
  store::Store store(folder.path());
  for (const auto& [id, each] : runs) EXPECT_EQ(store.run(id)->scheduler, each.second) << id;
  EXPECT_TRUE(store.has_runs_of("slurm"));
  EXPECT_FALSE(store.has_runs_of("elsewhere"));
}

TEST(Store, AnOlderStoreLearnsTheTargetsOfItsRunFiles) {
  const TemporaryDirectory folder;
  {
    store::Database old(folder.path() / "store.sqlite", store::Database::Access::ReadWrite);
    for (int version = 0; version < 7; ++version) old.execute(store::kVersions[version]);
    const auto add = [&](const std::string& id, const std::string& config,
                         const std::string& target) {
      old.execute(
          "INSERT INTO runs(id, name, config, directory, created_utc, wanted, body_digest, target) "
          "VALUES('" +
          id + "', 'demo', '" + config + "', '/runs/" + id + "', 1, 0, 'd', " + target + ")");
    };
    add("value", R"({"target": {"metric": "mlm_loss", "value": 6.5, "stop": true}})", "NULL");
    add("times", R"({"target": {"metric": "mlm_accuracy", "times_baseline": 1.25}})", "NULL");
    add("began", R"({"target": {"metric": "mlm_accuracy", "times_baseline": 2}})", "0.125");
    add("none", "{}", "NULL");
    add("damaged", "{", "NULL");
    old.execute("PRAGMA user_version = 7");
  }
  store::Store store(folder.path());
  const auto summary = [&](const char* id) { return store.run(id)->summary; };
  EXPECT_EQ(summary("value").target, 6.5);
  EXPECT_EQ(summary("value").metric, "mlm_loss");
  EXPECT_EQ(summary("times").target, std::nullopt);
  EXPECT_EQ(summary("times").target_times_baseline, 1.25);
  EXPECT_EQ(summary("began").target, 0.125);
  EXPECT_EQ(summary("began").target_times_baseline, 2);
  for (const char* id : {"none", "damaged"}) {
    EXPECT_EQ(summary(id).target, std::nullopt) << id;
    EXPECT_EQ(summary(id).target_times_baseline, std::nullopt) << id;
    EXPECT_EQ(summary(id).metric, "mlm_accuracy") << id;
  }
}

TEST(Store, KeepsHowLongACheckpointTookAndWhyOneFailed) {
  const TemporaryDirectory folder;
  store::Store store(folder.path());
  const orchestrator::runs::Run run = *store.run(store.add_run(new_run("a")));
  runs::Attempt attempt;
  attempt.row = store.add_attempt(run.number, 1, "0123456789abcdef");
  EXPECT_EQ(store.checkpoint_failures(run.number).count, 0);

  std::vector<trainer::contract::JournalRecord> records(4);
  for (int i = 0; i < 4; ++i) {
    trainer::contract::CheckpointRecord body;
    body.step = 10 * (i + 1);
    body.name = "step-" + std::to_string(body.step);
    body.status = i % 2 == 0 ? "written" : "failed";
    body.bytes = 1000;
    body.seconds = 2;
    body.stall_seconds = 0.25;
    body.copy_seconds = 0.2;
    body.write_seconds = i == 0 ? std::numeric_limits<double>::quiet_NaN() : 1.25;
    body.sync_seconds = 0.5;
    if (i % 2 != 0) body.message = "no room, try " + std::to_string(i);
    records[static_cast<std::size_t>(i)].sequence = i;
    records[static_cast<std::size_t>(i)].body = body;
  }
  store.append(run, attempt, records);
  store.append(run, attempt, records);  // read again after a crash
  const auto rows = store.checkpoints(run.number, 0);
  ASSERT_EQ(rows.size(), 4U);
  EXPECT_EQ(rows[2].whole_seconds, 2);
  EXPECT_EQ(rows[2].stall_seconds, 0.25);
  EXPECT_EQ(rows[2].copy_seconds, 0.2);
  EXPECT_EQ(rows[2].write_seconds, 1.25);
  EXPECT_EQ(rows[2].sync_seconds, 0.5);
  EXPECT_EQ(rows[0].write_seconds, std::nullopt) << "the journal's null";
  EXPECT_EQ(rows[1].message, "no room, try 1");
  const store::CheckpointFailures failures = store.checkpoint_failures(run.number);
  EXPECT_EQ(failures.count, 2);
  EXPECT_EQ(failures.step, 40);
  EXPECT_EQ(failures.message, "no room, try 3");
  const runs::RunNumber other = store.add_run(new_run("b"));
  EXPECT_EQ(store.checkpoint_failures(other).count, 0);
}

TEST(Store, KeepsTheNewestTimelineOfEachAttempt) {
  const TemporaryDirectory folder;
  store::Store store(folder.path());
  const orchestrator::runs::Run run = *store.run(store.add_run(new_run("a")));
  runs::Attempt attempts[2];
  for (int i = 0; i < 2; ++i) {
    attempts[i].row = store.add_attempt(run.number, i + 1, "0123456789abcdef");
    attempts[i].ranks = 2;
    trainer::contract::JournalRecord start;
    trainer::contract::StartRecord body;
    body.bucket_bytes = {1000 + i};
    start.body = body;
    std::vector<trainer::contract::JournalRecord> records{start};
    for (int step = 1; step <= 3; ++step) {
      records.push_back(step_record(step, step));
      auto& record = std::get<trainer::contract::StepRecord>(records.back().body);
      if (step < 3) {  // a step without buckets changes nothing
        record.bucket_launched = {0.125 * step};
        record.bucket_finished = {0.25 * step};
      }
    }
    store.append(run, attempts[i], records);
  }
  for (int i = 0; i < 2; ++i) {
    const auto timeline = store.timeline(attempts[i].row);
    ASSERT_TRUE(timeline);
    EXPECT_EQ(timeline->step, 2);
    EXPECT_EQ(timeline->bucket_bytes, (std::vector<double>{1000.0 + i}));
    EXPECT_EQ(timeline->launched, (std::vector<double>{0.25}));
    EXPECT_EQ(timeline->finished, (std::vector<double>{0.5}));
  }
}

TEST(Store, SaysWhatToDoWithADamagedFile) {
  const TemporaryDirectory folder;
  tests::write_file(folder.path() / "store.sqlite", std::string(8192, 'x'));
  EXPECT_THAT(error_of(folder.path()), HasSubstr("damaged"));
}

TEST(Store, CannotBeAFile) {
  const TemporaryDirectory folder;
  tests::write_file(folder.path() / "file", "");
  EXPECT_NE(error_of(folder.path() / "file"), "");
}

TEST(StoreVersions, BelowZeroAreDamage) {
  for (const char* version : {"-1", "-5", "-100000", "-2147483648"}) {
    const tests::TemporaryDirectory folder;
    { store::Store(folder.path() / "state"); }
    store::Database(folder.path() / "state" / "store.sqlite", store::Database::Access::ReadWrite)
        .execute(std::string("PRAGMA user_version = ") + version);
    try {
      const store::Store store(folder.path() / "state");
      FAIL() << version;
    } catch (const base::Error& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr("the store is damaged")) << version;
    }
  }
}

}  // namespace
}  // namespace regatta::orchestrator
