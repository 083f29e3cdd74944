#include "orchestrator/slurm/job_end.h"

#include <gmock/gmock.h>

#include <limits>
#include <vector>

#include "base/text.h"

namespace regatta::orchestrator {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using S = runs::ProcessState;
using Names = std::vector<std::string>;

slurm::JobRow job(const std::string& state, int code = 0, int signal = 0) {
  slurm::JobRow row;
  row.id = "42";
  row.state = slurm::parse_job_state(state);
  row.exit = slurm::ExitStatus{code, signal};
  row.nodes = "node[01-02]";
  return row;
}
slurm::JobRow waiting(const std::string& reason) {
  slurm::JobRow row;
  row.id = "42";
  row.state = slurm::parse_job_state("PENDING");
  row.reason = reason;
  row.start = 1000.0;
  return row;
}

// Logs as Slurm 22.05 and the batch script wrote them.
constexpr const char* kStarted = "regatta: run demo, job 42, restart 0, 2 nodes (node[01-02])\n";
constexpr const char* kKilledForMemory =
    "slurmstepd-node01: error: StepId=1.0 exceeded memory limit (181407744 > 104857600), being "
    "killed\nslurmstepd-node01: error: Exceeded job memory limit\nsrun: error: node01: task 0: "
    "Killed\nregatta: step ended with 137\n";
constexpr const char* kOomKiller =
    "slurmstepd: error: Detected 1 oom-kill event(s) in StepId=7.0. Some of your processes may "
    "have been killed by the cgroup out-of-memory handler.\nsrun: error: node02: task 1: Out Of "
    "Memory\n";
constexpr const char* kOldOomKiller =
    "slurmstepd: error: Detected 1 oom_kill event in StepId=7.0.\n";
constexpr const char* kBadAlloc =
    "terminate called after throwing an instance of 'std::bad_alloc'\n  what():  "
    "std::bad_alloc\nsrun: error: node02: task 1: Aborted\n";
constexpr const char* kKilled =
    "srun: error: node02: task 1: Killed\nsrun: launch/slurm: _step_signal: Terminating "
    "StepId=2.0\nslurmstepd-node01: error: *** STEP 2.0 ON node01 CANCELLED AT "
    "2026-11-22T11:14:55 ***\nsrun: error: node01: task 0: Terminated\n";
constexpr const char* kNodeLost =
    "srun: error: Node failure on node02\nslurmstepd-node01: error: *** JOB 37 ON node01 CANCELLED "
    "AT 2026-11-22T11:18:27 DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS ***\n";
constexpr const char* kSilent = "srun: error: Nodes node02 not responding\n";
constexpr const char* kLaunchFailed =
    "srun: error: Task launch for StepId=4.0 failed on node node02: Communication connection "
    "failure\nsrun: error: Application launch failed: Communication connection failure\n";
constexpr const char* kNotAnswered = "regatta: 1 of 2 nodes answered (srun returned 233)\n";
constexpr const char* kPrologOnSecond =
    "srun: error: Task launch for StepId=34.0 failed on node node04: Job prolog failed\n";
constexpr const char* kPrologOnFirst = "Error running slurm prolog: 1\n";
constexpr const char* kPreempted =
    "regatta: step ended with 24\nregatta: preempted\nregatta: returns 24\n";
constexpr const char* kNoTrainer = "regatta: node node02 cannot read and run /opt/regatta-train\n";
constexpr const char* kNoDirectory =
    "regatta: node node02 does not see the run directory /runs/demo-1\n";

struct EndRow {
  const char* name;
  slurm::JobRow row;
  std::string log;
  S state;
  runs::Cause cause;
  std::optional<int> code;
  std::optional<int> signal;
  const char* words;  // a part of them
  Names suspects;
};

std::vector<EndRow> by_state() {
  slurm::JobRow limited = job("TIMEOUT", 0, 15);
  limited.limit = 600;
  slurm::JobRow endless = job("TIMEOUT", 0, 15);
  endless.limit = std::numeric_limits<double>::infinity();
  slurm::JobRow failed = job("NODE_FAIL");
  failed.failed_node = "node07";
  slurm::JobRow alone = job("NODE_FAIL");
  alone.nodes = "node05";
  return {
      {"success", job("COMPLETED"), "", S::Ended, runs::Cause::None, 0, {}, "", {}},
      {"retry", job("FAILED", 22), "", S::Ended, runs::Cause::None, 22, {}, "", {}},
      {"limit", limited, "", S::Gone, runs::Cause::TimeLimit, {}, {}, "limit of 10 min", {}},
      {"no limit", endless, "", S::Gone, runs::Cause::TimeLimit, {}, {}, "its time limit was", {}},
      {"node",
       job("NODE_FAIL"),
       "",
       S::Gone,
       runs::Cause::NodeFailure,
       {},
       {},
       "a node failed",
       {}},
      {"the only node",
       alone,
       "",
       S::Gone,
       runs::Cause::NodeFailure,
       {},
       {},
       "node node05 failed",
       {"node05"}},
      {"node by Slurm",
       failed,
       "",
       S::Gone,
       runs::Cause::NodeFailure,
       {},
       {},
       "node node07 failed",
       {"node07"}},
      {"node by srun",
       job("NODE_FAIL"),
       kNodeLost,
       S::Gone,
       runs::Cause::NodeFailure,
       {},
       {},
       "node node02 failed",
       {"node02"}},
      {"preempted", job("PREEMPTED"), "", S::Gone, runs::Cause::Preempted, {}, {}, "preempted", {}},
      {"memory",
       job("OUT_OF_MEMORY", 0, 125),
       "",
       S::Gone,
       runs::Cause::OutOfMemory,
       {},
       {},
       "more memory",
       {}},
      {"cancelled",
       job("CANCELLED", 0, 15),
       "",
       S::Gone,
       runs::Cause::Cancelled,
       {},
       {},
       "its job was cancelled",
       {}},
      {"by whom",
       job("CANCELLED by 1000"),
       "",
       S::Gone,
       runs::Cause::Cancelled,
       {},
       {},
       "cancelled by user 1000",
       {}},
      {"prolog, no requeue",
       job("CANCELLED by 0"),
       kPrologOnFirst,
       S::Gone,
       runs::Cause::LaunchFailure,
       {},
       {},
       "the prolog failed",
       {}},
      {"memory of the script",
       job("CANCELLED"),
       kKilledForMemory,
       S::Gone,
       runs::Cause::OutOfMemory,
       {},
       {},
       "more memory",
       {}},
      {"boot", job("BOOT_FAIL"), "", S::Gone, runs::Cause::LaunchFailure, {}, {}, "boot", {}},
      {"deadline", job("DEADLINE"), "", S::Gone, runs::Cause::Deadline, {}, {}, "deadline", {}},
      {"unknown", job("WARPED"), "", S::Gone, runs::Cause::None, {}, {}, "WARPED", {}},
  };
}

std::vector<EndRow> by_log() {
  slurm::JobRow unstarted = job("FAILED", 0, 53);
  slurm::JobRow no_exit = job("FAILED");
  no_exit.exit.reset();
  slurm::JobRow completed = job("COMPLETED");
  completed.exit.reset();
  slurm::JobRow reason = job("FAILED", 1);
  reason.reason = "JobLaunchFailure";
  const std::string started = kStarted;
  return {
      {"limit of memory",
       job("FAILED", 137),
       kKilledForMemory,
       S::Ended,
       runs::Cause::OutOfMemory,
       {},
       9,
       "more memory",
       {}},
      {"cgroup",
       job("FAILED", 22),
       kOomKiller,
       S::Ended,
       runs::Cause::OutOfMemory,
       22,
       {},
       "more memory",
       {}},
      {"old cgroup",
       job("FAILED", 137),
       kOldOomKiller,
       S::Ended,
       runs::Cause::OutOfMemory,
       {},
       9,
       "more memory",
       {}},
      {"bad_alloc",
       job("FAILED", 70),
       kBadAlloc,
       S::Ended,
       runs::Cause::OutOfMemory,
       70,
       {},
       "more memory",
       {}},
      {"saved in spite of memory",
       job("FAILED", 25),
       kOomKiller,
       S::Ended,
       runs::Cause::None,
       25,
       {},
       "",
       {}},
      {"success in spite of memory",
       job("COMPLETED"),
       kOomKiller,
       S::Ended,
       runs::Cause::None,
       0,
       {},
       "",
       {}},
      {"killed", job("FAILED", 137), kKilled, S::Ended, runs::Cause::None, {}, 9, "", {}},
      {"killed, sacct", job("FAILED", 9), kKilled, S::Ended, runs::Cause::None, {}, 9, "", {}},
      {"signal", job("FAILED", 0, 9), "", S::Ended, runs::Cause::None, {}, 9, "", {}},
      {"srun's own code", job("FAILED", 233), "", S::Ended, runs::Cause::None, 233, {}, "", {}},
      {"the script's code",
       no_exit,
       "regatta: returns 21\n",
       S::Ended,
       runs::Cause::None,
       21,
       {},
       "",
       {}},
      {"the script's signal",
       no_exit,
       "regatta: step ended with 137\nregatta: returns 137\n",
       S::Ended,
       runs::Cause::None,
       {},
       9,
       "",
       {}},
      {"Slurm's word first",
       job("FAILED", 22),
       "regatta: returns 21\n",
       S::Ended,
       runs::Cause::None,
       22,
       {},
       "",
       {}},
      {"no success without Slurm",
       no_exit,
       "regatta: returns 0\n",
       S::Gone,
       runs::Cause::None,
       {},
       {},
       "",
       {}},
      {"no code",
       no_exit,
       "regatta: returns 256\nregatta: returns x\nxregatta: returns 3\n",
       S::Gone,
       runs::Cause::None,
       {},
       {},
       "",
       {}},
      {"completed, squeue", completed, "", S::Ended, runs::Cause::None, 0, {}, "", {}},
      {"no exit code", no_exit, "", S::Gone, runs::Cause::None, {}, {}, "", {}},
      {"a signal to its ranks", job("FAILED", 24), "", S::Ended, runs::Cause::None, 24, {}, "", {}},
      {"preempted, saved",
       job("FAILED", 24),
       kPreempted,
       S::Ended,
       runs::Cause::Preempted,
       24,
       {},
       "preempted by jobs of higher priority",
       {}},
      {"preempted, squeue",
       no_exit,
       kPreempted,
       S::Ended,
       runs::Cause::Preempted,
       24,
       {},
       "preempted by jobs of higher priority",
       {}},
      {"preempted, not saved",
       job("FAILED", 143),
       kPreempted,
       S::Ended,
       runs::Cause::Preempted,
       {},
       15,
       "preempted by jobs of higher priority",
       {}},
      {"preempted earlier",
       job("FAILED", 24),
       slurm::job_log(started + kPreempted + started, ""),
       S::Ended,
       runs::Cause::None,
       24,
       {},
       "",
       {}},
      {"a node died",
       job("FAILED", 22),
       kNodeLost,
       S::Gone,
       runs::Cause::NodeFailure,
       {},
       {},
       "node node02 failed",
       {"node02"}},
      {"a node is silent",
       job("FAILED", 137),
       kSilent,
       S::Gone,
       runs::Cause::NodeFailure,
       {},
       {},
       "node node02 failed",
       {"node02"}},
      {"launch",
       job("FAILED", 233),
       kLaunchFailed,
       S::Gone,
       runs::Cause::LaunchFailure,
       {},
       {},
       "could not be started on node node02",
       {"node02"}},
      {"launch of the proof",
       job("FAILED", 22),
       std::string(kLaunchFailed) + kNotAnswered,
       S::Gone,
       runs::Cause::LaunchFailure,
       {},
       {},
       "1 of 2 nodes answered (srun returned 233); the launch failed on node node02",
       {"node02"}},
      {"no trainer",
       job("FAILED", 21),
       kNoTrainer,
       S::Gone,
       runs::Cause::LaunchFailure,
       {},
       {},
       "node node02 cannot read and run /opt/regatta-train",
       {"node02"}},
      {"no directory",
       job("FAILED", 21),
       kNoDirectory,
       S::Gone,
       runs::Cause::LaunchFailure,
       {},
       {},
       "node node02 does not see",
       {"node02"}},
      {"operator",
       job("FAILED", 21),
       "regatta: no srun in PATH\n",
       S::Ended,
       runs::Cause::None,
       21,
       {},
       "",
       {}},
      {"output",
       unstarted,
       "",
       S::Gone,
       runs::Cause::LaunchFailure,
       {},
       {},
       "the output not written",
       {"node01"}},
      {"JobLaunchFailure",
       reason,
       "",
       S::Gone,
       runs::Cause::LaunchFailure,
       {},
       {},
       "could not start",
       {"node01"}},
      {"of an earlier start",
       job("FAILED", 22),
       slurm::job_log(started + kNodeLost + started, ""),
       S::Ended,
       runs::Cause::None,
       22,
       {},
       "",
       {}},
      {"hostile",
       job("FAILED", 22),
       "regatta: node a{b} does not see x\nsrun: error: Node failure "
       "on \x1b[31m\nsrun: error:  not responding",
       S::Gone,
       runs::Cause::NodeFailure,
       {},
       {},
       "a node failed",
       {}},
  };
}

TEST(EndedReport, TellsTheCause) {
  for (const auto& rows : {by_state(), by_log()}) {
    for (const EndRow& row : rows) {
      SCOPED_TRACE(row.name);
      const runs::ProcessReport report = slurm::ended_report(row.row, row.log);
      EXPECT_EQ(report.state, row.state);
      EXPECT_EQ(report.cause, row.cause);
      EXPECT_EQ(report.exit_code, row.code);
      EXPECT_EQ(report.signal, row.signal);
      EXPECT_THAT(report.words, HasSubstr(row.words));
      EXPECT_EQ(report.words.empty(), *row.words == '\0') << report.words;
      EXPECT_EQ(report.words, base::printable(report.words));
      EXPECT_EQ(report.suspects, row.suspects);
      EXPECT_EQ(report.nodes, row.row.nodes);
      EXPECT_TRUE(report.tells_cancels);
    }
  }
}

TEST(EndedReport, TellsTheLastStart) {
  for (const char* state : {"FAILED", "COMPLETED", "NODE_FAIL", "CANCELLED"}) {
    slurm::JobRow row = job(state);
    EXPECT_FALSE(slurm::ended_report(row).started) << state;
    row.start = 1234;
    EXPECT_EQ(slurm::ended_report(row).started, 1234) << state;
  }
}

TEST(EndedReport, SaysWhatToDo) {
  EXPECT_THAT(slurm::ended_report(job("OUT_OF_MEMORY")).action, HasSubstr("slurm.memory_per_node"));
  EXPECT_THAT(slurm::ended_report(job("FAILED", 233), kLaunchFailed).action,
              HasSubstr("operators"));
  EXPECT_THAT(slurm::ended_report(job("CANCELLED")).action, HasSubstr("regatta resume"));
  EXPECT_THAT(slurm::ended_report(job("DEADLINE")).action, HasSubstr("later --deadline"));
  EXPECT_EQ(slurm::ended_report(job("TIMEOUT")).action, "") << "the run goes on by itself";
  EXPECT_EQ(slurm::ended_report(job("PREEMPTED")).action, "");
  EXPECT_EQ(slurm::ended_report(job("NODE_FAIL")).action, "");
}

TEST(EndedReport, NamesEachLostNodeOnce) {
  const std::string log =
      "srun: error: Node failure on node[02-03]\nsrun: error: Node failure on "
      "node03\nsrun: error: Task launch for StepId=4.0 failed on node node09: x";
  EXPECT_THAT(slurm::ended_report(job("NODE_FAIL"), log).suspects, ElementsAre("node02", "node03"));
  EXPECT_EQ(slurm::ended_report(job("NODE_FAIL"), log).words, "nodes node[02-03] failed");
}

struct WaitRow {
  const char* reason;
  runs::Cause cause;
  const char* category;
  const char* clears;
  bool expected;      // a start
  const char* words;  // parts
  const char* action;
};

TEST(WaitingReport, TellsTheCause) {
  const WaitRow rows[] = {
      {"None", runs::Cause::None, "none", "by itself", true, "waits in Slurm", ""},
      {"Priority", runs::Cause::None, "queue", "by itself", true, "higher priority", ""},
      {"JobHeldUser", runs::Cause::Held, "held", "never", false, "its owner holds it",
       "scontrol release 42"},
      {"JobHeldAdmin", runs::Cause::Held, "held", "never", false, "an operator holds it",
       "scontrol release 42"},
      {"job requeued in held state", runs::Cause::Held, "held", "never", false, "requeued and held",
       "scontrol release 42"},
      {"launch failed requeued held", runs::Cause::Stuck, "stuck", "never", false,
       "its launch failed", "operators"},
      {"JobHoldMaxRequeue", runs::Cause::Stuck, "stuck", "never", false, "requeued too often",
       "scontrol release 42"},
      {"PartitionNodeLimit", runs::Cause::Impossible, "impossible", "never", false,
       "more or fewer nodes", "ask for a number"},
      {"PartitionTimeLimit", runs::Cause::Impossible, "impossible", "never", false,
       "above the partition's", "lower the time limit"},
      {"QOSMaxGRESPerUser", runs::Cause::None, "limit", "perhaps", true, "GPUs", "wait"},
      {"ReqNodeNotAvail, UnavailableNodes:node01", runs::Cause::None, "broken", "perhaps", true,
       "UnavailableNodes:node01", "wait"},
  };
  for (const WaitRow& row : rows) {
    SCOPED_TRACE(row.reason);
    const runs::ProcessReport report = slurm::waiting_report(waiting(row.reason));
    EXPECT_EQ(report.state, S::Waiting);
    EXPECT_EQ(report.cause, row.cause);
    EXPECT_EQ(report.category, row.category);
    EXPECT_EQ(report.clears, row.clears);
    EXPECT_EQ(report.expected_start.has_value(), row.expected);
    EXPECT_THAT(report.words, HasSubstr(row.words));
    EXPECT_THAT(report.action, HasSubstr(row.action));
    EXPECT_EQ(report.action.empty(), *row.action == '\0') << report.action;
    EXPECT_EQ(report.action.find(" ID"), std::string::npos) << report.action;
    EXPECT_THAT(report.suspects, IsEmpty());
  }
}

TEST(WaitingReport, NamesTheNodesOfAFailedLaunch) {
  const slurm::JobRow row = waiting("launch failed requeued held");
  EXPECT_TRUE(slurm::needs_log(row));
  const runs::ProcessReport report = slurm::waiting_report(row, kPrologOnSecond);
  EXPECT_THAT(report.suspects, ElementsAre("node04"));
  EXPECT_THAT(report.words, HasSubstr("(node node04)"));
  EXPECT_FALSE(slurm::needs_log(waiting("Priority")));
  EXPECT_FALSE(slurm::needs_log(waiting("JobHeldUser")));
}

TEST(RunningReport, TellsWhere) {
  slurm::JobRow row = job("RUNNING");
  row.gpus_per_node = slurm::Gpus{8, {}};
  row.node_count = 2;
  const runs::ProcessReport report = slurm::running_report(row);
  EXPECT_EQ(report.state, S::Running);
  EXPECT_EQ(report.nodes, "node[01-02]");
  EXPECT_EQ(report.gpus, slurm::gpu_count(row));
  EXPECT_EQ(report.category, "");
}

TEST(RunningReport, TellsThatItStandsStill) {
  for (const char* state : {"SUSPENDED", "STOPPED"}) {
    slurm::JobRow row = job(state);
    row.id = "12";
    const runs::ProcessReport report = slurm::running_report(row);
    EXPECT_EQ(report.state, S::Running) << "it has its nodes";
    EXPECT_EQ(report.category, "suspended") << state;
    EXPECT_NE(report.action.find("scontrol resume 12"), std::string::npos) << report.action;
  }
}

TEST(JobLog, IsOfTheNewestStart) {
  const std::string first = "regatta: run a\none\n";
  EXPECT_EQ(slurm::job_log(first + "regatta: run a\ntwo\n", "ranks\n"),
            "regatta: run a\ntwo\nranks\n");
  EXPECT_EQ(slurm::job_log("prolog\n" + first + "regatta: run a\ntwo\n", ""),
            "regatta: run a\ntwo\n");
  EXPECT_EQ(slurm::job_log(first, ""), first);
  EXPECT_EQ(slurm::job_log("prolog", "ranks"), "prolog\nranks");
  EXPECT_EQ(slurm::job_log("", ""), "");
  EXPECT_EQ(slurm::job_log("say regatta: run a\n", ""), "say regatta: run a\n")
      << "not a line's begin";
}

}  // namespace
}  // namespace regatta::orchestrator
