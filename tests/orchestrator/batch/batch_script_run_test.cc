// What the batch script does.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <cstdlib>
#include <thread>

#include "base/clock.h"
#include "tests/orchestrator/batch/batch_script_bench.h"

namespace regatta::orchestrator {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using namespace regatta::tests;

// A moment that was that many seconds away when the script asked: at most half a minute ago.
MATCHER_P(InSeconds, seconds, "") {
  const double at = std::strtod(arg.c_str(), nullptr);
  const double now = base::system_clock().utc_seconds();
  return at <= now + seconds && at > now + seconds - 30;
}

TEST(BatchScriptRun, StartsTheTrainerOnceOnAllNodes) {
  Bench bench;
  bench.set("SLURM_JOB_NUM_NODES", "4");
  bench.job.resources.max_nodes = 4;
  bench.job.resources.ranks_per_node = 2;
  bench.job.resources.cpus_per_rank = 3;
  bench.job.resources.container = {"img:1", {"/a:/a", "/b:/b"}, {"--container-writable"}};
  bench.job.resources.environment = {{"NCCL_DEBUG", "INFO"}};
  bench.job.plan_environment = {{"NCCL_DEBUG", "WARN"}, {"CUDA_DEVICE_MAX_CONNECTIONS", "1"}};
  EXPECT_EQ(bench.run(), 0) << bench.said;
  const auto step = bench.trainer_step();
  ASSERT_TRUE(step.has_value()) << bench.said;
  EXPECT_THAT(step->arguments,
              ElementsAre("--mpi=pmix", "--kill-on-bad-exit=1", "--nodes=4", "--ntasks=8",
                          "--ntasks-per-node=2", "--cpus-per-task=3", "--container-image=img:1",
                          "--container-mounts=/a:/a,/b:/b", "--container-writable",
                          bench.job.trainer.string(), "run", "--directory",
                          bench.job.run_directory.string(), "--ranks", "8", "--deadline-utc",
                          InSeconds(5400)));
  EXPECT_EQ(value_of(*step, "NCCL_DEBUG"), "INFO") << "the run's, not the plan's";
  EXPECT_EQ(value_of(*step, "CUDA_DEVICE_MAX_CONNECTIONS"), "1");
  EXPECT_EQ(value_of(*step, "SLURM_PMIX_FENCE"), "ring") << "Slurm's tree is not a barrier";
  EXPECT_THAT(read_file(bench.log()), HasSubstr("output of the ranks"));
  ASSERT_EQ(bench.calls("squeue").size(), 1U) << "asked once";
  EXPECT_THAT(bench.calls("squeue")[0].arguments, ElementsAre("-h", "-j", "77", "-o", "%L"));
  EXPECT_THAT(bench.calls("scontrol"), IsEmpty());
  EXPECT_THAT(bench.calls("sbatch"), IsEmpty());
}

TEST(BatchScriptRun, OnlyListedVariablesReachTheRanks) {
  Bench bench;
  for (const char* name : {"SECRET_TOKEN", "LD_LIBRARY_PATH", "SBATCH_PARTITION", "OMPI_MCA_x",
                           "SLURM_EXPORT_ENV", "SLURM_CPU_BIND", "NCCL_ALGO", "PYTHONPATH"}) {
    bench.set(name, "1");
  }
  bench.set("KRB5CCNAME", "/tmp/cc");
  bench.set("SLURM_CONF", "/etc/conf");
  bench.set("SLURM_PMIX_FENCE", "mixed");
  bench.job.resources.setup = "export FROM_SETUP='a b'\nlocal_only=1\n";
  bench.job.resources.environment = {{"FROM_RUN", "x"}};
  EXPECT_EQ(bench.run(), 0) << bench.said;
  const auto step = bench.trainer_step();
  ASSERT_TRUE(step.has_value()) << bench.said;
  for (const char* name :
       {"SECRET_TOKEN", "LD_LIBRARY_PATH", "SBATCH_PARTITION", "OMPI_MCA_x", "SLURM_EXPORT_ENV",
        "SLURM_CPU_BIND", "NCCL_ALGO", "PYTHONPATH", "local_only"}) {
    EXPECT_EQ(value_of(*step, name), "(absent)") << name;
  }
  EXPECT_EQ(value_of(*step, "KRB5CCNAME"), "/tmp/cc");
  EXPECT_EQ(value_of(*step, "SLURM_CONF"), "/etc/conf");
  EXPECT_EQ(value_of(*step, "SLURM_PMIX_FENCE"), "mixed") << "the site's choice";
  EXPECT_EQ(value_of(*step, "FROM_SETUP"), "a b");
  EXPECT_EQ(value_of(*step, "FROM_RUN"), "x");
  EXPECT_THAT(bench.said, HasSubstr("FROM_RUN")) << "the names are listed";
}

TEST(BatchScriptRun, ValuesOfVariablesAreNobodysArguments) {
  Bench bench;
  bench.job.resources.environment = {{"WANDB_API_KEY", "s3cret"}, {"EMPTY", ""}};
  bench.job.plan_environment = {{"NCCL_DEBUG", "WARN"}};
  // Every user of the node reads the arguments of every process there.
  const std::string seen = bench.tool("seen").string();
  for (const char* program : {"env", "timeout"}) {
    write_file(bench.tool(program), "#!/bin/sh\nprintf '%s\\n' \"$0\" \"$@\" >> '" + seen +
                                        "'\nexec /usr/bin/" + program + " \"$@\"\n");
    std::filesystem::permissions(bench.tool(program), std::filesystem::perms::owner_all);
  }
  EXPECT_EQ(bench.run(), 0) << bench.said;
  const auto step = bench.trainer_step();
  ASSERT_TRUE(step.has_value()) << bench.said;
  EXPECT_EQ(value_of(*step, "WANDB_API_KEY"), "s3cret");
  EXPECT_EQ(value_of(*step, "EMPTY"), "");
  EXPECT_EQ(value_of(*step, "NCCL_DEBUG"), "WARN");
  const bool any = std::filesystem::exists(seen);
  EXPECT_THAT(any ? read_file(seen) : "", Not(HasSubstr("s3cret")));
  EXPECT_THAT(bench.said, Not(HasSubstr("s3cret")));
}

TEST(BatchScriptRun, ReadsEveryFormOfTheRemainingTime) {
  struct Row {
    const char* answer;
    int seconds;  // -1: no deadline
  };
  for (const Row& row :
       {Row{"0:30\n", 30}, Row{"1:08\n", 68}, Row{"59:59\n", 3599}, Row{"08:09:09\n", 29349},
        Row{"1-00:00:00\n", 86400}, Row{"365-23:59:59\n", 31622399}, Row{"0:00\n", 0},
        Row{"  12:00  \n", 720}, Row{"12:00\n13:00\n", 720}, Row{"UNLIMITED\n", -1},
        Row{"NOT_SET\n", -1}, Row{"INVALID\n", -1}, Row{"", -1}, Row{"$(touch x)\n", -1},
        Row{"a[$(touch x)]:1\n", -1}, Row{"-1:00\n", -1}}) {
    SCOPED_TRACE(row.answer);
    Bench bench;
    write_file(bench.tool("squeue.answer"), row.answer);
    EXPECT_EQ(bench.run(), 0) << bench.said;
    const auto step = bench.trainer_step();
    ASSERT_TRUE(step.has_value()) << bench.said;
    if (row.seconds < 0) {
      EXPECT_THAT(step->arguments, Not(Contains(HasSubstr("--deadline"))));
    } else {
      EXPECT_THAT(step->arguments.back(), InSeconds(row.seconds));
    }
  }
  Bench bench;
  write_file(bench.tool("squeue.code"), "1");
  EXPECT_EQ(bench.run(), 0) << bench.said;
  EXPECT_THAT(bench.trainer_step()->arguments, Not(Contains(HasSubstr("--deadline"))));
}

// Slurm ended that start while its srun still waited: what it had to say stands in rank 0's file.
TEST(BatchScriptRun, WhatRank0EndedIsNotTrainedAgain) {
  for (const auto& [word, trains] : {std::pair("0", false), std::pair("24", true)}) {
    Bench bench;
    bench.set("SLURM_RESTART_COUNT", "1");
    const std::string start = bench.job.token + "-77-0.exit";
    write_file(bench.job.run_directory / "submit" / start, std::string(word) + "\n");
    EXPECT_EQ(bench.run(), 0) << bench.said;
    EXPECT_EQ(bench.trainer_step().has_value(), trains) << word;
  }
}

TEST(BatchScriptRun, NamesTheNodeThatDiffers) {
  struct Row {
    const char* file;
    const char* message;
    int code;
  };
  for (const Row& row : {Row{"other", "node node3 has another ", 21},
                         Row{"blind", "node node3 does not see the run directory", 21},
                         Row{"without", "node node3 cannot read and run ", 21},
                         Row{"silent", "3 of 4 nodes answered", 22}}) {
    SCOPED_TRACE(row.file);
    Bench bench;
    bench.job.resources.requeue = false;
    bench.set("SLURM_JOB_NUM_NODES", "4");
    write_file(bench.tool(row.file), "node3");
    EXPECT_EQ(bench.run(), row.code) << bench.said;
    EXPECT_THAT(bench.said, HasSubstr(row.message));
    EXPECT_FALSE(bench.trainer_step().has_value());
  }
}

TEST(BatchScriptRun, WithoutPmixTheTrainerStartsItsRanks) {
  Bench bench;
  write_file(bench.tool("mpi"), "MPI plugin types are...\n\tnone\n\tpmi2\n");
  EXPECT_EQ(bench.run(), 0) << bench.said;
  EXPECT_FALSE(bench.trainer_step().has_value());
  ASSERT_EQ(bench.calls("trainer").size(), 1U);
  EXPECT_THAT(bench.calls("trainer")[0].arguments,
              ElementsAre("run", "--directory", bench.job.run_directory.string(), "--ranks", "1",
                          "--deadline-utc", InSeconds(5400)));
  bench.job.token = "fedcba9876543210";
  bench.job.resources.container.image = "img";
  EXPECT_EQ(bench.run(), 21);
  EXPECT_THAT(bench.said, HasSubstr("a container needs it"));
}

TEST(BatchScriptRun, AnSrunThatMissesTheEndOfItsRanksIsEnded) {
  for (const char* code : {"0", "25", "20"}) {
    for (const bool deaf : {false, true}) {
      SCOPED_TRACE(std::string(code) + (deaf ? " deaf" : ""));
      Bench bench;
      bench.job.resources.requeue = false;
      bench.job.farewell_seconds = 1;
      write_file(bench.tool("code"), code);
      write_file(bench.tool("lingers"), "");
      if (deaf) write_file(bench.tool("deaf"), "");
      EXPECT_EQ(std::to_string(bench.run()), code) << bench.said;
      EXPECT_THAT(bench.said, HasSubstr("has not seen for 1 s that the ranks have ended"));
      EXPECT_THAT(bench.said, HasSubstr(std::string("step ended with ") + code));
    }
  }
}

TEST(BatchScriptRun, ARunThatEndedIsNotStartedAgain) {
  Bench bench;
  bench.job.resources.requeue = false;
  write_file(bench.tool("code"), "22");
  EXPECT_EQ(bench.run(), 22);
  EXPECT_EQ(bench.run(), 22) << "not ended";
  write_file(bench.tool("code"), "0");
  EXPECT_EQ(bench.run(), 0);
  const size_t steps = bench.calls("srun").size();
  bench.set("SLURM_RESTART_COUNT", "1");
  EXPECT_EQ(bench.run(), 0) << bench.said;
  EXPECT_THAT(bench.said, HasSubstr("has done its work in an earlier start"));
  EXPECT_EQ(bench.calls("srun").size(), steps);
  bench.job.token = "fedcba9876543210";
  EXPECT_EQ(bench.run(), 0);
  EXPECT_GT(bench.calls("srun").size(), steps) << "the next launch of the same run";
}

// What the step returned → what the script returns, and what it asked of Slurm.
TEST(BatchScriptRun, DecidesFromTheStepsExitCode) {
  struct Row {
    int step;
    bool requeue;
    const char* restarts;
    int script;
    int requeues, successors;
  };
  const Row rows[] = {
      {0, true, "0", 0, 0, 0},      {1, true, "0", 22, 1, 0},    {2, true, "0", 2, 0, 0},
      {20, true, "0", 20, 0, 0},    {21, true, "0", 21, 0, 0},   {22, true, "0", 22, 1, 0},
      {22, false, "0", 22, 0, 0},   {22, true, "4", 22, 0, 0},   {23, true, "0", 23, 0, 0},
      {24, true, "0", 24, 0, 0},    {24, false, "0", 24, 0, 0},  {25, true, "0", 25, 1, 0},
      {25, true, "3", 25, 1, 0},    {25, true, "4", 25, 0, 1},   {25, false, "0", 25, 0, 1},
      {70, true, "0", 70, 0, 0},    {137, true, "0", 137, 0, 0}, {143, true, "0", 143, 0, 0},
      {143, false, "0", 143, 0, 0}, {127, true, "0", 127, 0, 0},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(std::to_string(row.step) + (row.requeue ? " requeue" : " no requeue"));
    Bench bench;
    // The job is ended at once after a requeue, here by its own `sleep`.
    bench.add_tool("sleep", "exit 0\n");
    bench.job.resources.requeue = row.requeue;
    bench.set("SLURM_RESTART_COUNT", row.restarts);
    write_file(bench.tool("code"), std::to_string(row.step));
    write_file(bench.tool("sbatch.answer"), "78\n");
    EXPECT_EQ(bench.run(), row.script) << bench.said;
    int requeues = 0;
    for (const Call& call : bench.calls("scontrol")) {
      if (call.arguments == std::vector<std::string>{"requeue", "77"}) ++requeues;
    }
    EXPECT_EQ(requeues, row.requeues) << bench.said;
    const std::vector<Call> successors = bench.calls("sbatch");
    ASSERT_EQ(static_cast<int>(successors.size()), row.successors) << bench.said;
    if (row.successors == 0) continue;
    std::vector<std::string> expected = batch::sbatch_arguments(bench.job);
    expected.insert(expected.end() - 1, "--dependency=afternotok:77");
    EXPECT_EQ(successors[0].arguments, expected);
    EXPECT_EQ(value_of(successors[0], "SLURM_JOB_ID"), "(absent)");
    EXPECT_THAT(bench.said, HasSubstr("successor 78"));
  }
}

// What the ranks left in the file, and what srun returned → what the script returns.
TEST(BatchScriptRun, TheRanksLastWordCountsUnlessItIsSuccess) {
  struct Row {
    const char* word;  // null: none
    const char* step;
    int script;
  };
  for (const Row& row :
       {Row{"0\n", "0", 0}, Row{"25\n", "0", 25}, Row{"25\n", "143", 25}, Row{"24", "137", 24},
        Row{"0\n", "143", 143}, Row{"0\n", "1", 1}, Row{nullptr, "0", 22}, Row{"", "0", 22},
        Row{nullptr, "1", 22}, Row{nullptr, "2", 2}, Row{"x\n", "0", 22}, Row{"$(exit)", "0", 22},
        Row{"", "137", 137}, Row{"9999", "21", 21}}) {
    SCOPED_TRACE(std::string(row.word == nullptr ? "none" : row.word) + " " + row.step);
    Bench bench;
    bench.add_tool("sleep", "exit 0\n");
    write_file(bench.tool("code"), row.step);
    if (row.word == nullptr) {
      write_file(bench.tool("mute"), "");
    } else {
      write_file(bench.tool("last_word"), row.word);
    }
    EXPECT_EQ(bench.run(), row.script) << bench.said;
  }
}

TEST(BatchScriptRun, EveryStartUsesAnotherStepNumberForTheRanks) {
  for (const std::size_t restarts : {0U, 1U, 3U}) {
    Bench bench;
    bench.set("SLURM_RESTART_COUNT", std::to_string(restarts));
    EXPECT_EQ(bench.run(), 0) << bench.said;
    std::size_t steps = 0;  // --mpi=list is none
    for (const Call& call : bench.calls("srun")) {
      if (testing::Value(call.arguments, Contains("--kill-on-bad-exit=1"))) break;
      if (!testing::Value(call.arguments, Contains("--mpi=list"))) ++steps;
    }
    EXPECT_EQ(steps, 1 + restarts) << "steps before that of the ranks";
  }
}

// Ranks that wait for one that hangs: their request is answered once, and the job starts again.
TEST(BatchScriptRun, TakesTheStacksThatRanksAskFor) {
  for (const char* code : {"0", "1"}) {
    SCOPED_TRACE(code);
    Bench bench;
    bench.add_tool("sleep", "exit 0\n");
    bench.set("SLURM_JOB_NUM_NODES", "4");
    bench.set("SLURM_MEM_PER_CPU", "1000");
    bench.job.resources.max_nodes = 4;
    bench.job.resources.ranks_per_node = 2;
    bench.job.resources.cpus_per_rank = 3;
    write_file(bench.tool("hangs"), "");
    write_file(bench.tool("stacks_code"), code);
    write_file(bench.tool("code"), "137");
    write_file(bench.tool("last_word"), "22");
    EXPECT_EQ(bench.run(), 22) << bench.said;
    std::vector<Call> taken;
    for (Call& call : bench.calls("srun")) {
      if (testing::Value(call.arguments, Contains("stacks"))) taken.push_back(std::move(call));
    }
    ASSERT_EQ(taken.size(), 1U) << bench.said;
    EXPECT_THAT(taken[0].arguments,
                ElementsAre("--overlap", "--mpi=none", "--nodes=4", "--ntasks=4",
                            "--ntasks-per-node=1", "--cpus-per-task=3", bench.job.trainer.string(),
                            "stacks", "--directory", bench.job.run_directory.string()));
    EXPECT_EQ(value_of(taken[0], "SLURM_MEM_PER_CPU"), "(absent)") << "the ranks have the memory";
    const base::Path submit = bench.job.run_directory / "submit";
    EXPECT_EQ(read_file(submit / "0123456789abcdef-77-0.stacks"), "stacks of all ranks\n");
    EXPECT_FALSE(std::filesystem::exists(submit / "0123456789abcdef-77-0.dump"));
    EXPECT_EQ(value_of(*bench.trainer_step(), "REGATTA_DUMP_REQUEST"),
              (submit / "0123456789abcdef-77-0.dump").string());
    EXPECT_EQ(bench.calls("scontrol").size(), 1U) << bench.said;
  }
}

TEST(BatchScriptRun, AfterPreemptionTheRunGoesOn) {
  struct Row {
    int step;
    const char* preempt_time;
    int requeues;
    bool requeue = true;
    bool told = true;  // that it was preempted
  };
  constexpr const char* kThen = "2026-11-21T10:00:00";
  for (const Row& row : {Row{24, kThen, 1}, Row{143, kThen, 1}, Row{24, kThen, 0, false},
                         Row{143, kThen, 0, false}, Row{24, "None", 0, true, false},
                         Row{137, "None", 0, true, false}, Row{20, kThen, 0, true, false}}) {
    SCOPED_TRACE(std::to_string(row.step) + (row.requeue ? " requeue" : " no requeue"));
    Bench bench;
    bench.add_tool("sleep", "exit 0\n");
    bench.job.resources.requeue = row.requeue;
    write_file(bench.tool("code"), std::to_string(row.step));
    write_file(bench.tool("scontrol.answer"),
               std::string("JobId=77\n   PreemptEligibleTime=Unknown PreemptTime=") +
                   row.preempt_time + " Deadline=N/A\n");
    EXPECT_EQ(bench.run(), row.step) << "never with success";
    int requeues = 0;
    for (const Call& call : bench.calls("scontrol")) requeues += call.arguments[0] == "requeue";
    EXPECT_EQ(requeues, row.requeues) << bench.said;
    EXPECT_EQ(bench.said.find("regatta: preempted\n") != std::string::npos, row.told);
  }
}

// The same again would need as much memory again.
TEST(BatchScriptRun, WhatRanOutOfMemoryIsNotRequeued) {
  struct Row {
    const char* line;
    int requeues;
  };
  for (const Row& row :
       {Row{"slurmstepd: error: Detected 1 oom-kill event(s) in StepId=7.0.", 0},
        Row{"slurmstepd-node01: error: StepId=1.0 exceeded memory limit (2 > 1), being killed", 0},
        Row{"slurmstepd: error: Exceeded job memory limit", 0},
        Row{"srun: error: node02: task 1: Out Of Memory", 0}, Row{"  what():  std::bad_alloc", 0},
        Row{"the memory limit is exceeded", 1}}) {
    SCOPED_TRACE(row.line);
    Bench bench;
    bench.add_tool("sleep", "exit 0\n");
    const std::string srun(kSrun);
    const std::string print = "echo '" + std::string(row.line) + "'\n";
    bench.add_tool("srun", std::string(srun).insert(srun.find("echo \"output of"), print));
    write_file(bench.tool("code"), "22");
    EXPECT_EQ(bench.run(), 22) << bench.said;
    int requeues = 0;
    for (const Call& call : bench.calls("scontrol")) requeues += call.arguments[0] == "requeue";
    EXPECT_EQ(requeues, row.requeues) << bench.said;
  }
}

// squeue does not show it, so job_end reads it.
TEST(BatchScriptRun, TheLastLineTellsTheCode) {
  for (const int code : {0, 24, 137}) {
    Bench bench;
    write_file(bench.tool("code"), std::to_string(code));
    EXPECT_EQ(bench.run(), code);
    EXPECT_THAT(bench.said, testing::EndsWith("regatta: returns " + std::to_string(code) + "\n"));
  }
  Bench bench;
  bench.job.resources.setup = "exit 3";
  EXPECT_EQ(bench.run(), 20);
  EXPECT_THAT(bench.said, testing::EndsWith("regatta: returns 20\n"));
}

TEST(BatchScriptRun, ARequeueThatFailsIsTriedAgainOnlyWhileSlurmCannotBeReached) {
  struct Row {
    const char* answer;
    std::size_t requeues;
  };
  for (const Row& row : {Row{"Unable to contact slurm controller (connect failure)", 8},
                         Row{"Socket timed out on send/recv operation", 8},
                         Row{"Requested operation is presently disabled for job 77", 1}}) {
    SCOPED_TRACE(row.answer);
    Bench bench;
    write_file(bench.tool("code"), "25");
    write_file(bench.tool("scontrol.answer"), row.answer);
    write_file(bench.tool("scontrol.code"), "1");
    write_file(bench.tool("sbatch.code"), "1");
    EXPECT_EQ(bench.run(), 25) << bench.said;
    EXPECT_EQ(bench.calls("scontrol").size(), row.requeues);
    EXPECT_EQ(bench.calls("sbatch").size(), 1U) << "never twice: it may have worked";
  }
}

// Slurm accepts the request and ends the job at once, the request itself, too: no second job.
TEST(BatchScriptRun, ARequeueThatEndsTheRequestIsOne) {
  Bench bench;
  bench.add_tool("sleep", "exit 0\n");
  bench.add_tool("scontrol", "kill -TERM 0; exec /bin/sleep 60\n");
  write_file(bench.tool("code"), "25");
  EXPECT_EQ(bench.run(), 25) << bench.said;
  EXPECT_THAT(bench.said, HasSubstr("requeued; waiting"));
  EXPECT_EQ(bench.calls("scontrol").size(), 1U);
  EXPECT_THAT(bench.calls("sbatch"), IsEmpty());
}

TEST(BatchScriptRun, MissingProgramsAreTheOperatorsCase) {
  Bench bench;
  // A PATH of its own, for this machine may have a real srun.
  bench.job.resources.setup = "PATH=" + base::shell_word(bench.tool("few").string());
  std::filesystem::create_directories(bench.tool("few"));
  EXPECT_EQ(bench.run(), 21) << bench.said;
  EXPECT_THAT(bench.said, HasSubstr("no srun in PATH"));
  Bench unwritable;
  std::filesystem::remove_all(unwritable.job.run_directory / "submit");
  base::Command command;
  const std::string script = batch::batch_script(unwritable.job);
  write_file(unwritable.tool("job.sh"), script);
  command.arguments = {"/bin/bash", "-p", unwritable.tool("job.sh").string()};
  command.environment = unwritable.variables;
  command.environment["PATH"] = unwritable.tool("").string() + ":/usr/local/bin:/usr/bin:/bin";
  const base::Output output = base::run(command, kTimeoutSeconds);
  EXPECT_EQ(output.exit.code, 21);
  EXPECT_THAT(output.text, HasSubstr("cannot write to"));
  Bench outside;
  outside.set("SLURM_JOB_ID", "");
  EXPECT_EQ(outside.run(), 21);
  EXPECT_THAT(outside.said, HasSubstr("this script is for sbatch"));
}

TEST(BatchScriptRun, ProgramsAreFoundInSlurmsDirectory) {
  Bench bench;
  bench.job.slurm_directory = bench.tool("");
  bench.job.resources.setup = "PATH=/usr/local/bin:/usr/bin:/bin";
  EXPECT_EQ(bench.run(), 0) << bench.said;
}

// What a setup may do, and what it cannot: make the job look finished.
TEST(BatchScriptRun, SetupsCannotMakeTheJobSucceed) {
  struct Row {
    const char* setup;
    int code;
  };
  const Row rows[] = {
      {"true", 0},
      {"export A=1 # comment", 0},
      {"declare -x B=2", 0},
      {"exit 0", 20},
      {"exit 3", 20},
      {"false", 20},
      {"'", 20},
      {"$(", 20},
      {"if true; then", 20},
      {")", 20},
      {"cat << E\n", 0},
      {"set -e", 0},
      {"set -eux; shopt -s nullglob failglob", 0},
      {"trap 'exit 0' EXIT TERM", 0},
      {"trap 'exit 0' DEBUG ERR; exit 0", 0},
      {"srun() { exit 0; }; squeue() { exit 0; }", 0},
      {"alias main='exit 0'; shopt -s expand_aliases", 0},
      {"IFS=/; token=x; run_directory=/; requeue=$(id)", 0},
      {"main() { exit 0; }; finish() { exit 0; }", 0},
      {"unset PATH; exec_nothing", 20},
      {"echo $undefined_variable", 0},
      {"#SBATCH --uid=0\n#SBATCH --wrap=id", 0},
      {"return 0", 20},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.setup);
    Bench bench;
    bench.job.resources.setup = row.setup;
    if (std::string(row.setup).find("DEBUG") != std::string::npos) {
      EXPECT_FALSE(bench.run() == 0 && !bench.trainer_step()) << "success without a trainer";
      continue;
    }
    EXPECT_EQ(bench.run(), row.code) << bench.said;
    EXPECT_EQ(bench.trainer_step().has_value(), row.code == 0) << bench.said;
  }
}

// Starts the script, waits until the ranks run, sends it `signal`.
class Running {
 public:
  explicit Running(Bench& bench) : bench_(bench) {
    write_file(bench.tool("wait"), "");
    child_ = base::spawn(bench.command());
    for (int i = 0; i < 1200 && !std::filesystem::exists(bench.tool("running")); ++i) nap();
    EXPECT_TRUE(std::filesystem::exists(bench.tool("running")));
  }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;
  void send(int signal) const { ::kill(child_, signal); }
  // Again and again: the script may not know its step yet, though that has begun.
  void send_until_signal(int signal, const std::string& name) const {
    for (int i = 0; i < 1200 && !has_signal(name); ++i, nap()) send(signal);
    EXPECT_TRUE(has_signal(name)) << name << " did not reach the step";
  }
  void await_signal(const std::string& name) const {
    for (int i = 0; i < 1200 && !has_signal(name); ++i) nap();
    EXPECT_TRUE(has_signal(name)) << name << " did not reach the step";
  }
  [[nodiscard]] int end() const { return base::wait_exit(child_).code.value_or(-1); }

 private:
  [[nodiscard]] bool has_signal(const std::string& name) const {
    return read_file(bench_.tool("signals")).find(name) != std::string::npos;
  }
  static void nap() { std::this_thread::sleep_for(std::chrono::milliseconds(50)); }
  Bench& bench_;
  pid_t child_ = 0;
};

TEST(BatchScriptRun, SignalsReachTheStep) {
  Bench bench;
  const Running running(bench);
  running.send_until_signal(SIGUSR2, "USR2");
  running.send(SIGUSR2);
  running.send(SIGTERM);
  running.await_signal("USR1");
  EXPECT_EQ(running.end(), 24);
  EXPECT_THAT(bench.calls("scontrol"), IsEmpty()) << "asked to stop: nothing starts again";
}

TEST(BatchScriptRun, AStepThatIsKilledIsNoSuccess) {
  Bench bench;
  bench.add_tool("srun", std::string(kSrun).insert(std::string(kSrun).find("[[ ! -e"),
                                                   "[[ -e $dir/gentle ]] || kill -KILL $$\n"));
  EXPECT_EQ(bench.run(), 137) << bench.said;
  bench.add_tool("srun", std::string(kSrun).insert(std::string(kSrun).find("[[ ! -e"),
                                                   "[[ -e $dir/gentle ]] || kill -TERM $$\n"));
  EXPECT_EQ(bench.run(), 143) << bench.said;
}

}  // namespace
}  // namespace regatta::orchestrator
