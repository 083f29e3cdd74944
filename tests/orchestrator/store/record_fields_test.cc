// One list of fields per record: what is added to it is in the store, in files and in answers, and
// no member of a record is forgotten or changes its place.
#include "orchestrator/runs/record_fields.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "orchestrator/api/answer_fields.h"
#include "orchestrator/runs/record_json.h"
#include "orchestrator/store/events.h"
#include "orchestrator/store/row_fields.h"
#include "orchestrator/store/rows.h"
#include "orchestrator/store/schema.h"
#include "orchestrator/store/store.h"
#include "tests/orchestrator/distinct_records.h"
#include "tests/orchestrator/store/store_rows.h"
#include "tests/orchestrator/support.h"

namespace regatta::orchestrator {

// A record that only this test has, and the same one with a field more.
struct Buoy {
  std::int64_t number = 0;
  std::string colour;
  std::vector<std::string> marks;
};
struct LitBuoy {
  Buoy buoy;
  std::optional<double> light_seconds;
};
template <typename Archive, runs::RecordOf<Buoy> R>
void fields(Archive& archive, R& r) {
  archive(runs::kept("number").fixed(), r.number);
  archive(runs::served("colour").or_null(), r.colour);
  archive(runs::served("marks", "seamarks").terminated('/'), r.marks);
}
template <typename Archive, runs::RecordOf<LitBuoy> R>
void fields(Archive& archive, R& r) {
  fields(archive, r.buoy);
  archive(runs::served("light_seconds").if_any(), r.light_seconds);
}

namespace {

using Json = nlohmann::ordered_json;
using tests::distinct;
using tests::TemporaryDirectory;

std::vector<std::string> names(const std::vector<store::Column>& columns) {
  std::vector<std::string> names;
  for (const store::Column& column : columns) names.push_back(column.name);
  return names;
}
template <typename Record>
Json file_json(const Record& record) {
  Json json;
  runs::write_fields(record, &json);
  return json;
}
template <typename Record>
Json answer(const Record& record) {
  Json json;
  api::add_fields(record, &json);
  return json;
}

TEST(RecordFields, WhatIsAddedToAListIsEverywhere) {
  EXPECT_EQ(names(store::columns_of<Buoy>()),
            (std::vector<std::string>{"number", "colour", "marks"}));
  EXPECT_EQ(names(store::columns_of<LitBuoy>()),
            (std::vector<std::string>{"number", "colour", "marks", "light_seconds"}));
  EXPECT_EQ(store::selection(store::columns_of<LitBuoy>(), "buoys", "colour"),
            "buoys.number, '', buoys.marks, buoys.light_seconds");
  EXPECT_EQ(store::insertion("INSERT INTO buoys", {"sea"}, store::columns_of<LitBuoy>()),
            "INSERT INTO buoys(sea, number, colour, marks, light_seconds) "
            "VALUES(?1, ?2, ?3, ?4, ?5)");
  EXPECT_EQ(store::change("buoys", "number", store::columns_of<LitBuoy>()),
            "UPDATE buoys SET colour = ?2, marks = ?3, light_seconds = ?4 WHERE number = ?1");

  const LitBuoy buoy{{7, "red", {"N", "E"}}, 2.5};
  EXPECT_EQ(file_json(buoy).dump(),
            R"({"number":7,"colour":"red","marks":["N","E"],"light_seconds":2.5})");
  EXPECT_EQ(answer(buoy).dump(), R"({"colour":"red","seamarks":["N","E"],"light_seconds":2.5})");
  EXPECT_EQ(file_json(LitBuoy{}).dump(), R"({"number":0,"colour":"","marks":[]})");
  EXPECT_EQ(answer(LitBuoy{}).dump(), R"({"colour":null,"seamarks":[],"light_seconds":null})");

  const auto read = runs::read_fields<LitBuoy>(file_json(buoy));
  ASSERT_TRUE(read);
  EXPECT_EQ(file_json(*read), file_json(buoy));
  EXPECT_FALSE(runs::read_fields<LitBuoy>(Json{{"light_seconds", "long"}})) << "damaged";

  const TemporaryDirectory folder;
  store::Database database(folder.path() / "buoys.sqlite", store::Database::Access::ReadWrite);
  database.execute("CREATE TABLE buoys(sea, number, colour, marks, light_seconds)");
  store::write_row(database,
                   store::insertion("INSERT INTO buoys", {"sea"}, store::columns_of<LitBuoy>()),
                   store::RowBinder::Which::All, buoy, "north");
  store::Statement rows = database.prepare(
      "SELECT " + store::selection(store::columns_of<LitBuoy>(), "buoys") + ", sea FROM buoys");
  ASSERT_TRUE(rows.step());
  EXPECT_EQ(file_json(store::read_row<LitBuoy>(rows)), file_json(buoy));
  EXPECT_EQ(rows.text(store::end_of<LitBuoy>()), "north");
}

class Kinds : public testing::TestWithParam<int> {
 protected:
  template <typename Record>
  Record record() const {
    return distinct<Record>(GetParam());
  }
  template <typename Record>
  void expect_in_files() const {
    const auto written = record<Record>();
    EXPECT_EQ(runs::read_fields<Record>(file_json(written)), written);
  }
  // Into the table and out again; given: what it has beside, for ?1 and ?2.
  template <typename Record>
  void expect_in_table(store::Database& database, const std::string& table,
                       const std::vector<std::string>& given) const {
    const auto written = record<Record>();
    const std::string sql =
        store::insertion("INSERT INTO " + table, given, store::columns_of<Record>());
    if (given.empty()) {
      store::write_row(database, sql, store::RowBinder::Which::All, written);
    } else {
      store::write_row(database, sql, store::RowBinder::Which::All, written, 1, 2);
    }
    store::Statement rows = database.prepare(
        "SELECT " + store::selection(store::columns_of<Record>(), table) + " FROM " + table);
    ASSERT_TRUE(rows.step());
    EXPECT_TRUE(equal(store::read_row<Record>(rows), written)) << table;
  }
  template <typename Record>
  static bool equal(const Record& one, const Record& other) {
    return one == other;
  }
  static bool equal(const slurm::NodeEvent& one, const slurm::NodeEvent& other) {
    const auto& [node, utc, blame, run, words, weight] = one;
    return std::tie(node, utc, blame, run, words, weight) ==
           std::tie(other.node, other.utc, other.blame, other.run, other.words, other.weight);
  }
};

TEST_P(Kinds, OfFilesHaveEveryMember) {
  expect_in_files<runs::Launch>();
  expect_in_files<runs::SubmissionRecord>();
  expect_in_files<runs::RecordedState>();
}

TEST_P(Kinds, OfRowsHaveEveryMember) {
  const TemporaryDirectory folder;
  { const store::Store made(folder.path()); }
  store::Database database(folder.path() / "store.sqlite", store::Database::Access::ReadWrite);
  expect_in_table<store::StepRow>(database, "steps", {"run", "sequence"});
  expect_in_table<store::EvaluationRow>(database, "evaluations", {"run", "sequence"});
  expect_in_table<store::CheckpointRow>(database, "checkpoints", {"run", "sequence"});
  expect_in_table<slurm::NodeEvent>(database, "node_events", {});
  expect_in_table<slurm::NodeStanding>(database, "node_standings", {});
  expect_in_table<store::WebhookPlace>(database, "webhooks", {});
  expect_in_table<runs::NodeBench>(database, "node_benches", {});
  expect_in_table<store::Event>(database, "events", {});
  database.execute(
      "CREATE TABLE noted AS SELECT utc, message, 1 AS run, 2 AS sequence FROM "
      "warnings");
  expect_in_table<store::WarningRow>(database, "noted", {"run", "sequence"});
  database.execute("CREATE TABLE drawn AS SELECT *, 1 AS run FROM timelines");
  expect_in_table<store::Timeline>(database, "drawn", {"run", "attempt"});
  database.execute("CREATE TABLE shared AS SELECT *, 1 AS run FROM rank_shares");
  expect_in_table<store::RankShares>(database, "shared", {"run", "attempt"});
}

TEST_P(Kinds, OfARunHaveEveryMember) {
  const TemporaryDirectory folder;
  store::Store store(folder.path());
  const auto full = record<runs::Run>();
  store::NewRun added;
  static_cast<runs::Run&>(added) = full;
  added.idempotency_key = "key";
  added.body_digest = "digest";
  const auto launch = record<runs::Launch>();
  runs::Run expected = full;
  expected.number = store.add_run(added, {launch});
  EXPECT_EQ(store.run(full.id), expected);
  EXPECT_EQ(store.launches(expected.number), std::vector{launch});
  EXPECT_EQ(store.submitted_with("key")->body_digest, "digest");
  expected.config.clear();
  store::RunFilter filter;
  filter.archived = store::Archived::Also;
  filter.with_parts = true;
  const store::RunList list = store.list(filter);
  ASSERT_EQ(list.rows.size(), 1U);
  EXPECT_EQ(list.rows[0].run, expected) << "without its configuration";
  EXPECT_EQ(list.rows[0].launch, launch);
}

// What update_run() leaves as it is, by name.
TEST_P(Kinds, OfARunChangeButForWhatIsFixed) {
  const TemporaryDirectory folder;
  store::Store store(folder.path());
  const runs::Run before = *store.run(store.add_run(new_run("a")));
  auto changed = record<runs::Run>();
  changed.number = before.number;
  store.update_run(changed);
  runs::Run expected = changed;
  expected.id = before.id;
  expected.name = before.name;
  expected.config = before.config;
  expected.kind = before.kind;
  expected.directory = before.directory;
  expected.created_utc = before.created_utc;
  expected.found_utc = before.found_utc;
  expected.wanted = before.wanted;
  expected.scheduler = before.scheduler;
  expected.after = before.after;
  expected.archived = before.archived;
  expected.owner = before.owner;
  expected.tags = before.tags;
  expected.note = before.note;
  expected.changed_utc = before.changed_utc;
  expected.forked_from = before.forked_from;
  expected.forked_checkpoint = before.forked_checkpoint;
  expected.summary.target_times_baseline = before.summary.target_times_baseline;
  EXPECT_EQ(store.run("a"), expected);
}

TEST_P(Kinds, OfAnAttemptHaveEveryMember) {
  const TemporaryDirectory folder;
  store::Store store(folder.path());
  const runs::Run run = *store.run(store.add_run(new_run("a")));
  for (const bool slow : {true, false}) {
    auto attempt = record<runs::Attempt>();
    if (!slow) attempt.slowest.reset();
    attempt.number = slow ? 1 : 2;
    attempt.row = store.add_attempt(run.number, attempt.number, attempt.execution);
    store.append(run, attempt, {});
    attempt.judged = false;
    EXPECT_EQ(store.attempts(run.number).back(), attempt) << "judged is not append()'s";
    store.judge(attempt.row, {});
    attempt.judged = true;
    EXPECT_EQ(store.attempts(run.number).back(), attempt);
  }
}
INSTANTIATE_TEST_SUITE_P(Records, Kinds, testing::Range(0, tests::kDistinctKinds));

// By the statements of version 1, every column of it.
TEST(RecordFields, OfTheOldestStoreAreRead) {
  const TemporaryDirectory folder;
  {
    store::Database old(folder.path() / "store.sqlite", store::Database::Access::ReadWrite);
    old.execute(store::kVersion1);
    old.execute(
        "INSERT INTO runs(number, id, name, config, directory, created_utc, wanted, "
        "idempotency_key, body_digest, state, reason, error, ended_utc, failures, progress_step, "
        "drained, step, steps, samples, metric, value, target, baseline, started_utc, "
        "time_to_accuracy, training_seconds, samples_per_second, tokens_per_second, loss, phase, "
        "checkpoint_step, checkpoint, crossing, crossing_low, crossing_high, axis_seconds, "
        "last_record_utc) VALUES(1, 'id', 'name', '{}', '/d', 2, 1, 'key', 'digest', 'running', "
        "'reason', 'error', 3, 4, 5, 1, 6, 7, 8, 'mlm_loss', 9, 10, 11, 12, 13, 14, 15, 16, 17, "
        "'phase', 18, 'checkpoint', 19, 20, 21, 22, 23)");
    old.execute(
        "INSERT INTO launches(run, number, token, handle, attempts_before, started_utc, over, "
        "exit_code, signal) VALUES(1, 2, 'token', 'slurm:12:0123456789abcdef', 3, 4, 1, 5, 6)");
    old.execute("PRAGMA user_version = 1");
  }
  runs::Run run;
  run.number = runs::RunNumber{1};
  run.id = "id";
  run.name = "name";
  run.config = "{}";
  run.directory = "/d";
  run.created_utc = 2;
  run.wanted = runs::Wanted::Cancel;
  run.scheduler = "slurm";  // by its launch's handle
  run.state = runs::RunState::Running;
  run.reason = "reason";
  run.error = "error";
  run.ended_utc = 3;
  run.failures = 4;
  run.progress_step = 5;
  run.drained = true;
  runs::RunSummary& summary = run.summary;
  summary.step = 6;
  summary.steps = 7;
  summary.samples = 8;
  summary.metric = "mlm_loss";
  summary.value = 9;
  summary.target = 10;
  summary.baseline = 11;
  summary.started_utc = 12;
  summary.time_to_accuracy_seconds = 13;
  summary.training_seconds = 14;
  summary.samples_per_second = 15;
  summary.tokens_per_second = 16;
  summary.loss = 17;
  summary.phase = "phase";
  summary.checkpoint_step = 18;
  summary.checkpoint = "checkpoint";
  summary.crossing = 19;
  summary.crossing_low = 20;
  summary.crossing_high = 21;
  summary.axis_seconds = 22;
  summary.last_record_utc = 23;
  runs::Launch launch;
  launch.number = 2;
  launch.token = "token";
  launch.handle = "slurm:12:0123456789abcdef";
  launch.attempts_before = 3;
  launch.started_utc = 4;
  launch.over = true;
  launch.exit_code = 5;
  launch.signal = 6;
  store::Store store(folder.path());
  EXPECT_EQ(store.run("id"), run);
  EXPECT_EQ(store.launches(run.number), std::vector{launch});
}

// A column that a list names but the schema lacks does not prepare; one that is in the schema and
// in no list would be written by nobody.
TEST(RecordFields, AndColumnsOfTheSchemaAreTheSame) {
  const TemporaryDirectory folder;
  { const store::Store made(folder.path()); }
  store::Database database(folder.path() / "store.sqlite", store::Database::Access::ReadOnly);
  const auto expect_same = [&](const std::string& table, std::vector<std::string> listed,
                               const std::vector<std::string>& beside) {
    listed.insert(listed.end(), beside.begin(), beside.end());
    store::Statement ask = database.prepare("SELECT name FROM pragma_table_info(?1)");
    ask.bind(table);
    std::vector<std::string> there;
    while (ask.step()) there.push_back(ask.text(0));
    EXPECT_THAT(listed, testing::UnorderedElementsAreArray(there)) << table;
  };
  using store::columns_of;
  expect_same("runs", names(columns_of<runs::Run>()), {"idempotency_key", "body_digest"});
  expect_same("launches", names(columns_of<runs::Launch>()), {"run"});
  expect_same("attempts", names(columns_of<runs::Attempt>()), {"run"});
  expect_same("steps", names(columns_of<store::StepRow>()), {"run", "sequence", "place"});
  expect_same("evaluations", names(columns_of<store::EvaluationRow>()), {"run", "sequence"});
  expect_same("checkpoints", names(columns_of<store::CheckpointRow>()), {"run", "sequence"});
  expect_same("warnings", names(columns_of<store::WarningRow>()),
              {"run", "sequence", "cursor", "attempt"});
  expect_same("reference_curves", names(columns_of<runs::ReferenceCurve>()), {});
  expect_same("timelines", names(columns_of<store::Timeline>()), {"attempt"});
  expect_same("rank_shares", names(columns_of<store::RankShares>()), {"attempt"});
  expect_same("node_events", names(columns_of<slurm::NodeEvent>()), {"row"});
  expect_same("node_standings", names(columns_of<slurm::NodeStanding>()), {});
  expect_same("webhooks", names(columns_of<store::WebhookPlace>()), {});
  expect_same("node_benches", names(columns_of<runs::NodeBench>()), {"number"});
  expect_same("events", names(columns_of<store::Event>()), {});
}

TEST(Records, OfARunKeepAChangeThatItsWriterDoesNotKnow) {
  const TemporaryDirectory folder;
  store::Store store(folder.path());
  runs::Run stale = *store.run(store.add_run(new_run("a")));
  runs::Run changed = stale;
  changed.changed_utc = 5;
  changed.summary.steps = 20;
  changed.summary.target = 0.5;
  store.change_run(changed, {"target", false, false, std::nullopt}, "");
  stale.drained = true;
  stale.summary.step = 10;
  store.update_run(stale);
  const runs::Run stored = *store.run("a");
  EXPECT_EQ(stored.summary.step, 10);
  EXPECT_EQ(stored.summary.steps, 20);
  EXPECT_EQ(stored.summary.target, 0.5);
  EXPECT_FALSE(stored.drained) << "the loop has to see it once more";
}

// Its writer knows of the change and could not take it up yet, as the store failed: whoever comes
// next still has to.
TEST(Records, OfARunThatIsToBeTakenUpStaysOpen) {
  const TemporaryDirectory folder;
  store::Store store(folder.path());
  runs::Run run = *store.run(store.add_run(new_run("a")));
  run.state = runs::RunState::Succeeded;
  run.changed_utc = 5;
  store.change_run(run, {"steps", true, false, std::nullopt}, "");
  run.drained = run.settled = true;
  store.update_run(run);
  ASSERT_EQ(store.unfinished_runs().size(), 1U);
  EXPECT_EQ(store.unfinished_runs()[0].wanted, runs::Wanted::Resume);
  run.wanted = runs::Wanted::Run;
  EXPECT_TRUE(store.take_up(run));
  store.update_run(run);
  EXPECT_TRUE(store.unfinished_runs().empty());
}

// The writer's summary says that it was met, of the target that was.
TEST(Records, OfARunTellOfNoTargetThatIsNoLongerOne) {
  const TemporaryDirectory folder;
  store::Store store(folder.path());
  runs::Run stale = *store.run(store.add_run(new_run("a")));
  runs::Run changed = stale;
  changed.changed_utc = 5;
  changed.summary.target = 0.9;
  store.change_run(changed, {"target", false, false, std::nullopt}, "");
  stale.summary.time_to_accuracy_seconds = 7;
  store.update_run(stale);
  EXPECT_TRUE(store.events_after({{"run.target_reached"}, {}, {}, {}}, 0, 9).events.empty());
}

}  // namespace
}  // namespace regatta::orchestrator
