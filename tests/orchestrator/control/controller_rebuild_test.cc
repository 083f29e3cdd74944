// The store is lost: what had ended stays as it ended, and what had not goes on.
#include <gmock/gmock.h>
#include <unistd.h>

#include <algorithm>

#include "base/error.h"
#include "orchestrator/runs/run_records.h"
#include "tests/checkpoint/samples.h"
#include "tests/orchestrator/control/controller_fixture.h"
#include "trainer/contract/exit_code.h"

namespace regatta::orchestrator {
namespace {

using testing::HasSubstr;
using tests::JournalAuthor;

class RebuildTest : public ControllerFixture {
 protected:
  RebuildTest() : ControllerFixture(100) {}

  std::string handle() const { return "h" + std::to_string(scheduler_.launches.size()); }
  // The launch of the run, which is the only one that is not over, ends so.
  void end(int code) {
    scheduler_.end(handle(), code);
    ticks(4);
  }
  void wait_for_the_next_attempt() {
    clock_.now += 100;
    ticks();
  }
};

struct End {
  const char* name;
  std::vector<int> codes;  // of its launches
  bool cancel;
  runs::RunState state;
};
class Ends : public RebuildTest, public testing::WithParamInterface<End> {};
TEST_P(Ends, AreFinal) {
  const std::string id = submit();
  ticks();
  if (GetParam().cancel) controller_->cancel(id);
  for (const int code : GetParam().codes) {
    ticks();
    end(code);
    wait_for_the_next_attempt();
  }
  ticks();
  const orchestrator::runs::Run before = run(id);
  ASSERT_EQ(before.state, GetParam().state);
  const std::size_t launches = scheduler_.launches.size();
  const bool knows = GetParam().name[0] != 'u';
  if (!knows) scheduler_.reports.clear();
  for (int loss = 0; loss < 2; ++loss) {
    clock_.now += 1000;
    lose_the_store();
    EXPECT_EQ(state(id), before.state) << "not even at first is it shown as anything else";
    for (int i = 0; i < 10; ++i) wait_for_the_next_attempt();
    EXPECT_EQ(state(id), before.state);
    EXPECT_EQ(run(id).error, before.error);
    EXPECT_EQ(run(id).failures, before.failures);
    EXPECT_EQ(run(id).ended_utc, before.ended_utc);
    EXPECT_EQ(run(id).created_utc, before.created_utc);
    EXPECT_EQ(scheduler_.launches.size(), launches) << "started again";
    EXPECT_TRUE(store_->unfinished_runs().empty()) << "nothing is left to do";
    EXPECT_TRUE(store_->unsettled_runs(10).empty());
  }
}
INSTANTIATE_TEST_SUITE_P(
    Controller, Ends,
    testing::Values(
        End{"failed_for_good", {22, 22, 22, 22, 22}, false, runs::RunState::Failed},
        End{"unknown_to_the_scheduler", {22, 22, 22, 22, 22}, false, runs::RunState::Failed},
        End{"bad_input", {20}, false, runs::RunState::Failed},
        End{"succeeded", {0}, false, runs::RunState::Succeeded},
        End{"succeeded_late", {22, 22, 0}, false, runs::RunState::Succeeded},
        End{"stopped", {24}, false, runs::RunState::Stopped},
        End{"cancelled", {24}, true, runs::RunState::Cancelled}),
    [](const auto& each) { return std::string(each.param.name); });

TEST_F(RebuildTest, ACancellationOfWhatNeverRanIsFinal) {
  scheduler_.refuse_for_now = true;
  const std::string id = submit();
  ticks();
  controller_->cancel(id);
  lose_the_store();  // at once: it was acknowledged
  scheduler_.refuse_for_now = false;
  for (int i = 0; i < 10; ++i) wait_for_the_next_attempt();
  EXPECT_EQ(state(id), runs::RunState::Cancelled);
  EXPECT_TRUE(scheduler_.launches.empty());
}

TEST_F(RebuildTest, WhatWasRefusedForNowIsTriedAgain) {
  scheduler_.refuse_for_now = true;
  const std::string id = submit();
  ticks();
  std::filesystem::remove(base::Path(run(id).directory) / "state.json");  // killed before that
  scheduler_.refuse_for_now = false;
  lose_the_store();
  for (int i = 0; i < 3; ++i) wait_for_the_next_attempt();
  EXPECT_EQ(state(id), runs::RunState::Starting);
  EXPECT_EQ(scheduler_.launches.size(), 1U);
}

TEST_F(RebuildTest, WhatCouldNotBeStartedIsNotTriedAgain) {
  scheduler_.refuse = true;
  const std::string id = submit();
  ticks();
  ASSERT_EQ(state(id), runs::RunState::Failed);
  const std::string error = run(id).error;
  scheduler_.refuse = false;
  lose_the_store();
  for (int i = 0; i < 10; ++i) wait_for_the_next_attempt();
  EXPECT_EQ(state(id), runs::RunState::Failed);
  EXPECT_EQ(run(id).error, error);
  EXPECT_TRUE(scheduler_.launches.empty());
}

// Their journals say how they ended, to every store anew.
TEST_F(RebuildTest, RunsMadeByHandKeepTheirOutcome) {
  for (const auto& [name, code] : {std::pair("good", 0), std::pair("bad", 20)}) {
    const auto made = trainer::contract::RunDirectory::create(
        base::posix_file_system(), folder_.path() / "runs" / name, tests::run_file());
    JournalAuthor journal(made, clock_.utc_seconds());
    journal.start(0.1);
    journal.end(2, code);
  }
  for (int loss = 0; loss < 3; ++loss) {
    lose_the_store();
    for (int i = 0; i < 10; ++i) wait_for_the_next_attempt();
    EXPECT_EQ(state("good"), runs::RunState::Succeeded) << loss;
    EXPECT_EQ(state("bad"), runs::RunState::Failed) << loss;
    EXPECT_EQ(run("good").error, "") << loss;
    EXPECT_NE(run("bad").error, "") << loss;
  }
}

// Of a run that never began, with a link where an attempt would have its journal.
TEST_F(RebuildTest, AnAttemptThatCannotBeReadIsNoNewStart) {
  const std::string id = submit();
  controller_->cancel(id);
  ticks();
  ASSERT_EQ(state(id), runs::RunState::Cancelled);
  const double ended = run(id).ended_utc.value();
  const base::Path attempt = base::Path(run(id).directory) / "attempts" / "1-0123456789abcdef";
  std::filesystem::create_directories(attempt);
  std::filesystem::create_symlink("/none", attempt / "journal.jsonl");
  scheduler_.gone = {0};  // no process has that number
  lose_the_store();
  for (int i = 0; i < 10; ++i) {
    wait_for_the_next_attempt();
    EXPECT_EQ(state(id), runs::RunState::Cancelled) << i;
  }
  EXPECT_EQ(run(id).ended_utc, ended);
}

TEST_F(RebuildTest, WhatRunsIsNeverShownAsQueued) {
  const std::string id = submit();
  ticks();
  end(22);  // state.json is of this end
  wait_for_the_next_attempt();
  ticks();
  ASSERT_EQ(state(id), runs::RunState::Starting);
  ASSERT_EQ(scheduler_.launches.size(), 2U);
  lose_the_store();
  EXPECT_EQ(state(id), runs::RunState::Starting)
      << "before anybody has looked at its second launch";
  ticks();
  EXPECT_EQ(scheduler_.launches.size(), 2U);
}

TEST_F(RebuildTest, FailuresInARowAreCountedOn) {
  const std::string id = submit();
  ticks();
  for (int i = 0; i < 3; ++i) {
    end(22);
    wait_for_the_next_attempt();
  }
  EXPECT_EQ(run(id).failures, 3);
  ASSERT_EQ(scheduler_.launches.size(), 4U);
  lose_the_store();
  ticks();
  EXPECT_EQ(run(id).failures, 3);
  EXPECT_EQ(state(id), runs::RunState::Starting) << "the fourth is at work";
  EXPECT_EQ(scheduler_.launches.size(), 4U);
  end(22);
  wait_for_the_next_attempt();
  end(22);
  wait_for_the_next_attempt();
  EXPECT_EQ(state(id), runs::RunState::Failed);
  EXPECT_EQ(scheduler_.launches.size(), 5U);
}

// A directory in the file's place can be neither read nor replaced.
TEST_F(RebuildTest, ACancellationThatCouldNotBeWrittenDownIsWrittenLater) {
  for (const bool restart : {false, true}) {
    const std::string id = submit();
    ticks();
    const base::Path submission = base::Path(run(id).directory) / runs::kSubmissionName;
    std::filesystem::remove(submission);
    std::filesystem::create_directories(submission / "full");
    EXPECT_TRUE(controller_->cancel(id));
    ticks();
    wait_for_the_next_attempt();  // and that it cannot be written now, either
    if (restart) {
      close();
      open();
    }
    std::filesystem::remove_all(submission);
    wait_for_the_next_attempt();
    const auto written = runs::read_submission(base::posix_file_system(), run(id).directory);
    ASSERT_TRUE(written);
    EXPECT_EQ(written->wanted, runs::Wanted::Cancel);
  }
}

TEST_F(RebuildTest, WhatCouldNotBeWrittenDownIsWrittenLater) {
  const std::string id = submit();
  ticks();
  const base::Path state_file = base::Path(run(id).directory) / "state.json";
  std::filesystem::create_directories(state_file / "full");
  end(22);
  wait_for_the_next_attempt();
  end(20);
  ASSERT_EQ(state(id), runs::RunState::Failed);
  EXPECT_FALSE(run(id).settled) << "nothing says so in its directory";
  for (const runs::Launch& launch :
       runs::read_launches(base::posix_file_system(), run(id).directory)) {
    EXPECT_FALSE(launch.over) << "without a state that would be the end of its run";
  }
  std::filesystem::remove_all(state_file);
  for (int i = 0; i < 3; ++i) wait_for_the_next_attempt();
  EXPECT_TRUE(run(id).settled);
  ASSERT_TRUE(runs::read_state(base::posix_file_system(), run(id).directory));
  const auto launches = runs::read_launches(base::posix_file_system(), run(id).directory);
  ASSERT_EQ(launches.size(), 2U);
  EXPECT_TRUE(launches[0].over && launches[1].over);
}

TEST_F(RebuildTest, ProgressCountsOnce) {
  const std::string id = submit();
  ticks();
  JournalAuthor journal(directory(id), clock_.utc_seconds());
  journal.start(0.1);
  journal.checkpoint(1, 10);
  for (int i = 0; i < 3; ++i) {
    end(22);
    wait_for_the_next_attempt();
  }
  ASSERT_EQ(run(id).failures, 3);
  lose_the_store();
  ticks();
  for (int i = 0; i < 2; ++i) {
    end(22);
    wait_for_the_next_attempt();
  }
  EXPECT_EQ(state(id), runs::RunState::Failed) << "step 10 is not progress of the fourth attempt";
}

TEST_F(RebuildTest, OrderAndTimesSurvive) {
  std::vector<std::string> ids;
  for (int i = 0; i < 12; ++i) {
    ids.push_back(submit());
    clock_.now += 1;
  }
  ticks();
  const auto list = [&] {
    std::vector<std::pair<std::string, double>> rows;
    for (const store::RunRow& row : store_->list({}).rows) {
      rows.push_back({row.run.id, row.run.created_utc});
    }
    return rows;
  };
  const auto before = list();
  ASSERT_EQ(before.size(), 12U);
  EXPECT_EQ(before.front().first, ids.back()) << "newest first";
  lose_the_store();
  EXPECT_EQ(list(), before);
}

TEST_F(RebuildTest, ARunMadeByHandKeepsItsTime) {
  const auto made = trainer::contract::RunDirectory::create(
      base::posix_file_system(), folder_.path() / "runs" / "mine", tests::run_file());
  JournalAuthor journal(made, 1000);
  journal.start(0.5);
  journal.end(2, 0);
  lose_the_store();
  ticks();
  EXPECT_EQ(state("mine"), runs::RunState::Succeeded);
  EXPECT_DOUBLE_EQ(run("mine").created_utc, 1000);
  lose_the_store();
  ticks();
  EXPECT_DOUBLE_EQ(run("mine").created_utc, 1000);
  EXPECT_FALSE(std::filesystem::exists(made.path() / "state.json")) << "nothing of ours is in it";
}

// Of a version that did not write the state down.
TEST_F(RebuildTest, WithoutAStateTheNewestLaunchSaysThatItHadEnded) {
  const std::string failed = submit();
  ticks();
  for (int i = 0; i < 5; ++i) {
    end(22);
    wait_for_the_next_attempt();
  }
  const std::string done = submit();
  ticks();
  end(0);
  const std::string busy = submit();
  ticks();
  for (const std::string& id : {failed, done, busy}) {
    std::filesystem::remove(base::Path(run(id).directory) / "state.json");
  }
  const std::size_t launches = scheduler_.launches.size();
  lose_the_store();
  for (int i = 0; i < 10; ++i) wait_for_the_next_attempt();
  EXPECT_EQ(state(failed), runs::RunState::Stopped);
  EXPECT_THAT(run(failed).error, HasSubstr("regatta resume"));
  EXPECT_EQ(state(done), runs::RunState::Succeeded);
  EXPECT_EQ(state(busy), runs::RunState::Starting) << "its process is at work";
  EXPECT_EQ(scheduler_.launches.size(), launches);
}

TEST_F(RebuildTest, AnOldStoresEndsAreWrittenDown) {
  const std::string id = submit();
  ticks();
  end(20);
  const base::Path state_file = base::Path(run(id).directory) / "state.json";
  ASSERT_TRUE(std::filesystem::exists(state_file));
  std::filesystem::remove(state_file);
  orchestrator::runs::Run unsettled = run(id);
  unsettled.settled = false;
  store_->update_run(unsettled);
  close();
  open();
  ticks();
  EXPECT_TRUE(std::filesystem::exists(state_file));
  EXPECT_TRUE(run(id).settled);
}

TEST_F(RebuildTest, DamagedRecordsAreAsGoodAsNone) {
  const std::string id = submit();
  ticks();
  end(20);
  const base::Path directory = run(id).directory;
  for (const char* text : {"", "{", "[]", R"({"state": "splendid"})", R"({"state": 7})",
                           R"({"state": "failed", "failures": "many"})"}) {
    tests::write_file(directory / "state.json", text);
    std::string fault;
    EXPECT_EQ(runs::read_state(base::posix_file_system(), directory, &fault), std::nullopt) << text;
    EXPECT_EQ(fault.find("state.json is damaged: it"), 0u) << fault;
    lose_the_store();
    ticks();
    EXPECT_EQ(state(id), runs::RunState::Stopped) << text;
    EXPECT_EQ(scheduler_.launches.size(), 1U) << text;
  }
}

// With a faulty disk: a submitted run must not pass for one made by hand, nor an ended one be lost.
TEST_F(RebuildTest, WhatCannotBeReadAtTheStartIsReadLater) {
  const std::string id = submit();
  ticks();
  end(20);
  const base::Path kept = run(id).directory;
  const base::Path config = kept / "run.json";
  const std::string text = base::posix_file_system().read(config, 1 << 20);
  tests::write_file(config, "{\"steps\": \"many\"}");  // as good as unreadable
  lose_the_store();
  ticks();
  EXPECT_EQ(store_->run(id), std::nullopt);
  tests::write_file(config, text);
  clock_.now += 11;
  ticks();
  ASSERT_NE(store_->run(id), std::nullopt);
  EXPECT_EQ(state(id), runs::RunState::Failed);
  EXPECT_EQ(scheduler_.launches.size(), 1U);
}

TEST_F(RebuildTest, ADiskThatFailsIsNoMissingRecord) {
  const std::string id = submit();
  tests::FaultyFileSystem files(base::posix_file_system());
  files.fail_at(1, tests::Fault::ForEver);
  EXPECT_THROW((void)runs::read_submission(files, run(id).directory), base::Error);
  EXPECT_THROW((void)runs::read_state(files, run(id).directory), base::Error);
}

TEST_F(RebuildTest, WhatACrashLeftIsRemoved) {
  const std::string id = submit();
  ticks();
  const base::Path directory = run(id).directory;
  const base::Path runs = folder_.path() / "runs";
  tests::write_file(directory / "state.json.tmp-01234567", "{");
  tests::write_file(directory / "launches" / "1.json.tmp-89abcdef", "");
  tests::write_file(directory / "somebody.json.tmp-01234567", "not ours");
  std::filesystem::create_directories(runs / "demo-aaaaaa.tmp-01234567" / "attempts");
  close();
  open();
  ticks();
  EXPECT_FALSE(std::filesystem::exists(directory / "state.json.tmp-01234567"));
  EXPECT_FALSE(std::filesystem::exists(directory / "launches" / "1.json.tmp-89abcdef"));
  EXPECT_TRUE(std::filesystem::exists(directory / "somebody.json.tmp-01234567"));
  EXPECT_TRUE(std::filesystem::exists(runs / "demo-aaaaaa.tmp-01234567")) << "perhaps just made";
  for (int i = 0; i < 10; ++i) {
    clock_.now += 10;
    ticks();
  }
  EXPECT_FALSE(std::filesystem::exists(runs / "demo-aaaaaa.tmp-01234567"));
}

TEST_F(RebuildTest, ADirectoryThatIsAwayForAMomentIsNoLoss) {
  scheduler_.refuse_for_now = true;
  const std::string id = submit();
  (void)submit();
  ticks();
  const base::Path directory = run(id).directory;
  for (int i = 0; i < 3; ++i) {
    std::filesystem::rename(directory, folder_.path() / "elsewhere");
    clock_.now += 50;
    ticks();
    EXPECT_FALSE(runs::is_over(state(id)));
    std::filesystem::rename(folder_.path() / "elsewhere", directory);
    clock_.now += 50;
    ticks();
  }
  scheduler_.refuse_for_now = false;
  clock_.now += 900;
  ticks();
  EXPECT_EQ(state(id), runs::RunState::Starting);
}

TEST_F(RebuildTest, WhatAnotherUserLaidDownIsNeverStarted) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to give a directory to another user";
  const std::string id = submit();
  const base::Path directory = run(id).directory;
  ASSERT_EQ(::chown(directory.c_str(), 65534, 65534), 0);
  lose_the_store();
  for (int i = 0; i < 3; ++i) wait_for_the_next_attempt();
  EXPECT_EQ(state(id), runs::RunState::Stopped);
  EXPECT_EQ(run(id).wanted, runs::Wanted::Observe);
  EXPECT_TRUE(scheduler_.launches.empty());
}

TEST_F(RebuildTest, ACancellationDoesNotWaitForALongJournal) {
  const std::string id = submit();
  ticks();
  JournalAuthor journal(directory(id), clock_.utc_seconds());
  journal.start(0.1);
  journal.append(std::string(std::size_t{40} << 20U, '\n'));
  controller_->cancel(id);
  ticks(1);
  EXPECT_EQ(scheduler_.stopped, std::vector<std::string>{"h1"});
}

// A run shows how it ended before it shows how far it came.
TEST_F(RebuildTest, AnExtensionWaitsForTheJournal) {
  const std::string id = submit();
  ticks();
  JournalAuthor journal(directory(id), clock_.utc_seconds());
  journal.start(0.1);
  journal.step(1, 100);
  journal.end(2, 0);
  const tests::SampleCheckpoint saved(50);
  checkpoint::CheckpointStore(base::posix_file_system(), directory(id).checkpoints_path())
      .write(saved.contents, tests::always);
  end(0);
  const auto refused = [&]() -> std::pair<base::Code, std::string> {
    try {
      (void)controller_->extend(id, R"({"steps": 70})");
    } catch (const base::Error& error) {
      return {error.code(), error.what()};
    }
    return {base::Code::Developer, "it was extended"};
  };
  lose_the_store();
  ASSERT_EQ(state(id), runs::RunState::Succeeded);
  EXPECT_THAT(refused(), testing::Pair(base::Code::Retry, HasSubstr("is still being read")));
  ticks(4);
  EXPECT_THAT(refused(), testing::Pair(base::Code::Conflict, HasSubstr("has trained 100 steps")));
}

TEST_F(RebuildTest, AFileSystemThatIsNotMountedHasLostNothing) {
  const std::string id = submit();
  ticks();
  const base::Path runs = folder_.path() / "runs";
  std::filesystem::rename(runs, folder_.path() / "elsewhere");
  std::filesystem::create_directories(runs);
  scheduler_.reports.clear();
  ticks(10);
  EXPECT_FALSE(runs::is_over(state(id)));
  std::filesystem::remove(runs);
  std::filesystem::rename(folder_.path() / "elsewhere", runs);
  ticks();
  EXPECT_EQ(run(id).error, "");
}

TEST_F(RebuildTest, WhatCannotBeReadIsNotLost) {
  const std::string id = submit();
  ticks();
  const base::Path run_json = base::Path(run(id).directory) / "run.json";
  std::filesystem::rename(run_json, folder_.path() / "aside");
  std::filesystem::create_directory(run_json);
  scheduler_.end(handle(), 0);
  ticks();
  EXPECT_FALSE(runs::is_over(state(id)));
  std::filesystem::remove(run_json);
  std::filesystem::rename(folder_.path() / "aside", run_json);
  ticks();
  EXPECT_EQ(state(id), runs::RunState::Succeeded);
}

TEST_F(RebuildTest, WhatCannotBeReadCanBeEnded) {
  const std::string id = submit();
  ticks();
  const base::Path run_json = base::Path(run(id).directory) / "run.json";
  std::filesystem::remove(run_json);
  std::filesystem::create_directory(run_json);
  EXPECT_TRUE(controller_->cancel(id));
  ticks();
  EXPECT_THAT(scheduler_.stopped, testing::Contains(handle()));
  EXPECT_EQ(state(id), runs::RunState::Stopping);
}

// It was resumed, and the disk could not be written then.
TEST_F(RebuildTest, AStateFromBeforeTheNewestLaunchDecidesNothing) {
  const std::string id = submit();
  ticks();
  const base::Path state_json = base::Path(run(id).directory) / "state.json";
  end(static_cast<int>(trainer::contract::ExitCode::Stopped));
  ticks(4);
  ASSERT_EQ(state(id), runs::RunState::Stopped);
  const std::string before = base::posix_file_system().read(state_json, 65536);
  ASSERT_TRUE(controller_->resume(id));
  ticks(4);
  ASSERT_EQ(scheduler_.launches.size(), 2U);
  tests::write_file(state_json, before);
  scheduler_.end(handle(), 0);
  lose_the_store();
  ticks(4);
  EXPECT_EQ(state(id), runs::RunState::Succeeded);
  EXPECT_EQ(scheduler_.launches.size(), 2U);
  EXPECT_TRUE(store_->launches(run(id).number).front().over);
}

// A launch that could not be written down counts in state.json, and has no file.
TEST_F(RebuildTest, NumbersOfLaunchesAreNotGivenTwice) {
  const std::string id = submit();
  ticks();
  end(static_cast<int>(trainer::contract::ExitCode::Retry));
  wait_for_the_next_attempt();
  ASSERT_EQ(scheduler_.launches.size(), 2U);
  end(static_cast<int>(trainer::contract::ExitCode::Retry));
  std::filesystem::remove(base::Path(run(id).directory) / "launches" / "2.json");
  lose_the_store();
  wait_for_the_next_attempt();
  ASSERT_EQ(scheduler_.launches.size(), 3U);
  EXPECT_EQ(store_->launches(run(id).number).back().number, 3);
  lose_the_store();  // the job is in its file, and in no state
  ticks(4);
  EXPECT_EQ(scheduler_.launches.size(), 3U) << "a second job was started";
}

}  // namespace
}  // namespace regatta::orchestrator
