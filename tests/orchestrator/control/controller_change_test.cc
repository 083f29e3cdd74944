// `regatta extend` and `regatta change`: another run file for a run that exists.
#include <gmock/gmock.h>

#include "base/error.h"
#include "orchestrator/plan/run_changes.h"
#include "orchestrator/runs/run_records.h"
#include "orchestrator/store/database.h"
#include "orchestrator/store/series.h"
#include "tests/checkpoint/samples.h"
#include "tests/orchestrator/control/controller_fixture.h"
#include "tests/shared_data.h"
#include "trainer/contract/exit_code.h"

namespace regatta::orchestrator {
namespace {

using testing::HasSubstr;
using tests::JournalAuthor;

class ChangeTest : public ControllerFixture {
 protected:
  ChangeTest() : ControllerFixture(1) {}

  std::string handle() const { return "h" + std::to_string(scheduler_.launches.size()); }
  void save(const std::string& id, std::int64_t step) {
    const tests::SampleCheckpoint sample(step);
    checkpoint::CheckpointStore(base::posix_file_system(), directory(id).checkpoints_path())
        .write(sample.contents, tests::always);
  }
  // An attempt that trains to a step, is as accurate there, saves (it or the one told), ends so.
  void train(const std::string& id, std::int64_t from, std::int64_t to, double accuracy,
             const std::string& reason = "steps", int code = 0,
             std::optional<std::int64_t> saved = {}, std::optional<double> worth = {}) {
    JournalAuthor journal(directory(id), clock_.utc_seconds());
    journal.start(0.1, from);
    trainer::contract::StepRecord step;
    step.step = to, step.progress = worth;
    journal.add(1, step);
    journal.evaluation(2, to, accuracy);
    save(id, saved.value_or(to));
    journal.checkpoint(3, saved.value_or(to));
    trainer::contract::EndRecord end;
    end.reason = reason;
    end.exit_code = code;
    journal.add(4, end);
    scheduler_.end(handle(), code);
    clock_.now += 10;
    ticks(4);
  }
  // A run of 100 steps that has trained them all.
  std::string finished(double accuracy = 0.3) {
    const std::string id = submit();
    ticks();
    train(id, 0, 100, accuracy);
    EXPECT_EQ(state(id), runs::RunState::Succeeded);
    return id;
  }
  trainer::contract::RunConfig on_disk(const std::string& id) {
    return trainer::contract::parse_run_config(directory(id).run_json(), "run.json");
  }
  template <typename Call>
  void expect_refused(base::Code code, const std::string& why, const Call& call) {
    try {
      call();
      FAIL() << why;
    } catch (const base::Error& error) {
      EXPECT_EQ(error.code(), code) << error.what();
      EXPECT_THAT(error.what(), HasSubstr(why));
    }
  }
  void expect_not_extended(const std::string& id, const std::string& changes,
                           const std::string& why, base::Code code = base::Code::Conflict) {
    const std::string before = run(id).config;
    expect_refused(code, why, [&] { (void)controller_->extend(id, changes); });
    EXPECT_EQ(run(id).config, before);
    EXPECT_EQ(run(id).wanted, runs::Wanted::Run);
  }
  std::vector<std::string> events(const std::string& id, const std::string& kind) {
    std::vector<std::string> words;
    for (const store::Event& event : store_->events_after({{kind}, id, {}, {}}, 0, 100).events) {
      words.push_back(event.by + ": " + event.words);
    }
    return words;
  }
};

TEST_F(ChangeTest, AFinishedRunGoesOnAsOneCurve) {
  const std::string id = finished();
  EXPECT_TRUE(controller_->extend(id, R"({"steps": 200})", {}, "uid 7"));
  EXPECT_EQ(on_disk(id).steps, 200) << "written when it is answered";
  EXPECT_EQ(run(id).summary.steps, 200);
  ticks();
  EXPECT_THAT(events(id, "run.queued"), testing::Contains(": was extended"));
  EXPECT_EQ(state(id), runs::RunState::Starting);
  ASSERT_EQ(scheduler_.launches.size(), 2U);
  EXPECT_EQ(scheduler_.launches[1].run_directory, directory(id).path());
  train(id, 100, 200, 0.4);
  EXPECT_EQ(state(id), runs::RunState::Succeeded);
  EXPECT_EQ(run(id).summary.step, 200);
  EXPECT_EQ(run(id).summary.steps, 200);
  EXPECT_EQ(store_->attempts(run(id).number).back().number, 2);
  EXPECT_EQ(scheduler_.launches.size(), 2U);
  EXPECT_THAT(events(id, "run.changed"), testing::ElementsAre("uid 7: steps from 100 to 200"));
  EXPECT_EQ(events(id, "run.extend_asked").size(), 1U);
}

TEST_F(ChangeTest, AStoppedRunIsExtendedToo) {
  for (const auto& [code, end] :
       {std::pair(24, runs::RunState::Stopped), std::pair(20, runs::RunState::Failed)}) {
    const std::string id = submit();
    ticks();
    train(id, 0, 50, 0.3, "stopped", code);
    ASSERT_EQ(state(id), end);
    EXPECT_TRUE(controller_->extend(id, R"({"steps": 60})"));
    ticks();
    EXPECT_EQ(state(id), runs::RunState::Starting);
    train(id, 50, 60, 0.3);
    EXPECT_EQ(state(id), runs::RunState::Succeeded);
  }
}

// Above the best evaluation it goes on for it; what it met of the old target is no longer told.
TEST_F(ChangeTest, AnotherTargetIsJudgedOverAllEvaluations) {
  const std::string id = submit();
  ticks();
  train(id, 0, 40, 0.6, "target");
  ASSERT_TRUE(run(id).summary.time_to_accuracy_seconds.has_value());
  EXPECT_TRUE(controller_->extend(id, R"({"target": 0.7})"));
  EXPECT_EQ(run(id).summary.target, 0.7);
  EXPECT_EQ(run(id).summary.time_to_accuracy_seconds, std::nullopt);
  ticks();
  ASSERT_EQ(state(id), runs::RunState::Starting);
  EXPECT_EQ(run(id).summary.time_to_accuracy_seconds, std::nullopt);
  train(id, 40, 80, 0.75, "target");
  EXPECT_EQ(state(id), runs::RunState::Succeeded);
  const auto second = run(id).summary.time_to_accuracy_seconds;
  EXPECT_TRUE(second.has_value());
  // Lowered again: the first evaluation met it.
  EXPECT_TRUE(controller_->change(id, R"({"target": 0.55})"));
  EXPECT_LT(run(id).summary.time_to_accuracy_seconds, second);
  const auto first = run(id).summary.time_to_accuracy_seconds;
  ticks(6);
  EXPECT_EQ(run(id).summary.time_to_accuracy_seconds, first) << "the loop finds the same";
  EXPECT_EQ(state(id), runs::RunState::Succeeded) << "a change starts nothing";
  lose_the_store();
  ticks(6);
  EXPECT_EQ(run(id).summary.target, 0.55) << "the file says so, not the journals";
  EXPECT_EQ(run(id).summary.time_to_accuracy_seconds, first);
}

TEST_F(ChangeTest, ATargetThatAnEarlierEvaluationMetIsTold) {
  const std::string id = finished(0.3);
  const auto told = [&] {
    store::EventFilter filter;
    filter.kinds = {"run.changed", "run.target_reached"};
    std::vector<std::string> kinds;
    for (const store::Event& each : store_->events_after(filter, 0, 9).events) {
      kinds.push_back(each.kind);
    }
    return kinds;
  };
  ASSERT_TRUE(controller_->change(id, R"({"target": 0.6})"));
  ticks(6);
  EXPECT_THAT(told(), testing::ElementsAre("run.changed"));
  ASSERT_TRUE(controller_->change(id, R"({"target": 0.25})"));
  ticks(6);
  EXPECT_THAT(told(), testing::ElementsAre("run.changed", "run.changed", "run.target_reached"));
  ASSERT_TRUE(controller_->change(id, R"({"target": 0.2})"));
  ticks(6);
  EXPECT_EQ(told().size(), 4U) << "it was met before";
}

TEST_F(ChangeTest, AnExtensionThatTrainsNothingIsRefused) {
  const std::string id = finished();
  expect_not_extended(id, "{}", "give steps, a target, or both", base::Code::User);
  expect_not_extended(id, R"({"steps": 100})", "has trained 100 steps");
  expect_not_extended(id, R"({"steps": 50})", "would end at 50; give more steps");
  expect_not_extended(id, R"({"target": 0.9})", "give more steps");
  expect_not_extended(id, R"({"steps": 200, "target": 0.2})", "has met this target already");
  expect_not_extended(id, R"({"steps": 200, "target": 0.2})", "train on with --past-target");
  expect_not_extended(id, R"({"seed": 5})", "an extension has no seed", base::Code::User);
  EXPECT_TRUE(
      controller_->extend(id, R"({"steps": 200, "target": {"value": 0.2, "stop": false}})"));
  expect_refused(base::Code::Conflict, "is under way; `regatta change demo-",
                 [&] { (void)controller_->extend(id, R"({"steps": 300})"); });
}

TEST_F(ChangeTest, WithoutACheckpointThereIsNothingToExtend) {
  const std::string id = submit();
  ticks();
  scheduler_.end(handle(), 20);
  ticks(4);
  expect_not_extended(id, R"({"steps": 200})", "has no checkpoint to go on from; `regatta resume");
}

// One without its manifest, as a removal that was cut short leaves it, is none.
TEST_F(ChangeTest, WithoutAWholeCheckpointThereIsNothingToExtend) {
  const std::string id = finished();
  const base::Path checkpoints = directory(id).checkpoints_path();
  const auto listed = checkpoint::CheckpointStore(base::posix_file_system(), checkpoints).list();
  ASSERT_EQ(listed.size(), 1U);
  std::filesystem::remove(checkpoints / listed[0].name / checkpoint::kManifestFile);
  expect_not_extended(id, R"({"steps": 200})", "has no checkpoint to go on from; submit it anew");
}

// Steps behind its newest checkpoint are trained again, but they are on its curve.
TEST_F(ChangeTest, AnExtensionEndsBehindAllThatWasTrained) {
  const std::string id = submit();
  ticks();
  train(id, 0, 80, 0.3, "stopped", 24, 50);
  ASSERT_EQ(state(id), runs::RunState::Stopped);
  expect_not_extended(id, R"({"steps": 70})", "has trained 80 steps and would end at 70");
  EXPECT_TRUE(controller_->extend(id, R"({"steps": 81})"));
}

TEST_F(ChangeTest, AnExtensionOfABatchThatGrowsCountsWhatItsStepsAreWorth) {
  const std::string id = submit();
  ticks();
  train(id, 0, 80, 0.3, "steps", 0, {}, 130);
  expect_not_extended(id, R"({"steps": 120})", "80 steps (worth 130 of the first batch) and would");
  EXPECT_TRUE(controller_->extend(id, R"({"steps": 140})"));
}

TEST_F(ChangeTest, AnExtendedRunIsArchivedNoLonger) {
  const std::string id = finished();
  (void)controller_->archive(id, control::DryRun::No);
  ASSERT_TRUE(run(id).archived);
  EXPECT_TRUE(controller_->extend(id, R"({"steps": 200})"));
  EXPECT_FALSE(run(id).archived);
  const auto submission = runs::read_submission(base::posix_file_system(), directory(id).path());
  ASSERT_TRUE(submission);
  EXPECT_FALSE(submission->archived) << "or it would be again where the store is lost";
  EXPECT_EQ(events(id, "run.unarchived").size(), 1U);
}

TEST_F(ChangeTest, ARunMadeByHandIsLeftAlone) {
  const auto by_hand = trainer::contract::RunDirectory::create(
      base::posix_file_system(), folder_.path() / "runs" / "mine", tests::run_file());
  JournalAuthor journal(by_hand, clock_.utc_seconds());
  journal.start(0.1);
  journal.end(1, 24);
  clock_.now += 11;
  ticks(4);
  ASSERT_EQ(state("mine"), runs::RunState::Stopped);
  for (const bool extends : {true, false}) {
    expect_refused(base::Code::Conflict, "was started by hand", [&] {
      (void)(extends ? controller_->extend("mine", R"({"steps": 200})")
                     : controller_->change("mine", R"({"steps": 200})"));
    });
  }
  EXPECT_EQ(by_hand.run_json(), tests::run_file());
}

TEST_F(ChangeTest, AKeyDoesOneThingOnce) {
  const std::string id = finished();
  EXPECT_TRUE(controller_->extend(id, R"({"steps": 200})", "k1"));
  EXPECT_FALSE(controller_->extend(id, R"({"steps":  200})", "k1"));
  ticks();
  train(id, 100, 200, 0.4);
  ASSERT_EQ(state(id), runs::RunState::Succeeded);
  EXPECT_FALSE(controller_->extend(id, R"({"steps": 200})", "k1")) << "long after it was done";
  close();
  open();
  EXPECT_FALSE(controller_->extend(id, R"({"steps": 200})", "k1")) << "and after a restart";
  EXPECT_EQ(state(id), runs::RunState::Succeeded);
  expect_refused(base::Code::Conflict, "use a new key",
                 [&] { (void)controller_->extend(id, R"({"steps": 300})", "k1"); });
  expect_refused(base::Code::Conflict, "use a new key",
                 [&] { (void)controller_->change(id, R"({"steps": 200})", "k1"); });
  expect_refused(base::Code::User, "the idempotency key is not usable",
                 [&] { (void)controller_->extend(id, R"({"steps": 300})", "a b"); });
  EXPECT_EQ(run(id).summary.steps, 200);
  // A removed run's key is free.
  (void)controller_->remove(id, {});
  const std::string other = finished();
  EXPECT_TRUE(controller_->extend(other, R"({"steps": 200})", "k1"));
}

TEST_F(ChangeTest, WhatChangedNothingIsNotDoneLater) {
  const std::string id = finished();
  const std::string request = R"({"checkpoint": {"keep_last": 5}})";
  EXPECT_TRUE(controller_->change(id, request, "k1"));
  EXPECT_FALSE(controller_->change(id, request, "k2")) << "it is so already";
  EXPECT_TRUE(controller_->change(id, R"({"checkpoint": {"keep_last": 2}})", "k3"));
  EXPECT_FALSE(controller_->change(id, request, "k2")) << "the same request, come again";
  EXPECT_EQ(on_disk(id).keep_last, 2);
  expect_refused(base::Code::Conflict, "use a new key",
                 [&] { (void)controller_->change(id, R"({"steps": 300})", "k2"); });
}

// Acknowledged, and the controller is killed: before it wrote anything into the directory, or
// after, with its store.
TEST_F(ChangeTest, AnExtensionOutlivesTheController) {
  for (const bool store_is_lost : {false, true}) {
    const std::string id = finished();
    const std::size_t launches = scheduler_.launches.size();
    const std::string old_config = directory(id).run_json();
    const base::Path path = directory(id).path();
    const std::string old_state = tests::file_text(path / "state.json");
    EXPECT_TRUE(controller_->extend(id, R"({"steps": 200})"));
    if (store_is_lost) {
      lose_the_store();
    } else {
      close();
      tests::write_file(path / "run.json", old_config);
      tests::write_file(path / "state.json", old_state);
      open();
    }
    ticks(4);
    EXPECT_EQ(state(id), runs::RunState::Starting) << store_is_lost;
    ASSERT_EQ(scheduler_.launches.size(), launches + 1) << store_is_lost;
    EXPECT_EQ(on_disk(id).steps, 200) << "before anything was started";
    train(id, 100, 200, 0.4);
    EXPECT_EQ(state(id), runs::RunState::Succeeded);
    EXPECT_EQ(run(id).summary.steps, 200);
  }
}

// The power failed while it was written down, and the store is lost: the run file and that it was
// changed are there, and the state is of before. An end behind the change stays one.
TEST_F(ChangeTest, AnExtensionThatWasHalfWrittenIsFoundInTheDirectory) {
  const std::string id = finished();
  const base::Path state_file = directory(id).path() / "state.json";
  const std::string old_state = tests::file_text(state_file);
  EXPECT_TRUE(controller_->extend(id, R"({"steps": 200})"));
  tests::write_file(state_file, old_state);
  lose_the_store();
  ticks(4);
  ASSERT_EQ(scheduler_.launches.size(), 2U);
  train(id, 100, 200, 0.4);
  ASSERT_EQ(state(id), runs::RunState::Succeeded);
  const auto ended = run(id).ended_utc;
  lose_the_store();
  ticks(10);
  EXPECT_EQ(state(id), runs::RunState::Succeeded);
  EXPECT_EQ(run(id).ended_utc, ended);
  EXPECT_EQ(scheduler_.launches.size(), 2U) << "started again";
}

// What says that it was changed is written before the change.
TEST_F(ChangeTest, TheSubmissionSaysThatItWasChangedBeforeTheRunFileIsAnother) {
  const std::string id = finished();
  const std::string old_config = directory(id).run_json();
  const base::Path run_json = directory(id).path() / "run.json";
  std::filesystem::remove(run_json);
  std::filesystem::create_directory(run_json);  // no run file can be written there
  EXPECT_TRUE(controller_->extend(id, R"({"steps": 200})"));
  std::filesystem::remove(run_json);
  tests::write_file(run_json, old_config);
  EXPECT_TRUE(runs::read_submission(base::posix_file_system(), directory(id).path())->changed_utc);
}

// The controller's own disk fails in the transaction: nothing is changed, and the user is told.
TEST_F(ChangeTest, WhatTheStoreCannotKeepIsNotDone) {
  const std::string id = finished();
  const std::string before = run(id).config;
  store::Database(folder_.path() / "state" / "store.sqlite", store::Database::Access::ReadWrite)
      .execute(
          "CREATE TRIGGER broken BEFORE INSERT ON changes "
          "BEGIN SELECT RAISE(ABORT, 'disk I/O error'); END");
  EXPECT_THROW((void)controller_->extend(id, R"({"steps": 200})", "k"), base::Error);
  EXPECT_EQ(run(id).config, before);
  EXPECT_EQ(on_disk(id).steps, 100);
  ticks(4);
  EXPECT_EQ(state(id), runs::RunState::Succeeded);
  EXPECT_EQ(scheduler_.launches.size(), 1U);
}

TEST_F(ChangeTest, MoreStepsOfARunThatIsUnderWayComeWithAnotherAttempt) {
  const std::string id = submit();
  ticks();
  EXPECT_TRUE(controller_->change(id, R"({"steps": 200})"));
  EXPECT_EQ(on_disk(id).steps, 200);
  ticks();
  EXPECT_EQ(run(id).summary.steps, 200);
  train(id, 0, 100, 0.3);  // as it began
  EXPECT_FALSE(runs::is_over(state(id)));
  ticks(4);
  ASSERT_EQ(scheduler_.launches.size(), 2U);
  EXPECT_EQ(run(id).failures, 0);
  train(id, 100, 200, 0.3);
  EXPECT_EQ(state(id), runs::RunState::Succeeded);
  EXPECT_EQ(scheduler_.launches.size(), 2U);
  lose_the_store();
  ticks(6);
  EXPECT_EQ(state(id), runs::RunState::Succeeded);
  EXPECT_EQ(run(id).summary.steps, 200);
}

// It is in the store, and the loop has not been told of it when the attempt ends.
TEST_F(ChangeTest, MoreStepsThatComeJustBeforeTheEndAreTrained) {
  const std::string id = submit();
  ticks();
  runs::Run changed = run(id);
  changed.config = plan::with_changes(changed.config, R"({"steps": 200})").text;
  changed.changed_utc = clock_.utc_seconds();
  store::take_changes(&changed);
  store_->change_run(changed, {"steps from 100 to 200", false, true, {}});
  train(id, 0, 100, 0.3);
  EXPECT_FALSE(runs::is_over(state(id)));
  ticks(4);
  train(id, 100, 200, 0.3);
  EXPECT_EQ(state(id), runs::RunState::Succeeded);
  EXPECT_EQ(on_disk(id).steps, 200);
}

TEST_F(ChangeTest, StepsThatComeJustAfterTheEndAreRefused) {
  const std::string id = finished();
  runs::Run changed = run(id);
  changed.changed_utc = clock_.utc_seconds();
  changed.summary.steps = 200;
  expect_refused(base::Code::Conflict, "has ended meanwhile; `regatta extend --steps N`", [&] {
    store_->change_run(changed, {"steps", false, true, {}});
  });
  EXPECT_EQ(run(id).summary.steps, 100);
}

// Whoever writes the end has read the run before it was changed.
TEST_F(ChangeTest, AnEndIsNotStoredOverAChange) {
  const std::string id = submit();
  ticks();
  const runs::Run before = run(id);
  runs::Run changed = before;
  changed.changed_utc = clock_.utc_seconds();
  changed.summary.steps = 200;
  store_->change_run(changed, {"steps", false, true, {}});
  runs::Run ended = before;
  ended.state = runs::RunState::Succeeded;
  runs::Launch launch = store_->launches(before.number).back();
  launch.over = true;
  expect_refused(base::Code::Retry, "changed just as it ended",
                 [&] { store_->end_launch(ended, launch); });
  EXPECT_EQ(state(id), before.state);
  EXPECT_FALSE(store_->launches(before.number).back().over);
}

// The store is asked for what is new, and cannot answer once.
TEST_F(ChangeTest, NewsThatCouldNotBeReadAreNotLost) {
  const std::string id = submit();
  ticks();
  controller_->cancel(id);
  const base::Path file = folder_.path() / "state" / "store.sqlite";
  store::Database(file, store::Database::Access::ReadWrite)
      .execute("ALTER TABLE runs RENAME TO hidden");
  EXPECT_THROW(controller_->tick(), base::Error);
  store::Database(file, store::Database::Access::ReadWrite)
      .execute("ALTER TABLE hidden RENAME TO runs");
  ticks();
  EXPECT_EQ(scheduler_.stopped, std::vector<std::string>{"h1"});
}

TEST_F(ChangeTest, ATargetThatWasRaisedMeanwhileIsNotMet) {
  const std::string id = submit();
  ticks();
  EXPECT_TRUE(controller_->change(id, R"({"target": 0.7})"));
  ticks();
  train(id, 0, 40, 0.6, "target");
  EXPECT_FALSE(runs::is_over(state(id))) << "it has met the old one alone";
  EXPECT_EQ(run(id).summary.time_to_accuracy_seconds, std::nullopt);
  ticks(4);
  train(id, 40, 80, 0.8, "target");
  EXPECT_EQ(state(id), runs::RunState::Succeeded);
}

TEST_F(ChangeTest, ACancelledRunGoesNoFurther) {
  const std::string id = submit();
  ticks();
  EXPECT_TRUE(controller_->change(id, R"({"steps": 200})"));
  controller_->cancel(id);
  ticks();
  train(id, 0, 100, 0.3);
  EXPECT_EQ(state(id), runs::RunState::Cancelled);
  EXPECT_EQ(scheduler_.launches.size(), 1U);
}

TEST_F(ChangeTest, OfARunThatIsOverStepsAreForAnExtension) {
  const std::string id = finished();
  expect_refused(base::Code::Conflict, "is over; `regatta extend --steps N",
                 [&] { (void)controller_->change(id, R"({"steps": 200})"); });
  EXPECT_TRUE(controller_->change(id, R"({"checkpoint": {"keep_last": 9}})"));
  EXPECT_EQ(on_disk(id).keep_last, 9);
  EXPECT_FALSE(controller_->change(id, R"({"checkpoint": {"keep_last": 9}})"));
  ticks(6);
  EXPECT_EQ(state(id), runs::RunState::Succeeded);
  EXPECT_THAT(events(id, "run.changed"),
              testing::ElementsAre(": checkpoint.keep_last from 3 to 9"));
}

TEST_F(ChangeTest, StepsThatAreTrainedAlreadyAreNoEnd) {
  const std::string id = submit();
  ticks();
  JournalAuthor journal(directory(id), clock_.utc_seconds());
  journal.start(0.1);
  journal.step(1, 60);
  ticks();
  expect_refused(base::Code::Conflict, "has trained 60 steps",
                 [&] { (void)controller_->change(id, R"({"steps": 60})"); });
  EXPECT_TRUE(controller_->change(id, R"({"steps": 61})"));
}

// A change that is made while no controller's directory can be written is there when it can.
TEST_F(ChangeTest, AChangeOfARunThatIsOverOutlivesTheController) {
  const std::string id = finished();
  const std::string old_config = directory(id).run_json();
  EXPECT_TRUE(controller_->change(id, R"({"checkpoint": {"keep_last": 9}})"));
  close();
  tests::write_file(folder_.path() / "runs" / id / "run.json", old_config);
  open();
  ticks(4);
  EXPECT_EQ(on_disk(id).keep_last, 9);
  EXPECT_EQ(state(id), runs::RunState::Succeeded);
}

// It was cancelled before its extension could be written down, and so was its controller's life.
TEST_F(ChangeTest, AnUnwrittenChangeOfARunThatEndedIsWrittenLater) {
  const std::string id = finished();
  const std::string old_config = directory(id).run_json();
  EXPECT_TRUE(controller_->extend(id, R"({"steps": 200})"));
  ticks(4);
  EXPECT_TRUE(controller_->cancel(id));
  scheduler_.end(handle(), 24);
  ticks(4);
  ASSERT_EQ(state(id), runs::RunState::Cancelled);
  close();
  tests::write_file(folder_.path() / "runs" / id / "run.json", old_config);
  store::Database(folder_.path() / "state" / "store.sqlite", store::Database::Access::ReadWrite)
      .execute("UPDATE runs SET settled = 0");
  open();
  clock_.now += 1000;
  ticks(4);
  EXPECT_EQ(on_disk(id).steps, 200);
  EXPECT_EQ(state(id), runs::RunState::Cancelled);
}

class TimeLimitTest : public ChangeTest {
 protected:
  TimeLimitTest() {
    scheduler_.called = "slurm_cli";
    close();
    open();
  }
  std::string submit_limited() {
    return controller_->submit(tests::run_file() + "slurm: {time_limit: 10}\n", std::nullopt)
        .run.id;
  }
};

TEST_F(TimeLimitTest, IsToldToTheJobAndToLaterOnes) {
  const std::string id = submit_limited();
  ticks();
  EXPECT_TRUE(scheduler_.limits.empty());
  EXPECT_TRUE(controller_->change(id, R"({"slurm": {"time_limit": 30}})", {}, "token"));
  ticks();
  ASSERT_FALSE(scheduler_.limits.empty());
  EXPECT_EQ(scheduler_.limits.back(), std::pair(handle(), std::int64_t{30}));
  scheduler_.limit_answers[handle()] = {30, ""};
  ticks();
  EXPECT_THAT(events(id, "launch.limited"), testing::ElementsAre(": 30 minutes"));
  EXPECT_THAT(events(id, "run.changed"),
              testing::ElementsAre(HasSubstr("token: slurm.time_limit")));
  const std::size_t asked = scheduler_.limits.size();
  ticks();
  EXPECT_EQ(scheduler_.limits.size(), asked) << "once it has it";
  EXPECT_EQ(store_->launches(run(id).number).back().time_limit, 30);
  EXPECT_EQ(on_disk(id).slurm->time_limit_minutes, 30);
}

TEST_F(TimeLimitTest, ARefusalIsToldAsItIsAndNotAskedAgain) {
  const std::string id = submit_limited();
  ticks();
  EXPECT_TRUE(controller_->change(id, R"({"slurm": {"time_limit": 30}})"));
  ticks();
  scheduler_.limit_answers[handle()] = {30, "Access/permission denied for job 7"};
  ticks();
  EXPECT_THAT(events(id, "launch.limit_refused"),
              testing::ElementsAre(": 30 minutes: Access/permission denied for job 7"));
  const std::size_t asked = scheduler_.limits.size();
  ticks();
  EXPECT_EQ(scheduler_.limits.size(), asked);
  EXPECT_EQ(on_disk(id).slurm->time_limit_minutes, 30) << "the next job's";
  // Another wish is asked for.
  EXPECT_TRUE(controller_->change(id, R"({"slurm": {"time_limit": 5}})"));
  ticks();
  EXPECT_EQ(scheduler_.limits.back().second, 5);
}

// Killed before Slurm was told.
TEST_F(TimeLimitTest, TheNextControllerTellsIt) {
  const std::string id = submit_limited();
  ticks();
  EXPECT_TRUE(controller_->change(id, R"({"slurm": {"time_limit": 30}})"));
  close();
  open();
  ticks();
  ASSERT_FALSE(scheduler_.limits.empty());
  EXPECT_EQ(scheduler_.limits.back(), std::pair(handle(), std::int64_t{30}));
}

}  // namespace
}  // namespace regatta::orchestrator
