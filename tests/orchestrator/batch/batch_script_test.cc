// The texts that sbatch is given; what they do is tested in batch_script_run_test.cc.
#include "orchestrator/batch/batch_script.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/error.h"
#include "base/text.h"
#include "tests/orchestrator/batch/golden_texts.h"

namespace regatta::orchestrator {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;
using tests::expect_golden;
using tests::text_of;

batch::SlurmJob plain_job() {
  batch::SlurmJob job;
  job.token = "0123456789abcdef";
  job.run_name = "demo";
  job.run_directory = "/runs/demo-1";
  job.trainer = "/opt/regatta/bin/regatta-train";
  return job;
}

batch::SlurmJob four_nodes() {
  batch::SlurmJob job = plain_job();
  job.resources.partition = "main";
  job.resources.min_nodes = job.resources.max_nodes = 4;
  job.resources.cpus_per_rank = 2;
  job.resources.memory_per_node_mib = 4096;
  job.resources.time_limit_minutes = 90;
  job.signal_seconds = 120;
  job.exclude = {"node07", "node[11-12]"};
  return job;
}

batch::SlurmJob gpus_with_plan() {
  batch::SlurmJob job = plain_job();
  job.resources.partition = "gpu";
  job.resources.account = "ml";
  job.resources.min_nodes = job.resources.max_nodes = 8;
  job.resources.ranks_per_node = 8;
  job.resources.gpus_per_rank = 1;
  job.resources.gpu_type = "h100";
  job.resources.comment = "project 7";
  job.resources.cpus_per_rank = 12;
  job.resources.memory_per_node_mib = 0;
  job.resources.constraint = "h100&ib";
  job.resources.exclude = {"gpu13"};
  job.resources.switches = "2";
  job.resources.environment = {{"NCCL_DEBUG", "INFO"}};
  job.plan_environment = {{"NCCL_IB_HCA", "mlx5_0,mlx5_1"},
                          {"NCCL_DEBUG", "WARN"},
                          {"CUDA_DEVICE_MAX_CONNECTIONS", "1"}};
  job.switches = "1@30";
  job.segment = 4;
  job.slurm_directory = "/opt/slurm/bin";
  return job;
}

batch::SlurmJob container() {
  batch::SlurmJob job = four_nodes();
  job.resources.container = {
      "docker://registry/regatta:1", {"/runs:/runs", "/data:/data:ro"}, {"--container-writable"}};
  job.resources.setup = "module load cuda\nexport OMP_PROC_BIND=close\n";
  return job;
}

batch::SlurmJob no_requeue() {
  batch::SlurmJob job = plain_job();
  job.resources.requeue = false;
  job.resources.options = {"--nice=10", "--mail-type=END"};
  return job;
}

batch::SlurmJob node_range() {
  batch::SlurmJob job = plain_job();
  job.resources.min_nodes = 2;
  job.resources.max_nodes = 8;
  job.resources.ranks_per_node = 2;
  job.resources.qos = "high";
  job.resources.reservation = "r1";
  return job;
}

// "name" of each line that assigns to it.
std::vector<std::string> assigned(std::string_view text) {
  std::vector<std::string> names;
  for (const std::string& line : base::split(text, '\n')) {
    const std::size_t equals = line.find('=');
    if (equals != std::string::npos) names.push_back(line.substr(0, equals));
  }
  return names;
}

// shellcheck reads job.sh with its example, so the example must have what every job has.
TEST(JobScript, HasAnExampleOfEveryJob) {
  std::ifstream file(REGATTA_SOURCE_DIR "/orchestrator/batch/job.sh", std::ios::binary);
  const std::string script((std::istreambuf_iterator<char>(file)), {});
  const std::string_view head = batch::batch_script_head(), body = batch::batch_script_body();
  ASSERT_THAT(script, AllOf(StartsWith(std::string(head)), EndsWith(std::string(body))));
  const std::string example = script.substr(head.size(), script.size() - head.size() - body.size());
  EXPECT_THAT(example, StartsWith("\n# Example of a job: "));
  EXPECT_THAT(example, EndsWith("\n# End of the example.\n"));
  const std::string made = batch::batch_script(plain_job());
  EXPECT_EQ(assigned(example), assigned(std::string_view(made).substr(
                                   head.size(), made.size() - head.size() - body.size())));
  EXPECT_THAT(made, Not(HasSubstr("example")));
}

TEST(BatchScript, IsTheOneThatWasAgreed) {
  expect_golden("one_node.txt", text_of(plain_job()));
  expect_golden("four_nodes.txt", text_of(four_nodes()));
  expect_golden("gpus_with_plan.txt", text_of(gpus_with_plan()));
  expect_golden("container.txt", text_of(container()));
  expect_golden("no_requeue.txt", text_of(no_requeue()));
  expect_golden("node_range.txt", text_of(node_range()));
  expect_golden("whole_script.txt", batch::batch_script(container()));
}

TEST(BatchScript, EveryOptionIsOneArgumentAndTheScriptComesLast) {
  for (const batch::SlurmJob& job :
       {plain_job(), four_nodes(), gpus_with_plan(), container(), no_requeue(), node_range()}) {
    const std::vector<std::string> arguments = batch::sbatch_arguments(job);
    EXPECT_EQ(arguments.back(), "/runs/demo-1/submit/0123456789abcdef.sh");
    for (std::size_t i = 0; i + 1 < arguments.size(); ++i) {
      EXPECT_EQ(arguments[i].substr(0, 2), "--") << arguments[i];
    }
    EXPECT_THAT(arguments, Contains("--parsable"));
    EXPECT_THAT(arguments, Contains("--open-mode=append"));
    EXPECT_THAT(arguments, Contains("--job-name=demo"));
    EXPECT_THAT(arguments,
                Contains(AllOf(StartsWith("--comment="), EndsWith("regatta:0123456789abcdef"))));
  }
}

TEST(BatchScript, OptionsThatNobodyAskedForAreLeftToSlurm) {
  const std::vector<std::string> arguments = batch::sbatch_arguments(plain_job());
  for (const char* name : {"--partition", "--account", "--qos", "--time", "--signal", "--switches",
                           "--segment", "--exclude", "--mem", "--gpus-per-node", "--constraint",
                           "--cpus-per-task", "--reservation"}) {
    EXPECT_THAT(arguments, Not(Contains(testing::StartsWith(name))));
  }
}

TEST(BatchScript, PercentSignsOfThePathAreNotSlurmsPatterns) {
  batch::SlurmJob job = plain_job();
  job.run_directory = "/runs/100%j %%x";
  EXPECT_THAT(batch::sbatch_arguments(job),
              Contains("--output=/runs/100%%j %%%%x/submit/0123456789abcdef-%j.out"));
  EXPECT_THAT(batch::sbatch_arguments(job), Contains("--chdir=/runs/100%j %%x"));
}

// sbatch: "sig_time … an integer between 0 and 65535".
TEST(BatchScript, TheSignalComesNoEarlierThanSlurmCanSay) {
  const std::pair<int, const char*> rows[] = {
      {65535, "--signal=USR2@65535"}, {65536, "--signal=USR2@65535"}, {100, "--signal=USR2@100"}};
  for (const auto& [seconds, option] : rows) {
    batch::SlurmJob job = plain_job();
    job.signal_seconds = seconds;
    EXPECT_THAT(batch::sbatch_arguments(job), testing::Contains(option)) << seconds;
  }
}

TEST(BatchScript, RefusesWhatCannotBeHandedOver) {
  struct Row {
    const char* name;
    void (*spoil)(batch::SlurmJob*);
    const char* message;
  };
  static const std::string nul("a\0b", 3);
  const Row rows[] = {
      {"no token", [](batch::SlurmJob* j) { j->token = ""; }, "the token"},
      {"a token of another kind", [](batch::SlurmJob* j) { j->token = "../../etc/passwd"; },
       "the token"},
      {"a relative run", [](batch::SlurmJob* j) { j->run_directory = "runs/x"; },
       "an absolute path"},
      {"an empty run", [](batch::SlurmJob* j) { j->run_directory = ""; }, "an absolute path"},
      {"a run in a line break", [](batch::SlurmJob* j) { j->run_directory = "/a\n#SBATCH"; },
       "control"},
      {"a run with NUL", [](batch::SlurmJob* j) { j->run_directory = "/" + nul; }, "control"},
      {"a run with a backslash", [](batch::SlurmJob* j) { j->run_directory = "/a\\b"; },
       "backslashes"},
      {"a very long run",
       [](batch::SlurmJob* j) { j->run_directory = "/" + std::string(3900, 'x'); }, "3900 bytes"},
      {"a relative trainer", [](batch::SlurmJob* j) { j->trainer = "regatta-train"; }, "absolute"},
      {"a trainer with ESC", [](batch::SlurmJob* j) { j->trainer = "/\x1b[2J"; }, "control"},
      {"a relative Slurm", [](batch::SlurmJob* j) { j->slurm_directory = "bin"; }, "absolute"},
      {"a name with NUL", [](batch::SlurmJob* j) { j->run_name = nul; }, "no NUL"},
      {"a name of 1 MB", [](batch::SlurmJob* j) { j->run_name.assign(1 << 20, 'x'); }, "128 KiB"},
      {"a setup with NUL", [](batch::SlurmJob* j) { j->resources.setup = nul; }, "NUL"},
      {"a setup of 5 MB", [](batch::SlurmJob* j) { j->resources.setup.assign(5 << 20, ' '); },
       "shorten"},
      {"a variable with NUL", [](batch::SlurmJob* j) { j->resources.environment["A"] = nul; },
       "NUL"},
      {"a variable of 1 MB",
       [](batch::SlurmJob* j) { j->resources.environment["A"].assign(1 << 20, 'x'); },
       "put it in a file"},
      {"a variable without name", [](batch::SlurmJob* j) { j->resources.environment[""] = "x"; },
       "the variable ''"},
      {"a variable that begins with a digit",
       [](batch::SlurmJob* j) { j->resources.environment["1A"] = "x"; }, "the variable '1A'"},
      {"a variable named as an option",
       [](batch::SlurmJob* j) { j->resources.environment["-i"] = "x"; }, "the variable '-i'"},
      {"a variable with =", [](batch::SlurmJob* j) { j->plan_environment["A=B"] = "x"; },
       "the variable"},
      {"a variable with a line break",
       [](batch::SlurmJob* j) { j->plan_environment["A\nB"] = "x"; }, "the variable 'A\\nB'"},
      {"an option with NUL", [](batch::SlurmJob* j) { j->resources.options = {"--x=" + nul}; },
       "no NUL"},
      {"an option of 1 MB",
       [](batch::SlurmJob* j) { j->resources.options = {"--x=" + std::string(1 << 20, 'x')}; },
       "128 KiB"},
      {"options of 2 MB",
       [](batch::SlurmJob* j) {
         j->resources.options.assign(20, "--x=" + std::string(100'000, 'x'));
       },
       "use at most 1000000"},
      {"a container with NUL", [](batch::SlurmJob* j) { j->resources.container.image = nul; },
       "NUL"},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    batch::SlurmJob job = plain_job();
    row.spoil(&job);
    try {
      (void)batch::batch_script(job);
      ADD_FAILURE() << "accepted";
    } catch (const base::Error& error) {
      EXPECT_EQ(error.code(), base::Code::User);
      EXPECT_THAT(error.what(), HasSubstr(row.message));
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << "one line";
    }
  }
}

TEST(BatchScript, OnlyHarmlessVariablesOfTheSubmitterReachTheJob) {
  for (const char* name : {"PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "SLURM_CONF", "TZ"}) {
    EXPECT_TRUE(batch::may_reach_job(name)) << name;
  }
  for (const char* name :
       {"", "LD_PRELOAD", "LD_LIBRARY_PATH", "BASH_ENV", "SBATCH_PARTITION", "SLURM_JOB_ID",
        "REGATTA_TOKEN", "PATHS", "LC", "AWS_SECRET_ACCESS_KEY", "BASH_FUNC_srun%%", "TMPDIR"}) {
    EXPECT_FALSE(batch::may_reach_job(name)) << name;
  }
}

}  // namespace
}  // namespace regatta::orchestrator
