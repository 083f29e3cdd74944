// Runs that somebody else starts while the controller lives: found, followed, never started or
// ended.
#include <gmock/gmock.h>

#include <algorithm>

#include "base/error.h"
#include "orchestrator/control/run_reading.h"
#include "orchestrator/runs/run_records.h"
#include "tests/orchestrator/control/controller_fixture.h"

namespace regatta::orchestrator {
namespace {

using testing::HasSubstr;
using tests::JournalAuthor;

class AdoptTest : public ControllerFixture {
 protected:
  AdoptTest() : ControllerFixture(2) { ticks(); }

  trainer::contract::RunDirectory make(const std::string& name,
                                       const std::map<std::string, std::string>& beside = {}) {
    return trainer::contract::RunDirectory::create(
        base::posix_file_system(), folder_.path() / "runs" / name, tests::run_file(), beside);
  }
  // Begun now, on this machine or on another one.
  JournalAuthor begin(const trainer::contract::RunDirectory& directory, const std::string& host) {
    JournalAuthor journal(directory, clock_.utc_seconds());
    trainer::contract::StartRecord record;
    record.host = host;
    journal.start(0.1, 0, 77, record);
    return journal;
  }
  // Ticks as often as looks at the runs directory are made.
  void pass(double seconds) {
    for (const double end = clock_.now + seconds; clock_.now < end;) {
      clock_.now += std::min(10.0, end - clock_.now);
      ticks();
    }
  }
};

TEST_F(AdoptTest, FindsARunThatIsStartedByHand) {
  const trainer::contract::RunDirectory directory = make("mine");
  pass(11);
  EXPECT_EQ(store_->run("mine"), std::nullopt) << "nothing has begun";
  scheduler_.reports["p77"] = {runs::ProcessState::Running, std::nullopt, std::nullopt};
  JournalAuthor journal = begin(directory, "");
  journal.step(1, 1);
  pass(11);
  EXPECT_EQ(state("mine"), runs::RunState::Running);
  EXPECT_EQ(run("mine").summary.step, 1);
  journal.end(2, 0);
  scheduler_.reports.clear();
  ticks();
  EXPECT_EQ(state("mine"), runs::RunState::Succeeded);
  EXPECT_TRUE(scheduler_.launches.empty());
}

TEST_F(AdoptTest, LeavesARunThatIsBeingSubmitted) {
  const runs::SubmissionRecord submission{"theirs", 1, runs::Wanted::Run, std::nullopt, ""};
  begin(make("theirs", {{runs::kSubmissionName, runs::submission_text(submission)}}), "");
  pass(11);
  EXPECT_TRUE(store_->ids().empty());
}

TEST_F(AdoptTest, TellsOfWhatCannotBeReadAndGoesOn) {
  std::filesystem::create_directories(folder_.path() / "runs" / "bad" / "attempts");
  tests::write_file(folder_.path() / "runs" / "bad" / "run.json", "{}");
  begin(trainer::contract::RunDirectory::open(base::posix_file_system(),
                                              folder_.path() / "runs" / "bad"),
        "");
  tests::write_file(folder_.path() / "runs" / "bad" / "run.json", "{\"steps\": \"many\"}");
  scheduler_.reports["p77"] = {runs::ProcessState::Running, std::nullopt, std::nullopt};
  begin(make("good"), "");
  pass(11);
  EXPECT_EQ(state("good"), runs::RunState::Running);
  EXPECT_EQ(store_->run("bad"), std::nullopt);
}

// As it would begin under another name, or not at all: it waits, with a line in the log, until
// somebody has seen to it.
TEST_F(AdoptTest, ARunWithADamagedRecordWaitsUntilItIsMended) {
  const runs::SubmissionRecord submission{"r", clock_.utc_seconds(), runs::Wanted::Run, {}, "x"};
  const base::Path path =
      make("r", {{runs::kSubmissionName, runs::submission_text(submission)}}).path();
  runs::Launch launch;
  launch.number = 1;
  launch.token = "a1";
  runs::write_launch(base::posix_file_system(), path, launch);
  runs::write_state(base::posix_file_system(), path, {runs::RunState::Succeeded, "", 5.0, 0, 3, 1});
  struct Row {
    const char* file;
    const char* text;
    const char* said;
  };
  for (const Row& row :
       {Row{"submission.json", R"({"id": "r", "created_utc": "soon"})",
            "its created_utc is \"soon\""},
        Row{"submission.json", "{\"id\": \"r\",", "it holds no JSON object"},
        Row{"launches/1.json", R"({"number": 1, "token": 3})", "its token is 3"}}) {
    SCOPED_TRACE(std::string(row.file) + ": " + row.text);
    const std::string good = base::posix_file_system().read(path / row.file, 65536);
    tests::write_file(path / row.file, row.text);
    try {
      (void)control::read_found(base::posix_file_system(), path);
      ADD_FAILURE() << "read";
    } catch (const base::Error& error) {
      EXPECT_EQ(
          std::string(error.what())
              .find(std::string(row.file) + " is damaged: " + row.said + "; mend it, or remove it"),
          0u)
          << error.what();
    }
    lose_the_store();
    ticks();
    pass(11);
    EXPECT_EQ(store_->run("r"), std::nullopt);
    tests::write_file(path / row.file, good);
  }
  pass(11);
  EXPECT_EQ(state("r"), runs::RunState::Succeeded);
}

TEST_F(AdoptTest, FollowsTheJournalOfARunElsewhere) {
  JournalAuthor journal = begin(make("far"), "other-machine");
  pass(11);
  EXPECT_EQ(state("far"), runs::RunState::Running);
  for (int i = 1; i <= 3; ++i) {
    pass(control::kSilentSeconds - 100);
    journal.step(i * 500, i);
    ticks();
    EXPECT_EQ(state("far"), runs::RunState::Running) << i;
  }
  journal.end(2000, 0);
  ticks();
  EXPECT_EQ(state("far"), runs::RunState::Succeeded);
}

TEST_F(AdoptTest, ASilentJournalIsAnEnd) {
  begin(make("far"), "other-machine");
  pass(11);
  pass(control::kSilentSeconds);
  EXPECT_EQ(state("far"), runs::RunState::Stopped);
  EXPECT_THAT(run("far").error, HasSubstr("its journal has been silent for 10 min"));
}

TEST_F(AdoptTest, WhatWasWrittenWhileNoControllerLookedIsNoSilence) {
  JournalAuthor journal = begin(make("far"), "other-machine");
  pass(11);
  close();
  clock_.now += 2 * control::kSilentSeconds;
  journal.step(2 * control::kSilentSeconds, 7);
  open();
  ticks();
  EXPECT_EQ(state("far"), runs::RunState::Running);
  EXPECT_EQ(run("far").summary.step, 7);
}

TEST_F(AdoptTest, WhatWasSilentAndGoesOnIsShownAgain) {
  JournalAuthor journal = begin(make("far"), "other-machine");
  pass(control::kSilentSeconds + 30);
  EXPECT_EQ(state("far"), runs::RunState::Stopped);
  journal.step(700, 3);
  pass(70);
  EXPECT_EQ(state("far"), runs::RunState::Running);
  journal.end(800, 0);
  ticks();
  EXPECT_EQ(state("far"), runs::RunState::Succeeded);
}

TEST_F(AdoptTest, AClockThatIsBehindIsNoSilence) {
  const trainer::contract::RunDirectory directory = make("far");
  begin(directory, "other-machine").end(2, 25);
  pass(11);
  JournalAuthor second(directory, clock_.utc_seconds() - 5 * control::kSilentSeconds);
  trainer::contract::StartRecord record;
  record.host = "slow-clock";
  second.start(0.1, 0, 78, record);
  pass(70);
  EXPECT_EQ(state("far"), runs::RunState::Running);
}

TEST_F(AdoptTest, TwoAttemptsAtOnceEndWithTheOneThatWasNotFenced) {
  const trainer::contract::RunDirectory directory = make("far");
  JournalAuthor first = begin(directory, "other-machine");
  JournalAuthor second = begin(directory, "third-machine");
  pass(11);
  second.end(1, 23);
  ticks();
  first.end(1, 23);
  pass(100);
  EXPECT_EQ(state("far"), runs::RunState::Stopped);
  EXPECT_LE(store_->launches(run("far").number).size(), 3U) << "no launch a tick";
}

TEST_F(AdoptTest, ADirectoryMadeAnewKeepsTheOldRun) {
  const base::Path path = folder_.path() / "runs" / "far";
  const trainer::contract::RunDirectory directory = make("far");
  begin(directory, "other-machine").end(1, 0);
  begin(directory, "other-machine").end(1, 0);
  pass(11);
  ASSERT_EQ(state("far"), runs::RunState::Succeeded);
  std::filesystem::remove_all(path);
  begin(make("far"), "other-machine");
  pass(200);
  EXPECT_EQ(state("far"), runs::RunState::Succeeded);
  EXPECT_EQ(store_->launches(run("far").number).size(), 1U);
}

TEST_F(AdoptTest, WhatRunsElsewhereTakesNoPlace) {
  begin(make("far"), "other-machine");
  begin(make("farther"), "other-machine");
  pass(11);
  const std::string first = submit();
  const std::string second = submit();
  ticks();
  EXPECT_EQ(state(first), runs::RunState::Starting);
  EXPECT_EQ(state(second), runs::RunState::Starting);
}

TEST_F(AdoptTest, AProcessHereThatCannotBeNamedIsFollowedUntilItIsGone) {
  JournalAuthor journal = begin(make("near"), "");
  pass(11);
  EXPECT_EQ(state("near"), runs::RunState::Running) << "by a relative path, say";
  close();
  scheduler_.gone.insert(77);
  lose_the_store();
  ticks();
  EXPECT_EQ(state("near"), runs::RunState::Stopped);
}

TEST_F(AdoptTest, SilenceCountsFromTheLastRecordForANewController) {
  begin(make("far"), "other-machine");
  pass(11);
  close();
  clock_.now += control::kSilentSeconds;
  open();
  ticks();
  EXPECT_EQ(state("far"), runs::RunState::Stopped);
}

TEST_F(AdoptTest, ARequeuedJobGoesOn) {
  const trainer::contract::RunDirectory directory = make("far");
  JournalAuthor first = begin(directory, "other-machine");
  first.step(1, 1);
  first.checkpoint(1.5, 1);
  first.end(2, 25);
  pass(11);
  EXPECT_EQ(state("far"), runs::RunState::Stopped);
  pass(70);
  EXPECT_EQ(state("far"), runs::RunState::Stopped) << "nothing has begun again";
  JournalAuthor second(directory, clock_.utc_seconds());
  pass(70);
  EXPECT_EQ(state("far"), runs::RunState::Stopped) << "its journal is empty";
  trainer::contract::StartRecord record;
  record.host = "third-machine";
  second.start(0.1, 1, 78, record);
  second.step(1, 2);
  pass(70);
  EXPECT_EQ(state("far"), runs::RunState::Running);
  EXPECT_EQ(run("far").summary.step, 2);
  EXPECT_EQ(run("far").ended_utc, std::nullopt);
  second.end(2, 0);
  ticks();
  EXPECT_EQ(state("far"), runs::RunState::Succeeded);
  EXPECT_TRUE(scheduler_.launches.empty());
}

TEST_F(AdoptTest, AnAttemptBetweenTwoLooksCountsToo) {
  const trainer::contract::RunDirectory directory = make("far");
  begin(directory, "other-machine").end(2, 24);
  pass(11);
  EXPECT_EQ(state("far"), runs::RunState::Stopped);
  JournalAuthor second = begin(directory, "other-machine");
  second.step(1, 5);
  second.end(2, 0);
  pass(70);
  EXPECT_EQ(state("far"), runs::RunState::Succeeded);
  EXPECT_EQ(run("far").summary.step, 5);
}

TEST_F(AdoptTest, WhatIsOnlyKnownByItsJournalCannotBeCancelled) {
  begin(make("far"), "other-machine");
  pass(11);
  try {
    (void)controller_->cancel("far");
    FAIL() << "nobody would end it";
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), base::Code::Conflict);
    EXPECT_THAT(error.what(), HasSubstr("scancel"));
  }
  EXPECT_EQ(state("far"), runs::RunState::Running);
  EXPECT_TRUE(scheduler_.stopped.empty());
}

TEST_F(AdoptTest, NoKeyIsTakenWhileItsRunCannotBeRead) {
  const auto submit = [this](const std::string& name) {
    return controller_->submit("name: " + name + "\nsteps: 100\ndata: {path: /nowhere}\n",
                               "key-of-" + name);
  };
  const std::string id = submit("demo").run.id;
  const base::Path run_json = folder_.path() / "runs" / id / "run.json";
  std::filesystem::rename(run_json, run_json.string() + ".aside");
  std::filesystem::create_symlink("run.json", run_json);  // cannot be read
  lose_the_store();
  ticks();
  try {
    (void)submit("demo");
    FAIL() << "another run was made";
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), base::Code::Retry);
    EXPECT_THAT(error.what(), HasSubstr(id + " cannot be read, and may be of this key"));
  }
  EXPECT_TRUE(submit("other").created) << "that one is certainly not there";
  std::filesystem::rename(run_json.string() + ".aside", run_json);
  pass(11);
  EXPECT_EQ(submit("demo").run.id, id);
  EXPECT_FALSE(submit("demo").created);
}

// A backup beside the run has its token and its key.
TEST_F(AdoptTest, ACopyOfARunIsLeftAlone) {
  const std::string id = controller_->submit(tests::run_file(), "key").run.id;
  ticks();
  ASSERT_EQ(scheduler_.launches.size(), 1U);
  const base::Path runs = folder_.path() / "runs";
  for (const char* copy : {"a-copy", "zz-copy"}) {
    std::filesystem::copy(runs / id, runs / copy, std::filesystem::copy_options::recursive);
  }
  for (const bool store_is_lost : {false, true}) {
    store_is_lost ? lose_the_store() : (close(), open());
    pass(30);
    EXPECT_EQ(store_->ids(), std::vector<std::string>{id});
    EXPECT_EQ(run(id).wanted, runs::Wanted::Run);
    EXPECT_EQ(store_->submitted_with("key")->id, id);
    EXPECT_TRUE(scheduler_.killed.empty() && scheduler_.stopped.empty());
  }
  EXPECT_EQ(scheduler_.launches.size(), 1U);
}

// The key's run goes by another name, and nothing else has it.
TEST_F(AdoptTest, ARunThatWasRenamedIsTheRun) {
  const std::string id = submit();
  ticks();
  close();
  std::filesystem::rename(folder_.path() / "runs" / id, folder_.path() / "runs" / "renamed");
  lose_the_store();
  ticks();
  EXPECT_EQ(store_->ids(), std::vector<std::string>{"renamed"});
}

TEST_F(AdoptTest, ATimeThatCannotBeCountsAsNotKnown) {
  const double now = clock_.utc_seconds();
  const std::vector<double> bad{-1, 0, -1e308, 1e308, now + 3 * 86400};
  for (std::size_t i = 0; i < bad.size(); ++i) {
    const std::string id = "bad-" + std::to_string(i);
    runs::SubmissionRecord submission{id, bad[i], runs::Wanted::Cancel, {}, "x"};
    submission.changed_utc = bad[i];
    const base::Path path =
        make(id, {{runs::kSubmissionName, runs::submission_text(submission)}}).path();
    runs::write_state(base::posix_file_system(), path,
                      {runs::RunState::Cancelled, "", bad[i], 0, -1, 1});
    runs::Launch launch;
    launch.number = 1;
    launch.started_utc = bad[i];
    launch.ended_utc = bad[i];
    launch.over = true;
    runs::write_launch(base::posix_file_system(), path, launch);
  }
  const double ahead = now + 3600;  // as another machine's clock may be
  make("good", {{runs::kSubmissionName,
                 runs::submission_text({"good", ahead, runs::Wanted::Cancel, {}, "x"})}});
  lose_the_store();
  ticks();
  for (std::size_t i = 0; i < bad.size(); ++i) {
    const orchestrator::runs::Run found = run("bad-" + std::to_string(i));
    const auto is_now = testing::DoubleNear(now, 60);
    EXPECT_THAT(found.created_utc, is_now) << bad[i];
    EXPECT_THAT(found.changed_utc, testing::Optional(is_now)) << "it was changed all the same";
    EXPECT_EQ(found.ended_utc, std::nullopt) << bad[i];
    const orchestrator::runs::Launch launch = store_->launches(found.number).at(0);
    EXPECT_THAT(launch.started_utc, is_now) << bad[i];
    EXPECT_EQ(launch.ended_utc, std::nullopt) << bad[i];
  }
  EXPECT_EQ(run("good").created_utc, ahead);
}

// Left by a submission whose row could not be written, and that could not be removed again.
TEST_F(AdoptTest, OfTwoRunsOfOneKeyTheNewerBegins) {
  const auto left = [this](const std::string& id, double created_utc) {
    runs::SubmissionRecord submission{id, created_utc, runs::Wanted::Run, "key", "digest"};
    submission.scheduler = scheduler_.name();
    make(id, {{runs::kSubmissionName, runs::submission_text(submission)}});
  };
  left("demo-1", 2);
  left("demo-2", 3);
  left("demo-3", 1);
  lose_the_store();
  ticks(6);
  EXPECT_EQ(state("demo-1"), runs::RunState::Cancelled);
  EXPECT_EQ(state("demo-2"), runs::RunState::Starting);
  EXPECT_EQ(state("demo-3"), runs::RunState::Cancelled);
  ASSERT_EQ(scheduler_.launches.size(), 1U);
  EXPECT_EQ(scheduler_.launches[0].run_directory.filename(), "demo-2");
  EXPECT_EQ(store_->submitted_with("key")->id, "demo-2");
}

}  // namespace
}  // namespace regatta::orchestrator
