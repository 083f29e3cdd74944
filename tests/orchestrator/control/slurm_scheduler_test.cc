// The one thread that asks Slurm, with a clock that the test turns and programs that count calls.
#include "orchestrator/control/slurm_scheduler.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <thread>

#include "base/text.h"
#include "tests/orchestrator/support.h"
#include "trainer/contract/run_config.h"

namespace regatta::orchestrator {
namespace {

class SlurmSchedulerTest : public testing::Test {
 protected:
  SlurmSchedulerTest() {
    settings_.user = "somebody";
    settings_.cluster = control::SlurmCluster{};
    program("squeue", "exit 0");
    program("sacct", "exit 0");
    program("scontrol", std::string(kReservations) +
                            "echo NodeName=node01 State=IDLE; echo NodeName=node02 State=DOWN");
  }

  static constexpr const char* kReservations =
      "case \"$*\" in *reservation*) echo No reservations in the system; exit 0;; esac\n";

  // A program that leaves a line in `calls` and does this.
  void program(const std::string& name, const std::string& body) {
    const base::Path path = folder_.path() / name;
    const base::Path fresh = path.string() + ".new";
    tests::write_file(fresh,
                      "#!/bin/sh\necho " + name + " >> '" + calls_path() + "'\n" + body + "\n");
    ::chmod(fresh.c_str(), 0755);
    std::filesystem::rename(fresh, path);  // it may run just now
  }
  std::string calls_path() const { return (folder_.path() / "calls").string(); }
  std::size_t calls() const {
    std::ifstream lines(calls_path());
    return static_cast<std::size_t>(
        std::count(std::istreambuf_iterator<char>(lines), std::istreambuf_iterator<char>(), '\n'));
  }
  slurm::SlurmCommands commands() const {
    const auto path = [&](const char* name) { return (folder_.path() / name).string(); };
    return slurm::SlurmCommands({path("sbatch"), path("squeue"), path("sacct"), path("scontrol"),
                                 path("scancel"), path("sinfo")},
                                {60, 60}, {{"PATH", "/usr/bin:/bin"}});
  }
  // The clock goes on by so many seconds in steps, each seen by the thread a few times. Real time
  // is only given for a question that must not come.
  void pass(double seconds, double step) {
    for (double gone = 0; gone < seconds; gone += step) {
      clock_.now = clock_.now + step;
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
    }
  }

  // Lines of `calls` that begin so.
  std::size_t calls_of(const std::string& name) const {
    std::ifstream lines(calls_path());
    std::size_t count = 0;
    for (std::string line; std::getline(lines, line);) count += line.rfind(name, 0) == 0 ? 1U : 0U;
    return count;
  }
  // squeue knows these jobs: lines "ID STATE TOKEN".
  void queue(const std::vector<std::string>& jobs) {
    program("squeue", R"sh(for a in "$@"; do case "$a" in --format=*) f=${a#--format=};; esac; done
while read -r id state token; do
  printf '%s\n' "$f" |
    sed "s/%A/$id/g; s/%T/$state/; s/%k/regatta:$token/; s/%j/job $id/; s/%[a-zA-Z]//g"
done < ')sh" + (folder_.path() / "queue").string() +
                          "'");
    tests::write_file(folder_.path() / "queue", jobs.empty() ? "" : base::join(jobs, "\n") + "\n");
  }
  static std::string token_of(int job) { return "0123456789abcd" + std::to_string(job + 10); }
  static std::string handle_of(int job) {
    return "slurm:" + std::to_string(job) + ":" + token_of(job);
  }

  tests::TemporaryDirectory folder_;
  tests::SimulatedClock clock_;
  control::SlurmSettings settings_;
  slurm::NodeTable nodes_;
};

TEST_F(SlurmSchedulerTest, AsksForNodesOnlyWhileSomebodyLooks) {
  const control::SlurmScheduler scheduler(base::posix_file_system(), clock_, commands(), settings_,
                                          nodes_);
  pass(4000, 2000);
  EXPECT_EQ(calls(), 0U) << "nobody looks, and no run is open";
  EXPECT_FALSE(nodes_.snapshot().taken_utc);

  nodes_.want(clock_.monotonic_seconds());
  ASSERT_TRUE(tests::eventually([&] { return nodes_.snapshot().taken_utc.has_value(); }));
  EXPECT_EQ(calls(), 1U);
  EXPECT_THAT(*slurm::usable_nodes(nodes_.snapshot(), {}), testing::ElementsAre("node01"));
  clock_.now = clock_.now + 50;
  ASSERT_TRUE(tests::eventually([&] { return calls() == 2; }))
      << "of reservations; the nodes are not a minute old";
  program("scontrol", std::string(kReservations) + "echo no way >&2; exit 1");
  pass(13, 13);  // a call each 12 s at most
  ASSERT_TRUE(tests::eventually([&] { return !nodes_.snapshot().trouble.empty(); }));
  EXPECT_EQ(calls(), 3U);
  EXPECT_EQ(nodes_.snapshot().rows.size(), 2U) << "what was known stays";
  pass(4000, 2000);
  EXPECT_EQ(calls(), 3U) << "nobody looks any more";
}

TEST_F(SlurmSchedulerTest, AsksForTheQueueAndForNodesWhileARunIsOpen) {
  control::SlurmScheduler scheduler(base::posix_file_system(), clock_, commands(), settings_,
                                    nodes_);
  EXPECT_FALSE(scheduler.find("a-token", 0).known);
  ASSERT_TRUE(tests::eventually([&] { return calls() == 1; }));
  EXPECT_FALSE(nodes_.snapshot().taken_utc) << "the queue comes first";
  EXPECT_FALSE(scheduler.usable_nodes({})) << "not known";
  ASSERT_TRUE(tests::eventually([&] {  // after accounting, where the token may be known
    clock_.now = clock_.now + 1;
    return nodes_.snapshot().taken_utc.has_value();
  }));
  EXPECT_THAT(*scheduler.usable_nodes({}), testing::ElementsAre("node01"));
  program("scontrol", "exit 1");
  clock_.now = clock_.now + 601;
  EXPECT_FALSE(scheduler.usable_nodes({})) << "too old";
}

TEST_F(SlurmSchedulerTest, SubmitsNothingBeforeSlurmHasAnswered) {
  settings_.cluster.reset();
  for (const char* const name : {"sbatch", "scancel"}) program(name, "echo slurm-wlm 22.05.8");
  program("squeue", "case $1 in --version) echo slurm-wlm 22.05.8;; esac");
  const std::string config =
      "case $1 in --version) echo slurm-wlm 22.05.8; exit;; esac\n"
      "test -e '" +
      (folder_.path() / "answers").string() +
      "' || { "
      "echo 'scontrol: error: Unable to contact slurm controller' >&2; exit 1; }\n"
      "echo 'AccountingStorageType = accounting_storage/none'";
  program("scontrol", config);
  control::SlurmScheduler scheduler(base::posix_file_system(), clock_, commands(), settings_,
                                    nodes_);
  EXPECT_THAT(scheduler.why_not_now(), testing::HasSubstr("Slurm has not answered"));
  EXPECT_EQ(scheduler.poll(handle_of(1)).state, runs::ProcessState::Unknown);
  ASSERT_TRUE(tests::eventually(
      [&] { return scheduler.why_not_now().find("Unable to contact") != std::string::npos; }));
  EXPECT_THAT(nodes_.snapshot().trouble, testing::HasSubstr("Unable to contact"));
  for (int minute = 0; minute < 3; ++minute) pass(60, 60);
  EXPECT_EQ(calls_of("sacct"), 0U);
  EXPECT_FALSE(scheduler.why_not_now().empty());
  EXPECT_EQ(scheduler.poll(handle_of(1)).state, runs::ProcessState::Unknown)
      << "never lost meanwhile";
  tests::write_file(folder_.path() / "answers", "");
  ASSERT_TRUE(tests::eventually([&] {
    clock_.now = clock_.now + 5;
    return scheduler.why_not_now().empty();
  }));
  queue({"1 RUNNING " + token_of(1)});
  EXPECT_TRUE(tests::eventually([&] {
    clock_.now = clock_.now + 5;
    return scheduler.poll(handle_of(1)).state == runs::ProcessState::Running;
  }));
}

// Fake commands that hang until the test ends.
const std::string kHang = "exec sleep 600";

TEST_F(SlurmSchedulerTest, NoCallWaitsForACommand) {
  std::vector<std::string> jobs;
  for (int job = 1; job <= 10; ++job) {
    jobs.push_back(std::to_string(job) + " RUNNING " + token_of(job));
  }
  queue(jobs);
  std::chrono::steady_clock::time_point begin;
  {
    control::SlurmScheduler scheduler(base::posix_file_system(), clock_, commands(), settings_,
                                      nodes_);
    ASSERT_TRUE(tests::eventually([&] {
      clock_.now = clock_.now + 1;
      int running = 0;
      for (int job = 1; job <= 10; ++job) {
        running += scheduler.poll(handle_of(job)).state == runs::ProcessState::Running ? 1 : 0;
      }
      return running == 10;
    }));
    // For what still runs, and for what is due: a question that hung already would not be counted.
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    for (const char* const name : {"squeue", "sacct", "scontrol", "scancel", "sbatch"}) {
      program(name, kHang);
    }
    std::filesystem::remove(calls_path());
    begin = std::chrono::steady_clock::now();
    clock_.now = clock_.now + 100;
    for (int repeat = 0; repeat < 3; ++repeat) {
      for (int job = 1; job <= 10; ++job) {
        EXPECT_EQ(scheduler.poll(handle_of(job)).state, runs::ProcessState::Running);
        scheduler.stop(handle_of(job));
        scheduler.avoid(handle_of(job), {"node01"});
        (void)scheduler.find(token_of(job), 0);
        (void)scheduler.contact(handle_of(job));
        (void)scheduler.asking();
        scheduler.look_soon();
        scheduler.somebody_looks();
        if (repeat > 0) scheduler.kill(handle_of(job));
      }
    }
    ASSERT_TRUE(tests::eventually([&] { return calls_of("scancel") == 4; }));
    // Of those that ask one, and one that keeps a job from nodes.
    ASSERT_TRUE(tests::eventually([&] { return calls() == 6; }));
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    EXPECT_EQ(calls(), 6U) << "as many at once as there are threads, and no more";
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30))
      << "its end waits for none of them";
}

TEST_F(SlurmSchedulerTest, ASlowEndDelaysItsOwnRunOnly) {
  // One that hangs on job 1, and is quick for all others.
  program("scancel", "echo \"$@\" >> '" + (folder_.path() / "ended").string() +
                         "'; case \"$*\" in *\" 1\") " + kHang + ";; esac");
  queue({"1 RUNNING " + token_of(1), "2 RUNNING " + token_of(2), "3 PENDING " + token_of(3)});
  control::SlurmScheduler scheduler(base::posix_file_system(), clock_, commands(), settings_,
                                    nodes_);
  const auto state = [&](int job) { return scheduler.poll(handle_of(job)).state; };
  ASSERT_TRUE(tests::eventually([&] {
    clock_.now = clock_.now + 1;
    return state(1) == runs::ProcessState::Running && state(2) == runs::ProcessState::Running &&
           state(3) == runs::ProcessState::Waiting;
  }));
  for (const int job : {1, 2, 3}) scheduler.stop(handle_of(job));
  std::set<std::string> ended;
  ASSERT_TRUE(tests::eventually([&] {
    std::ifstream file(folder_.path() / "ended");
    ended.clear();
    for (std::string line; std::getline(file, line);) ended.insert(line);
    return ended.size() == 3;
  }));
  EXPECT_EQ(calls_of("scancel"), 3U);
  EXPECT_THAT(ended,
              testing::UnorderedElementsAre("--name=job 1 --signal=TERM 1",
                                            "--name=job 2 --signal=TERM 2", "--name=job 3 3"))
      << "by the names that squeue shows; what waits gets no signal";
  scheduler.kill(handle_of(1));
  scheduler.kill(handle_of(2));
  ASSERT_TRUE(tests::eventually([&] { return calls_of("scancel") == 4; }));
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  EXPECT_EQ(calls_of("scancel"), 4U) << "one command at a time for a job";
}

TEST_F(SlurmSchedulerTest, AnEndThatFailedIsTriedAgain) {
  const base::Path good = folder_.path() / "good", failed = folder_.path() / "failed";
  program("scancel", "test -e '" + good.string() + "' || { : > '" + failed.string() +
                         "'; echo 'scancel: error: Unable to contact slurm controller' >&2; "
                         "exit 1; }");
  queue({"1 RUNNING " + token_of(1)});
  control::SlurmScheduler scheduler(base::posix_file_system(), clock_, commands(), settings_,
                                    nodes_);
  ASSERT_TRUE(tests::eventually(
      [&] { return scheduler.poll(handle_of(1)).state == runs::ProcessState::Running; }));
  EXPECT_FALSE(scheduler.contact(handle_of(1))->end_waits_utc);
  scheduler.kill(handle_of(1));
  ASSERT_TRUE(tests::eventually([&] { return std::filesystem::exists(failed); }));
  EXPECT_EQ(scheduler.contact(handle_of(1))->end_waits_utc, clock_.utc_seconds());
  scheduler.kill(handle_of(1));
  tests::write_file(good, "");
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  EXPECT_EQ(calls_of("scancel"), 1U) << "it pauses";
  // The clock may have been read just before the command failed.
  ASSERT_TRUE(tests::eventually([&] {
    clock_.now = clock_.now + 1;
    return calls_of("scancel") == 2;
  }));
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  clock_.now = clock_.now + 100;
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  EXPECT_EQ(calls_of("scancel"), 2U);
}

const std::string kNoContact =
    "echo 'slurm_load_jobs error: Unable to contact slurm controller (connect failure)' >&2; "
    "exit 1";

TEST_F(SlurmSchedulerTest, ASilentSlurmIsToldAndWhatWaitedGoesOnWithItsFirstAnswer) {
  program("scancel", kNoContact);
  queue({"1 RUNNING " + token_of(1)});
  control::SlurmScheduler scheduler(base::posix_file_system(), clock_, commands(), settings_,
                                    nodes_);
  EXPECT_FALSE(scheduler.contact("")->answered_utc);
  ASSERT_TRUE(tests::eventually(
      [&] { return scheduler.poll(handle_of(1)).state == runs::ProcessState::Running; }));
  EXPECT_EQ(scheduler.contact("")->trouble, "");
  const double answered = clock_.utc_seconds();
  EXPECT_EQ(scheduler.contact("")->answered_utc, answered);
  EXPECT_GE(scheduler.asking()->calls, 1);
  EXPECT_GE(scheduler.asking()->most_calls, 6);

  program("squeue", kNoContact);
  program("scontrol", kNoContact);
  ASSERT_TRUE(tests::eventually([&] {
    clock_.now = clock_.now + 1;
    return !scheduler.contact("")->trouble.empty();
  }));
  EXPECT_THAT(scheduler.contact("")->trouble, testing::HasSubstr("Unable to contact"));
  EXPECT_EQ(scheduler.contact("")->answered_utc, answered);
  EXPECT_EQ(scheduler.poll(handle_of(1)).state, runs::ProcessState::Running) << "as it was";
  scheduler.stop(handle_of(1));
  ASSERT_TRUE(tests::eventually([&] { return calls_of("scancel") == 1; }));
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  const std::size_t asked = calls_of("squeue") + calls_of("scontrol");
  ASSERT_TRUE(tests::eventually([&] {
    clock_.now = clock_.now + 1;
    return calls_of("squeue") + calls_of("scontrol") >= asked + 2;
  })) << "it is asked on";

  queue({"1 RUNNING " + token_of(1)});
  program("scancel", "exit 0");
  const std::size_t told = calls_of("scancel");
  // One who looks while a question fails must look again.
  ASSERT_TRUE(tests::eventually([&] {
    scheduler.somebody_looks();
    clock_.now = clock_.now + 1;
    return scheduler.contact("")->trouble.empty();
  }));
  ASSERT_TRUE(tests::eventually([&] { return calls_of("scancel") > told; })) << "at once, too";
  ASSERT_TRUE(tests::eventually([&] { return !scheduler.contact(handle_of(1))->end_waits_utc; }));
}

TEST_F(SlurmSchedulerTest, AccountingIsAskedByIdElseForWhatIsNotOlder) {
  const base::Path asked = folder_.path() / "asked";
  program("sacct", "echo \"$@\" >> '" + asked.string() + "'");
  control::SlurmScheduler scheduler(base::posix_file_system(), clock_, commands(), settings_,
                                    nodes_);
  (void)scheduler.poll(handle_of(7));
  (void)scheduler.find(token_of(8), clock_.utc_seconds());
  const auto questions = [&] {
    std::ifstream file(asked);
    std::vector<std::string> lines;
    for (std::string line; std::getline(file, line);) lines.push_back(line);
    return lines;
  };
  ASSERT_TRUE(tests::eventually([&] {
    clock_.now = clock_.now + 1;
    return questions().size() >= 2 && questions().back().find("--jobs=") == std::string::npos;
  })) << "of job 7 accounting has not heard for a minute";
  EXPECT_THAT(questions().front(), testing::HasSubstr("--user=somebody --jobs=7"));
  EXPECT_THAT(questions().back(),
              testing::HasSubstr("--starttime=" + base::iso8601(1.7e9 - 300).substr(0, 18)));
}

// The attack: an answer that stops anywhere made jobs look gone, and their runs were started again.
TEST_F(SlurmSchedulerTest, NoJobIsGoneForAnAnswerThatIsNotWhole) {
  queue({"1 RUNNING " + token_of(1), "2 RUNNING " + token_of(2)});
  control::SlurmScheduler scheduler(base::posix_file_system(), clock_, commands(), settings_,
                                    nodes_);
  const auto running = [&] {
    clock_.now = clock_.now + 1;
    return scheduler.poll(handle_of(1)).state == runs::ProcessState::Running &&
           scheduler.poll(handle_of(2)).state == runs::ProcessState::Running;
  };
  ASSERT_TRUE(tests::eventually(running));
  const std::string row = R"sh(for a in "$@"; do case "$a" in --format=*) f=${a#--format=};; esac
done; row() { printf '%s\n' "$f" | sed "s/%A/1/g; s/%T/RUNNING/; s/%j/regatta-)sh" +
                          token_of(1) + R"sh(/; s/%[a-zA-Z]//g"; }
)sh";
  for (const std::string& answer : std::vector<std::string>{
           "row; row | head -c 50", "printf x", "row; kill -9 $$", "row; exit 1",
           "row; head -c 17000000 /dev/zero | tr '\\0' x",
           "row; head -c 70000000 /dev/zero | tr '\\0' '\\n'",
           "echo 'slurm_load_jobs error: Socket timed out on send/recv operation' >&2"}) {
    program("squeue", row + answer);
    for (int round = 0; round < 2; ++round) {
      const std::size_t before = calls_of("squeue");
      ASSERT_TRUE(tests::eventually([&] {
        clock_.now = clock_.now + 100;
        return calls_of("squeue") > before;
      }));
      EXPECT_TRUE(running()) << answer;
    }
  }
  EXPECT_EQ(calls_of("sacct"), 0U) << "nothing is missing";
}

TEST_F(SlurmSchedulerTest, AvoidingNodesIsNoReasonToBeRefused) {
  program("sbatch",
          "case \"$*\" in *--exclude=gone*) echo 'sbatch: error: Batch job submission failed: "
          "Invalid node name specified' >&2; exit 1;; *--exclude=*) echo 8;; *) echo 7;; esac");
  settings_.trainer = "/usr/bin/true";
  const base::Path directory = folder_.path() / "run";
  (void)trainer::contract::RunDirectory::create(
      base::posix_file_system(), directory,
      trainer::contract::to_json(
          trainer::contract::parse_run_config(tests::run_file(), "run.yaml")));
  control::SlurmScheduler scheduler(base::posix_file_system(), clock_, commands(), settings_,
                                    nodes_);
  runs::LaunchRequest request{directory, directory / "log", "0123456789abcdef", {}};
  EXPECT_EQ(scheduler.submit(request), "slurm:7:0123456789abcdef");
  request.token = "0123456789abcde0";
  request.avoid = {"node01"};
  EXPECT_EQ(scheduler.submit(request), "slurm:8:0123456789abcde0");
  request.token = "0123456789abcde1";
  request.avoid = {"gone"};
  EXPECT_EQ(scheduler.submit(request), "slurm:7:0123456789abcde1");
}

// What sbatch was really given, but for the token.
TEST_F(SlurmSchedulerTest, APreviewIsWhatWillBeSubmitted) {
  const std::string seen = (folder_.path() / "seen").string();
  program("sbatch", "for a in \"$@\"; do printf '%s\\n' \"$a\"; done > '" + seen + "'; echo 7");
  settings_.trainer = "/usr/bin/true";
  const base::Path directory = folder_.path() / "run";
  const auto config = trainer::contract::parse_run_config(
      tests::run_file() +
          "ranks: 4\nslurm: {nodes: 2, ranks_per_node: 2, time_limit: 30, "
          "partition: main, environment: {A: b c}}\n",
      "run.yaml");
  (void)trainer::contract::RunDirectory::create(base::posix_file_system(), directory,
                                                trainer::contract::to_json(config));
  control::SlurmScheduler scheduler(base::posix_file_system(), clock_, commands(), settings_,
                                    nodes_);
  const runs::StartPreview preview = scheduler.preview(directory, config, std::nullopt);
  const std::string token = "0123456789abcdef";
  (void)scheduler.submit({directory, directory / "log", token, {}});
  const auto with_token = [&](std::string text) {
    const std::string zeros(16, '0');
    for (std::size_t at = 0; (at = text.find(zeros, at)) != std::string::npos;) {
      text.replace(at, 16, token);
    }
    return text;
  };
  std::string expected = "--parsable\n";  // which every call of sbatch has
  ASSERT_EQ(preview.command.front(), "sbatch");
  for (std::size_t i = 1; i < preview.command.size(); ++i) {
    expected += with_token(preview.command[i]) + "\n";
  }
  base::FileSystem& files = base::posix_file_system();
  EXPECT_EQ(files.read(seen, 1 << 20), expected);
  EXPECT_EQ(files.read(directory / "submit" / (token + ".sh"), 1 << 22),
            with_token(preview.script));
}

}  // namespace
}  // namespace regatta::orchestrator
