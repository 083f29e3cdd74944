// The real `regatta serve` with fake Slurm commands first in PATH, which hang when they are told
// to; and what its trainers get of its environment where there is no Slurm.
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <iterator>

#include "base/process.h"
#include "base/text.h"
#include "tests/orchestrator/support.h"

namespace regatta::orchestrator {
namespace {

using testing::HasSubstr;
using testing::Not;
using tests::eventually;

const std::string kRegatta = REGATTA_BINARY_DIR "/orchestrator/regatta";
const std::string kTrainer = REGATTA_BINARY_DIR "/tests/orchestrator/fake_trainer";
constexpr double kDeadline = 120;
// Far below the deadlines of Slurm's commands (20 and 30 s), far above what a busy machine needs.
constexpr double kSoon = 15;
constexpr double kChoice = 15;  // what `auto` waits for Slurm, 5 s, and the start

// `@` is the folder. A command that hangs does so after it has written its call down.
const std::string kCommon = R"sh(#!/bin/sh
case "$1" in --version) echo slurm-wlm 22.05.8; exit;; esac
name=${0##*/}
for word; do case $word in --comment=*) job=${word#*=};; --format=*) format=${word#*=};; esac; done
echo "$name $*" >> '@/calls'
case " $(cat '@/hang' 2> /dev/null) " in *" $name "*) exec sleep 600;; esac
)sh";
const std::string kSbatch = "echo \"RUNNING $job\" > '@/jobs/'$$; echo $$\n";
const std::string kSqueue = R"sh(for file in '@/jobs/'*; do
  test -e "$file" || exit 0
  read -r state job < "$file"
  printf '%s\n' "$format" |
    sed "s/%A/${file##*/}/g; s/%T/$state/; s/%k/$job/; s/%j/demo/; s/%[a-zA-Z]//g"
done
)sh";
const std::string kScontrol = R"sh(case "$*" in
  "show config") echo 'AccountingStorageType = (null)';;
  *node*) echo NodeName=node01 State=IDLE;;
esac
)sh";
const std::string kScancel =
    "for word; do id=$word; done; echo \"CANCELLED $(cut -d' ' -f2 '@/jobs/'$id)\" > "
    "'@/jobs/'$id\n";

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

class SlowSlurmTest : public testing::Test {
 protected:
  SlowSlurmTest() {
    for (const char* const name : {"bin", "jobs", "data"}) {
      std::filesystem::create_directories(folder_.path() / name);
    }
    program("sbatch", kSbatch);
    program("squeue", kSqueue);
    program("sacct", "");
    program("scontrol", kScontrol);
    program("scancel", kScancel);
  }
  ~SlowSlurmTest() override {
    if (attempt_ != 0) ::kill(attempt_, SIGKILL);
    (void)stop_serving(SIGKILL);
  }

  void program(const std::string& name, const std::string& body) {
    std::string text = kCommon + body;
    for (std::size_t at = 0; (at = text.find('@', at)) != std::string::npos;) {
      if (text[at + 1] == '"') {  // "$@"
        ++at;
        continue;
      }
      text.replace(at, 1, folder_.path().string());
    }
    const base::Path path = folder_.path() / "bin" / name;
    tests::write_file(path, text);
    ::chmod(path.c_str(), 0755);
  }
  // These commands hang from now on.
  void hang(const std::string& names) { tests::write_file(folder_.path() / "hang", names); }
  std::size_t calls_of(const std::string& name) const {
    std::ifstream lines(folder_.path() / "calls");
    std::size_t count = 0;
    for (std::string line; std::getline(lines, line);) {
      count += line.rfind(name + " ", 0) == 0 ? 1U : 0U;
    }
    return count;
  }

  static std::string read(const base::Path& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  base::Path state() const { return folder_.path() / "state"; }
  void serve(const std::string& scheduler, const std::map<std::string, std::string>& more = {}) {
    base::Command command;
    command.arguments = {kRegatta,
                         "serve",
                         "--port",
                         "0",
                         "--data",
                         state(),
                         "--trainer",
                         kTrainer,
                         "--scheduler",
                         scheduler,
                         "--allow-privileged"};
    command.environment = more;
    command.environment["PATH"] = (folder_.path() / "bin").string() + ":/usr/bin:/bin";
    command.output_path = folder_.path() / "serve.log";
    server_ = base::spawn(command);
    ASSERT_TRUE(eventually([&] {
      for (const std::string& line : base::split(read(command.output_path), '\n')) {
        if (line.rfind("http://", 0) == 0) url_ = line;
      }
      return !url_.empty();
    })) << read(command.output_path);
  }
  // How long it took.
  double stop_serving(int signal) {
    if (server_ == 0) return 0;
    const auto begin = std::chrono::steady_clock::now();
    ::kill(server_, signal);
    (void)base::wait_exit(server_);
    server_ = 0;
    return seconds_since(begin);
  }
  base::Output regatta(const std::vector<std::string>& arguments) {
    base::Command command;
    command.arguments = {kRegatta};
    command.arguments.insert(command.arguments.end(), arguments.begin(), arguments.end());
    const base::Path socket = state() / "controller.sock";
    command.environment["REGATTA_SERVER"] =
        std::filesystem::exists(socket) ? "unix:" + socket.string() : url_;
    command.directory = folder_.path();
    return base::run(command, kDeadline);
  }
  std::string submit() {
    const base::Path path = folder_.path() / "run.yaml";
    tests::write_file(path, "name: demo\nsteps: 60\ndata: {path: data}\nbatch: {size: 8}\n");
    const base::Output output = regatta({"submit", path.string()});
    EXPECT_EQ(output.exit.code, 0) << output.errors;
    return output.text.substr(0, output.text.find('\n'));
  }
  void cancel(const std::string& run) {
    const base::Output output = regatta({"cancel", run});
    EXPECT_EQ(output.exit.code, 0) << output.errors;
  }

  tests::TemporaryDirectory folder_;
  std::string url_;
  pid_t server_ = 0;
  pid_t attempt_ = 0;  // or another process that must not outlive the test
};

TEST_F(SlowSlurmTest, TenSlowCancelsKeepNoRunFromSbatch) {
  serve("slurm_cli");
  std::vector<std::string> runs;
  for (int i = 0; i < 10; ++i) runs.push_back(submit());
  ASSERT_TRUE(eventually([&] { return calls_of("sbatch") == 10; }));
  hang("scancel");
  for (const std::string& run : runs) cancel(run);
  ASSERT_TRUE(eventually([&] { return calls_of("scancel") >= 1; }));
  const auto begin = std::chrono::steady_clock::now();
  (void)submit();
  ASSERT_TRUE(eventually([&] { return calls_of("sbatch") == 11; }));
  RecordProperty("seconds", std::to_string(seconds_since(begin)));
  EXPECT_LT(seconds_since(begin), kSoon);
  EXPECT_LE(calls_of("scancel"), 4U) << "as many as there are workers";
}

TEST_F(SlowSlurmTest, TenSlowSubmissionsKeepNoRunFromSbatch) {
  serve("slurm_cli");
  hang("sbatch");
  for (int i = 0; i < 11; ++i) (void)submit();
  const auto begin = std::chrono::steady_clock::now();
  ASSERT_TRUE(eventually([&] { return calls_of("sbatch") == 11; }));
  EXPECT_LT(seconds_since(begin), kSoon);
}

TEST_F(SlowSlurmTest, ItsEndWaitsForNoCommand) {
  serve("slurm_cli");
  const std::string run = submit();
  // Only a job that squeue has shown is cancelled: a question that began once there was one is over
  // when the next begins.
  ASSERT_TRUE(eventually([&] {
    return regatta({"explain", run}).text.find(", job ") != std::string::npos;
  }));
  const std::size_t asked = calls_of("squeue");
  ASSERT_TRUE(eventually([&] { return calls_of("squeue") >= asked + 2; }));
  hang("sbatch scancel squeue scontrol");
  cancel(run);
  (void)submit();
  ASSERT_TRUE(eventually([&] { return calls_of("scancel") >= 1 && calls_of("sbatch") >= 2; }))
      << read(folder_.path() / "calls") << read(folder_.path() / "serve.log");
  const double seconds = stop_serving(SIGTERM);
  RecordProperty("seconds", std::to_string(seconds));
  EXPECT_LT(seconds, kSoon);
}

TEST_F(SlowSlurmTest, ASilentSlurmIsWaitedForAndNoProcessTakesItsPlace) {
  hang("scontrol");
  const auto begin = std::chrono::steady_clock::now();
  serve("auto");
  EXPECT_LT(seconds_since(begin), kChoice);
  EXPECT_THAT(read(folder_.path() / "serve.log"), HasSubstr("runs wait for Slurm"));
  const std::string run = submit();
  ASSERT_TRUE(eventually([&] {
    return regatta({"explain", run}).text.find("Slurm has not answered yet") != std::string::npos;
  }));
  EXPECT_EQ(calls_of("sbatch"), 0U);
  EXPECT_TRUE(base::posix_file_system().list(state() / "runs" / run / "attempts").empty());
  hang("");
  // Its first question hangs until its deadline; while somebody looks, the next follows at once.
  ASSERT_TRUE(eventually([&] {
    (void)regatta({"explain", run});
    return calls_of("sbatch") == 1;
  }));
}

TEST_F(SlowSlurmTest, ASlurmThatCannotBeSeenDoesNotMakeProcessesOfItsRuns) {
  serve("auto");
  const std::string run = submit();
  ASSERT_TRUE(eventually([&] { return calls_of("sbatch") == 1; }));
  const auto is_left_alone = [&](const std::string& scheduler, const std::string& why) {
    stop_serving(SIGTERM);
    url_.clear();
    std::filesystem::remove(folder_.path() / "serve.log");
    serve(scheduler);
    EXPECT_TRUE(eventually([&] {
      return regatta({"explain", run}).text.find(why) != std::string::npos;
    }));
    EXPECT_TRUE(base::posix_file_system().list(state() / "runs" / run / "attempts").empty());
    EXPECT_EQ(calls_of("sbatch"), 1U);
  };
  is_left_alone("local", "belongs to Slurm");
  std::filesystem::rename(folder_.path() / "bin", folder_.path() / "away");
  is_left_alone("auto", "");
  EXPECT_THAT(read(folder_.path() / "serve.log"), HasSubstr("runs of this controller belong to"));
}

// Each log appears once all before it was shown, as Slurm makes them: the script's when the job
// begins, its ranks' later; then of a successor the same.
TEST_F(SlowSlurmTest, FollowedLogsGoFromScriptsToRanks) {
  serve("slurm_cli");
  const std::string run = submit();
  const base::Path logs = state() / "runs" / run / "submit";
  std::string token;
  ASSERT_TRUE(eventually([&] {
    for (const std::string& name : base::posix_file_system().list(logs)) {
      if (base::Path(name).extension() == ".sh") token = base::Path(name).stem();
    }
    return calls_of("sbatch") == 1 && !token.empty();
  }));
  base::Command command;
  command.arguments = {
      kRegatta, "logs", "--server", "unix:" + (state() / "controller.sock").string(), run, "-f"};
  command.output_path = folder_.path() / "followed";
  attempt_ = base::spawn(command);
  const auto shown = [&] { return read(command.output_path); };
  std::string expected;
  for (const char* const each : {"-7.out", "-7-0.log", "-8.out", "-8-0.log", "-8-1.log"}) {
    const std::string name = token + each, line = std::string("says ") + each + "\n";
    tests::write_file(logs / name, line);
    expected += (expected.empty() ? "" : "-- submit/" + name + "\n") + line;
    ASSERT_TRUE(eventually([&] { return shown().find(line) != std::string::npos; })) << shown();
  }
  EXPECT_EQ(shown(), expected);
}

TEST_F(SlowSlurmTest, TrainersGetNoSecretsOfTheController) {
  tests::write_file(folder_.path() / "data" / "script", "hold_at 1\n");
  serve("local", {{"AWS_SECRET_ACCESS_KEY", "hidden-1"},
                  {"REGATTA_TOKEN_FILE", "hidden-2"},
                  {"GITHUB_TOKEN", "hidden-3"},
                  {"NCCL_SECRET", "hidden-4"},
                  {"SSH_AUTH_SOCK", "hidden-5"},
                  {"NCCL_DEBUG", "shown-1"},
                  {"OMP_NUM_THREADS", "3"},
                  {"LC_ALL", "C"}});
  const std::string run = submit();
  const base::Path attempts = state() / "runs" / run / "attempts";
  ASSERT_TRUE(eventually([&] {
    for (const std::string& name : base::posix_file_system().list(attempts)) {
      const std::string journal = read(attempts / name / "journal.jsonl");
      const std::string key = "\"process\":";
      const std::size_t at = journal.find(key);
      if (at == std::string::npos) continue;
      const std::string rest = journal.substr(at + key.size(), 20);
      attempt_ = static_cast<pid_t>(
          base::parse_integer(rest.substr(0, rest.find_first_not_of("0123456789"))).value_or(0));
    }
    return attempt_ != 0;
  }));
  std::string seen = read("/proc/" + std::to_string(attempt_) + "/environ");
  std::replace(seen.begin(), seen.end(), '\0', '\n');
  EXPECT_THAT(seen, Not(HasSubstr("hidden")));
  for (const char* const part : {"PATH=", "HOME=", "NCCL_DEBUG=shown-1\n", "OMP_NUM_THREADS=3\n",
                                 "LC_ALL=C\n", "REGATTA_LAUNCH="}) {
    EXPECT_THAT(seen, HasSubstr(part));
  }
}

}  // namespace
}  // namespace regatta::orchestrator
