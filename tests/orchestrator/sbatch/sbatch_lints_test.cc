#include "orchestrator/sbatch/sbatch_lints.h"

#include <gmock/gmock.h>

#include "base/text.h"
#include "orchestrator/sbatch/sbatch_maintenance.h"

namespace regatta::orchestrator {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

std::string shown(const std::optional<sbatch::SbatchFinding>& finding) {
  if (!finding) return "";
  return std::to_string(finding->line) + ": " + finding->text + " [" + finding->id + "]";
}

std::string of_time(const std::string& value) {
  return shown(sbatch::time_finding({{"time", value, 3}}));
}

TEST(SbatchLints, MinutesThatMayBeHours) {
  EXPECT_EQ(of_time("1:00"),
            "3: --time=1:00 is minutes and seconds: 1 minute; with hours it is --time=1:00:00 "
            "[time-minutes]");
  EXPECT_THAT(of_time("01:30"), HasSubstr("1 minute 30 seconds;"));
  EXPECT_THAT(of_time("00:30"), HasSubstr(" 30 seconds; with hours it is --time=00:30:00"));
  EXPECT_THAT(of_time("9:59"), HasSubstr("9 minutes 59 seconds"));
  for (const char* const value : {"10:00", "60", "1:00:00", "1-0", "1-00:00", "0:00", "0", "", ":",
                                  ":30", "1:0", "1:000", "a:00", "1:0x", "UNLIMITED", "99:59"}) {
    EXPECT_EQ(of_time(value), "") << value;
  }
  EXPECT_EQ(shown(sbatch::time_finding({})), "");
  EXPECT_EQ(shown(sbatch::time_finding({{"time", "1:00", 2}, {"time", "2:00:00", 0}})), "");
}

// Words of one command line; each stands on the line that its number in the list gives.
std::vector<sbatch::GivenOption> options_of(const std::vector<std::string>& words) {
  auto options =
      sbatch::parse_sbatch_command(words, [](const std::string&) { return false; }).options;
  int line = 0;
  for (sbatch::GivenOption& option : options) option.line = ++line;
  return options;
}

// What Slurm 22.05.8 refused, or gave otherwise than was written; see sbatch_test.py.
TEST(SbatchLints, GpuOptionsThatDisagree) {
  struct Case {
    std::vector<std::string> words;
    const char* wanted;
  };
  const Case cases[] = {
      {{"--gres=gpu:4", "--gpus-per-node=2"}, "2: the job gets 4 GPUs a node"},
      {{"--gpus-per-node=4", "--gres=gpu:2"}, "2: the job gets 2 GPUs a node"},
      {{"--gres=gpu:h100:4", "--gpus-per-node=4"}, "with and without a type, which Slurm refuses"},
      {{"-N2", "--gpus=4", "--gpus-per-node=4"}, "3: --gpus=4 is for the whole job"},
      {{"-N2", "--gpus=6", "--gpus-per-node=2"}, "on 2 nodes makes 4, so sbatch refuses"},
      {{"-N1", "--gres=gpu:4", "--gpus=2"}, "not a multiple of --gres=gpu:4"},
      {{"-N1", "--gpus=7", "--gpus-per-node=4"}, "not a multiple of --gpus-per-node=4"},
      {{"-N2", "-G1"}, "2: --gpus=1 is for the whole job, fewer than its 2 nodes"},
      {{"--gpus-per-task=1"}, "1: sbatch refuses --gpus-per-task=1 without a number of tasks"},
      {{"--gpus=4", "--gpus-per-task=1", "-n2"}, "2 tasks with --gpus-per-task=1 make 2, so"},
      {{"-N1", "--ntasks-per-node=4", "--gpus=2", "--gpus-per-task=1"}, "4 tasks with"},
      {{"-N1", "-n2", "--gpus-per-node=4", "--gpus-per-task=1"},
       "wants exactly 4 tasks a node, but the job has 2 tasks on 1 node, so Slurm refuses"},
      {{"-N1", "--gres=gpu:4", "--gpus-per-task=1"}, "the job has 1 task on 1 node"},
      {{"-N2", "-n8", "--gpus-per-node=4", "--gpus-per-task=2"}, "wants exactly 2 tasks a node"},
      {{"-N1", "--ntasks-per-node=1", "--gpus-per-task=1", "--gpus-per-node=4"},
       "but --ntasks-per-node=1"},
      {{"-N1", "-n1", "--gpus-per-node=4", "--gpus-per-task=3"}, "not a multiple of the second"},
      {{"--gres=gpu:2", "--gres=nvme:1"}, "2: only the last --gres counts, and --gres=gpu:2 of"},
  };
  for (const Case& c : cases) {
    EXPECT_THAT(shown(sbatch::gpu_finding(options_of(c.words))), HasSubstr(c.wanted))
        << testing::PrintToString(c.words);
  }
}

TEST(SbatchLints, GpuOptionsThatAgree) {
  const std::vector<std::string> cases[] = {
      {},
      {"--gres=gpu:4"},
      {"--gres=gpu:4", "--gpus-per-node=4"},
      {"--gres=gpu:0", "--gpus-per-node=2"},
      {"--gres=gpu:a100:2", "--gpus-per-node=h100:2"},
      {"--gres=gpu:a100:2,gpu:h100:2", "--gpus-per-node=8"},
      {"--gres=nvme:2", "--gpus-per-node=4"},
      {"--gres=none", "--gpus=4"},
      {"-N2", "--gpus=8", "--gpus-per-node=4"},
      {"-N1-2", "--gpus=8", "--gpus-per-node=4"},
      {"-N2", "--gpus=3"},
      {"--gpus=8", "--gpus-per-node=4"},
      {"--gpus=4", "--gpus-per-task=1"},
      {"-N1", "--gpus-per-task=8"},
      {"--ntasks-per-node=4", "--gpus-per-task=1"},
      {"-N2", "-n4", "--gpus-per-node=4", "--gpus-per-task=2"},
      {"-n3", "--gpus-per-node=4", "--gpus-per-task=2"},
      {"-N2", "-n2", "--ntasks-per-node=1", "--gpus-per-node=8", "--gpus-per-task=8",
       "--gres=gpu:8"},
      {"-N2", "--gpus=8", "--gpus-per-task=1", "--ntasks-per-node=4"},
      {"--gpus=x", "--gres=gpu:-1", "--gpus-per-node=", "--gpus-per-task=99999999999999999999"},
  };
  for (const auto& words : cases) {
    EXPECT_EQ(shown(sbatch::gpu_finding(options_of(words))), "") << testing::PrintToString(words);
  }
  // A command line overrides on purpose.
  EXPECT_EQ(shown(sbatch::gpu_finding({{"gres", "gpu:4", 2}, {"gres", "gpu:2", 0}})), "");
}

std::string of_steps(const std::string& script,
                     const std::vector<std::string>& words = {"-n2", "-c4"},
                     const std::map<std::string, std::string>& environment = {}) {
  return shown(sbatch::step_cpus_finding(sbatch::read_sbatch_script("#!/bin/sh\n" + script + "\n"),
                                         options_of(words), environment));
}

TEST(SbatchLints, StepsThatLoseCpus) {
  for (const char* const script :
       {"srun ./train", "srun --mpi=pmix -l ./train -c 3", "srun --mpi pmix python -c 'x'",
        "time srun ./train &", "A=1; srun ./train", "(srun --label -K1 /opt/x/train)",
        "x=$(srun ./train)", "srun \\\n  ./train", "exec srun ./train", "srun -u ./train $N"}) {
    EXPECT_THAT(of_steps(script), StartsWith("2: this srun does not take --cpus-per-task=4 "))
        << script;
  }
  EXPECT_THAT(of_steps("srun hostname\nsrun ./train"), StartsWith("3: ")) << "a small one first";
  EXPECT_THAT(of_steps("srun ./a", {"-N2", "--ntasks-per-node=8", "-c", "12"}),
              HasSubstr("--cpus-per-task=12"));
}

std::string of_gpu_steps(const std::string& job, const std::string& script) {
  return shown(sbatch::step_gpus_finding(sbatch::read_sbatch_script("#!/bin/sh\n" + script + "\n"),
                                         options_of(base::split(job, ' '))));
}

// As Slurm 22.05.8 answered, row by row; tests/slurm/sbatch_test.py asks the real one again.
TEST(SbatchLints, StepsThatLoseGpus) {
  const std::string none = "its tasks see no GPU at all";
  const std::string refused = "srun refuses it";
  struct Row {
    const char *job, *step;
    std::string what;  // empty: the step gets its GPUs
  };
  const Row rows[] = {
      {"--gpus-per-node=h100:2", "srun ./train", ""},
      {"--gpus-per-node=h100:2", "srun --gpus-per-node=2 ./train", ""},
      {"--gpus-per-node=h100:2", "srun --gpus-per-node=h100:2 ./train", ""},
      {"--gres=gpu:h100:2", "srun --gres=gpu:2 ./train", ""},
      {"--gpus-per-node=h100:2", "srun --gres=gpu:2 ./train", refused},
      {"--gpus-per-node=h100:2", "srun --gpus 2 ./train", refused},
      {"--gpus-per-node=h100:2", "srun -l -G2 ./train", refused},
      {"--gpus-per-node=h100:4", "srun --gpus-per-task=1 ./train", refused},
      {"--gpus-per-node=h100:4", "srun --gpus-per-task=h100:1 ./train", none},
      {"--ntasks=4 --gpus-per-task=1", "srun ./train", ""},
      {"--gpus-per-node=4", "srun --gpus-per-task=1 ./train", ""},
      {"--gpus-per-node=2", "srun --gpus-per-node=2 ./train", ""},
      {"--gpus-per-node=2", "srun --gpus-per-node=h100:2 ./train", refused},
      {"--gpus-per-node=2", "srun --mpi pmix --gpus-per-node=4 ./train", refused},
      {"--gpus-per-node=4", "srun --gpus-per-node=1 ./train", ""},
      {"--gpus-per-node=2", "srun --gpus-per-node=$N ./train", ""},
      {"--gpus-per-node=2", "srun ./train --gpus-per-node=4", ""},
      {"--gpus-per-node=h100:1,a100:1", "srun --gpus-per-node=4 ./train", ""},
      {"-N2", "srun --gpus-per-node=4 ./train", ""},
      {"--gpus-per-node=2", "cat <<X\nsrun --gpus-per-node=4 ./train\nX", ""},
  };
  for (const Row& row : rows) {
    const std::string told = of_gpu_steps(row.job, row.step);
    if (row.what.empty()) {
      EXPECT_EQ(told, "") << row.job << "; " << row.step;
    } else {
      EXPECT_THAT(told, HasSubstr(row.what)) << row.job << "; " << row.step;
      EXPECT_THAT(told, StartsWith("2: this srun has ")) << row.step;
    }
  }
}

TEST(SbatchLints, StepsThatKeepTheirCpus) {
  for (const char* const script : {"./train",
                                   "srun -c4 ./train",
                                   "srun -c $X ./train",
                                   "srun --cpus-per-task=2 ./train",
                                   "srun --cpus-per-task 2 ./train",
                                   "srun -n1 ./train",
                                   "srun --ntasks=1 ./train",
                                   "srun --cpu-bind=none ./train",
                                   "srun -l \"${ARGS[@]}\" ./train",
                                   "srun $ARGS ./train",
                                   "srun hostname",
                                   "srun /bin/mkdir -p x",
                                   "echo \"srun ./train\"",
                                   "echo srun ./train",
                                   "export SRUN_CPUS_PER_TASK=4\nsrun ./train",
                                   "srun ./train\nSRUN_CPUS_PER_TASK=$X srun ./b",
                                   "cat > x.sh <<EOF\nsrun ./train\nEOF",
                                   "cat <<-'END' | ssh x\n srun ./train\nEND",
                                   "srun",
                                   "srun -l",
                                   "which srun && ./train",
                                   "mysrun ./train",
                                   "# srun ./train"}) {
    EXPECT_EQ(of_steps(script), "") << script;
  }
  EXPECT_EQ(of_steps("srun ./a", {"-n2"}), "");
  EXPECT_EQ(of_steps("srun ./a", {"-n2", "-c1"}), "");
  EXPECT_EQ(of_steps("srun ./a", {"-c4"}), "") << "one task has all CPUs";
  EXPECT_EQ(of_steps("srun ./a", {"-N2", "-n2", "-c4"}), "");
  EXPECT_EQ(of_steps("srun ./a", {"-N2", "--ntasks-per-node=1", "-n2", "-c4"}), "");
  EXPECT_EQ(of_steps("srun ./a", {"-n2", "-c4"}, {{"SRUN_CPUS_PER_TASK", "4"}}), "");
}

TEST(SbatchLints, ReleasesInWhichStepsLoseCpus) {
  for (const slurm::SlurmVersion& version :
       {slurm::SlurmVersion{22, 5, 8}, slurm::SlurmVersion{23, 2, 0}}) {
    EXPECT_TRUE(sbatch::srun_forgets_cpus(version));
  }
  for (const slurm::SlurmVersion& version :
       {slurm::SlurmVersion{21, 8, 8}, slurm::SlurmVersion{23, 11, 0},
        slurm::SlurmVersion{24, 5, 1}, slurm::SlurmVersion{}}) {
    EXPECT_FALSE(sbatch::srun_forgets_cpus(version));
  }
}

TEST(SbatchLints, ScriptsAboveTheLimit) {
  const char* const refusal =
      "sbatch: error: Batch job submission failed: Pathname of a file, directory or other "
      "parameter too long";
  EXPECT_THAT(sbatch::size_hint(refusal, 4200012),
              HasSubstr("has 4200012 bytes, and slurmctld takes 4"));
  EXPECT_EQ(sbatch::size_hint(refusal, 1000), "");
  EXPECT_EQ(sbatch::size_hint("sbatch: error: invalid partition", 4200012), "");
}

// As Slurm 22.05.8 prints them.
constexpr const char* kReservations =
    "ReservationName=maint1 StartTime=2026-11-24T01:47:22 EndTime=2026-11-24T02:47:22 "
    "Duration=01:00:00 Nodes=node[01-02] NodeCnt=2 CoreCnt=16 Features=(null) "
    "PartitionName=(null) Flags=MAINT,IGNORE_JOBS,SPEC_NODES,ALL_NODES TRES=cpu=16 Users=root "
    "Groups=(null) Accounts=(null) Licenses=(null) State=INACTIVE BurstBuffer=(null) Watts=n/a "
    "MaxStartDelay=(null)\n"
    "ReservationName=r2 StartTime=2026-11-24T04:47:22 EndTime=2026-11-24T05:47:22 "
    "Duration=01:00:00 Nodes=node01 NodeCnt=1 CoreCnt=8 Features=(null) PartitionName=(null) "
    "Flags=SPEC_NODES TRES=cpu=8 Users=root State=INACTIVE\n";
constexpr double kStart = 1795484842;  // 2026-11-24T01:47:22 UTC

slurm::PartitionRow partition(const std::string& name, const std::string& nodes) {
  slurm::PartitionRow row;
  row.name = name;
  row.nodes = nodes;
  row.is_default = name == "main";
  return row;
}

TEST(SbatchMaintenance, ReservationsAreRead) {
  const auto found = slurm::parse_reservations(kReservations);
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].name, "maint1");
  EXPECT_EQ(found[0].start, kStart);
  EXPECT_EQ(found[0].end, kStart + 3600);
  EXPECT_EQ(found[0].nodes, "node[01-02]");
  EXPECT_TRUE(found[0].maintenance);
  EXPECT_FALSE(found[1].maintenance);
  EXPECT_THAT(slurm::parse_reservations("No reservations in the system\n"), IsEmpty());
  EXPECT_THAT(slurm::parse_reservations("ReservationName=x StartTime=soon\n=\n"), IsEmpty());
  EXPECT_EQ(sbatch::coming_maintenance(found, kStart - 1).size(), 1U);
  EXPECT_THAT(sbatch::coming_maintenance(found, kStart), IsEmpty());
}

TEST(SbatchMaintenance, LimitsThatReachIntoItAreTold) {
  auto main = partition("main", "node[01-02]");
  main.max_seconds = std::numeric_limits<double>::infinity();
  const std::vector<slurm::PartitionRow> partitions = {main, partition("more", "node[01-03]")};
  const auto told = [&](const std::vector<std::string>& words, double ahead = 7200) {
    return shown(sbatch::maintenance_finding(
        options_of(words), slurm::parse_reservations(kReservations), partitions, kStart - ahead));
  };
  EXPECT_THAT(told({"-t3:00:00"}),
              testing::AllOf(StartsWith("1: the job waits until the maintenance maint1 is over"),
                             HasSubstr("time limit 3:00:00 reaches into it"),
                             HasSubstr("--time=1:59:00 would still fit"),
                             testing::EndsWith("[maintenance]")));
  EXPECT_THAT(told({}), StartsWith("0: ")) << "the partition has no limit";
  EXPECT_THAT(told({}), HasSubstr("time limit unlimited"));
  EXPECT_THAT(told({"-t2-12"}, 90000), HasSubstr("--time=1-00:59:00 would"));
  EXPECT_THAT(told({"-t10"}, 100), HasSubstr("it is over at 2026-11-"));
  EXPECT_THAT(told({"-t0"}), HasSubstr("unlimited")) << "0 is not a limit";
  EXPECT_EQ(told({"-t2:00:00"}), "");
  EXPECT_EQ(told({"-t3:00:00", "-pmore"}), "") << "node03 stays";
  EXPECT_EQ(told({"-t3:00:00", "-pmain,more"}), "");
  EXPECT_EQ(told({"-t3:00:00", "-pother"}), "");
  EXPECT_EQ(told({"-tnonsense"}), "");
  for (const char* const word : {"--reservation=maint1", "--begin=tomorrow", "-Mx", "--time-min=5"})
    EXPECT_EQ(told({"-t3:00:00", word}), "") << word;
  EXPECT_EQ(told({"-t3:00:00"}, -5), "") << "it has begun";
}

}  // namespace
}  // namespace regatta::orchestrator
