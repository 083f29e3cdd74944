#include <gmock/gmock.h>
#include <sqlite3.h>

#include <chrono>

#include "base/error.h"
#include "orchestrator/runs/scheduler.h"
#include "orchestrator/store/store.h"
#include "tests/orchestrator/store/store_rows.h"
#include "tests/orchestrator/support.h"

namespace regatta::orchestrator {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using tests::TemporaryDirectory;

class EventsTest : public testing::Test {
 protected:
  void SetUp() override { open(); }
  void open() {
    store_.reset();
    store_ =
        std::make_unique<store::Store>(folder_.path() / "state", store::StoreOptions{{}, &clock_});
  }
  std::vector<store::Event> events(const store::EventFilter& filter = {}, std::int64_t after = 0) {
    return store_->events_after(filter, after, 1000).events;
  }
  void note(const char* kind) {
    store::Event event;
    event.kind = kind;
    store_->note(event);
  }
  std::vector<std::string> kinds() {
    std::vector<std::string> kinds;
    for (const store::Event& each : events()) kinds.push_back(each.kind);
    return kinds;
  }
  // What is told of since the last call.
  std::vector<std::string> news() {
    std::vector<std::string> kinds;
    for (const store::Event& each : events({}, read_)) {
      kinds.push_back(each.kind);
      read_ = each.number;
    }
    return kinds;
  }

  TemporaryDirectory folder_;
  tests::SimulatedClock clock_;
  std::unique_ptr<store::Store> store_;
  std::int64_t read_ = 0;
};

TEST_F(EventsTest, TellARunsLife) {
  store::NewRun submitted = new_run("a");
  submitted.by = "uid 7";
  runs::Run run = *store_->run(store_->add_run(submitted));
  ASSERT_EQ(events().size(), 1U);
  EXPECT_EQ(events()[0].kind, "run.submitted");
  EXPECT_EQ(events()[0].run, "a");
  EXPECT_EQ(events()[0].by, "uid 7");
  EXPECT_THAT(news(), ElementsAre("run.submitted"));

  runs::Launch launch;
  launch.number = 1;
  store_->put_launch(run.number, launch);
  EXPECT_THAT(news(), IsEmpty()) << "nothing is known to have begun";
  launch.handle = "slurm:17";
  launch.started_utc = 1000;
  store_->put_launch(run.number, launch);
  store_->put_launch(run.number, launch);
  EXPECT_THAT(news(), ElementsAre("launch.submitted")) << "once";
  run.state = runs::RunState::Starting;
  run.reason = "waits for Slurm";
  store_->update_run(run);
  store_->update_run(run);
  EXPECT_EQ(events().back().words, "waits for Slurm");
  EXPECT_THAT(news(), ElementsAre("run.starting"));

  runs::Attempt attempt;
  attempt.row = store_->add_attempt(run.number, 1, "0123456789abcdef");
  attempt.number = 1;
  store_->append(run, attempt, {});
  EXPECT_THAT(news(), IsEmpty());
  attempt.started = true;
  attempt.start_utc = 2000;
  attempt.ranks = 4;
  attempt.hosts = {"n1", "n2"};
  run.state = runs::RunState::Running;
  store_->append(run, attempt, {step_record(1, 1)});
  EXPECT_EQ(events()[events().size() - 2].words, "4 ranks on n1, n2");
  EXPECT_EQ(events()[events().size() - 2].utc, 2000);
  EXPECT_THAT(news(), ElementsAre("attempt.started", "run.running"));
  store::RunFilter on_node;
  on_node.node = "n2";
  EXPECT_EQ(store_->list(on_node).rows.size(), 1U) << "of processes of this machine, too";
  store_->append(run, attempt, {step_record(2, 2)});
  EXPECT_THAT(news(), IsEmpty());

  run.state = runs::RunState::Failed;
  run.error = "out of memory\nsecond line";
  run.ended_utc = 3000;
  attempt.exit_code = 70;
  attempt.reason = "failed";
  attempt.message = "no room";
  attempt.last_seconds = 500;
  store_->append(run, attempt, {});
  EXPECT_EQ(events().back().words, "out of memory");
  EXPECT_EQ(events().back().utc, 3000);
  EXPECT_EQ(events()[events().size() - 2].words, "failed: no room");
  EXPECT_EQ(events()[events().size() - 2].utc, 2500);
  EXPECT_EQ(events()[events().size() - 2].attempt, 1);
  EXPECT_THAT(news(), ElementsAre("attempt.ended", "run.failed"));
  launch.over = true;
  launch.words = "Slurm says FAILED";
  launch.nodes = "n[1-2]";
  launch.ended_utc = 3001;
  store_->end_launch(run, launch);
  store_->end_launch(run, launch);
  EXPECT_EQ(events().back().node, "n[1-2]");
  EXPECT_EQ(events().back().launch, 1);
  EXPECT_THAT(news(), ElementsAre("launch.ended"));

  store_->set_wanted(run.number, runs::Wanted::Resume, "token");
  EXPECT_EQ(events().back().by, "token");
  store_->change_run(run, {"slurm.time_limit", false, false, {}}, "token");
  EXPECT_EQ(events().back().words, "slurm.time_limit");
  store_->set_archived(run.number, true, "token");
  store_->set_archived(run.number, false, "token");
  store_->set_wanted(run.number, runs::Wanted::Cancel, "uid 9");
  store_->remove_run(run, "uid 9");
  EXPECT_EQ(events().back().by, "uid 9");
  EXPECT_EQ(events().back().run, "a") << "of a run that is there no more";
  EXPECT_THAT(news(), ElementsAre("run.resume_asked", "run.changed", "run.archived",
                                  "run.unarchived", "run.cancel_asked", "run.removed"));
}

TEST_F(EventsTest, TellWhatTheJournalSays) {
  runs::Run run = *store_->run(store_->add_run(new_run("a")));
  runs::Attempt attempt;
  attempt.row = store_->add_attempt(run.number, 3, "0123456789abcdef");
  attempt.number = 3;
  std::vector<trainer::contract::JournalRecord> records;
  const auto add = [&](auto body) {
    trainer::contract::JournalRecord record;
    record.sequence = static_cast<std::int64_t>(records.size());
    record.utc_seconds = 100.0 + static_cast<double>(records.size());
    record.body = body;
    records.push_back(record);
  };
  trainer::contract::CheckpointRecord checkpoint;
  checkpoint.step = 40;
  checkpoint.name = "step-0000000040-a";
  checkpoint.status = "written";
  add(checkpoint);
  checkpoint.status = "failed";
  checkpoint.message = "the disk is full";
  add(checkpoint);
  checkpoint.status = "odd\nid: 1";
  add(checkpoint);  // no kind of event
  add(trainer::contract::WarningRecord{"slow"});
  trainer::contract::TrialRecord trial;
  trial.step = 20;
  trial.winner = "plan";
  trial.gain = 0.125;
  trial.bucket_bytes = {1, 2, 3};
  add(trial);
  trainer::contract::DivergenceRecord divergence;
  divergence.action = "rollback";
  divergence.message = "the loss is not finite";
  add(divergence);
  add(trainer::contract::EvalRecord{});
  add(trainer::contract::BatchRecord{44, 128, 300, 260.7});
  add(trainer::contract::AlarmRecord{45, "gradient_norm", "", 50, 2, 60, "The norm was 50."});
  trainer::contract::LossScaleRecord scale;
  scale.step = 46;
  scale.from = 65536;
  scale.to = 32768;
  scale.message = "It overflowed.";
  add(scale);
  trainer::contract::CorruptionRecord corruption;
  corruption.step = 47;
  corruption.rank = 2;
  corruption.host = "node02";
  corruption.message = "Silent corruption at step 47";
  add(corruption);
  corruption.rank = -1;
  corruption.host = "node01, node02";
  add(corruption);
  trainer::contract::InputRecord input;
  input.step = 48;
  input.why = "1 worker makes 9 samples/s";
  input.tried_workers = {1};
  add(input);  // nothing else was tried
  input.tried_workers = {1, 2};
  input.why = "2 workers make 18 samples/s";
  add(input);
  read_ = events().back().number;
  store_->append(run, attempt, records);
  const std::vector<store::Event> told = events({}, read_);
  EXPECT_THAT(news(), ElementsAre("checkpoint.written", "checkpoint.failed", "attempt.warning",
                                  "plan.tried", "attempt.warning", "attempt.batch_grown",
                                  "attempt.alarm", "attempt.loss_scale", "attempt.corruption",
                                  "attempt.corruption", "plan.input"));
  EXPECT_EQ(told[10].step, 48);
  EXPECT_EQ(told[10].words, input.why);
  EXPECT_EQ(told[6].step, 45);
  EXPECT_EQ(told[6].words, "The norm was 50.");
  EXPECT_EQ(told[7].step, 46);
  EXPECT_EQ(told[7].words, "65536 → 32768. It overflowed.");
  EXPECT_EQ(told[8].step, 47);
  EXPECT_EQ(told[8].node, "node02");
  EXPECT_EQ(told[8].words, corruption.message);
  EXPECT_EQ(told[9].node, "") << "nobody is named";
  EXPECT_EQ(told[0].checkpoint, "step-0000000040-a");
  EXPECT_EQ(told[0].step, 40);
  EXPECT_EQ(told[0].attempt, 3);
  EXPECT_EQ(told[0].utc, 100);
  EXPECT_EQ(told[1].words, "the disk is full");
  EXPECT_EQ(told[3].words, "chose plan: 3 buckets, a step is 12.5 % shorter");
  EXPECT_EQ(told[5].step, 44);
  EXPECT_EQ(told[5].words, "128 samples a step: the noise scale is at least 260");
  // The same read again, as after a crash before the offset was written.
  store_->append(run, attempt, {records[0], records[1], records[3]});
  EXPECT_THAT(news(), IsEmpty());

  run.summary.started_utc = 1000;
  run.summary.time_to_accuracy_seconds = 90;
  run.summary.step = 77;
  store_->append(run, attempt, {});
  EXPECT_EQ(events().back().utc, 1090);
  EXPECT_EQ(events().back().step, 77);
  store_->append(run, attempt, {});
  EXPECT_THAT(news(), ElementsAre("run.target_reached")) << "once";
}

TEST_F(EventsTest, TellOfNodesThatAreNamed) {
  slurm::NodeEvent event;
  event.node = "n1";
  event.run = "a";
  event.words = "the scheduler lost it";
  event.utc = 50;
  slurm::NodeEvent worked = event, shared = event;
  worked.blame = slurm::Blame::Worked;
  shared.blame = slurm::Blame::Shared;
  store_->judge({}, {event, worked, shared});
  ASSERT_EQ(events().size(), 1U);
  EXPECT_EQ(events()[0].kind, "node.blamed");
  EXPECT_EQ(events()[0].node, "n1");
  EXPECT_EQ(events()[0].words, "node failed: the scheduler lost it");
}

// What happened before a run was found is in its directory, and is not told as if it were new.
TEST_F(EventsTest, OfAFoundRunBeginWhenItWasFound) {
  store::NewRun found = new_run("a");
  found.found_utc = 5000;
  runs::Launch old;
  old.number = 1;
  old.handle = "slurm:1";
  old.over = true;
  runs::Run run = *store_->run(store_->add_run(found, {old}));
  runs::Attempt attempt;
  attempt.row = store_->add_attempt(run.number, 1, "0123456789abcdef");
  attempt.started = true;
  attempt.start_utc = 100;
  attempt.exit_code = 0;
  attempt.last_seconds = 10;
  trainer::contract::JournalRecord record;
  record.body = trainer::contract::CheckpointRecord{1, "c", "written", 0, 0, 0, 0, 0, 0, ""};
  record.utc_seconds = 105;
  run.state = runs::RunState::Succeeded;
  run.ended_utc = 110;
  store_->append(run, attempt, {record});
  EXPECT_THAT(kinds(), ElementsAre("run.found"));
  record.sequence = 1;
  record.utc_seconds = 5001;
  store_->append(run, attempt, {record});
  EXPECT_THAT(kinds(), ElementsAre("run.found", "checkpoint.written"));
}

TEST_F(EventsTest, TellOfReferencesOnce) {
  runs::ReferenceCurve curve;
  curve.about.name = "a";
  EXPECT_TRUE(store_->add_reference(curve, "token"));
  EXPECT_FALSE(store_->add_reference(curve, "token"));
  EXPECT_TRUE(store_->remove_reference("a", "uid 1"));
  EXPECT_FALSE(store_->remove_reference("a", "uid 1"));
  EXPECT_THAT(kinds(), ElementsAre("reference.added", "reference.removed"));
  EXPECT_EQ(events()[1].by, "uid 1");
  EXPECT_EQ(events()[1].words, "a");
}

TEST_F(EventsTest, ComeWithTheirChangeOrNotAtAll) {
  runs::Run run = *store_->run(store_->add_run(new_run("a")));
  const auto known = kinds();
  EXPECT_THROW((void)store_->add_run(new_run("a")), base::Error) << "one id, twice";
  EXPECT_EQ(kinds(), known);
}

TEST_F(EventsTest, AreFilteredAndPagedLikeAListMadeByHand) {
  std::vector<store::Event> all;
  for (int i = 0; i < 500; ++i) {
    store::Event event;
    const char* const names[] = {"run.failed", "run.running", "node.blamed", "launch.ended"};
    event.kind = names[i % 4];
    event.run = i % 5 == 0 ? "" : "run" + std::to_string(i % 7);
    event.node = i % 3 == 0 ? "n" + std::to_string(i % 4) : "";
    event.by = i % 11 == 0 ? "uid 1" : "";
    event.utc = i + 1;
    event.words = std::to_string(i);
    store_->note(event);
  }
  all = events();
  ASSERT_EQ(all.size(), 500U);
  std::vector<store::EventFilter> filters{{}};
  for (const std::vector<std::string>& kinds :
       {std::vector<std::string>{}, {"run.failed"}, {"run.failed", "node.blamed"}, {"none"}}) {
    for (const char* run : {"", "run3", "nobody"}) {
      for (const char* node : {"", "n0", "n3"}) {
        for (const char* by : {"", "uid 1"}) filters.push_back({kinds, run, node, by});
      }
    }
  }
  for (const store::EventFilter& filter : filters) {
    std::vector<store::Event> fitting;
    for (const store::Event& each : all) {
      const bool kind = filter.kinds.empty() ||
                        std::count(filter.kinds.begin(), filter.kinds.end(), each.kind) > 0;
      if (kind && (filter.run.empty() || each.run == filter.run) &&
          (filter.node.empty() || each.node == filter.node) &&
          (filter.by.empty() || each.by == filter.by)) {
        fitting.push_back(each);
      }
    }
    std::vector<store::Event> up, down;
    for (std::int64_t after = 0;;) {
      const store::EventPage page = store_->events_after(filter, after, 7);
      up.insert(up.end(), page.events.begin(), page.events.end());
      EXPECT_EQ(page.oldest, all.front().number);
      EXPECT_EQ(page.newest, all.back().number);
      if (!page.more) break;
      after = page.events.back().number;
    }
    EXPECT_EQ(up, fitting);
    for (std::optional<std::int64_t> before;;) {
      const store::EventPage page = store_->events_before(filter, before, 7);
      down.insert(down.begin(), page.events.begin(), page.events.end());
      if (!page.more) break;
      before = page.events.front().number;
    }
    EXPECT_EQ(down, fitting);
  }
  for (const store::StatementFigures& each : store_->figures()) {
    if (each.sql.find("FROM events") == std::string::npos) continue;
    EXPECT_EQ(each.scanned, 0) << each.sql;
    EXPECT_EQ(each.sorts, 0) << each.sql;
  }
}

TEST_F(EventsTest, NumbersGrowAcrossALostStore) {
  note("controller.started");
  const std::int64_t before = events().back().number;
  store_.reset();
  std::filesystem::remove_all(folder_.path() / "state");
  clock_.sleep(std::chrono::seconds(5));
  open();
  EXPECT_THAT(events(), IsEmpty());
  note("controller.started");
  EXPECT_GT(events().back().number, before);
  // Nor does a clock that went back give one again.
  const std::int64_t newest = events().back().number;
  clock_.now = -1e6;
  open();
  note("controller.started");
  EXPECT_EQ(events().back().number, newest + 1);
  EXPECT_TRUE(store_->has_events_after(newest));
  EXPECT_FALSE(store_->has_events_after(newest + 1));
}

TEST_F(EventsTest, OldOnesGoHoweverOftenTheControllerIsRestarted) {
  constexpr std::int64_t kMost = 1'000'000, kMore = 100;
  note("controller.started");
  store_.reset();
  {
    store::Database database(folder_.path() / "state" / "store.sqlite",
                             store::Database::Access::ReadWrite);
    database.execute(
        "PRAGMA synchronous = OFF; WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n "
        "WHERE i < " +
        std::to_string(kMost + kMore) +
        ") INSERT INTO events(number, utc, kind, run, checkpoint, node, actor, words) "
        "SELECT i, i, 'run.queued', '', '', '', '', '' FROM n");
  }
  open();
  note("controller.started");
  EXPECT_EQ(store_->events_after({}, 0, 1).oldest, kMore + 3) << "the newest of all are left";
}

TEST_F(EventsTest, LongWordsAreCutBetweenTwoLetters) {
  store::Event event;
  event.kind = "attempt.warning";
  event.words = std::string(500, 'a');
  store_->note(event);
  EXPECT_EQ(events().back().words, event.words);
  event.words = std::string(499, 'a') + "é" + "b";  // whose second byte is the 501st
  store_->note(event);
  EXPECT_EQ(events().back().words, std::string(499, 'a') + "…");
}

TEST_F(EventsTest, DoNotChange) {
  note("controller.started");
  sqlite3* connection = nullptr;
  ASSERT_EQ(sqlite3_open((folder_.path() / "state" / "store.sqlite").c_str(), &connection),
            SQLITE_OK);
  EXPECT_NE(
      sqlite3_exec(connection, "UPDATE events SET words = 'other'", nullptr, nullptr, nullptr),
      SQLITE_OK);
  sqlite3_close(connection);
}

TEST_F(EventsTest, AreOfKindsThatAreListed) {
  std::set<std::string> listed;
  for (const store::EventKind& kind : store::event_kinds()) {
    EXPECT_TRUE(listed.emplace(kind.name).second) << kind.name;
    EXPECT_FALSE(kind.what.empty());
  }
  for (const std::string& state : runs::run_state_names()) {
    EXPECT_EQ(listed.count("run." + state), 1U) << state;
  }
}

}  // namespace
}  // namespace regatta::orchestrator
