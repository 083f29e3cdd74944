// `regatta resume`: what is over goes on, in its directory, from its newest checkpoint.
#include <gmock/gmock.h>

#include "base/error.h"
#include "orchestrator/runs/run_records.h"
#include "orchestrator/store/database.h"
#include "tests/orchestrator/control/controller_fixture.h"
#include "tests/shared_data.h"
#include "trainer/contract/exit_code.h"

namespace regatta::orchestrator {
namespace {

using testing::HasSubstr;
using tests::JournalAuthor;

class ResumeTest : public ControllerFixture {
 protected:
  ResumeTest() : ControllerFixture(1) {}

  std::string handle() const { return "h" + std::to_string(scheduler_.launches.size()); }
  // A run whose launch has ended so.
  std::string ended(int code) {
    const std::string id = submit();
    ticks();
    scheduler_.end(handle(), code);
    ticks(4);
    EXPECT_TRUE(runs::is_over(state(id)));
    return id;
  }
  void expect_refused(const std::string& id, const std::string& why) {
    try {
      (void)controller_->resume(id);
      FAIL() << why;
    } catch (const base::Error& error) {
      EXPECT_EQ(error.code(), base::Code::Conflict);
      EXPECT_THAT(error.what(), HasSubstr(why));
    }
  }
};

// Whether it was lost with its directory, or the directory was removed later.
TEST_F(ResumeTest, IsRefusedWhereItsDirectoryIsGone) {
  const std::string over = ended(24), lost = submit();
  const std::string waiting = submit();
  ticks();
  for (const std::string& id : {over, lost}) std::filesystem::remove_all(run(id).directory);
  ticks();
  scheduler_.end_by_signal("h2", 9);
  ticks();
  ASSERT_EQ(state(lost), runs::RunState::Failed);
  ASSERT_EQ(state(waiting), runs::RunState::Starting);
  std::filesystem::rename(run(waiting).directory, folder_.path() / "moved");
  submit();
  for (const std::string& id : {over, lost, waiting}) {
    const std::string why = "run " + id + " cannot go on: its directory " + run(id).directory +
                            " is gone; `regatta rm " + id + "` forgets it";
    if (id != waiting) expect_refused(id, why);
    for (const auto& ask : {&control::Controller::extend, &control::Controller::change}) {
      try {
        (controller_.get()->*ask)(id, R"({"steps": 500})", std::nullopt, "");
        ADD_FAILURE() << id;
      } catch (const base::Error& error) {
        EXPECT_EQ(error.code(), base::Code::Conflict);
        EXPECT_EQ(error.what(), why);
      }
    }
    try {
      (void)controller_->requeue(id);
      ADD_FAILURE() << id;
    } catch (const base::Error& error) {
      EXPECT_EQ(error.what(), why);
    }
    EXPECT_NE(run(id).wanted, runs::Wanted::Resume);
  }
  EXPECT_FALSE(controller_->remove(over, {}).had_directory);
}

struct Over {
  const char* name;
  int code;
  bool cancel;
  runs::RunState state;
};
class Ended : public ResumeTest, public testing::WithParamInterface<Over> {};
TEST_P(Ended, GoesOn) {
  const std::string id = submit();
  ticks();
  JournalAuthor first(directory(id), clock_.utc_seconds());
  first.start(0.1);
  first.step(1, 1);
  if (GetParam().cancel) controller_->cancel(id);
  ticks();
  first.end(2, GetParam().code);
  scheduler_.end(handle(), GetParam().code);
  ticks(4);
  ASSERT_EQ(state(id), GetParam().state);
  clock_.now += 1000;
  EXPECT_TRUE(controller_->resume(id));
  ticks();
  EXPECT_EQ(state(id), runs::RunState::Starting);
  EXPECT_EQ(run(id).error, "");
  EXPECT_EQ(run(id).ended_utc, std::nullopt);
  EXPECT_EQ(run(id).failures, 0);
  ASSERT_EQ(scheduler_.launches.size(), 2U);
  EXPECT_EQ(scheduler_.launches[1].run_directory, directory(id).path());
  EXPECT_NE(scheduler_.launches[1].token, scheduler_.launches[0].token);
  JournalAuthor second(directory(id), clock_.utc_seconds());
  second.start(0.1);
  second.step(1, 2);
  ticks();
  EXPECT_EQ(state(id), runs::RunState::Running);
  EXPECT_EQ(run(id).summary.step, 2) << "the same curve";
  second.end(2, 0);
  scheduler_.end(handle(), 0);
  ticks(4);
  EXPECT_EQ(state(id), runs::RunState::Succeeded);
  // A lost store knows no older end.
  lose_the_store();
  ticks(4);
  EXPECT_EQ(state(id), runs::RunState::Succeeded);
  EXPECT_EQ(scheduler_.launches.size(), 2U);
}
INSTANTIATE_TEST_SUITE_P(Controller, Ended,
                         testing::Values(Over{"stopped", 24, false, runs::RunState::Stopped},
                                         Over{"cancelled", 24, true, runs::RunState::Cancelled},
                                         Over{"failed", 20, false, runs::RunState::Failed}),
                         [](const auto& each) { return std::string(each.param.name); });

// The controller is killed before its loop has written anything of it.
TEST_F(ResumeTest, BeginsAnewAlsoWhereTheStoreIsLost) {
  const std::string id = submit();
  for (int i = 0; i < 5; ++i) {
    ticks();
    scheduler_.end(handle(), 22);
    ticks(4);
    clock_.now += 100;
  }
  ticks();
  ASSERT_EQ(state(id), runs::RunState::Failed);
  ASSERT_GT(run(id).failures, 0);
  EXPECT_TRUE(controller_->resume(id));
  lose_the_store();
  EXPECT_FALSE(runs::is_over(state(id)));
  EXPECT_EQ(run(id).failures, 0);
  EXPECT_EQ(run(id).ended_utc, std::nullopt);
  EXPECT_EQ(run(id).error, "");
  ticks();
  scheduler_.end(handle(), 22);
  ticks(4);
  EXPECT_FALSE(runs::is_over(state(id))) << "one early end is not five";
}

// The controller may write that a run is read to its end just after a user has resumed it.
TEST_F(ResumeTest, GoesOnAlsoWhereItWasNotedToBeReadToItsEnd) {
  const std::string id = ended(20);
  EXPECT_TRUE(controller_->resume(id));
  store::Database(folder_.path() / "state" / "store.sqlite", store::Database::Access::ReadWrite)
      .execute("UPDATE runs SET drained = 1");
  ticks(4);
  EXPECT_EQ(scheduler_.launches.size(), 2U);
}

// Else it would be taken up once more when it has come to its end, by a controller that has only
// the store.
TEST_F(ResumeTest, IsNotStartedBeforeTheStoreSaysThatItGoesOn) {
  const std::string id = ended(20);
  const auto tell_store = [this](const std::string& sql) {
    store::Database(folder_.path() / "state" / "store.sqlite", store::Database::Access::ReadWrite)
        .execute(sql);
  };
  EXPECT_TRUE(controller_->resume(id));
  tell_store(
      "CREATE TRIGGER broken BEFORE UPDATE OF state ON runs "
      "BEGIN SELECT RAISE(ABORT, 'disk I/O error'); END");
  ticks(4);
  EXPECT_EQ(scheduler_.launches.size(), 1U);
  EXPECT_EQ(run(id).wanted, runs::Wanted::Resume);
  tell_store("DROP TRIGGER broken");
  ticks(4);
  EXPECT_EQ(scheduler_.launches.size(), 2U);
  EXPECT_EQ(run(id).wanted, runs::Wanted::Run);
  scheduler_.end(handle(), 0);
  ticks(4);
  close();
  open();
  ticks(4);
  EXPECT_EQ(state(id), runs::RunState::Succeeded);
  EXPECT_EQ(scheduler_.launches.size(), 2U);
}

TEST_F(ResumeTest, AsksSlurmForSomethingElse) {
  const std::string id = ended(24);
  const auto slurm = [&](const std::string& text) {
    return trainer::contract::parse_run_config(text, "run.json")
        .slurm.value_or(trainer::contract::SlurmResources{});
  };
  const std::string before = run(id).config;
  for (const char* bad :
       {R"({"steps": 5})", R"({"slurm": {"memory_per_nod": "1G"}})", "[]", "x",
        R"({"slurm": {"nodes": 3}})", R"({"slurm": 5})", R"({"slurm": {}, "seed": 1})"}) {
    try {
      (void)controller_->resume(id, bad);
      FAIL() << bad;
    } catch (const base::Error& error) {
      EXPECT_EQ(error.code(), base::Code::User) << bad << error.what();
    }
    EXPECT_TRUE(runs::is_over(state(id)));
    EXPECT_EQ(run(id).wanted, runs::Wanted::Run);
    EXPECT_EQ(run(id).config, before);
  }
  EXPECT_TRUE(controller_->resume(
      id, R"({"slurm": {"memory_per_node": "64G", "qos": "long", "environment": {"A": "1"}}})"));
  // Before the loop has seen the first: only one of two may be told yes.
  try {
    (void)controller_->resume(id, R"({"slurm": {"qos": "short"}})");
    FAIL() << "it is resumed already";
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), base::Code::Conflict);
  }
  EXPECT_TRUE(controller_->resume(id)) << "which changes nothing";
  const std::string written = tests::file_text(base::Path(run(id).directory) / "run.json");
  EXPECT_EQ(slurm(written).memory_per_node_mib, 64 * 1024);
  EXPECT_EQ(slurm(run(id).config).qos, "long");
  ticks();
  EXPECT_EQ(state(id), runs::RunState::Starting);
  EXPECT_FALSE(controller_->resume(id, "{}")) << "it asks for nothing else";
  EXPECT_FALSE(controller_->resume(id, R"({"slurm": {"qos": "long"}})"));
  try {
    (void)controller_->resume(id, R"({"slurm": {"qos": "other"}})");
    FAIL() << "its job has begun";
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), base::Code::Conflict);
  }
  EXPECT_EQ(slurm(run(id).config).qos, "long") << "nothing else of it has overwritten that";
  lose_the_store();
  EXPECT_EQ(slurm(run(id).config).memory_per_node_mib, 64 * 1024);
}

// Where run.json cannot be written, nothing is started by the old one.
TEST_F(ResumeTest, WhatItAsksForIsWrittenBeforeAnythingStarts) {
  const std::string id = ended(24);
  const std::size_t launches = scheduler_.launches.size();
  const base::Path file = base::Path(run(id).directory) / "run.json";
  const base::Path aside = folder_.path() / "run.json";
  std::filesystem::rename(file, aside);
  std::filesystem::create_directory(file);
  EXPECT_TRUE(controller_->resume(id, R"({"slurm": {"qos": "long"}})"));
  ticks(6);
  EXPECT_EQ(scheduler_.launches.size(), launches);
  EXPECT_THAT(run(id).config, HasSubstr("\"long\""));
  std::filesystem::remove(file);
  std::filesystem::rename(aside, file);
  clock_.now += 100;
  ticks(6);
  EXPECT_THAT(tests::file_text(file), HasSubstr("\"long\""));
  EXPECT_EQ(scheduler_.launches.size(), launches + 1);
}

// A run that was resumed and cancelled before its job began ended when it was cancelled.
TEST_F(ResumeTest, ARunEndsNotBeforeItsLastLaunchBegan) {
  const std::string id = submit();
  ticks();
  JournalAuthor journal(directory(id), clock_.utc_seconds());
  journal.start(0.1);
  journal.step(1, 1);
  journal.end(2, 24);
  scheduler_.end("h1", 24);
  ticks();
  ASSERT_TRUE(runs::is_over(state(id)));
  clock_.now += 4 * 86'400;
  const double resumed = clock_.utc_seconds();
  ASSERT_TRUE(controller_->resume(id));
  ticks();
  scheduler_.reports["h2"].state = runs::ProcessState::Waiting;
  controller_->cancel(id);
  ticks();
  scheduler_.reports["h2"].state = runs::ProcessState::Gone;
  ticks();
  ASSERT_EQ(state(id), runs::RunState::Cancelled);
  EXPECT_GE(run(id).ended_utc.value_or(0), resumed);
}

TEST_F(ResumeTest, MergesMappingsAndTakesKeysAway) {
  const std::string id = ended(24);
  const auto slurm = [&] {
    return trainer::contract::parse_run_config(run(id).config, "run.json").slurm.value();
  };
  EXPECT_TRUE(controller_->resume(id, R"({"slurm": {"environment": {"A": "1", "B": "2"}}})"));
  ticks();
  scheduler_.end(handle(), 24);
  ticks(4);
  EXPECT_TRUE(controller_->resume(id, R"({"slurm": {"environment": {"A": "3", "B": null}}})"));
  EXPECT_THAT(slurm().environment, testing::ElementsAre(std::pair("A", "3")));
}

TEST_F(ResumeTest, WhatGoesOnIsLeftAlone) {
  const std::string id = submit();
  EXPECT_FALSE(controller_->resume(id));
  ticks();
  EXPECT_FALSE(controller_->resume(id));
  EXPECT_EQ(scheduler_.launches.size(), 1U);
  EXPECT_THROW((void)controller_->resume("nobody"), base::Error);
}

TEST_F(ResumeTest, IsRefusedWhereNothingCanBeResumed) {
  expect_refused(ended(0), "reached its end");
  const std::string stopping = submit();
  ticks();
  controller_->cancel(stopping);
  ticks();
  expect_refused(stopping, "is stopping");
  const auto by_hand = trainer::contract::RunDirectory::create(
      base::posix_file_system(), folder_.path() / "runs" / "mine", tests::run_file());
  JournalAuthor journal(by_hand, clock_.utc_seconds());
  journal.start(0.1);
  journal.end(1, 24);
  clock_.now += 11;
  ticks(4);
  ASSERT_EQ(state("mine"), runs::RunState::Stopped);
  expect_refused("mine", "regatta-train run --directory");
}

TEST_F(ResumeTest, TwiceIsOnce) {
  const std::string id = ended(24);
  EXPECT_TRUE(controller_->resume(id));
  EXPECT_TRUE(controller_->resume(id)) << "it is not over for sure";
  ticks(4);
  EXPECT_EQ(scheduler_.launches.size(), 2U);
}

TEST_F(ResumeTest, ItFailsAgainForWhatMadeItFail) {
  const std::string id = ended(20);
  controller_->resume(id);
  ticks();
  scheduler_.end(handle(), 20);
  ticks(4);
  EXPECT_EQ(state(id), runs::RunState::Failed);
  EXPECT_TRUE(controller_->resume(id));
}

TEST_F(ResumeTest, CountsItsFailuresAnew) {
  const std::string id = submit();
  const auto fail = [&] {
    clock_.now += 100;
    ticks();
    scheduler_.end(handle(), 22);
    ticks(4);
  };
  for (int i = 0; i < 5; ++i) fail();
  ASSERT_EQ(state(id), runs::RunState::Failed);
  controller_->resume(id);
  fail();
  EXPECT_EQ(state(id), runs::RunState::Queued);
  EXPECT_EQ(run(id).failures, 1);
}

// Acknowledged, and the controller is killed before it has taken the wish up; with its store, too.
TEST_F(ResumeTest, OutlivesTheController) {
  for (const bool store_is_lost : {false, true}) {
    const std::string id = ended(24);
    const std::size_t launches = scheduler_.launches.size();
    EXPECT_TRUE(controller_->resume(id));
    if (store_is_lost) {
      lose_the_store();
    } else {
      close();
      open();
    }
    ticks(4);
    EXPECT_EQ(state(id), runs::RunState::Starting) << store_is_lost;
    EXPECT_EQ(scheduler_.launches.size(), launches + 1) << store_is_lost;
    scheduler_.end(handle(), 0);
    ticks(4);
    EXPECT_EQ(state(id), runs::RunState::Succeeded);
  }
}

TEST_F(ResumeTest, CanBeCancelledBeforeItHasBegun) {
  const std::string id = ended(24);
  EXPECT_TRUE(controller_->resume(id));
  EXPECT_TRUE(controller_->cancel(id));
  ticks(4);
  EXPECT_TRUE(runs::is_over(state(id)));
  EXPECT_EQ(scheduler_.launches.size(), 1U);
}

TEST_F(ResumeTest, WhatAKilledControllerHadTakenUpIsWrittenDownByTheNext) {
  const std::string id = submit();
  ticks();
  controller_->cancel(id);
  ticks();
  scheduler_.end(handle(), 24);
  ticks(4);
  ASSERT_EQ(state(id), runs::RunState::Cancelled);
  const base::Path path = run(id).directory;
  const std::string submission = base::posix_file_system().read(path / "submission.json", 65536);
  const std::string recorded = base::posix_file_system().read(path / "state.json", 65536);
  EXPECT_TRUE(controller_->resume(id));
  scheduler_.away = "Slurm does not answer";
  ticks();
  ASSERT_EQ(state(id), runs::RunState::Queued);
  close();
  tests::write_file(path / "submission.json", submission);  // as if it had been killed before
  tests::write_file(path / "state.json", recorded);
  open();
  ticks(4);
  lose_the_store();
  scheduler_.away.clear();
  ticks(4);
  EXPECT_EQ(state(id), runs::RunState::Starting);
}

}  // namespace
}  // namespace regatta::orchestrator
