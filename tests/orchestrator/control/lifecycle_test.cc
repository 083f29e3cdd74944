// What the controller makes of what a scheduler says: replaced jobs, refusals that pass, nodes that
// had better be avoided, and how it tells all that.
#include <gmock/gmock.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "orchestrator/api/explain.h"
#include "orchestrator/api/run_json.h"
#include "orchestrator/control/controller.h"
#include "orchestrator/control/node_judge.h"
#include "orchestrator/files/troubles.h"
#include "orchestrator/runs/run_records.h"
#include "orchestrator/text/terminal.h"
#include "tests/orchestrator/control/controller_fixture.h"

namespace regatta::orchestrator {
namespace {

using Json = nlohmann::ordered_json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using tests::JournalAuthor;
using tests::TemporaryDirectory;

class LifecycleTest : public ControllerFixture {
 protected:
  LifecycleTest() : ControllerFixture(100) {}
  void reopen() {
    close();
    open();
  }
  Json explanation(const std::string& id) {
    return api::explain_json(run(id), api::read_parts(*store_, run(id).number), {},
                             scheduler_.slurm, clock_.utc_seconds());
  }
  runs::ProcessReport& report(const std::string& handle) { return scheduler_.reports[handle]; }
  void wait_in_slurm(const std::string& handle, runs::Cause cause, const std::string& words) {
    report(handle) = {};
    report(handle).state = runs::ProcessState::Waiting;
    report(handle).cause = cause;
    report(handle).words = words;
  }
  void end(const std::string& handle, runs::Cause cause, const std::string& words) {
    report(handle) = {};
    report(handle).state = runs::ProcessState::Gone;
    report(handle).cause = cause;
    report(handle).words = words;
  }
  base::Path attempt_path(const std::string& id) {
    const auto attempts = directory(id).attempts();
    return directory(id).attempt_path(attempts.back());
  }
};

TEST_F(LifecycleTest, AJobThatIsStuckIsReplacedAlsoByTheNextController) {
  const std::string id = submit();
  ticks();
  wait_in_slurm("h1", runs::Cause::Stuck, "Slurm holds it after a failed launch");
  ticks();
  EXPECT_THAT(scheduler_.killed, ElementsAre("h1"));
  EXPECT_EQ(scheduler_.launches.size(), 1U) << "never two jobs";
  reopen();
  end("h1", runs::Cause::Cancelled, "its job was cancelled");
  ticks();
  EXPECT_EQ(run(id).state, runs::RunState::Queued) << run(id).error;
  clock_.now += 100;
  ticks();
  EXPECT_EQ(scheduler_.launches.size(), 2U);
  EXPECT_EQ(run(id).state, runs::RunState::Starting);
  EXPECT_EQ(run(id).failures, 1);
}

TEST_F(LifecycleTest, AJobThatSomebodyCancelledIsNotStartedAgain) {
  const std::string id = submit();
  ticks();
  end("h1", runs::Cause::Cancelled, "its job was cancelled");
  ticks();
  clock_.now += 1000;
  ticks();
  EXPECT_EQ(run(id).state, runs::RunState::Stopped);
  EXPECT_EQ(scheduler_.launches.size(), 1U);
  EXPECT_THAT(explanation(id)["summary"], HasSubstr("somebody cancelled its job"));
  EXPECT_EQ(explanation(id)["launches"][0]["cause"], "cancelled");
}

TEST_F(LifecycleTest, ADivergenceIsNotCalledARefusal) {
  const std::string id = submit();
  ticks();
  JournalAuthor journal(directory(id), clock_.utc_seconds());
  journal.start(1);
  journal.step(2, 1, 1.0);
  trainer::contract::EndRecord last;
  last.reason = "diverged";
  last.step = 1;
  last.exit_code = 20;
  last.message = "the loss is not finite at step 2; lower optimizer.learning_rate";
  journal.add(3, last);
  report("h1") = {};
  report("h1").state = runs::ProcessState::Gone;
  report("h1").exit_code = 20;
  ticks();
  EXPECT_EQ(run(id).state, runs::RunState::Failed);
  const Json told = explanation(id);
  EXPECT_EQ(told["launches"][0]["what"], "diverged");
  EXPECT_EQ(told["attempts"][0]["what"], "diverged: " + last.message);
}

TEST_F(LifecycleTest, ARollbackIsExplainedWhileTheAttemptRuns) {
  const std::string id = submit();
  ticks();
  JournalAuthor journal(directory(id), clock_.utc_seconds());
  journal.start(1);
  journal.step(2, 1, 1.0);
  report("h1") = {};
  report("h1").state = runs::ProcessState::Running;
  ticks();
  EXPECT_EQ(explanation(id)["attempts"][0]["what"], "training");
  trainer::contract::DivergenceRecord divergence;
  divergence.step = 2;
  divergence.action = "rollback";
  divergence.checkpoint_step = 0;
  divergence.message = "the loss is not finite at step 2: training diverged; went back to …";
  journal.add(3, divergence);
  ticks();
  const Json told = explanation(id);
  EXPECT_EQ(told["attempts"][0]["what"], "training: " + divergence.message);
  EXPECT_THAT(api::explain_text(told), HasSubstr("training: the loss is not finite at step 2"));
}

TEST_F(LifecycleTest, WhatIsRefusedForNowWaitsAndIsNoFailure) {
  scheduler_.refuse_for_now = true;
  const std::string id = submit();
  ticks();
  EXPECT_EQ(run(id).state, runs::RunState::Queued);
  EXPECT_THAT(run(id).reason, HasSubstr("the partition is down"));
  EXPECT_TRUE(run(id).wait.next_start_utc.has_value());
  ticks(20);
  EXPECT_EQ(store_->launches(run(id).number).size(), 1U) << "not asked again at once";
  EXPECT_THAT(explanation(id)["next"], HasSubstr("the next attempt is started in "));
  scheduler_.refuse_for_now = false;
  clock_.now += 60;
  ticks();
  EXPECT_EQ(scheduler_.launches.size(), 1U);
  EXPECT_EQ(run(id).state, runs::RunState::Starting);
  EXPECT_EQ(run(id).failures, 0);
}

TEST_F(LifecycleTest, WhatIsRefusedAgainIsAskedForLessOften) {
  scheduler_.refuse_for_now = true;
  const std::string id = submit();
  ticks();
  const auto asked = [&] { return store_->launches(run(id).number).size(); };
  ASSERT_EQ(asked(), 1U);
  for (const double pause : {60, 120, 240, 480, 900, 900}) {
    const std::size_t before = asked();
    const double told = *run(id).wait.next_start_utc - clock_.utc_seconds();
    EXPECT_NEAR(told, pause - 5, 6) << "of ten-second turns";
    clock_.now += told - 2;
    ticks();
    EXPECT_EQ(asked(), before);
    clock_.now += 3;
    ticks();
    ASSERT_EQ(asked(), before + 1);
  }
  scheduler_.refuse_for_now = false;
  clock_.now += 900;
  ticks();
  EXPECT_EQ(run(id).state, runs::RunState::Starting);
  scheduler_.refuse_for_now = true;
  scheduler_.end("h1", 22);
  ticks();
  clock_.now += 2;
  ticks();
  EXPECT_NEAR(*run(id).wait.next_start_utc - clock_.utc_seconds(), 55, 6) << "begins anew";
}

// A limit of their user holds for all of them.
TEST_F(LifecycleTest, ManyThatAreRefusedAskInTurns) {
  scheduler_.refuse_for_now = true;
  std::vector<std::string> ids;
  for (int i = 0; i < 30; ++i) ids.push_back(submit());
  ticks();
  const auto asked = [&] {
    std::size_t all = 0;
    for (const std::string& id : ids) all += store_->launches(run(id).number).size();
    return all;
  };
  ASSERT_EQ(asked(), ids.size());
  for (int minute = 0; minute < 20; ++minute) {
    const std::size_t before = asked();
    for (int i = 0; i < 60; ++i) {
      clock_.now += 1 - 0.25;
      ticks(1);
    }
    EXPECT_LE(asked() - before, 7U) << "minute " << minute;
  }
  EXPECT_GT(asked(), 2 * ids.size());
  scheduler_.refuse_for_now = false;
  clock_.now += 1000;
  ticks();
  for (const std::string& id : ids) EXPECT_EQ(run(id).state, runs::RunState::Starting);
}

// Its partition, account or QOS was changed: what has trained waits until it is changed again.
TEST_F(LifecycleTest, NoRefusalEndsARunThatWasLaunchedBefore) {
  const std::string id = submit();
  ticks();
  scheduler_.refuse = true;
  scheduler_.end("h1", 22);
  ticks();
  clock_.now += 2;
  ticks();
  EXPECT_EQ(run(id).state, runs::RunState::Queued) << run(id).error;
  const Json told = explanation(id);
  EXPECT_THAT(told["summary"], HasSubstr("refused, and asked for again: cannot start"));
  EXPECT_THAT(told["next"], HasSubstr("the next attempt is started in "));
  EXPECT_EQ(told["waiting"]["clears"], "perhaps");
  for (int i = 0; i < 100; ++i) {
    clock_.now += 100;
    ticks();
  }
  EXPECT_EQ(run(id).state, runs::RunState::Queued) << run(id).error;
  EXPECT_LE(store_->launches(run(id).number).size(), 20U);
  reopen();
  ticks();
  EXPECT_EQ(run(id).state, runs::RunState::Queued) << run(id).error;
  scheduler_.refuse = false;
  clock_.now += 1000;
  ticks();
  EXPECT_EQ(run(id).state, runs::RunState::Starting);
  EXPECT_EQ(run(id).failures, 1);
}

TEST_F(LifecycleTest, ARefusalIsTold) {
  scheduler_.refuse = true;
  const std::string id = submit();
  ticks();
  const Json told = explanation(id);
  EXPECT_EQ(told["state"], "failed");
  EXPECT_EQ(told["launches"][0]["what"], "cannot start: no such program");
  EXPECT_TRUE(told["waiting"].is_null());
}

TEST_F(LifecycleTest, AWaitIsToldAsSlurmTellsIt) {
  const std::string id = submit();
  ticks();
  wait_in_slurm("h1", runs::Cause::None, "waits in Slurm: others are before it");
  report("h1").category = "queue";
  report("h1").clears = "by itself";
  report("h1").expected_start = 1.8e9;
  ticks();
  const Json waiting = explanation(id)["waiting"];
  EXPECT_EQ(waiting["category"], "queue");
  EXPECT_EQ(waiting["clears"], "by itself");
  EXPECT_EQ(waiting["expected_start"], "2027-01-15T08:00:00.000Z");
  ::setenv("TZ", "EAST-5:30", 1);  // texts are in local time, JSON is not
  ::tzset();
  const std::string text = api::explain_text(explanation(id));
  ::unsetenv("TZ");
  ::tzset();
  EXPECT_THAT(text, HasSubstr("Slurm expects to start it "));
  EXPECT_THAT(text, HasSubstr(" (2027-01-15 13:30:00)"));
  wait_in_slurm("h1", runs::Cause::Impossible, "no node has so many GPUs");
  report("h1").clears = "never";
  ticks();
  EXPECT_THAT(explanation(id)["next"], HasSubstr("until somebody changes what it asks for"));
}

TEST_F(LifecycleTest, ASilentSlurmIsTold) {
  const std::string id = submit();
  ticks();
  EXPECT_TRUE(explanation(id)["slurm"].is_null()) << "nobody has to be asked";
  scheduler_.slurm = runs::Contact{};
  EXPECT_THAT(api::explain_text(explanation(id)), HasSubstr("Slurm has not answered yet"));
  const double answered = clock_.utc_seconds();
  scheduler_.slurm->answered_utc = answered;
  clock_.now += 8;
  EXPECT_EQ(explanation(id)["slurm"]["answered_at"], base::iso8601(answered));
  EXPECT_EQ(explanation(id)["slurm"]["age_seconds"], 8);
  EXPECT_TRUE(explanation(id)["slurm"]["trouble"].is_null());
  EXPECT_THAT(api::explain_text(explanation(id)), HasSubstr("slurm   answered 8.0 s ago"));
  EXPECT_THAT(explanation(id)["next"], HasSubstr("training begins"));

  clock_.now += 182;
  scheduler_.slurm->trouble = "squeue ended with code 1: no \x1b[31mway";
  const Json told = explanation(id);
  EXPECT_EQ(told["slurm"]["trouble"], scheduler_.slurm->trouble);
  EXPECT_THAT(told["next"], HasSubstr("not known until Slurm answers"));
  EXPECT_THAT(
      api::explain_text(told),
      HasSubstr("Slurm has not answered since " + text::local_time(base::iso8601(answered)) +
                " (3 min 10 s): squeue ended with code 1: no \\x1b"));
}

TEST_F(LifecycleTest, ACancellationThatSlurmIsNotToldIsShown) {
  const std::string id = submit();
  ticks();
  report("h1").state = runs::ProcessState::Unknown;
  scheduler_.slurm = runs::Contact{clock_.utc_seconds() - 60, "no answer", clock_.utc_seconds()};
  EXPECT_TRUE(controller_->cancel(id));
  ticks();
  const Json told = explanation(id);
  EXPECT_EQ(told["state"], "stopping");
  EXPECT_THAT(told["summary"], HasSubstr("Slurm has not been told so far"));
  EXPECT_THAT(told["next"], HasSubstr("it is stopped when Slurm answers"));
  EXPECT_EQ(told["slurm"]["cancel_waits_since"], base::iso8601(*scheduler_.slurm->end_waits_utc));
  EXPECT_THAT(api::explain_text(told),
              HasSubstr("waits since " +
                        text::local_time(base::iso8601(*scheduler_.slurm->end_waits_utc))));
}

// Else a Slurm that was away for a minute would kill what was to save.
TEST_F(LifecycleTest, AGraceBeginsWhenTheRequestWasPassedOn) {
  const std::string id = submit();
  ticks();
  EXPECT_TRUE(controller_->cancel(id));
  scheduler_.slurm = runs::Contact{clock_.utc_seconds(), "no answer", clock_.utc_seconds()};
  ticks(4 * 300);
  EXPECT_EQ(state(id), runs::RunState::Stopping);
  EXPECT_THAT(scheduler_.killed, IsEmpty());
  scheduler_.slurm = runs::Contact{clock_.utc_seconds(), "", {}};
  ticks(4 * 45);
  EXPECT_THAT(scheduler_.killed, IsEmpty());
  ticks(4 * 30);
  EXPECT_THAT(scheduler_.killed, ElementsAre("h1"));
}

TEST_F(LifecycleTest, TheNodeOfAHungRankIsAvoidedByTheJobThatWaitsAgain) {
  scheduler_.usable = std::vector<std::string>{"node01", "node02", "node03", "node04"};
  const std::string id = submit();
  ticks();
  report("h1").nodes = "node[01-04]";
  report("h1").gpus = 32;
  ticks();
  JournalAuthor journal(directory(id), clock_.utc_seconds());
  journal.start(0.1);
  tests::write_file(attempt_path(id) / "hang.json",
                    R"({"rank": 2, "host": "node03.example", "why": "rank 2 stood still"})");
  journal.end(30, 22, "rank 2 stood still");
  wait_in_slurm("h1", runs::Cause::None, "waits in Slurm: it begins again soon");
  ticks();
  ASSERT_EQ(scheduler_.avoided.size(), 1U) << "told once";
  EXPECT_EQ(scheduler_.avoided[0].first, "h1");
  EXPECT_THAT(scheduler_.avoided[0].second, ElementsAre("node03"));
  const auto events = store_->node_events();
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].words, "rank 2 stood still");
  EXPECT_EQ(explanation(id)["launches"][0]["nodes"], "node[01-04]");
  EXPECT_EQ(explanation(id)["launches"][0]["gpus"], 32);
  // Another run's first job leaves it out, too, until the suspicion has faded.
  (void)submit();
  ticks();
  ASSERT_EQ(scheduler_.launches.size(), 2U);
  EXPECT_THAT(scheduler_.launches[1].avoid, ElementsAre("node03"));
  clock_.now += 4 * 3600;
  (void)submit();
  ticks();
  ASSERT_EQ(scheduler_.launches.size(), 3U);
  EXPECT_THAT(scheduler_.launches[2].avoid, IsEmpty());
}

TEST_F(LifecycleTest, NoNodeIsAvoidedThatTheRunNeeds) {
  store_->judge(std::nullopt, {{"node01", clock_.utc_seconds(), slurm::Blame::Hung, "r", "", 1}});
  scheduler_.usable = std::vector<std::string>{"node01"};
  (void)submit();
  ticks();
  ASSERT_EQ(scheduler_.launches.size(), 1U);
  EXPECT_THAT(scheduler_.launches[0].avoid, IsEmpty());
}

// The ranks of the others notice first, then Slurm shows the node as dead, then it names it.
TEST_F(LifecycleTest, ADeadNodeTakesAllTheBlame) {
  const std::string id = submit();
  ticks();
  report("h1").nodes = "node[01-04]";
  ticks();
  JournalAuthor journal(directory(id), clock_.utc_seconds());
  journal.start(0.1);
  journal.end(5, 22, "a rank is gone");
  ticks();
  EXPECT_EQ(slurm::suspicions(store_->node_events(), clock_.utc_seconds(), {}).size(), 4U)
      << "shared";
  scheduler_.lost = {"node03", "node77"};
  for (int i = 0; i < 3; ++i) {
    clock_.now += 6;
    ticks();
  }
  const auto score_of_node03 = [&] {
    const auto suspects = slurm::suspicions(store_->node_events(), clock_.utc_seconds(), {});
    EXPECT_EQ(suspects.size(), 1U);
    EXPECT_EQ(suspects.at(0).node, "node03");
    return suspects.at(0).score;
  };
  EXPECT_NEAR(score_of_node03(), 1, 0.05);
  report("h1").suspects = {"node03"};
  end("h1", runs::Cause::NodeFailure, "node node03 failed");
  clock_.now += 120;
  ticks();
  EXPECT_NEAR(score_of_node03(), 1, 0.05) << "once";
}

TEST_F(LifecycleTest, ANodeThatDiesLongAfterAnEarlyEndIsNotToBlame) {
  const std::string id = submit();
  ticks();
  report("h1").nodes = "node[01-02]";
  ticks();
  JournalAuthor journal(directory(id), clock_.utc_seconds());
  journal.start(0.1);
  journal.end(5, 22, "a rank is gone");
  ticks();
  clock_.now += 700;
  ticks();
  scheduler_.lost = {"node02"};
  clock_.now += 6;
  ticks();
  for (const slurm::NodeEvent& event : store_->node_events())
    EXPECT_EQ(event.blame, slurm::Blame::Shared);
}

TEST_F(LifecycleTest, ASuspendedJobIsShownAsSuspended) {
  const std::string id = submit();
  ticks();
  JournalAuthor journal(directory(id), clock_.utc_seconds());
  journal.start(0.1);
  ticks();
  report("h1").category = runs::kSuspended;
  report("h1").words = "is suspended";
  report("h1").action = "scontrol resume 12";
  ticks();
  EXPECT_EQ(state(id), runs::RunState::Running);
  const Json told = explanation(id);
  EXPECT_THAT(told["summary"], HasSubstr("suspended by Slurm"));
  EXPECT_EQ(told["waiting"]["category"], "suspended");
  EXPECT_EQ(told["waiting"]["action"], "scontrol resume 12");
  report("h1").category = "";
  report("h1").words = "";
  ticks();
  EXPECT_EQ(explanation(id)["waiting"], nullptr);
  EXPECT_THAT(explanation(id)["summary"], testing::Not(HasSubstr("suspended")));
}

TEST_F(LifecycleTest, ALostStoreJudgesAgain) {
  const std::string id = submit();
  ticks();
  report("h1").nodes = "node[01-04]";
  ticks();
  JournalAuthor journal(directory(id), clock_.utc_seconds());
  journal.start(0.1);
  tests::write_file(attempt_path(id) / "hang.json", R"({"host": "node02", "why": "silent"})");
  end("h1", runs::Cause::NodeFailure, "a node failed");
  ticks();
  ASSERT_EQ(store_->node_events().size(), 1U);
  lose_the_store();
  ticks();
  ASSERT_EQ(store_->node_events().size(), 1U);
  EXPECT_EQ(store_->node_events()[0].node, "node02");
  const runs::Launch launch = store_->launches(run(id).number).front();
  EXPECT_EQ(launch.cause, "node failure");
  EXPECT_EQ(launch.words, "a node failed");
}

TEST_F(LifecycleTest, EveryAttemptOfAJobIsTold) {
  const std::string id = submit();
  ticks();
  for (const int code : {22, 25}) {
    JournalAuthor journal(directory(id), clock_.utc_seconds());
    journal.start(0.1);
    journal.end(5, code, code == 22 ? "a rank is gone" : "");
    ticks();
  }
  JournalAuthor silent(directory(id), clock_.utc_seconds());
  silent.start(0.1);
  ticks();
  end("h1", runs::Cause::NodeFailure, "node \x1b[31mnode03 failed");
  ticks();
  const Json attempts = explanation(id)["attempts"];
  ASSERT_EQ(attempts.size(), 3U);
  EXPECT_EQ(attempts[0]["what"], "ended early, to be started again: a rank is gone");
  EXPECT_EQ(attempts[1]["what"], "saved when its time was over, to go on in another attempt");
  EXPECT_THAT(attempts[2]["what"], HasSubstr("left no exit code"));
  EXPECT_EQ(attempts[2]["launch"], 1);
  const std::string text = api::explain_text(explanation(id));
  EXPECT_THAT(text, HasSubstr("attempt 3"));
  EXPECT_EQ(text.find('\x1b'), std::string::npos) << text;
}

struct Start {
  const char* name;
  int exit_code;                  // of the attempt, which lasts 5 s
  std::optional<double> started;  // seconds after the attempt's start
  runs::RunState state;
};
class LastStart : public ControllerFixture, public testing::WithParamInterface<Start> {
 protected:
  LastStart() : ControllerFixture(100) {}
};
// Preempted, the job starts again, and its ranks die before they begin an attempt.
TEST_P(LastStart, DecidesHowAJobEnded) {
  const Start& row = GetParam();
  const std::string id = submit();
  ticks();
  JournalAuthor journal(directory(id), clock_.utc_seconds());
  const double begun = clock_.utc_seconds();
  journal.start(0.1);
  journal.checkpoint(4, 40);
  journal.end(5, row.exit_code);
  ticks();
  EXPECT_EQ(state(id), runs::RunState::Running);
  scheduler_.end_by_signal("h1", 11);
  if (row.started) scheduler_.reports["h1"].started = begun + *row.started;
  ticks();
  EXPECT_EQ(state(id), row.state) << run(id).error;
  if (row.state == runs::RunState::Queued) {
    EXPECT_THAT(run(id).reason, HasSubstr("signal 11"));
  }
}
INSTANTIATE_TEST_SUITE_P(
    Codes, LastStart,
    testing::Values(Start{"its_own_attempt", 24, -1.0, runs::RunState::Stopped},
                    Start{"an_earlier_one", 24, 20.0, runs::RunState::Queued},
                    Start{"not_known", 24, std::nullopt, runs::RunState::Stopped},
                    Start{"done_earlier", 0, 20.0, runs::RunState::Succeeded}),
    [](const auto& row) { return row.param.name; });

TEST(CauseNames, AreReadBack) {
  for (int i = 0; i <= static_cast<int>(runs::Cause::Impossible); ++i) {
    EXPECT_EQ(runs::parse_cause(runs::name_of(static_cast<runs::Cause>(i))),
              static_cast<runs::Cause>(i));
  }
  EXPECT_EQ(runs::parse_cause("nonsense"), runs::Cause::None);
}

TEST(LaunchLogs, AreFoundForProcessesAndJobs) {
  TemporaryDirectory folder;
  base::FileSystem& files = base::posix_file_system();
  const base::Path root = folder.path();
  std::filesystem::create_directories(root / "launches");
  std::filesystem::create_directories(root / "submit");
  const std::string token = "0123456789abcdef";
  for (const char* name :
       {"launches/1.log", "submit/0123456789abcdef-9-0.log", "submit/0123456789abcdef-9-10.log",
        "submit/0123456789abcdef-9-2.log", "submit/0123456789abcdef-9.out",
        "submit/0123456789abcdef-12.out", "submit/fedcba9876543210-3-0.log",
        "submit/0123456789abcdef.sh", "submit/0123456789abcdef-9-0.nodes",
        "submit/0123456789abcdef-x-0.log"}) {
    tests::write_file(root / name, "x");
  }
  runs::Launch process;
  process.number = 1;
  runs::Launch job;
  job.number = 2;
  job.token = token;
  std::vector<std::string> names;
  for (const base::Path& path : runs::launch_logs(files, root, {process, job})) {
    names.push_back(path.filename().string());
  }
  EXPECT_THAT(names, ElementsAre("1.log", token + "-9-0.log", token + "-9-2.log",
                                 token + "-9-10.log", token + "-12.out"));
}

// What is logged meanwhile.
std::string said(const std::function<void()>& work) {
  testing::internal::CaptureStdout();
  work();
  return testing::internal::GetCapturedStdout();
}

TEST(Troubles, AreNewsOnceUntilTheyPass) {
  files::Troubles troubles;
  EXPECT_THAT(said([&] { troubles.tell("run a", "no room", 0); }), HasSubstr("run a: no room"));
  EXPECT_EQ(said([&] { troubles.tell("run a", "no room", 100); }), "");
  EXPECT_THAT(said([&] { troubles.tell("run a", "no disk", 200); }), HasSubstr("no disk"));
  troubles.settle("run a");
  EXPECT_THAT(said([&] { troubles.tell("run a", "no disk", 300); }), HasSubstr("no disk"));
}

TEST(Troubles, OfManyAreAFewAMinuteAndANumber) {
  files::Troubles troubles;
  const std::string first = said([&] {
    for (int i = 0; i < 30; ++i) troubles.tell("run " + std::to_string(i), "no room", 0);
  });
  EXPECT_EQ(std::count(first.begin(), first.end(), '\n'), 5);
  EXPECT_THAT(said([&] { troubles.tell("run x", "no disk", 61); }),
              testing::AllOf(HasSubstr("25 more such messages"), HasSubstr("run x: no disk")));
}

}  // namespace
}  // namespace regatta::orchestrator
