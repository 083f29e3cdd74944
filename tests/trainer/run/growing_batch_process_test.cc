// The real regatta-train with a batch that grows: killed anywhere, and on several ranks.
#include <cmath>
#include <random>

#include "checkpoint/copy.h"
#include "checkpoint/manifest.h"
#include "tests/trainer/run/run_process.h"

namespace regatta::tests {
namespace {

using namespace regatta::trainer;  // the subject

class GrowingBatchProcess : public RunProcess {
 protected:
  static std::string growing(const std::string& growth, int steps, const std::string& more = "") {
    return with(run_file(*dataset_, steps, "statistics: {every: 1}\n" + more), "batch: {size: 8}",
                "batch: {size: 4, growth: " + growth + ", max_size: 32}");
  }
  // Each step as it was last journaled.
  static std::vector<contract::StepRecord> steps_of(const base::Path& run) {
    std::vector<contract::StepRecord> steps;
    for (const contract::StepRecord& record : records_of<contract::StepRecord>(run)) {
      steps.resize(static_cast<std::size_t>(record.step - 1));
      steps.push_back(record);
    }
    return steps;
  }
  static checkpoint::Manifest last_manifest(const base::Path& run) {
    base::FileSystem& files = base::posix_file_system();
    const base::Path last = run / "checkpoints" / files.list(run / "checkpoints").back();
    return checkpoint::parse_manifest(files.read(last / "manifest.json", 1U << 20U), "manifest");
  }
};

TEST_F(GrowingBatchProcess, KilledAtRandomStepsEndsWithTheSameBits) {
  for (const char* const growth : {"square_root", "adascale"}) {
    const std::string text = growing(growth, 200);
    const base::Path undisturbed = make_run(std::string("undisturbed-") + growth, text);
    ASSERT_EQ(run_to_end(undisturbed), 0) << log_of(undisturbed);
    const std::vector<contract::StepRecord> theirs = steps_of(undisturbed);
    const auto steps = static_cast<int>(theirs.size());
    ASSERT_GT(theirs.back().samples, 8) << "the batch has grown";
    ASSERT_LT(steps, 200);
    std::mt19937 random(20);
    const int kills = repetitions(20);
    const base::Path killed = make_run(std::string("killed-") + growth, text);
    int done = 0;
    for (int kill = 0; kill < kills; ++kill) {
      const pid_t process = start(killed);
      const int step = 1 + steps * kill / kills + static_cast<int>(random() % 5U);
      const bool reached = wait_for_step(killed, process, step);
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 4000U));
      ::kill(process, SIGKILL);
      if (base::wait_exit(process).signal == SIGKILL && reached) ++done;
    }
    EXPECT_GE(done, std::max(1, kills / 2)) << "too few processes were killed while training";
    ASSERT_EQ(run_to_end(killed), 0) << log_of(killed);
    EXPECT_TRUE(final_weights(killed) == final_weights(undisturbed))
        << growth << ": weights differ after " << done << " kills";
    const std::vector<contract::StepRecord> mine = steps_of(killed);
    ASSERT_EQ(mine.size(), theirs.size());
    std::int64_t samples = 0;
    for (std::size_t i = 0; i < mine.size(); ++i) {
      ASSERT_EQ(mine[i].samples, theirs[i].samples) << "step " << i + 1;
      ASSERT_EQ(mine[i].learning_rate, theirs[i].learning_rate) << "step " << i + 1;
      ASSERT_EQ(mine[i].progress, theirs[i].progress) << "step " << i + 1;
      samples += mine[i].samples;
    }
    const checkpoint::Manifest manifest = last_manifest(killed);
    EXPECT_EQ(manifest.samples, samples) << "as the steps sum up";
    EXPECT_EQ(manifest.growth, last_manifest(undisturbed).growth);
    ASSERT_TRUE(manifest.growth.has_value());
    EXPECT_EQ(manifest.growth->progress, mine.back().progress);
    EXPECT_GE(manifest.growth->progress, 200);
    // What was decided is told, and is what the steps have.
    for (const contract::BatchRecord& record : records_of<contract::BatchRecord>(killed)) {
      if (record.step > static_cast<std::int64_t>(mine.size())) continue;
      EXPECT_EQ(mine[static_cast<std::size_t>(record.step - 1)].samples, record.size);
      EXPECT_LT(mine[static_cast<std::size_t>(record.step - 2)].samples, record.size);
    }
    EXPECT_EQ(records_of<contract::EndRecord>(killed).back().reason, "steps");
    EXPECT_EQ(records_of<contract::EvalRecord>(killed).back().step, steps) << "after the last";
  }
}

// Further steps of a run that is over continue its batch and its rates.
TEST_F(GrowingBatchProcess, MoreStepsGoOnFromTheBatchThatWasReached) {
  const std::string constant = "optimizer: {learning_rate: 0.003";
  const auto text = [&](int steps) {
    return with(growing("square_root", steps), constant, constant + ", schedule: constant");
  };
  const base::Path whole = make_run("whole", text(240));
  ASSERT_EQ(run_to_end(whole), 0) << log_of(whole);
  const base::Path extended = make_run("extended", text(120));
  ASSERT_EQ(run_to_end(extended), 0) << log_of(extended);
  (void)make_run("extended", text(240));
  ASSERT_EQ(run_to_end(extended), 0) << log_of(extended);
  EXPECT_TRUE(final_weights(extended) == final_weights(whole)) << "other bits";
  EXPECT_EQ(last_manifest(extended).growth, last_manifest(whole).growth);
}

// What a fork does: it goes on from a copied checkpoint with a run file of another batch.
TEST_F(GrowingBatchProcess, AnotherBatchCountsTheSamplesThatStepsHad) {
  const auto text = [&](int batch, int steps) {
    return with(run_file(*dataset_, steps, "statistics: {every: 1}\n"), "batch: {size: 8}",
                "batch: {size: " + std::to_string(batch) + "}");
  };
  const base::Path parent = make_run("parent", text(8, 20));
  ASSERT_EQ(run_to_end(parent), 0) << log_of(parent);
  base::FileSystem& files = base::posix_file_system();
  std::string weights;
  for (const int kills : {0, 6}) {
    const std::string name = "fork-" + std::to_string(kills);
    const base::Path run = make_run(name, text(12, 40));
    (void)contract::RunDirectory::create(
        files, run, contract::to_json(contract::parse_run_config(text(12, 40), "fork.yaml")));
    const std::string last = files.list(parent / "checkpoints").back();
    const base::Path copied = parent / "checkpoints" / last;
    checkpoint::copy_checkpoint(
        files, copied,
        checkpoint::parse_manifest(files.read(copied / "manifest.json", 1U << 20U), "manifest"),
        run / "checkpoints" / last);
    for (int kill = 0; kill < kills; ++kill) {
      const pid_t process = start(run);
      (void)wait_for_step(run, process, 21 + 3 * kill);
      ::kill(process, SIGKILL);
      (void)base::wait_exit(process);
    }
    ASSERT_EQ(run_to_end(run), 0) << log_of(run);
    const checkpoint::Manifest manifest = last_manifest(run);
    EXPECT_EQ(manifest.step, 40);
    EXPECT_EQ(manifest.samples, 20 * 8 + 20 * 12);
    const std::vector<checkpoint::BatchChange> batches{{1, 8}, {21, 12}};
    ASSERT_TRUE(manifest.growth.has_value());
    EXPECT_EQ(manifest.growth->batches, batches);
    EXPECT_EQ(records_of<contract::StartRecord>(run).back().batches, batches);
    EXPECT_FALSE(records_of<contract::StartRecord>(run).back().first_progress);
    EXPECT_EQ(steps_of(run).back().samples, 12);
    if (kills == 0) {
      weights = final_weights(run);
    } else {
      EXPECT_TRUE(final_weights(run) == weights) << "other bits";
    }
  }
}

#ifdef REGATTA_TEST_MPI
// Steps have the same samples and rates, as far as decisions by figures of another order of sums
// can be; the forced schedules of growing_batch_test are the strict test.
TEST_F(GrowingBatchProcess, RanksTrainAsOneDoes) {
  const base::Path one = make_run("one", growing("square_root", 120));
  ASSERT_EQ(run_to_end(one), 0) << log_of(one);
  const std::vector<contract::StepRecord> expected = steps_of(one);
  for (const int ranks : {2, 3}) {
    const std::string more = "ranks: " + std::to_string(ranks) +
                             "\nbalance: {strategy: exchange, exchange: move}\n"
                             "sharding: {optimizer: true}\n";
    const base::Path run =
        make_run("ranks-" + std::to_string(ranks), growing("square_root", 120, more));
    const pid_t process = start(run);
    ASSERT_TRUE(wait_for_step(run, process, 40)) << log_of(run);
    ::kill(process, SIGTERM);
    ASSERT_EQ(finish(process), static_cast<int>(contract::ExitCode::Stopped)) << log_of(run);
    ASSERT_EQ(run_to_end(run, {"--ranks", std::to_string(ranks - 1)}), 0) << log_of(run);
    const std::vector<contract::StepRecord> mine = steps_of(run);
    ASSERT_EQ(mine.size(), expected.size());
    for (std::size_t i = 0; i < mine.size(); ++i) {
      ASSERT_EQ(mine[i].samples, expected[i].samples) << "step " << i + 1;
      ASSERT_EQ(mine[i].tokens, expected[i].tokens) << "other samples at step " << i + 1;
      ASSERT_NEAR(mine[i].loss, expected[i].loss, 1e-4 * expected[i].loss) << i + 1;
    }
  }
}
#endif

TEST_F(GrowingBatchProcess, WhatDoesNotGoWithItIsRefused) {
  const base::Path run = make_run("log", growing("adascale", 20));
  EXPECT_EQ(run_to_end(run, {"--mllog", (directory_.path() / "x.log").string()}),
            static_cast<int>(contract::ExitCode::User));
  EXPECT_NE(log_of(run).find("one batch size of a whole run"), std::string::npos) << log_of(run);
}

}  // namespace
}  // namespace regatta::tests
