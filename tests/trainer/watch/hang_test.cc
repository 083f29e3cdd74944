// What is left of ranks that stand still: the report, the request, the stacks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/error.h"
#include "base/process.h"
#include "tests/trainer/samples/small_dataset.h"
#include "trainer/watch/hang_report.h"
#include "trainer/watch/process_stacks.h"

namespace regatta::tests {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;
using namespace regatta::trainer;

constexpr double kDeadlineSeconds = 60;

// Time passes only while somebody sleeps.
class SleepingClock final : public base::Clock {
 public:
  [[nodiscard]] double monotonic_seconds() const override { return now; }
  [[nodiscard]] double utc_seconds() const override { return now; }
  void sleep(std::chrono::duration<double> duration) override {
    now += duration.count();
    if (on_sleep) on_sleep();
  }
  double now = 1000;
  std::function<void()> on_sleep;
};

watch::Trip hanging() {
  watch::Trip trip;
  trip.why = "rank 3 has not been heard of for 12.0 s \x1b";
  trip.rank = 3;
  trip.phase = watch::Phase::Reduce;
  trip.seconds = 12.5;
  trip.hangs = true;
  return trip;
}

class HangReport : public testing::Test {
 protected:
  HangReport() {
    places_.report = directory_.path() / "hang.json";
    places_.request = directory_.path() / "a.dump";
  }
  [[nodiscard]] std::string read(const base::Path& path) const {
    return files_.read(path, 1U << 20U);
  }
  [[nodiscard]] bool is_there(const base::Path& path) const { return files_.exists(path); }

  TemporaryDirectory directory_;
  base::FileSystem& files_ = base::posix_file_system();
  SleepingClock clock_;
  watch::HangPlaces places_;
};

TEST_F(HangReport, SaysWhoAndWhere) {
  const auto json = nlohmann::json::parse(watch::hang_json(hanging(), "node02", 1));
  EXPECT_EQ(json.at("rank"), 3);
  EXPECT_EQ(json.at("host"), "node02");
  EXPECT_EQ(json.at("phase"), "reduce");
  EXPECT_EQ(json.at("seconds"), 12.5);
  EXPECT_EQ(json.at("why"), hanging().why);
  EXPECT_EQ(json.at("told_by"), 1);
  EXPECT_EQ(json.size(), 6U);
}

TEST_F(HangReport, WaitsUntilTheRequestIsTakenAway) {
  int looks = 0;
  clock_.on_sleep = [&] {
    EXPECT_TRUE(is_there(places_.report)) << "the report is there before the answer";
    if (++looks == 5) files_.remove_file(places_.request);
  };
  watch::report_hang(files_, clock_, places_, "first\n");
  EXPECT_EQ(looks, 5);
  EXPECT_EQ(read(places_.report), "first\n");
}

TEST_F(HangReport, NobodyWaitsForEver) {
  watch::report_hang(files_, clock_, places_, "first\n");
  EXPECT_NEAR(clock_.now, 1000 + watch::kMostDumpSeconds, 1);
  EXPECT_FALSE(is_there(places_.request)) << "an answer now would be of other processes";
}

TEST_F(HangReport, LaterOnesWaitAndChangeNothing) {
  std::ofstream(places_.report) << "first\n";
  std::ofstream(places_.request) << "";
  clock_.on_sleep = [&] { files_.remove_file(places_.request); };
  watch::report_hang(files_, clock_, places_, "second\n");
  EXPECT_EQ(read(places_.report), "first\n");
  EXPECT_LT(clock_.now, 1001);
  // And one that comes when all is over asks for nothing anew.
  clock_.on_sleep = nullptr;
  watch::report_hang(files_, clock_, places_, "third\n");
  EXPECT_FALSE(is_there(places_.request));
  EXPECT_LT(clock_.now, 1001);
}

TEST_F(HangReport, WithoutSomebodyToAnswerNobodyWaits) {
  places_.request.clear();
  watch::report_hang(files_, clock_, places_, "first\n");
  EXPECT_EQ(clock_.now, 1000);
  EXPECT_EQ(read(places_.report), "first\n");
}

TEST_F(HangReport, WhatCannotBeWrittenIsNoFurtherHarm) {
  places_.report = directory_.path() / "absent" / "hang.json";
  places_.request = directory_.path() / "absent" / "a.dump";
  EXPECT_NO_THROW(watch::report_hang(files_, clock_, places_, "first\n"));
  EXPECT_EQ(clock_.now, 1000);
}

// A process that looks like a rank of a run: `sh run --directory <it>` with a script of that name.
class ProcessStacks : public testing::Test {
 protected:
  ProcessStacks() {
    // It waits without a child: between fork and exec one would look like the script itself.
    const base::Path fifo = directory_.path() / "fifo";
    EXPECT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
    std::ofstream(directory_.path() / "run") << "exec 3<>fifo\necho ready > ready\nread line <&3\n";
    base::Command command;
    command.arguments = {"/bin/sh", "run", "--directory", run_.string()};
    command.directory = directory_.path();
    command.environment = {{"OMPI_COMM_WORLD_RANK", "3"},
                           {"OMPI_COMM_WORLD_SIZE", "4"},
                           {"OMPI_COMM_WORLD_LOCAL_RANK", "1"}};
    child_ = base::spawn(command);
    wait([&] { return std::filesystem::exists(directory_.path() / "ready"); });
  }
  ~ProcessStacks() override {
    ::kill(child_, SIGKILL);
    (void)base::wait_exit(child_);
  }
  static void wait(const std::function<bool()>& condition) {
    const auto deadline =
        std::chrono::steady_clock::now() + std::chrono::duration<double>(kDeadlineSeconds);
    while (!condition()) {
      ASSERT_LT(std::chrono::steady_clock::now(), deadline);
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }

  TemporaryDirectory directory_;
  base::Path run_ = directory_.path() / "my run";
  pid_t child_ = 0;
};

TEST_F(ProcessStacks, FindsTheProcessesOfTheRunAlone) {
  EXPECT_THAT(watch::processes_of_run(run_), testing::ElementsAre(child_));
  EXPECT_THAT(watch::processes_of_run(directory_.path() / "my"), testing::IsEmpty());
  EXPECT_EQ(watch::describe_run(directory_.path() / "my", "node01", 1),
            "node node01: no process trains in " + (directory_.path() / "my").string() + "\n");
}

// As `stacks --directory run` says it beside `run --directory ./run`, whatever the option's form.
TEST_F(ProcessStacks, RelativePathsAreTheSameDirectory) {
  const base::Path before = std::filesystem::current_path();
  std::filesystem::current_path(directory_.path());
  const std::vector<pid_t> of_relative = watch::processes_of_run("my run");
  const std::vector<pid_t> of_dotted = watch::processes_of_run("./other/../my run/");
  const std::vector<pid_t> of_other = watch::processes_of_run("my");
  std::filesystem::current_path(before);
  EXPECT_THAT(of_relative, testing::ElementsAre(child_));
  EXPECT_THAT(of_dotted, testing::ElementsAre(child_));
  EXPECT_THAT(of_other, testing::IsEmpty());

  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{"--directory", "my run"},
                                             {"file.yaml", "--directory", "my run"},
                                             {"--directory=./my run"}}) {
    base::Command command;
    command.arguments = {"/bin/sh", "run"};
    command.arguments.insert(command.arguments.end(), words.begin(), words.end());
    command.directory = directory_.path();
    const pid_t second = base::spawn(command);
    wait([&] { return watch::processes_of_run(run_).size() == 2; });
    EXPECT_THAT(watch::processes_of_run(run_), Contains(second));
    ::kill(second, SIGKILL);
    (void)base::wait_exit(second);
  }
}

TEST_F(ProcessStacks, AStoppedRankAppears) {
  ::kill(child_, SIGSTOP);
  wait([&] { return ::waitpid(child_, nullptr, WUNTRACED | WNOHANG) == child_; });
  const std::string text = watch::describe_run(run_, "node02", 20);
  EXPECT_EQ(text.substr(0, text.find('\n')),
            "rank 3, node node02, pid " + std::to_string(child_) + ", state T (stopped)");
  EXPECT_THAT(text, HasSubstr("  thread " + std::to_string(child_) + " sh: state T (stopped)"));
  // Whichever of them is installed, or a word that none is.
  EXPECT_THAT(text, testing::AnyOf(HasSubstr("eu-stack -p " + std::to_string(child_)),
                                   HasSubstr("gdb -p " + std::to_string(child_)),
                                   HasSubstr("no user stacks")));
}

TEST_F(ProcessStacks, ARankThatSleepsIsNotStopped) {
  const std::string text = watch::describe_process(child_, "node02", 20);
  EXPECT_THAT(text.substr(0, text.find('\n')), Not(HasSubstr("state T")));
}

TEST_F(ProcessStacks, AProcessThatHasGoneIsNoError) {
  ::kill(child_, SIGKILL);
  siginfo_t info{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(child_), &info, WEXITED | WNOWAIT), 0);
  EXPECT_THAT(watch::processes_of_run(run_), Not(Contains(child_)))
      << "a zombie has no command line";
  EXPECT_THAT(watch::describe_process(child_, "n", 20), HasSubstr("state Z"));
}

}  // namespace
}  // namespace regatta::tests
