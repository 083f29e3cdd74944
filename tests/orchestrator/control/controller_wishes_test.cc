// `regatta requeue`, and requests about runs that come again with their key.
#include <gmock/gmock.h>

#include <functional>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "orchestrator/control/run_removal.h"
#include "tests/orchestrator/control/controller_fixture.h"

namespace regatta::orchestrator {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using tests::JournalAuthor;

class WishesTest : public ControllerFixture {
 protected:
  WishesTest() : ControllerFixture(1) {}

  std::string running() {
    const std::string id = submit();
    ticks();
    JournalAuthor author(directory(id), clock_.utc_seconds());
    author.start(0.1);
    author.step(1, 1);
    ticks();
    EXPECT_EQ(state(id), runs::RunState::Running);
    return id;
  }
  std::string cancelled() {
    const std::string id = submit();
    controller_->cancel(id);
    ticks(4);
    EXPECT_EQ(state(id), runs::RunState::Cancelled);
    return id;
  }
  void restart() {
    close();
    open();
  }
  void expect_conflict(const std::function<void()>& ask, const std::string& why) {
    try {
      ask();
      FAIL() << why;
    } catch (const base::Error& error) {
      EXPECT_EQ(error.code(), base::Code::Conflict);
      EXPECT_THAT(error.what(), HasSubstr(why));
    }
  }
  std::vector<std::string> wishes(const std::string& id) {
    std::vector<std::string> kinds;
    for (const store::Event& event : store_->events_after({{}, id, "", ""}, 0, 1000).events) {
      const std::string suffix = "_asked";
      if (event.kind.size() > suffix.size() && event.kind.ends_with(suffix)) {
        kinds.push_back(event.kind + " by " + event.by);
      }
    }
    return kinds;
  }
  static std::string partition_of(const runs::Run& run) {
    return nlohmann::json::parse(run.config)["slurm"].value("partition", "");
  }
};

TEST_F(WishesTest, ARequeuedRunSavesAndStartsAgainWithoutAFailure) {
  const std::string id = running();
  EXPECT_TRUE(controller_->requeue(id, "", "uid 7"));
  EXPECT_FALSE(controller_->requeue(id, "", "uid 7")) << "it is under way";
  ticks();
  EXPECT_THAT(scheduler_.stopped, Contains("h1"));
  EXPECT_EQ(state(id), runs::RunState::Stopping);
  EXPECT_THAT(run(id).reason, HasSubstr("started again"));
  scheduler_.end("h1", 24);
  ticks(4);
  EXPECT_EQ(state(id), runs::RunState::Starting);
  EXPECT_EQ(scheduler_.launches.size(), 2U);
  EXPECT_EQ(run(id).failures, 0);
  EXPECT_EQ(run(id).wanted, runs::Wanted::Run);
  ticks(8);
  EXPECT_THAT(scheduler_.stopped, testing::Not(Contains("h2"))) << "one launch was meant";
  EXPECT_THAT(wishes(id), ElementsAre("run.requeue_asked by uid 7"));
  EXPECT_TRUE(controller_->requeue(id));
}

TEST_F(WishesTest, ARequeueIsGoneOnWithByTheNextController) {
  const std::string id = running();
  EXPECT_TRUE(controller_->requeue(id));
  restart();
  ticks();
  EXPECT_THAT(scheduler_.stopped, Contains("h1"));
  restart();
  scheduler_.end("h1", 24);
  ticks(5);
  EXPECT_EQ(state(id), runs::RunState::Starting);
  EXPECT_EQ(scheduler_.launches.size(), 2U);
}

// Else it would pass for a process that somebody's signal has stopped.
TEST_F(WishesTest, ARequeuedRunGoesOnWhereTheStoreIsLost) {
  const std::string id = running();
  EXPECT_TRUE(controller_->requeue(id));
  ticks();
  EXPECT_THAT(scheduler_.stopped, Contains("h1"));
  lose_the_store();
  scheduler_.end("h1", 24);
  ticks(4);
  clock_.now += 10;
  ticks(4);
  EXPECT_EQ(state(id), runs::RunState::Starting);
  EXPECT_EQ(scheduler_.launches.size(), 2U);
}

TEST_F(WishesTest, ARequeuedRunThatDoesNotStopIsKilled) {
  const std::string id = running();
  EXPECT_TRUE(controller_->requeue(id));
  ticks();
  clock_.now += 61;
  ticks();
  EXPECT_THAT(scheduler_.killed, Contains("h1"));
  scheduler_.end_by_signal("h1", 9);
  ticks(4);
  EXPECT_EQ(state(id), runs::RunState::Starting);
}

TEST_F(WishesTest, ACancelOvertakesARequeue) {
  const std::string id = running();
  EXPECT_TRUE(controller_->requeue(id));
  ticks();
  EXPECT_TRUE(controller_->cancel(id));
  scheduler_.end("h1", 24);
  ticks(4);
  EXPECT_EQ(state(id), runs::RunState::Cancelled);
  EXPECT_EQ(scheduler_.launches.size(), 1U);
}

TEST_F(WishesTest, ARequeuedRunMayAskForSomethingElse) {
  const std::string id = running();
  EXPECT_TRUE(controller_->requeue(id, R"({"slurm": {"partition": "other"}})"));
  EXPECT_EQ(partition_of(run(id)), "other");
  ticks();
  scheduler_.end("h1", 24);
  ticks(5);
  ASSERT_EQ(scheduler_.launches.size(), 2U);
  EXPECT_THAT(directory(id).run_json(), HasSubstr("other"));
  EXPECT_THROW(controller_->requeue(id, R"({"steps": 5})"), base::Error);
  EXPECT_TRUE(controller_->requeue(id, R"({"slurm": {"partition": "third"}})", "", "key"));
  EXPECT_FALSE(controller_->requeue(id, R"({"slurm":{"partition":"third"}})", "", "key"))
      << "the same, with other blanks";
}

TEST_F(WishesTest, WhatIsNotUnderWayIsNotRequeued) {
  const std::string first = running();
  const std::string waits = submit();
  ticks();
  EXPECT_FALSE(controller_->requeue(waits)) << "it waits as it is";
  EXPECT_TRUE(controller_->requeue(waits, R"({"slurm": {"partition": "other"}})"));
  EXPECT_EQ(partition_of(run(waits)), "other");
  EXPECT_EQ(run(waits).wanted, runs::Wanted::Run);
  controller_->cancel(first);
  expect_conflict([&] { controller_->requeue(first); }, "is stopping");
  scheduler_.end("h1", 24);
  ticks(4);
  expect_conflict([&] { controller_->requeue(first); }, "regatta resume");
}

TEST_F(WishesTest, ARequestThatComesAgainWithItsKeyIsNotCarriedOutAgain) {
  const std::string id = running();
  EXPECT_TRUE(controller_->requeue(id, "", "", "requeue-1"));
  ticks();
  scheduler_.end("h1", 24);
  ticks(4);
  EXPECT_FALSE(controller_->requeue(id, "", "", "requeue-1"));
  EXPECT_TRUE(controller_->cancel(id, "", "cancel-1"));
  ticks();
  scheduler_.end("h2", 24);
  ticks(4);
  EXPECT_EQ(state(id), runs::RunState::Cancelled);
  EXPECT_TRUE(controller_->resume(id, "", "", "resume-1"));
  ticks();
  EXPECT_FALSE(controller_->cancel(id, "", "cancel-1")) << "of before it was resumed";
  ticks();
  EXPECT_EQ(state(id), runs::RunState::Starting);
  EXPECT_TRUE(controller_->cancel(id));
  ticks();
  scheduler_.end("h3", 24);
  ticks(4);
  EXPECT_EQ(state(id), runs::RunState::Cancelled);
  EXPECT_FALSE(controller_->resume(id, "", "", "resume-1"));
  ticks();
  EXPECT_EQ(state(id), runs::RunState::Cancelled);
  restart();
  EXPECT_FALSE(controller_->resume(id, "", "", "resume-1")) << "the store knows";
  expect_conflict([&] { controller_->resume(id, "", "", "cancel-1"); }, "another request");
  EXPECT_THROW(controller_->resume(id, "", "", "with a blank"), base::Error);
}

// Or somebody would be told that a run was cancelled which trains on.
TEST_F(WishesTest, AKeyIsOfOneRun) {
  const std::string one = cancelled(), other = cancelled(), third = submit();
  EXPECT_FALSE(controller_->cancel(one, "", "cancel-1"));
  expect_conflict([&] { controller_->cancel(third, "", "cancel-1"); }, "about run " + one);
  EXPECT_EQ(run(third).wanted, runs::Wanted::Run);
  EXPECT_TRUE(controller_->archive(one, control::DryRun::No, "", "archive-1").run.archived);
  expect_conflict([&] { (void)controller_->archive(other, control::DryRun::No, "", "archive-1"); },
                  "about run " + one);
  EXPECT_FALSE(run(other).archived);
}

// Submissions and forks keep their keys elsewhere than what changes a run does.
TEST_F(WishesTest, AKeyIsOfOneOperation) {
  const std::string id = controller_->submit(tests::run_file(), "submit-1").run.id;
  const std::string submission = "the submission of run " + id;
  expect_conflict([&] { controller_->cancel(id, "", "submit-1"); }, submission);
  expect_conflict([&] { controller_->requeue(id, "", "", "submit-1"); }, submission);
  expect_conflict([&] { (void)controller_->change(id, R"({"steps": 300})", "submit-1"); },
                  submission);
  control::RemoveOptions options;
  options.idempotency_key = "submit-1";
  expect_conflict([&] { (void)controller_->remove(id, options); }, submission);
  EXPECT_EQ(run(id).wanted, runs::Wanted::Run);
  EXPECT_TRUE(controller_->cancel(id, "", "cancel-1"));
  expect_conflict([&] { (void)controller_->submit(tests::run_file(), "cancel-1"); },
                  "another request about run " + id);
  expect_conflict([&] { (void)controller_->fork(id, {}, "cancel-1", ""); },
                  "another request about run " + id);
  EXPECT_EQ(controller_->submit(tests::run_file(), "submit-1").run.id, id);
}

TEST_F(WishesTest, AKeyIsOfOneChange) {
  const std::string ended = cancelled(), id = running();
  const std::string one = R"({"slurm": {"partition": "one"}})";
  const std::string two = R"({"slurm": {"partition": "two"}})";
  EXPECT_TRUE(controller_->requeue(id, one, "", "requeue-1"));
  expect_conflict([&] { controller_->requeue(id, two, "", "requeue-1"); }, "about run " + id);
  EXPECT_EQ(partition_of(run(id)), "one");
  EXPECT_TRUE(controller_->resume(ended, one, "", "resume-1"));
  expect_conflict([&] { controller_->resume(ended, two, "", "resume-1"); }, "about run " + ended);
  EXPECT_EQ(partition_of(run(ended)), "one");
}

TEST_F(WishesTest, NoBodyAndAnEmptyOneAreOneRequest) {
  const std::string id = cancelled();
  EXPECT_TRUE(controller_->resume(id, "", "", "resume-1"));
  for (const char* const same : {"", "{}", " { }\n", "\n"}) {
    EXPECT_FALSE(controller_->resume(id, same, "", "resume-1")) << same;
  }
  expect_conflict(
      [&] { controller_->resume(id, R"({"slurm": {"partition": "a"}})", "", "resume-1"); },
      "another request");
}

TEST_F(WishesTest, WhatHadNothingToDoStaysSo) {
  const std::string id = cancelled();
  EXPECT_FALSE(controller_->cancel(id, "", "cancel-1")) << "it is over";
  EXPECT_TRUE(controller_->resume(id));
  ticks();
  EXPECT_FALSE(controller_->cancel(id, "", "cancel-1"));
  ticks();
  EXPECT_EQ(state(id), runs::RunState::Starting);
}

TEST_F(WishesTest, AnArchiveThatComesAgainLeavesWhatWasResumed) {
  const std::string id = cancelled();
  EXPECT_TRUE(controller_->archive(id, control::DryRun::No, "", "archive-1").run.archived);
  controller_->resume(id);
  ticks();
  EXPECT_FALSE(run(id).archived);
  EXPECT_FALSE(controller_->archive(id, control::DryRun::No, "", "archive-1").run.archived);
  EXPECT_FALSE(run(id).archived);
}

TEST_F(WishesTest, ARemovalThatComesAgainIsAnsweredAsDone) {
  const std::string id = cancelled();
  control::RemoveOptions options;
  options.dry_run = true;
  options.idempotency_key = "remove-1";
  EXPECT_TRUE(controller_->remove(id, options).dry_run);
  options.dry_run = false;
  const control::Removal removal = controller_->remove(id, options);
  EXPECT_TRUE(removal.had_directory) << "a dry run keeps no key";
  const control::Removal again = controller_->remove(id, options);
  EXPECT_EQ(again.run.id, id);
  EXPECT_EQ(again.run.directory, removal.run.directory);
  EXPECT_FALSE(again.had_directory);
  restart();
  EXPECT_EQ(controller_->remove(id, options).run.id, id);
  const std::string other = cancelled();
  expect_conflict([&] { (void)controller_->remove(other, options); }, "a run that was removed");
  options.idempotency_key = "remove-2";
  EXPECT_THROW(controller_->remove(id, options), base::Error);
}

}  // namespace
}  // namespace regatta::orchestrator
