#include "orchestrator/control/controller.h"

#include <gmock/gmock.h>

#include <memory>

#include "orchestrator/runs/run_records.h"
#include "orchestrator/store/database.h"
#include "tests/orchestrator/control/controller_fixture.h"

namespace regatta::orchestrator {
namespace {

using testing::HasSubstr;
using tests::JournalAuthor;
using tests::TemporaryDirectory;

class ControllerTest : public ControllerFixture {
 protected:
  ControllerTest() : ControllerFixture(1) {}
};

TEST_F(ControllerTest, RunsARunToItsEnd) {
  const std::string id = submit();
  EXPECT_EQ(state(id), runs::RunState::Queued);
  ticks();
  EXPECT_EQ(state(id), runs::RunState::Starting);
  ASSERT_EQ(scheduler_.launches.size(), 1U);
  EXPECT_EQ(scheduler_.launches[0].run_directory, run(id).directory);
  JournalAuthor journal(directory(id), clock_.utc_seconds());
  journal.start(0.1);
  journal.step(1, 1);
  ticks();
  EXPECT_EQ(state(id), runs::RunState::Running);
  journal.evaluation(2, 1, 0.7);
  journal.end(2.1, 0);
  scheduler_.end("h1", 0);
  ticks();
  EXPECT_EQ(state(id), runs::RunState::Succeeded);
  EXPECT_DOUBLE_EQ(*run(id).summary.time_to_accuracy_seconds, 1.5);
  EXPECT_TRUE(run(id).drained);
  EXPECT_TRUE(store_->unfinished_runs().empty());
  ticks();
  EXPECT_EQ(scheduler_.launches.size(), 1U);
}

TEST_F(ControllerTest, StartsNoMoreThanAllowedAndInOrder) {
  const std::string first = submit();
  const std::string second = submit();
  const std::string third = submit();
  ticks();
  EXPECT_EQ(scheduler_.launches.size(), 1U);
  EXPECT_EQ(run(second).reason, "waits for a free slot (serve --parallel)");
  controller_->cancel(second);
  ticks();
  EXPECT_EQ(state(second), runs::RunState::Cancelled);
  scheduler_.end("h1", 0);
  ticks();
  EXPECT_EQ(state(first), runs::RunState::Succeeded);
  EXPECT_EQ(state(third), runs::RunState::Starting);
  EXPECT_EQ(scheduler_.launches.size(), 2U);
}

TEST_F(ControllerTest, StartsAgainAfterALossAndGivesUpWithoutProgress) {
  const std::string id = submit();
  for (int attempt = 1; attempt <= 5; ++attempt) {
    clock_.now += 100;
    ticks();
    ASSERT_EQ(scheduler_.launches.size(), static_cast<std::size_t>(attempt));
    scheduler_.end_by_signal("h" + std::to_string(attempt), 9);
    ticks(1);
  }
  EXPECT_EQ(state(id), runs::RunState::Failed);
  EXPECT_THAT(run(id).error, HasSubstr("5 attempts"));
  EXPECT_THAT(run(id).error, HasSubstr("signal 9"));
}

TEST_F(ControllerTest, WaitsBeforeItStartsAgain) {
  const std::string id = submit();
  ticks();
  scheduler_.end("h1", 22);
  ticks(1);
  ASSERT_EQ(state(id), runs::RunState::Queued);
  ticks(2);  // half a second of the one that it waits
  EXPECT_EQ(scheduler_.launches.size(), 1U);
  clock_.now += 1;
  ticks(1);
  EXPECT_EQ(scheduler_.launches.size(), 2U);
}

TEST_F(ControllerTest, ReportsWhatTheJournalSaysOfAFailure) {
  const std::string id = submit();
  ticks();
  JournalAuthor journal(directory(id), 1000);
  journal.end(0.1, 20, "no dataset there");
  scheduler_.end("h1", 20);
  ticks();
  EXPECT_EQ(state(id), runs::RunState::Failed);
  EXPECT_EQ(run(id).error, "no dataset there");
}

TEST_F(ControllerTest, ReportsTheLogWhereThereIsNoJournal) {
  const std::string id = submit();
  ticks();
  tests::write_file(scheduler_.launches[0].log_path, "hello\nsegmentation of the library\n\n");
  scheduler_.end("h1", 20);
  ticks();
  EXPECT_EQ(run(id).error, "segmentation of the library");
}

TEST_F(ControllerTest, FailsARunThatCannotBeStarted) {
  scheduler_.refuse = true;
  const std::string id = submit();
  ticks();
  EXPECT_EQ(state(id), runs::RunState::Failed);
  EXPECT_THAT(run(id).error, HasSubstr("no such program"));
}

TEST_F(ControllerTest, CancelsByTermAndThenByKill) {
  const std::string id = submit();
  ticks();
  EXPECT_TRUE(controller_->cancel(id));
  EXPECT_FALSE(controller_->cancel(id)) << "twice changes nothing";
  ticks();
  EXPECT_EQ(scheduler_.stopped, std::vector<std::string>{"h1"});
  EXPECT_EQ(state(id), runs::RunState::Stopping);
  clock_.now += 61;
  ticks(2);
  EXPECT_EQ(scheduler_.killed, std::vector<std::string>{"h1"});
  scheduler_.end_by_signal("h1", 9);
  ticks();
  EXPECT_EQ(state(id), runs::RunState::Cancelled);
  EXPECT_FALSE(controller_->cancel(id));
}

TEST_F(ControllerTest, GoesOnAfterARestart) {
  const std::string id = submit();
  ticks();
  JournalAuthor journal(directory(id), clock_.utc_seconds());
  journal.start(0.1);
  journal.step(1, 1);
  ticks();
  close();
  journal.step(2, 2);
  open();
  ticks();
  EXPECT_EQ(state(id), runs::RunState::Running);
  EXPECT_EQ(scheduler_.launches.size(), 1U) << "the attempt went on, no second one was started";
  EXPECT_EQ(store_->steps(run(id).number, 0, 100).size(), 2U);
}

TEST_F(ControllerTest, FindsAnAttemptWhoseHandleWasNeverWritten) {
  const std::string id = submit();
  scheduler_.die_after_submit = true;
  EXPECT_THROW(controller_->tick(), tests::ControllerDies);
  scheduler_.die_after_submit = false;
  close();
  open();
  ticks();
  EXPECT_EQ(scheduler_.launches.size(), 1U);
  EXPECT_EQ(store_->launches(run(id).number).at(0).handle, "h1");
  EXPECT_EQ(state(id), runs::RunState::Starting);
}

// Nobody can say whether the submission came through: it is looked up, however long that takes,
// and never repeated before it is known.
TEST_F(ControllerTest, LooksAnAmbiguousSubmissionUp) {
  scheduler_.lose_answers = true;  // it did come through
  scheduler_.answers = false;
  const std::string id = submit();
  ticks(50);
  EXPECT_EQ(scheduler_.launches.size(), 1U);
  EXPECT_EQ(state(id), runs::RunState::Starting);
  close();
  open();  // and by another controller
  ticks(50);
  EXPECT_EQ(scheduler_.launches.size(), 1U);
  scheduler_.lose_answers = false;
  scheduler_.answers = true;
  ticks();
  EXPECT_EQ(scheduler_.launches.size(), 1U);
  scheduler_.end("h1", 0);
  ticks();
  EXPECT_EQ(state(id), runs::RunState::Succeeded);
}

TEST_F(ControllerTest, RepeatsASubmissionThatIsKnownToBeLost) {
  scheduler_.lose_submissions = true;
  scheduler_.answers = false;
  const std::string id = submit();
  ticks(50);
  EXPECT_EQ(state(id), runs::RunState::Starting);
  scheduler_.lose_submissions = false;
  scheduler_.answers = true;
  for (int tick = 0; tick < 40 && scheduler_.launches.empty(); ++tick) ticks();
  ASSERT_EQ(scheduler_.launches.size(), 1U);
  EXPECT_EQ(store_->launches(run(id).number).size(), 2U) << "under another token";
}

TEST_F(ControllerTest, TellsWhyTheSchedulerKeepsItWaiting) {
  const std::string id = submit();
  ticks();
  scheduler_.reports["h1"] = {runs::ProcessState::Waiting, std::nullopt, std::nullopt,
                              "waits in Slurm: its turn has not come"};
  ticks();
  EXPECT_EQ(state(id), runs::RunState::Queued);
  EXPECT_EQ(run(id).reason, "waits in Slurm: its turn has not come");
  EXPECT_EQ(scheduler_.launches.size(), 1U);
  scheduler_.reports["h1"] = {runs::ProcessState::Gone, std::nullopt, std::nullopt,
                              "node node07 failed"};
  ticks(1);
  EXPECT_THAT(run(id).reason, HasSubstr("node node07 failed"));
}

TEST_F(ControllerTest, StartsAgainWhatWasNeverStarted) {
  const std::string id = submit();
  scheduler_.die_after_submit = true;
  EXPECT_THROW(controller_->tick(), tests::ControllerDies);
  scheduler_.die_after_submit = false;
  scheduler_.by_token.clear();  // the machine lost it
  close();
  open();
  ticks(1);
  EXPECT_EQ(state(id), runs::RunState::Queued);
  clock_.now += 2;
  ticks();
  EXPECT_EQ(scheduler_.launches.size(), 2U);
}

TEST_F(ControllerTest, JudgesByTheJournalWhatEndedWhileItWasAway) {
  const std::string id = submit();
  ticks();
  JournalAuthor journal(directory(id), clock_.utc_seconds());
  journal.start(0.1);
  close();
  journal.step(1, 1);
  journal.end(2, 0);
  scheduler_.reports.clear();  // not a child of the new one: gone without a code
  open();
  ticks();
  EXPECT_EQ(state(id), runs::RunState::Succeeded);
}

TEST_F(ControllerTest, RebuildsALostStoreFromTheRunDirectories) {
  const std::string done = submit();
  ticks();
  JournalAuthor first(directory(done), 5000);
  first.start(0.1);
  first.step(1, 1);
  first.evaluation(3, 1, 0.6);
  first.end(3.5, 0);
  scheduler_.end("h1", 0);
  ticks();
  const std::string busy = submit();
  ticks();
  JournalAuthor second(directory(busy), clock_.utc_seconds());
  second.start(0.1);
  const std::string waiting =
      controller_->submit(tests::run_file("/other"), std::string("key-1")).run.id;
  const std::string dropped = submit();
  controller_->cancel(dropped);
  const orchestrator::runs::Run before = run(done);

  scheduler_.reports.erase("h1");
  lose_the_store();
  ticks();
  EXPECT_EQ(state(done), runs::RunState::Succeeded);
  EXPECT_EQ(run(done).created_utc, before.created_utc);
  EXPECT_EQ(run(done).summary.time_to_accuracy_seconds, before.summary.time_to_accuracy_seconds);
  EXPECT_EQ(run(done).ended_utc, before.ended_utc);
  EXPECT_EQ(state(busy), runs::RunState::Running);
  EXPECT_EQ(state(waiting), runs::RunState::Queued);
  EXPECT_EQ(state(dropped), runs::RunState::Cancelled);
  EXPECT_EQ(scheduler_.launches.size(), 2U);
  const auto again = controller_->submit(tests::run_file("/other"), std::string("key-1"));
  EXPECT_FALSE(again.created) << "the idempotency key is in the run directory too";
  EXPECT_EQ(again.run.id, waiting);
}

TEST_F(ControllerTest, ShowsButNeverStartsARunMadeByHand) {
  const auto made = trainer::contract::RunDirectory::create(
      base::posix_file_system(), folder_.path() / "runs" / "mine", tests::run_file());
  JournalAuthor journal(made, 1000);
  journal.start(0.1, 0, 77);
  journal.step(1, 1);
  scheduler_.reports["p77"] = {runs::ProcessState::Running, std::nullopt, std::nullopt};
  close();
  open();
  ticks();
  EXPECT_EQ(state("mine"), runs::RunState::Running);
  EXPECT_EQ(run("mine").summary.step, 1);
  scheduler_.reports.clear();
  ticks();
  EXPECT_EQ(state("mine"), runs::RunState::Stopped);
  EXPECT_TRUE(scheduler_.launches.empty());
}

TEST_F(ControllerTest, FollowsTheAttemptThatFencedItsOwn) {
  const std::string id = submit();
  ticks();
  JournalAuthor journal(directory(id), 1000);
  journal.start(0.1, 0, 88);  // someone ran the trainer by hand
  scheduler_.reports["p88"] = {runs::ProcessState::Running, std::nullopt, std::nullopt};
  scheduler_.end("h1", 23);
  ticks();
  EXPECT_EQ(state(id), runs::RunState::Running);
  journal.end(3, 0);
  scheduler_.reports.erase("p88");
  ticks();
  EXPECT_EQ(state(id), runs::RunState::Succeeded);
  EXPECT_EQ(scheduler_.launches.size(), 1U);
}

TEST_F(ControllerTest, ReadsWhatAnOldAttemptWroteLate) {
  const std::string id = submit();
  ticks();
  JournalAuthor first(directory(id), clock_.utc_seconds());
  first.start(0.1);
  scheduler_.end("h1", 22);
  ticks();
  clock_.now += 100;
  ticks();
  JournalAuthor second(directory(id), clock_.utc_seconds());
  second.start(0.1);
  ticks();
  ASSERT_EQ(store_->attempts(run(id).number).size(), 2U);
  first.end(5, 22, "its disk was slow");
  ticks(40);
  EXPECT_EQ(store_->attempts(run(id).number).front().message, "its disk was slow");
}

TEST_F(ControllerTest, JudgesByTheWholeJournal) {
  const std::string id = submit();
  ticks();
  JournalAuthor journal(directory(id), clock_.utc_seconds());
  journal.start(0.1);
  const std::string line = std::string(1000, 'x') + "\n";
  std::string lines;
  for (int i = 0; i < 10'000; ++i) lines += line;  // more than is read at once
  journal.append(lines);
  journal.end(1, 0);
  scheduler_.reports.clear();
  ticks(20);
  EXPECT_EQ(state(id), runs::RunState::Succeeded);
  EXPECT_EQ(scheduler_.launches.size(), 1U);
}

// A store that takes launches and not runs shows what is written together.
TEST_F(ControllerTest, AJournalThatCannotBeReadAtTheEndIsReadLater) {
  const std::string id = submit();
  ticks();
  JournalAuthor journal(directory(id), clock_.utc_seconds());
  journal.start(0.1);
  journal.step(1, 1);
  const base::Path aside = journal.path().string() + ".aside";
  std::filesystem::rename(journal.path(), aside);
  std::filesystem::create_directory(journal.path());  // cannot be read
  scheduler_.end("h1", 0);
  ticks(10);
  EXPECT_FALSE(runs::is_over(state(id))) << "how it ended may be read yet";
  clock_.now += 61;
  ticks(10);
  EXPECT_EQ(state(id), runs::RunState::Succeeded);
  std::filesystem::remove(journal.path());
  std::filesystem::rename(aside, journal.path());
  clock_.now += 10;
  ticks();
  EXPECT_EQ(run(id).summary.step, 1);
  EXPECT_TRUE(store_->unfinished_runs().empty());
}

// Its process, adopted after a restart, has no exit code: the journal alone says that it is done.
TEST_F(ControllerTest, AnEndWaitsForAJournalThatCannotBeRead) {
  const std::string id = submit();
  ticks();
  JournalAuthor journal(directory(id), clock_.utc_seconds());
  journal.start(0.1);
  journal.end(1, 0);
  const base::Path aside = journal.path().string() + ".aside";
  std::filesystem::rename(journal.path(), aside);
  std::filesystem::create_directory(journal.path());
  scheduler_.reports.clear();
  ticks(10);
  EXPECT_FALSE(runs::is_over(state(id)));
  std::filesystem::remove(journal.path());
  std::filesystem::rename(aside, journal.path());
  clock_.now += 10;
  ticks(4);
  EXPECT_EQ(state(id), runs::RunState::Succeeded);
  EXPECT_EQ(run(id).failures, 0);
  EXPECT_EQ(scheduler_.launches.size(), 1U);
}

TEST_F(ControllerTest, TheEndOfALaunchIsStoredWithWhatFollowsFromIt) {
  const std::string id = submit();
  ticks();
  store::Database other(folder_.path() / "state" / "store.sqlite",
                        store::Database::Access::ReadWrite);
  other.execute(
      "CREATE TRIGGER refuse BEFORE UPDATE ON runs BEGIN SELECT RAISE(ABORT, 'refused'); END");
  scheduler_.end("h1", 20);
  ticks();
  EXPECT_FALSE(store_->launches(run(id).number).back().over) << "its run is not";
  other.execute("DROP TRIGGER refuse");
  ticks();
  EXPECT_TRUE(store_->launches(run(id).number).back().over);
  EXPECT_EQ(state(id), runs::RunState::Failed);
}

TEST_F(ControllerTest, IgnoresStrangeThingsInTheRunsDirectory) {
  const base::Path runs = folder_.path() / "runs";
  std::filesystem::create_directories(runs / "empty");
  tests::write_file(runs / "file", "text");
  std::filesystem::create_directories(runs / "bad");
  tests::write_file(runs / "bad" / "run.json", "{\"steps\": \"many\"}");
  close();
  open();
  ticks();
  EXPECT_TRUE(store_->ids().empty());
}

TEST_F(ControllerTest, SecondControllerOfTheRunsDirectoryIsRefused) {
  store::Store other(folder_.path() / "other-state");
  control::ControllerOptions options;
  options.runs_directory = folder_.path() / "runs";
  try {
    const control::Controller second(base::posix_file_system(), clock_, other, scheduler_, options);
    FAIL() << "two controllers would start each run twice";
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), base::Code::Conflict) << "serve ends with 5";
    EXPECT_THAT(error.what(), HasSubstr("in use by another controller"));
  }
}

struct BadSubmission {
  const char* name;
  std::string body;
  const char* message;
  friend void PrintTo(const BadSubmission& each, std::ostream* out) { *out << each.name; }
};
class BadSubmissions : public ControllerTest, public testing::WithParamInterface<BadSubmission> {};
TEST_P(BadSubmissions, LeaveNothingBehind) {
  try {
    (void)controller_->submit(GetParam().body, std::nullopt);
    FAIL();
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), base::Code::User);
    EXPECT_THAT(error.what(), HasSubstr(GetParam().message));
  }
  EXPECT_TRUE(store_->ids().empty());
  int entries = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder_.path() / "runs")) {
    entries += entry.path().filename() != ".controller.lock" ? 1 : 0;
  }
  EXPECT_EQ(entries, 0);
}
INSTANTIATE_TEST_SUITE_P(
    Cases, BadSubmissions,
    testing::Values(BadSubmission{"empty", "", "run file"},
                    BadSubmission{"not_a_mapping", "[1, 2]", "run file"},
                    BadSubmission{"unknown_key", "data: {path: /d}\nstep: 4\n", "run file:2"},
                    BadSubmission{"no_data", "steps: 4\n", "data"},
                    BadSubmission{"relative_data", "data: {path: d}\n", "not absolute"},
                    BadSubmission{"name_with_slash", "name: ../up\ndata: {path: /d}\n", "name"},
                    BadSubmission{"name_with_line_break", "name: \"a\\nb\"\ndata: {path: /d}\n",
                                  "name"}),
    [](const auto& each) { return each.param.name; });

TEST_F(ControllerTest, SameKeySameBodyIsTheSameRun) {
  const auto first = controller_->submit(tests::run_file(), std::string("k"));
  const auto second = controller_->submit(
      "{\"data\": {\"path\": \"/nowhere\"}, \"steps\": 100, \"name\": \"demo\"}", std::string("k"));
  EXPECT_TRUE(first.created);
  EXPECT_FALSE(second.created) << "the same configuration in another spelling";
  EXPECT_EQ(first.run.id, second.run.id);
  try {
    (void)controller_->submit(tests::run_file("/else"), std::string("k"));
    FAIL();
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), base::Code::Conflict);
  }
  for (const std::string& bad : std::vector<std::string>{"", "a b", "line\nbreak"}) {
    EXPECT_THROW((void)controller_->submit(tests::run_file(), bad), base::Error);
  }
}

TEST_F(ControllerTest, FindsByIdOrByANameThatIsUnique) {
  const std::string id = submit();
  EXPECT_EQ(controller_->find(id).id, id);
  EXPECT_EQ(controller_->find("demo").id, id);
  const auto error_of = [&](const std::string& name) -> std::string {
    try {
      (void)controller_->find(name);
    } catch (const base::Error& error) {
      EXPECT_EQ(error.code(), base::Code::NotFound);
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(error_of("dmo"), HasSubstr("did you mean 'demo'?"));
  EXPECT_THAT(error_of("\x1b[31m"), HasSubstr("\\x1b"));
  submit();
  EXPECT_THAT(error_of("demo"), HasSubstr("several runs"));
}

}  // namespace
}  // namespace regatta::orchestrator
