// The one thread that asks Slurm, with a clock that the test turns and programs that count calls.
#include "orchestrator/slurm_scheduler.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <algorithm>
#include <limits>

#include "tests/orchestrator/support.h"
#include "trainer/contract/run_config.h"

namespace regatta::orchestrator {
namespace {

class SlurmSchedulerTest : public testing::Test {
 protected:
  SlurmSchedulerTest() {
    settings_.user = "somebody";
    program("squeue", "exit 0");
    program("sacct", "exit 0");
    program("scontrol", "echo NodeName=node01 State=IDLE; echo NodeName=node02 State=DOWN");
    for (PollPace* pace : {&settings_.limits.idle, &settings_.limits.busy}) {
      for (const PollKind kind : {PollKind::Accounting, PollKind::Cluster}) {
        pace->intervals[static_cast<std::size_t>(kind)] = std::numeric_limits<double>::infinity();
      }
    }
  }

  // A program that leaves a line in `calls` and does this.
  void program(const std::string& name, const std::string& body) {
    const base::Path path = folder_.path() / name;
    tests::write_file(path,
                      "#!/bin/sh\necho " + name + " >> '" + calls_path() + "'\n" + body + "\n");
    ::chmod(path.c_str(), 0755);
  }
  std::string calls_path() const { return (folder_.path() / "calls").string(); }
  std::size_t calls() const {
    std::ifstream lines(calls_path());
    return static_cast<std::size_t>(
        std::count(std::istreambuf_iterator<char>(lines), std::istreambuf_iterator<char>(), '\n'));
  }
  SlurmCommands commands() const {
    const auto path = [&](const char* name) { return (folder_.path() / name).string(); };
    return SlurmCommands({path("sbatch"), path("squeue"), path("sacct"), path("scontrol"),
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

  tests::TemporaryDirectory folder_;
  tests::SimulatedClock clock_;
  SlurmSettings settings_;
  NodeTable nodes_;
};

TEST_F(SlurmSchedulerTest, AsksForNodesOnlyWhileSomebodyLooks) {
  const SlurmScheduler scheduler(base::posix_file_system(), clock_, commands(), settings_, nodes_);
  pass(4000, 2000);
  EXPECT_EQ(calls(), 0U) << "nobody looks, and no run is open";
  EXPECT_FALSE(nodes_.snapshot().taken_utc);

  nodes_.want(clock_.monotonic_seconds());
  ASSERT_TRUE(tests::eventually([&] { return nodes_.snapshot().taken_utc.has_value(); }));
  EXPECT_EQ(calls(), 1U);
  EXPECT_THAT(*usable_nodes(nodes_.snapshot(), {}), testing::ElementsAre("node01"));
  pass(50, 50);
  EXPECT_EQ(calls(), 1U) << "it is not a minute old";
  program("scontrol", "echo no way >&2; exit 1");
  pass(11, 11);
  ASSERT_TRUE(tests::eventually([&] { return !nodes_.snapshot().trouble.empty(); }));
  EXPECT_EQ(calls(), 2U);
  EXPECT_EQ(nodes_.snapshot().rows.size(), 2U) << "what was known stays";
  pass(4000, 2000);
  EXPECT_EQ(calls(), 2U) << "nobody looks any more";
}

TEST_F(SlurmSchedulerTest, AsksForTheQueueAndForNodesWhileARunIsOpen) {
  SlurmScheduler scheduler(base::posix_file_system(), clock_, commands(), settings_, nodes_);
  EXPECT_FALSE(scheduler.find("a-token").known);
  ASSERT_TRUE(tests::eventually([&] { return calls() == 1; }));
  EXPECT_FALSE(nodes_.snapshot().taken_utc) << "the queue comes first";
  EXPECT_FALSE(scheduler.usable_nodes({})) << "not known";
  pass(10, 10);
  EXPECT_TRUE(tests::eventually([&] { return nodes_.snapshot().taken_utc.has_value(); }));
  EXPECT_THAT(*scheduler.usable_nodes({}), testing::ElementsAre("node01"));
  program("scontrol", "exit 1");
  clock_.now = clock_.now + 601;
  EXPECT_FALSE(scheduler.usable_nodes({})) << "too old";
}

TEST_F(SlurmSchedulerTest, AvoidingNodesIsNoReasonToBeRefused) {
  program("sbatch",
          "case \"$*\" in *--exclude=gone*) echo 'sbatch: error: Batch job submission failed: "
          "Invalid node name specified' >&2; exit 1;; *--exclude=*) echo 8;; *) echo 7;; esac");
  settings_.trainer = "/usr/bin/true";
  const base::Path directory = folder_.path() / "run";
  (void)trainer::RunDirectory::create(
      base::posix_file_system(), directory,
      trainer::to_json(trainer::parse_run_config(tests::run_file(), "run.yaml")));
  SlurmScheduler scheduler(base::posix_file_system(), clock_, commands(), settings_, nodes_);
  LaunchRequest request{directory, directory / "log", "0123456789abcdef", {}};
  EXPECT_EQ(scheduler.submit(request), "slurm:7:0123456789abcdef");
  request.token = "0123456789abcde0";
  request.avoid = {"node01"};
  EXPECT_EQ(scheduler.submit(request), "slurm:8:0123456789abcde0");
  request.token = "0123456789abcde1";
  request.avoid = {"gone"};
  EXPECT_EQ(scheduler.submit(request), "slurm:7:0123456789abcde1");
}

}  // namespace
}  // namespace regatta::orchestrator
