// From a run directory to what sbatch is given.
#include "orchestrator/batch/run_job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "orchestrator/batch/batch_script.h"
#include "tests/orchestrator/batch/golden_texts.h"

namespace regatta::orchestrator {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr const char* kPlan = R"({"ranks": 8, "bucket_ends": [3, 9], "why": "said the model",
  "environment": {"NCCL_IB_HCA": "mlx5_0,mlx5_1", "NCCL_DEBUG": "WARN"},
  "switches": "1@30", "segment": 2, "exclude": ["gpu[13-14]"]})";

trainer::contract::RunConfig config_with(const std::string& slurm) {
  return trainer::contract::parse_run_config(
      "name: planned\ndata: {path: /data}\nranks: 8\nslurm: {nodes: 2, " + slurm + "}\n", "run");
}

batch::SlurmJob launch() {
  batch::SlurmJob job;
  job.token = "0123456789abcdef";
  job.run_directory = "/runs/planned-1";
  job.trainer = "/opt/regatta/bin/regatta-train";
  return job;
}

class RunJob : public testing::Test {
 protected:
  RunJob() {
    std::string pattern = testing::TempDir() + "regatta-run-job-XXXXXX";
    run_ = mkdtemp(pattern.data());
  }
  ~RunJob() override {
    std::error_code ignored;
    std::filesystem::remove_all(run_, ignored);
  }
  std::optional<topology::plan::Plan> plan(const std::string& text, int ranks = 8) {
    std::ofstream(run_ / "plan.json") << text;
    return batch::plan_of_run(base::posix_file_system(), run_, ranks);
  }
  base::Path run_;
};

TEST_F(RunJob, ThePlanReachesTheScript) {
  const trainer::contract::RunConfig config =
      config_with("switches: 4, exclude: [gpu07], environment: {NCCL_DEBUG: INFO}");
  const batch::SlurmJob job = batch::job_of_run(launch(), config, plan(kPlan));
  tests::expect_golden("from_plan.txt", tests::text_of(job));
  const std::vector<std::string> arguments = batch::sbatch_arguments(job);
  EXPECT_THAT(arguments, Contains("--switches=1@30"));
  EXPECT_THAT(arguments, Contains("--segment=2"));
  EXPECT_THAT(arguments, Contains("--exclude=gpu07,gpu[13-14]"));
  EXPECT_THAT(arguments, Contains("--nodes=2"));
  const std::string variables = "\nenvironment=('NCCL_DEBUG=INFO' 'NCCL_IB_HCA=mlx5_0,mlx5_1')\n";
  EXPECT_NE(batch::batch_script(job).find(variables), std::string::npos) << "the run's own win";
}

TEST_F(RunJob, NodesThatTheLaunchAvoidsStay) {
  batch::SlurmJob avoiding = launch();
  avoiding.exclude = {"gpu01"};
  const batch::SlurmJob job =
      batch::job_of_run(avoiding, config_with("requeue: true"), plan(kPlan));
  EXPECT_THAT(job.exclude, ElementsAre("gpu01", "gpu[13-14]"));
}

TEST_F(RunJob, WithoutAPlanNothingIsAsked) {
  EXPECT_FALSE(batch::plan_of_run(base::posix_file_system(), run_, 8));
  const batch::SlurmJob job =
      batch::job_of_run(launch(), config_with("requeue: true"), std::nullopt);
  for (const char* name : {"--switches", "--segment", "--exclude"}) {
    EXPECT_THAT(batch::sbatch_arguments(job), Not(Contains(StartsWith(name))));
  }
  EXPECT_TRUE(job.plan_environment.empty());
}

TEST_F(RunJob, APlanForOtherRanksIsLeftOut) { EXPECT_FALSE(plan(kPlan, 4)); }

TEST_F(RunJob, APlanThatIsNoneIsTheUsersCase) {
  for (const char* text :
       {"", "{", R"({"ranks": 8, "bucket_ends": [3], "environment": {"LD_PRELOAD": "/x"}})",
        R"({"ranks": 8, "bucket_ends": [3], "switches": "1 --uid=0"})"}) {
    SCOPED_TRACE(text);
    try {
      (void)plan(text);
      ADD_FAILURE() << "accepted";
    } catch (const base::Error& error) {
      EXPECT_EQ(error.code(), base::Code::User);
      EXPECT_THAT(error.what(), HasSubstr("plan.json"));
    }
  }
}

TEST_F(RunJob, SlurmSignalsBeforeTheEndOfALongLimitOnly) {
  struct Row {
    const char* limit;
    int seconds;
  };
  for (const Row& row : {Row{"requeue: true", 0}, Row{"time_limit: 1", 0}, Row{"time_limit: 19", 0},
                         Row{"time_limit: 20", 120}, Row{"time_limit: 2-00:00:00", 120}}) {
    SCOPED_TRACE(row.limit);
    const batch::SlurmJob job = batch::job_of_run(launch(), config_with(row.limit), std::nullopt);
    EXPECT_EQ(job.signal_seconds, row.seconds);
    const std::vector<std::string> arguments = batch::sbatch_arguments(job);
    if (row.seconds > 0) {
      EXPECT_THAT(arguments, Contains("--signal=USR2@120"));
    } else {
      EXPECT_THAT(arguments, Not(Contains(StartsWith("--signal"))));
    }
  }
}

}  // namespace
}  // namespace regatta::orchestrator
