// Runs that belong to another scheduler than the controller's: shown, and otherwise left alone.
#include <gmock/gmock.h>

#include "base/error.h"
#include "orchestrator/runs/run_records.h"
#include "tests/orchestrator/control/controller_fixture.h"

namespace regatta::orchestrator {
namespace {

using testing::HasSubstr;
using tests::JournalAuthor;

class ForeignTest : public ControllerFixture {
 protected:
  ForeignTest() : ControllerFixture(1) {}

  // Slurm's, in whose controller it was submitted.
  std::string submit_to_slurm(bool started) {
    restart("slurm_cli");
    scheduler_.refuse_for_now = !started;
    const std::string id = submit();
    ticks();
    scheduler_.refuse_for_now = false;
    EXPECT_EQ(run(id).scheduler, "slurm");
    launches_ = scheduler_.launches.size();
    return id;
  }
  void restart(const std::string& scheduler) {
    close();
    scheduler_.called = scheduler;
    open();
  }
  void wait_long() {
    for (int i = 0; i < 20; ++i) {
      clock_.now += 60;
      ticks();
    }
  }

  std::size_t launches_ = 0;
};

TEST_F(ForeignTest, AHealthyJobIsLeftAlone) {
  const std::string id = submit_to_slurm(true);
  JournalAuthor journal(directory(id), clock_.utc_seconds());
  journal.start(0.1);
  journal.step(1, 1);
  ticks();
  ASSERT_EQ(state(id), runs::RunState::Running);
  restart("local");
  scheduler_.reports.clear();  // a process of that handle is not here
  wait_long();
  journal.step(2, 2);
  ticks();
  EXPECT_EQ(state(id), runs::RunState::Running);
  EXPECT_EQ(run(id).summary.step, 2) << "its journal is read";
  EXPECT_THAT(run(id).reason, HasSubstr("belongs to Slurm"));
  EXPECT_EQ(scheduler_.launches.size(), launches_) << "started beside it";
  EXPECT_TRUE(scheduler_.stopped.empty());
  EXPECT_TRUE(scheduler_.killed.empty());
  restart("slurm_cli");
  scheduler_.end("h1", 0);
  ticks();
  EXPECT_EQ(state(id), runs::RunState::Succeeded);
  EXPECT_EQ(run(id).reason, "");
}

TEST_F(ForeignTest, WhatTheOtherControllerSaidIsForgotten) {
  const std::string id = submit_to_slurm(false);
  restart("local");
  ticks();
  ASSERT_THAT(run(id).reason, HasSubstr("belongs to Slurm"));
  scheduler_.refuse_for_now = true;
  restart("slurm_cli");
  ticks();
  EXPECT_THAT(run(id).reason, testing::Not(HasSubstr("belongs to")));
}

TEST_F(ForeignTest, ALostStoreChangesNothing) {
  const std::string id = submit_to_slurm(true);
  scheduler_.called = "local";
  scheduler_.reports.clear();
  lose_the_store();
  wait_long();
  EXPECT_EQ(run(id).scheduler, "slurm");
  EXPECT_EQ(state(id), runs::RunState::Starting);
  EXPECT_EQ(scheduler_.launches.size(), launches_);
}

TEST_F(ForeignTest, OneThatWaitsKeepsNoOtherFromItsPlace) {
  const std::string id = submit_to_slurm(false);
  restart("local");
  ASSERT_EQ(launches_, 0U);
  const std::string own = submit();
  wait_long();
  EXPECT_EQ(state(id), runs::RunState::Queued);
  EXPECT_THAT(run(id).reason, HasSubstr("--scheduler slurm_cli"));
  EXPECT_EQ(run(own).scheduler, "local");
  EXPECT_EQ(state(own), runs::RunState::Starting);
  EXPECT_EQ(scheduler_.launches.size(), 1U);
}

TEST_F(ForeignTest, AJobTakesNoPlaceOfAProcess) {
  submit_to_slurm(true);
  restart("local");
  const std::string own = submit();
  ticks();
  EXPECT_EQ(state(own), runs::RunState::Starting);
}

TEST_F(ForeignTest, IsCancelledWhereNothingOfItRuns) {
  const std::string waits = submit_to_slurm(false);
  restart("local");
  EXPECT_TRUE(controller_->cancel(waits));
  ticks();
  EXPECT_EQ(state(waits), runs::RunState::Cancelled);
}

TEST_F(ForeignTest, ACancellationThatNobodyCouldCarryOutIsRefused) {
  const std::string runs = submit_to_slurm(true);
  restart("local");
  try {
    (void)controller_->cancel(runs);
    FAIL() << "nobody would end it";
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), base::Code::Conflict);
    EXPECT_THAT(error.what(), HasSubstr("belongs to Slurm"));
  }
}

TEST_F(ForeignTest, AProcessIsNoJob) {
  restart("local");
  const std::string id = submit();
  ticks();
  restart("slurm_cli");
  scheduler_.reports.clear();
  wait_long();
  EXPECT_EQ(scheduler_.launches.size(), 1U);
  EXPECT_THAT(run(id).reason, HasSubstr("--scheduler local"));
}

// Before runs knew their scheduler, the handle of a launch told it.
TEST_F(ForeignTest, AnOlderRecordIsUnderstood) {
  restart("slurm_cli");
  const std::string id = submit();
  ticks();
  auto submission = *runs::read_submission(base::posix_file_system(), run(id).directory);
  EXPECT_EQ(std::exchange(submission.scheduler, ""), "slurm");
  runs::write_submission(base::posix_file_system(), run(id).directory, submission);
  for (const auto& [handle, scheduler] : std::map<std::string, std::string>{
           {"slurm:12:0123456789abcdef", "slurm"}, {"4711:815:b4a3ee3c-boot", "local"}, {"", ""}}) {
    runs::Launch launch =
        runs::read_launches(base::posix_file_system(), directory(id).path()).at(0);
    launch.handle = handle;
    runs::write_launch(base::posix_file_system(), directory(id).path(), launch);
    scheduler_.called = "else";
    lose_the_store();
    EXPECT_EQ(run(id).scheduler, scheduler) << handle;
  }
}

TEST_F(ForeignTest, NothingIsStartedWhileTheSchedulerIsAway) {
  scheduler_.away = "Slurm has not answered yet";
  const std::string id = submit();
  wait_long();
  EXPECT_EQ(state(id), runs::RunState::Queued);
  EXPECT_EQ(run(id).reason, "Slurm has not answered yet");
  EXPECT_TRUE(scheduler_.launches.empty());
  scheduler_.away.clear();
  ticks();
  EXPECT_EQ(state(id), runs::RunState::Starting);
  EXPECT_EQ(run(id).failures, 0);
}

}  // namespace
}  // namespace regatta::orchestrator
