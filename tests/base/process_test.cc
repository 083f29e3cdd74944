#include "base/process.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <stop_token>
#include <thread>

#include "base/error.h"
#include "base/text.h"
#include "base/unique_fd.h"
#include "tests/base/faulty_file_system.h"

namespace regatta::base {
namespace {

using testing::HasSubstr;

// Long enough for any machine; tests that expect an end wait no longer than they must.
constexpr double kPatience = 120;

Command shell(const std::string& script) {
  Command command;
  command.arguments = {"sh", "-c", script};
  return command;
}

// Waits until `done`, false after kPatience.
template <typename Done>
bool eventually(const Done& done) {
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::duration<double>(kPatience);
  while (!done()) {
    if (std::chrono::steady_clock::now() > give_up) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

TEST(Run, ReturnsOutputErrorsAndCode) {
  const Output output = run(shell("echo out; echo err >&2; exit 3"), kPatience);
  EXPECT_EQ(output.text, "out\n");
  EXPECT_EQ(output.errors, "err\n");
  EXPECT_EQ(output.exit.code, 3);
  EXPECT_EQ(output.exit.signal, std::nullopt);
  EXPECT_FALSE(output.timed_out);
}

TEST(Run, PassesArgumentsUntouched) {
  Command command;
  command.arguments = {"printf", "%s|", "a b", "$(reboot)", "*", "", "x'y\"z"};
  EXPECT_EQ(run(command, kPatience).text, "a b|$(reboot)|*||x'y\"z|");
}

TEST(Run, SetsEnvironmentAndDirectory) {
  const tests::TemporaryDirectory directory;
  Command command = shell("echo $REGATTA_TEST_VALUE $REGATTA_TEST_OTHER; pwd -P");
  command.environment = {{"REGATTA_TEST_VALUE", "a=b"}, {"REGATTA_TEST_OTHER", "c"}};
  command.directory = directory.path();
  EXPECT_EQ(run(command, kPatience).text,
            "a=b c\n" + std::filesystem::canonical(directory.path()).string() + "\n");
}

TEST(Run, ReportsSignals) {
  const Output output = run(shell("kill -9 $$"), kPatience);
  EXPECT_EQ(output.exit.code, std::nullopt);
  EXPECT_EQ(output.exit.signal, SIGKILL);
  EXPECT_FALSE(output.timed_out);
}

TEST(Run, TakesLargeOutputOnBothStreams) {
  const Output output =
      run(shell("head -c 3000000 /dev/zero; head -c 3000000 /dev/zero >&2"), kPatience);
  EXPECT_EQ(output.exit.code, 0);
  EXPECT_EQ(output.text.size(), 3'000'000U);
  EXPECT_EQ(output.errors.size(), 1U << 20U) << "the rest is read and dropped";
}

TEST(Run, SaysThatMoreWasWrittenThanIsKept) {
  struct Row {
    const char* script;
    bool cut;
  };
  for (const Row& row :
       {Row{"printf 0123456789", false}, Row{"printf 0123456789x", true},
        Row{"head -c 1048576 /dev/zero >&2", false}, Row{"head -c 1048577 /dev/zero >&2", true}}) {
    Command command = shell(row.script);
    command.most_text = 10;
    const Output output = run(command, kPatience);
    EXPECT_EQ(output.cut, row.cut) << row.script;
    EXPECT_LE(output.text.size(), 10U) << row.script;
    EXPECT_EQ(output.exit.code, 0) << "the rest is read and dropped";
  }
}

TEST(Run, ARequestedStopEndsItAtOnce) {
  for (const char* const script :
       {"sleep 1000", "trap '' TERM INT; sleep 1000 & wait", "exec >&- 2>&-; exec sleep 1000"}) {
    std::stop_source stop;
    const std::jthread asks([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
      stop.request_stop();
    });
    const auto begin = std::chrono::steady_clock::now();
    const Output output = run(shell(script), kPatience, stop.get_token());
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30)) << script;
    EXPECT_TRUE(output.stopped) << script;
    EXPECT_FALSE(output.timed_out) << script;
    EXPECT_EQ(output.exit.signal, SIGKILL) << script;
  }
  std::stop_source never;
  EXPECT_FALSE(run(shell("true"), kPatience, never.get_token()).stopped);
}

TEST(Run, StdinIsEmpty) { EXPECT_EQ(run({{"cat"}, {}, {}, {}, false}, kPatience).text, ""); }

TEST(Run, MissingProgramsAndDirectoriesAreErrors) {
  struct Row {
    const char* name;
    Command command;
  };
  Command missing;
  missing.arguments = {"regatta-no-such-program"};
  Command missing_path;
  missing_path.arguments = {"/no/such/program"};
  Command not_executable;
  not_executable.arguments = {"/dev/null"};
  Command lost = shell("true");
  lost.directory = "/no/such/directory";
  for (const Row& row : {Row{"program", missing}, Row{"path", missing_path},
                         Row{"not executable", not_executable}, Row{"directory", lost}}) {
    SCOPED_TRACE(row.name);
    try {
      (void)run(row.command, kPatience);
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::Operator);
      EXPECT_THAT(error.what(), HasSubstr(row.command.arguments[0]));
    }
  }
}

TEST(Run, DeadlineKillsGrandchildren) {
  const tests::TemporaryDirectory directory;
  const Path file = directory.path() / "grandchild";
  Command command = shell("sleep 1000 & echo $! > \"$FILE\"; wait");
  command.environment = {{"FILE", file.string()}};
  const Output output = run(command, 1.0);
  EXPECT_TRUE(output.timed_out);
  EXPECT_EQ(output.exit.signal, SIGKILL);
  // On a very busy machine the deadline may have struck before the grandchild was there.
  if (!posix_file_system().exists(file))
    GTEST_SKIP() << "the shell did not get to start within 1 s";
  const std::string text = posix_file_system().read(file, 100);
  const auto grandchild = parse_integer(std::string_view(text).substr(0, text.find('\n')));
  if (!grandchild) GTEST_SKIP() << "the shell did not get to write within 1 s";
  EXPECT_TRUE(eventually(
      [&] { return !process_start_ticks(static_cast<pid_t>(*grandchild)).has_value(); }));
}

TEST(Run, DeadlineCoversAProgramThatClosedItsOutputs) {
  const Output output = run(shell("exec >&- 2>&-; exec sleep 1000"), 0.5);
  EXPECT_TRUE(output.timed_out);
  EXPECT_EQ(output.exit.signal, SIGKILL);
}

TEST(Run, OutputsClosedBeforeTheEndAreNoTimeout) {
  const Output output = run(shell("exec >&- 2>&-; sleep 0.2; exit 5"), kPatience);
  EXPECT_FALSE(output.timed_out);
  EXPECT_EQ(output.exit.code, 5);
}

TEST(Run, HugeAndNegativeDeadlines) {
  EXPECT_FALSE(run(shell("true"), 1e300).timed_out);
  EXPECT_TRUE(run(shell("sleep 1000"), -1).timed_out);
}

TEST(Run, InheritsNoDescriptor) {
  const tests::TemporaryDirectory directory;
  // As a library might open it: without O_CLOEXEC.
  const int leaked = ::open((directory.path() / "leak").c_str(), O_RDWR | O_CREAT, 0600);
  ASSERT_GE(leaked, 3);
  // The listing's own descriptor is the only one beyond the three.
  const Output output = run({{"ls", "/proc/self/fd"}, {}, {}, {}, false}, kPatience);
  ::close(leaked);
  EXPECT_EQ(split(output.text, '\n').size(), 5U) << output.text;
}

TEST(Run, WorksWithoutStandardStreams) {
  // In a child, so that this test's own streams stay.
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::close(0);
    ::close(1);
    ::close(2);
    bool good = false;
    try {
      const Output output = run(shell("cat; echo out; echo err >&2"), kPatience);
      good = output.text == "out\n" && output.errors == "err\n" && output.exit.code == 0;
    } catch (const Error&) {
    }
    ::_exit(good ? 0 : 1);
  }
  EXPECT_EQ(wait_exit(child).code, 0);
}

TEST(Run, StdinIsWhatItIsGiven) {
  const tests::TemporaryDirectory directory;
  const Path path = directory.path() / "input";
  replace_file(posix_file_system(), path, "what stands there");
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  Command command;
  command.arguments = {"cat"};
  command.input = file.get();
  EXPECT_EQ(run(command, kPatience).text, "what stands there");
}

// In a process of its own, whose streams can be seen and whose signals hit nobody else.
int in_place(const std::string& script) {
  const Output output = run_in_place(shell(script));
  ::dprintf(STDERR_FILENO, "[%s|%s|%d|%d]", output.text.c_str(), output.errors.c_str(),
            output.exit.code.value_or(-1), output.exit.signal.value_or(-1));
  return 7;
}

TEST(RunInPlace, WritesAtOnceAndKeepsWhatWasWritten) {
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  const Output output = run_in_place(shell("echo out; echo err >&2; exit 3"));
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "out\n");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "err\n");
  EXPECT_EQ(output.text, "out\n");
  EXPECT_EQ(output.errors, "err\n");
  EXPECT_EQ(output.exit.code, 3);
}

TEST(RunInPlaceDeathTest, HandsSignalsOn) {
  EXPECT_EXIT(std::exit(in_place("trap 'echo caught; exit 5' TERM; kill -TERM $PPID; "
                                 "i=0; while [ $i -lt 600 ]; do i=$((i+1)); sleep 0.1; done")),
              testing::ExitedWithCode(7), "\\[caught\n\\|\\|5\\|-1\\]");
}

TEST(RunInPlaceDeathTest, TellsTheSignalThatEndedIt) {
  EXPECT_EXIT(std::exit(in_place("kill -INT $$")), testing::ExitedWithCode(7), "\\|-1\\|2\\]");
}

TEST(RunInPlaceDeathTest, AfterItSignalsEndThisProcessAgain) {
  EXPECT_EXIT(
      {
        in_place("true");
        ::raise(SIGTERM);
      },
      testing::KilledBySignal(SIGTERM), "");
}

TEST(Spawn, AppendsToItsOutputFile) {
  const tests::TemporaryDirectory directory;
  Command command = shell("echo one; echo two >&2");
  command.output_path = directory.path() / "log";
  EXPECT_EQ(wait_exit(spawn(command)).code, 0);
  EXPECT_EQ(wait_exit(spawn(command)).code, 0);
  EXPECT_EQ(posix_file_system().read(command.output_path, 100), "one\ntwo\none\ntwo\n");
}

TEST(Spawn, PollsUntilTheEnd) {
  Command command;
  command.arguments = {"sleep", "1000"};
  const pid_t child = spawn(command);
  EXPECT_FALSE(poll_exit(child).has_value());
  EXPECT_TRUE(process_start_ticks(child).has_value());
  EXPECT_EQ(process_start_ticks(child), process_start_ticks(child));
  ::kill(child, SIGTERM);
  std::optional<Exit> exit;
  EXPECT_TRUE(eventually([&] { return (exit = poll_exit(child)).has_value(); }));
  ASSERT_TRUE(exit.has_value());
  EXPECT_EQ(exit->signal, SIGTERM);
  EXPECT_FALSE(poll_exit(child).has_value()) << "reaped once";
  EXPECT_FALSE(process_start_ticks(child).has_value());
}

TEST(Spawn, NewSessionLeavesTheGroup) {
  Command command;
  command.arguments = {"sleep", "1000"};
  command.new_session = true;
  const pid_t child = spawn(command);
  EXPECT_EQ(::getsid(child), child);
  ::kill(-child, SIGKILL);
  EXPECT_EQ(wait_exit(child).signal, SIGKILL);
}

TEST(ProcessStart, KnowsThisProcessAndNoZombie) {
  EXPECT_TRUE(process_start_ticks(::getpid()).has_value());
  EXPECT_FALSE(process_start_ticks(0x7fffffff).has_value());
  const pid_t child = spawn(shell("true"));
  EXPECT_TRUE(eventually([&] { return !process_start_ticks(child).has_value(); }))
      << "a zombie counts as gone";
  EXPECT_EQ(wait_exit(child).code, 0);
}

}  // namespace
}  // namespace regatta::base
