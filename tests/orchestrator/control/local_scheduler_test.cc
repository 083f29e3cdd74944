#include "orchestrator/control/local_scheduler.h"

#include <gmock/gmock.h>
#include <signal.h>

#include <fstream>
#include <memory>

#include "base/text.h"
#include "tests/orchestrator/support.h"

namespace regatta::orchestrator {
namespace {

using tests::eventually;

const std::string kTrainer = REGATTA_BINARY_DIR "/tests/orchestrator/fake_trainer";

class LocalSchedulerTest : public testing::Test {
 protected:
  LocalSchedulerTest() : scheduler_(kTrainer) {
    const base::Path data = folder_.path() / "data";
    std::filesystem::create_directories(data);
    script("hold_at 1\n");
    const auto made = trainer::contract::RunDirectory::create(base::posix_file_system(), run(),
                                                              tests::run_file(data.string()));
    journal_folder_ = made.path() / "attempts";
  }
  ~LocalSchedulerTest() override {
    for (const std::string& handle : started_) scheduler_.kill(handle);
    for (const pid_t process : living()) ::kill(process, SIGKILL);
  }

  base::Path run() const { return folder_.path() / "run"; }
  // Starts the trainer and waits until it can take a signal.
  std::string submit(const std::string& token) {
    const std::string handle = scheduler_.submit({run(), folder_.path() / "log", token});
    started_.push_back(handle);
    EXPECT_TRUE(
        eventually([&] { return !base::posix_file_system().list(journal_folder_).empty(); }));
    return handle;
  }
  void script(const std::string& text) const {
    tests::write_file(folder_.path() / "data" / "script", text);
  }
  // What the trainer started.
  std::vector<pid_t> tree() const {
    std::vector<pid_t> processes;
    std::ifstream file(folder_.path() / "data" / "tree");
    for (pid_t process = 0; file >> process;) processes.push_back(process);
    return processes;
  }
  // A process that ended and has no parent to reap it may stay for ever as a zombie.
  std::vector<pid_t> living() const {
    std::vector<pid_t> processes;
    for (const pid_t process : tree()) {
      if (base::process_start_ticks(process)) processes.push_back(process);
    }
    return processes;
  }
  static std::int64_t process_of(const std::string& handle) {
    return *base::parse_integer(handle.substr(0, handle.find(':')));
  }

  tests::TemporaryDirectory folder_;
  base::Path journal_folder_;
  control::LocalScheduler scheduler_;
  std::vector<std::string> started_;
};

TEST_F(LocalSchedulerTest, StartsStopsAndTellsTheExitCode) {
  const std::string handle = submit("token");
  EXPECT_EQ(scheduler_.poll(handle).state, runs::ProcessState::Running);
  scheduler_.stop(handle);
  ASSERT_TRUE(
      eventually([&] { return scheduler_.poll(handle).state == runs::ProcessState::Ended; }));
  EXPECT_EQ(scheduler_.poll(handle).exit_code, 24);
  EXPECT_EQ(scheduler_.poll(handle).exit_code, 24) << "asked again, it says the same";
  scheduler_.stop(handle);  // what is gone is left alone
  scheduler_.kill(handle);
}

TEST_F(LocalSchedulerTest, KillTellsTheSignal) {
  const std::string handle = submit("token");
  scheduler_.kill(handle);
  ASSERT_TRUE(
      eventually([&] { return scheduler_.poll(handle).state == runs::ProcessState::Ended; }));
  EXPECT_EQ(scheduler_.poll(handle).signal, SIGKILL);
  EXPECT_EQ(scheduler_.poll(handle).exit_code, std::nullopt);
}

TEST_F(LocalSchedulerTest, KillReachesEveryProcessGroupOfTheSession) {
  script("hold_at 1\nignore_term 1\ntree 3\n");
  const std::string handle = submit("token");
  ASSERT_TRUE(eventually([&] { return tree().size() == 6; }));
  for (const pid_t process : tree()) {
    EXPECT_EQ(::getsid(process), process_of(handle));
    EXPECT_NE(::getpgid(process), process_of(handle)) << "the test needs groups of their own";
  }
  // Somebody else's process, in another session, goes on.
  base::Command sleep;
  sleep.arguments = {"sleep", "1000"};
  sleep.new_session = true;
  const pid_t bystander = base::spawn(sleep);
  control::LocalScheduler other(kTrainer);
  other.kill(handle);  // a controller that is not their parent
  EXPECT_TRUE(eventually([&] { return living().empty(); })) << living().size() << " live on";
  EXPECT_TRUE(
      eventually([&] { return scheduler_.poll(handle).state == runs::ProcessState::Ended; }));
  EXPECT_TRUE(base::process_start_ticks(bystander).has_value());
  ::kill(bystander, SIGKILL);
  (void)base::wait_exit(bystander);
}

TEST_F(LocalSchedulerTest, WhatAnAttemptLeftBehindIsKilledWithItsEnd) {
  script("tree 2\nleave 1\n");
  const std::string handle = submit("token");
  ASSERT_TRUE(eventually([&] { return tree().size() == 4; }));
  ASSERT_TRUE(
      eventually([&] { return scheduler_.poll(handle).state == runs::ProcessState::Ended; }));
  EXPECT_EQ(scheduler_.poll(handle).signal, SIGKILL);
  EXPECT_TRUE(eventually([&] { return living().empty(); })) << living().size() << " live on";
}

TEST_F(LocalSchedulerTest, AnotherControllerFindsTheProcessAgain) {
  const std::string handle = submit("0123abcd");
  control::LocalScheduler other(kTrainer);
  EXPECT_EQ(other.find("0123abcd", 0).handle, handle);
  EXPECT_EQ(other.find("0123abc", 0).handle, std::nullopt) << "the whole token, not a part";
  EXPECT_EQ(other.poll(handle).state, runs::ProcessState::Running);
  other.stop(handle);
  // Its parent reaps it; to the other it is only gone.
  ASSERT_TRUE(eventually([&] { return other.poll(handle).state == runs::ProcessState::Gone; }));
  ASSERT_TRUE(
      eventually([&] { return scheduler_.poll(handle).state == runs::ProcessState::Ended; }));
  EXPECT_EQ(other.find("0123abcd", 0).handle, std::nullopt);
}

TEST_F(LocalSchedulerTest, AdoptsOnlyWhatWorksOnThisRun) {
  const std::string handle = submit("token");
  control::LocalScheduler other(kTrainer);
  EXPECT_EQ(other.adopt(process_of(handle), run()), handle);
  EXPECT_EQ(other.adopt(process_of(handle), folder_.path()), std::nullopt);
  EXPECT_EQ(other.adopt(::getpid(), run()), std::nullopt) << "a reused id is another program";
  for (const std::int64_t process :
       {std::int64_t{0}, std::int64_t{1}, std::int64_t{-1}, std::int64_t{1} << 40U}) {
    EXPECT_EQ(other.adopt(process, run()), std::nullopt);
  }
}

TEST_F(LocalSchedulerTest, HandlesOfAnotherTimeAreGone) {
  const std::string handle = submit("token");
  const std::vector<std::string> parts = base::split(handle, ':');
  control::LocalScheduler other(kTrainer);
  for (const std::string& stale : std::vector<std::string>{
           parts[0] + ":" + parts[1] + ":another-boot", parts[0] + ":7:" + parts[2], "", "x", "1:2",
           "-5:1:" + parts[2], "99999999999:1:" + parts[2]}) {
    EXPECT_EQ(other.poll(stale).state, runs::ProcessState::Gone) << stale;
    other.stop(stale);
    other.kill(stale);
  }
  EXPECT_EQ(scheduler_.poll(handle).state, runs::ProcessState::Running)
      << "none of them reached it";
  EXPECT_EQ(other.poll(parts[0] + ":7:another-boot").cause, runs::Cause::NodeFailure);
  EXPECT_EQ(other.poll(parts[0] + ":7:" + parts[2]).cause, runs::Cause::None);
  EXPECT_EQ(other.poll("slurm:7:0123456789abcdef").cause, runs::Cause::None)
      << "no machine of ours";
}

// It may be there again in a moment (being installed anew), so no run of a queue fails for it.
TEST_F(LocalSchedulerTest, ATrainerThatCannotBeStartedNowIsAskedForLater) {
  control::LocalScheduler broken(folder_.path() / "absent");
  try {
    (void)broken.submit({run(), folder_.path() / "log", "t"});
    FAIL();
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), base::Code::Conflict);
  }
}

}  // namespace
}  // namespace regatta::orchestrator
