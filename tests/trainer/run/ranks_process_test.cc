// The real regatta-train on several ranks: one command starts them, and whatever happens to one of
// them happens to the run in order.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>
#include <random>

#include "tests/trainer/run/run_process.h"
#include "topology/plan/plan.h"

namespace regatta::tests {
namespace {

using namespace regatta::trainer;  // the subject

// Within which the loss of a rank must end the others.
constexpr double kLossSeconds = 30;

class RanksProcess : public RunProcess {
 protected:
  // Steps as they were first journaled.
  static std::vector<contract::StepRecord> steps_of(const base::Path& run) {
    std::vector<contract::StepRecord> steps;
    for (const contract::StepRecord& record : records_of<contract::StepRecord>(run)) {
      if (record.step == static_cast<std::int64_t>(steps.size()) + 1) steps.push_back(record);
    }
    return steps;
  }
  static void expect_same_course(const base::Path& run, const base::Path& reference) {
    const std::vector<contract::StepRecord> mine = steps_of(run);
    const std::vector<contract::StepRecord> expected = steps_of(reference);
    ASSERT_EQ(mine.size(), expected.size());
    for (std::size_t i = 0; i < mine.size(); ++i) {
      ASSERT_EQ(mine[i].tokens, expected[i].tokens) << "other samples at step " << i + 1;
      ASSERT_EQ(mine[i].masked, expected[i].masked) << "other samples at step " << i + 1;
      ASSERT_NEAR(mine[i].loss, expected[i].loss, 1e-5 * expected[i].loss) << i + 1;
    }
  }
};

TEST_F(RanksProcess, OneCommandTrainsAsOneRankDoes) {
  const base::Path one = make_run("one", run_file(*dataset_, 60));
  ASSERT_EQ(run_to_end(one), 0) << log_of(one);
  const base::Path two = make_run("two", on_ranks(2, 60, "statistics: {every: 4}\n"));
  ASSERT_EQ(run_to_end(two), 0) << log_of(two);
  expect_same_course(two, one);
  const auto starts = records_of<contract::StartRecord>(two);
  ASSERT_EQ(starts.size(), 1U) << "one attempt for all ranks";
  EXPECT_EQ(starts[0].ranks, 2);
  EXPECT_EQ(starts[0].ranks_per_node, 2);
  EXPECT_FALSE(starts[0].bucket_bytes.empty());
  const contract::StepRecord last = records_of<contract::StepRecord>(two).back();
  EXPECT_EQ(last.bucket_finished.size(), starts[0].bucket_bytes.size());
  EXPECT_TRUE(last.noise_scale.has_value());
  EXPECT_TRUE(last.goodput.has_value());
  EXPECT_GT(last.mfu, 0);
  const base::Path again = make_run("again", on_ranks(2, 60, "statistics: {every: 4}\n"));
  ASSERT_EQ(run_to_end(again), 0) << log_of(again);
  EXPECT_TRUE(final_weights(again) == final_weights(two)) << "equal runs, other bits";
}

// Sharded state, exchange: what else a run file may say reaches the ranks, and is no obstacle.
TEST_F(RanksProcess, ShardedStateResumesOnAnotherNumberOfRanks) {
  const std::string more =
      "sharding: {optimizer: true}\nbuckets: {by: per_layer}\n"
      "balance: {strategy: exchange, exchange: move}\nhierarchical: true\nranks_per_node: 2\n";
  const base::Path whole = make_run("whole", run_file(*dataset_, 200));
  ASSERT_EQ(run_to_end(whole), 0) << log_of(whole);
  const base::Path run = make_run("elastic", on_ranks(4, 200, more));
  const pid_t process = start(run);
  ASSERT_TRUE(wait_for_step(run, process, 10)) << log_of(run);
  ::kill(process, SIGTERM);
  ASSERT_EQ(finish(process), static_cast<int>(contract::ExitCode::Stopped)) << log_of(run);
  const auto stopped = records_of<contract::EndRecord>(run).back();
  EXPECT_EQ(stopped.reason, "stopped");
  ASSERT_EQ(run_to_end(run, {"--ranks", "3"}), 0) << log_of(run);
  EXPECT_EQ(records_of<contract::StartRecord>(run).back().first_step, stopped.step);
  EXPECT_EQ(records_of<contract::StartRecord>(run).back().ranks, 3);
  EXPECT_NE(log_of(run).find("ranks_per_node, 2, is not a divisor of 3 ranks; as found, it is 3"),
            std::string::npos)
      << log_of(run);
  expect_same_course(run, whole);
}

// Against the records of the same steps; whatever the steps' length, once a second at most.
TEST_F(RanksProcess, EachRanksTokensAndComputingAreTold) {
  const base::Path run = make_run("told", on_ranks(3, 60));
  const auto begin = std::chrono::steady_clock::now();
  ASSERT_EQ(run_to_end(run), 0) << log_of(run);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  const auto told = records_of<contract::RanksRecord>(run);
  ASSERT_FALSE(told.empty());
  EXPECT_EQ(told.front().step, 1);
  const auto steps = records_of<contract::StepRecord>(run);
  ASSERT_EQ(steps.size(), 60U);
  EXPECT_LE(static_cast<double>(told.size()), 1 + took.count());
  for (const contract::RanksRecord& ranks : told) {
    const contract::StepRecord& step = steps.at(static_cast<std::size_t>(ranks.step - 1));
    ASSERT_EQ(ranks.tokens.size(), 3U);
    ASSERT_EQ(ranks.compute_seconds.size(), 3U);
    EXPECT_EQ(std::accumulate(ranks.tokens.begin(), ranks.tokens.end(), std::int64_t{0}),
              step.tokens);
    const std::int64_t most = *std::max_element(ranks.tokens.begin(), ranks.tokens.end());
    EXPECT_DOUBLE_EQ(static_cast<double>(3 * most) / static_cast<double>(step.tokens),
                     step.imbalance);
    EXPECT_DOUBLE_EQ(ranks.compute_seconds[0], step.forward_seconds + step.backward_seconds);
    for (const double computing : ranks.compute_seconds) {
      EXPECT_GT(computing, 0);
      EXPECT_LT(computing, step.seconds + 1);
    }
  }
  const base::Path alone = make_run("alone", run_file(*dataset_, 5));
  ASSERT_EQ(run_to_end(alone), 0) << log_of(alone);
  EXPECT_TRUE(records_of<contract::RanksRecord>(alone).empty());
}

// The planner's boundaries, where there is a plan for as many ranks.
TEST_F(RanksProcess, APlanInTheRunDirectoryDecidesTheBuckets) {
  const base::Path run = make_run("planned", on_ranks(2, 5, "buckets: {by: plan}\n"));
  ASSERT_EQ(run_to_end(run), 0) << log_of(run);
  contract::RunConfig config =
      contract::parse_run_config(base::posix_file_system().read(run / "run.json", 1U << 20U), "");
  config.model.vocabulary = static_cast<int>(data::Dataset::open(*dataset_).vocabulary().size());
  const auto tensors = static_cast<int>(contract::make_tensor_table(config.model).tensors.size());
  topology::plan::Plan plan;
  plan.ranks = 2;
  plan.buckets = {{0, 3}, {3, 10}, {10, tensors}};
  for (const int ranks_of_plan : {2, 4}) {
    plan.ranks = ranks_of_plan;
    std::ofstream(run / "plan.json") << topology::plan::to_json(plan);
    config.steps += 5;
    std::ofstream(run / "run.json") << contract::to_json(config);
    ASSERT_EQ(resume_to_end(run), 0) << log_of(run);
    const contract::StartRecord start = records_of<contract::StartRecord>(run).back();
    EXPECT_EQ(start.bucket_bytes.size() == 3, ranks_of_plan == 2) << ranks_of_plan;
  }
  EXPECT_NE(log_of(run).find("plan.json is for 4 ranks"), std::string::npos) << log_of(run);
}

// TERM to one rank that is not the first: all stop at the same step, with a checkpoint.
TEST_F(RanksProcess, TermToOneRankStopsAll) {
  std::string text = on_ranks(2, 1500);
  text = with(text, "every: 7", "every: 400");
  const base::Path whole = make_run("whole", text);
  ASSERT_EQ(run_to_end(whole), 0) << log_of(whole);
  const base::Path run = make_run("term", text);
  const pid_t process = start(run);
  ASSERT_TRUE(wait_for_step(run, process, 8)) << log_of(run);
  const std::vector<pid_t> ranks = processes_of(run, 2);
  ASSERT_GT(ranks[1], 0);
  ::kill(ranks[1], SIGTERM);
  ASSERT_EQ(finish(process), static_cast<int>(contract::ExitCode::Stopped)) << log_of(run);
  const contract::EndRecord end = records_of<contract::EndRecord>(run).back();
  EXPECT_EQ(end.reason, "stopped");
  std::int64_t saved = 0;
  for (const contract::CheckpointRecord& record : records_of<contract::CheckpointRecord>(run)) {
    if (record.status == "written") saved = record.step;
  }
  EXPECT_EQ(saved, end.step);
  EXPECT_EQ(log_of(run).find("mpirun"), std::string::npos) << "an end in order is not a crash";
  ASSERT_EQ(run_to_end(run), 0) << log_of(run);
  EXPECT_TRUE(final_weights(run) == final_weights(whole));
}

TEST_F(RanksProcess, Usr2ToOneRankWritesACheckpoint) {
  std::string text = on_ranks(2, 100000);
  text = with(text, "every: 7", "every: 100000");
  const base::Path run = make_run("usr2", text);
  const pid_t process = start(run);
  ASSERT_TRUE(wait_for_step(run, process, 5)) << log_of(run);
  const std::vector<pid_t> ranks = processes_of(run, 2);
  ASSERT_GT(ranks[1], 0);
  ::kill(ranks[1], SIGUSR2);
  expect_one_checkpoint_then_stop(run, process);
}

TEST_F(RanksProcess, KillingAnyRankLosesNothingButSteps) {
  constexpr int kSteps = 3000;  // so long that finding the ranks' processes is a moment
  constexpr int kRanks = 2;
  std::string text = on_ranks(kRanks, kSteps);
  text = with(text, "every: 7", "every: 30");
  const base::Path undisturbed = make_run("undisturbed", text);
  ASSERT_EQ(run_to_end(undisturbed), 0) << log_of(undisturbed);
  std::mt19937 random(4);
  const int kills = repetitions(20);
  const base::Path killed = make_run("killed", text);
  int done = 0;
  for (int kill = 0; kill < kills; ++kill) {
    const int step = 1 + kSteps * kill / kills + static_cast<int>(random() % 5U);
    const KilledRank rank = kill_a_rank(killed, kRanks, step, &random);
    if (rank.while_training) {
      ++done;
      EXPECT_EQ(rank.code, static_cast<int>(contract::ExitCode::Retry)) << log_of(killed);
      EXPECT_LT(rank.seconds, kLossSeconds);
    }
    ASSERT_TRUE(all_gone(killed, kRanks)) << "a rank lives on";
  }
  EXPECT_GE(done, std::max(1, kills / 2)) << "too few ranks were killed while training";
  ASSERT_EQ(run_to_end(killed), 0) << log_of(killed);
  EXPECT_TRUE(final_weights(killed) == final_weights(undisturbed)) << "after " << done << " kills";
}

// A rank that stands still, alive: nobody gets an error, so only the watch can tell.
TEST_F(RanksProcess, ARankThatStandsStillEndsTheAttempt) {
  const base::Path run = make_run("still", on_ranks(2, 100000));
  const pid_t process = start(run);
  ASSERT_TRUE(wait_for_step(run, process, 20)) << log_of(run);
  const std::vector<pid_t> ranks = processes_of(run, 2);
  ASSERT_GT(ranks[1], 0);
  ::kill(ranks[1], SIGSTOP);
  const auto mark = std::chrono::steady_clock::now();
  EXPECT_EQ(finish(process), static_cast<int>(contract::ExitCode::Retry)) << log_of(run);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - mark;
  EXPECT_LT(took.count(), kLossSeconds);
  const contract::EndRecord end = records_of<contract::EndRecord>(run).back();
  EXPECT_EQ(end.exit_code, static_cast<int>(contract::ExitCode::Retry));
  EXPECT_NE(end.message.find("rank 1"), std::string::npos) << end.message;
  EXPECT_FALSE(records_of<contract::HeartbeatRecord>(run).empty());
  EXPECT_TRUE(all_gone(run, 2)) << "a rank lives on";
  const contract::StartRecord began = records_of<contract::StartRecord>(run).back();
  EXPECT_EQ(began.hosts, std::vector<std::string>{began.host}) << "one node";
  const trainer::contract::RunDirectory directory =
      trainer::contract::RunDirectory::open(base::posix_file_system(), run);
  const base::Path attempt = directory.attempt_path(directory.attempts().back());
  const std::string hang = base::posix_file_system().read(attempt / "hang.json", 1U << 20U);
  EXPECT_EQ(hang.find("{\"rank\":1,\"host\":\"" + began.host + "\",\"phase\":\""), 0U) << hang;
  EXPECT_NE(hang.find("\"told_by\":0}"), std::string::npos) << hang;
}

TEST_F(RanksProcess, WithoutTheirLauncherRanksStopInOrder) {
  const base::Path run = make_run("orphans", on_ranks(2, 100000));
  const pid_t process = start(run);
  ASSERT_TRUE(wait_for_step(run, process, 5)) << log_of(run);
  ::kill(process, SIGKILL);
  (void)base::wait_exit(process);
  EXPECT_TRUE(all_gone(run, 2)) << "a rank lives on";
  ASSERT_EQ(records_of<contract::EndRecord>(run).size(), 1U);
  EXPECT_EQ(records_of<contract::EndRecord>(run)[0].reason, "stopped");
}

TEST_F(RanksProcess, WhatIsWrongIsSaidWithoutNoise) {
  struct Case {
    const char* name;
    std::string text;
    int code;
    const char* words;
  };
  std::string no_data = on_ranks(2, 5);
  no_data = with(no_data, dataset_->string(), "/nowhere/at/all");
  const Case cases[] = {
      {"no-data", no_data, static_cast<int>(contract::ExitCode::User), "/nowhere/at/all"},
      {"gpu", on_ranks(2, 5, "device: cuda\n"), static_cast<int>(contract::ExitCode::Operator),
       "libregatta-cuda.so"}};
  ::setenv("REGATTA_PLUGIN_DIR", (directory_.path() / "plugins").c_str(), 1);
  base::posix_file_system().create_directory(directory_.path() / "plugins");
  std::filesystem::create_symlink(base::Path(REGATTA_BINARY_DIR) / "trainer" / "libregatta-mpi.so",
                                  directory_.path() / "plugins" / "libregatta-mpi.so");
  for (const Case& c : cases) {
    const base::Path run = make_run(c.name, c.text);
    EXPECT_EQ(run_to_end(run), c.code) << c.name << log_of(run);
    const std::string log = log_of(run);
    EXPECT_NE(log.find(c.words), std::string::npos) << c.name << log;
    EXPECT_EQ(log.find("mpirun"), std::string::npos) << "an end in order is not a crash: " << log;
    EXPECT_EQ(records_of<contract::EndRecord>(run).size(), 1U);
  }
  ::unsetenv("REGATTA_PLUGIN_DIR");
}

TEST_F(RanksProcess, AsManyMustBeStartedAsTheRunFileSays) {
  const base::Path run = make_run("three", on_ranks(3, 5));
  base::Command command;
  command.arguments = {
      "mpirun",      "--oversubscribe", "--allow-run-as-root", "-np", "2", kTrainer, "run",
      "--directory", run.string(),      run.string() + ".yaml"};
  const base::Output output = base::run(command, 60);
  EXPECT_NE(output.exit.code.value_or(0), 0);
  EXPECT_NE((output.text + output.errors).find("ranks is 3, but Open MPI started 2"),
            std::string::npos)
      << output.text << output.errors;
}

// All of them come upon a run that is not there, and one makes it.
TEST_F(RanksProcess, UnderAnMpirunOfOnesOwnTheRunIsMadeOnce) {
  for (int i = 0; i < std::max(5, repetitions(20)); ++i) {
    const base::Path run = make_run("own" + std::to_string(i), on_ranks(4, 1));
    base::Command command;
    command.arguments = {
        "mpirun",      "--oversubscribe", "--allow-run-as-root", "-np", "4", kTrainer, "run",
        "--directory", run.string(),      run.string() + ".yaml"};
    const base::Output output = base::run(command, 60);
    ASSERT_EQ(output.exit.code.value_or(-1), 0) << i << output.text << output.errors;
  }
}

TEST_F(RanksProcess, WithoutMpirunTheOperatorIsTold) {
  ::setenv("REGATTA_MPIRUN", "/nowhere/mpirun", 1);
  const base::Path run = make_run("no-mpirun", on_ranks(2, 5));
  EXPECT_EQ(run_to_end(run), static_cast<int>(contract::ExitCode::Operator));
  ::unsetenv("REGATTA_MPIRUN");
  EXPECT_NE(log_of(run).find("REGATTA_MPIRUN"), std::string::npos) << log_of(run);
}

}  // namespace
}  // namespace regatta::tests
