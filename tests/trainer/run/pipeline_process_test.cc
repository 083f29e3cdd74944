// The real regatta-train in pipeline stages: the course of one rank, through other layouts and
// through kills.
#include <algorithm>
#include <chrono>
#include <random>

#include "tests/trainer/run/run_process.h"

namespace regatta::tests {
namespace {

using namespace regatta::trainer;  // the subject

class StagesProcess : public RunProcess {
 protected:
  // Of a model of four layers, on four ranks.
  static std::string in_stages(int stages, int steps, const std::string& schedule = "1f1b") {
    std::string text = on_ranks(4, steps);
    text = with(text, "layers: 2", "layers: 4");
    text = with(text, "{size: 8}", "{size: 8, micro: 1}");
    // Whatever the number of steps.
    text = with(text, "{learning_rate: 0.003}", "{learning_rate: 0.003, schedule: constant}");
    if (stages == 1) return text;
    return text + "parallel: {pipeline: " + std::to_string(stages) + ", schedule: " + schedule +
           "}\n";
  }
  static void rewrite(const base::Path& run, const std::string& text) {
    std::ofstream(run.string() + ".yaml") << text;
  }
  static void expect_losses_of(const base::Path& run, const base::Path& reference) {
    const auto mine = records_of<contract::StepRecord>(run);
    const auto expected = records_of<contract::StepRecord>(reference);
    ASSERT_EQ(mine.size(), expected.size());
    for (std::size_t i = 0; i < mine.size(); ++i) {
      ASSERT_EQ(mine[i].tokens, expected[i].tokens) << i + 1;
      ASSERT_NEAR(mine[i].loss, expected[i].loss, 1e-5 * expected[i].loss) << i + 1;
    }
  }
};

TEST_F(StagesProcess, OneRunGoesThroughAllLayouts) {
  const base::Path plain = make_run("plain", in_stages(1, 40));
  ASSERT_EQ(run_to_end(plain), 0) << log_of(plain);
  const base::Path run = make_run("stages", in_stages(2, 10));
  ASSERT_EQ(run_to_end(run), 0) << log_of(run);
  const contract::StepRecord last = records_of<contract::StepRecord>(run).back();
  EXPECT_NEAR(last.bubble_even.value_or(0), 1.0 / 4, 1e-12) << "two replicas of four samples";
  EXPECT_TRUE(last.bubble && last.bubble_predicted);
  // Layouts in turn, each from the checkpoint of the one before.
  const std::pair<int, const char*> layouts[] = {{4, "gpipe"}, {1, ""}, {2, "gpipe"}};
  int steps = 10;
  for (const auto& [stages, schedule] : layouts) {
    steps += 10;
    rewrite(run, in_stages(stages, steps, schedule));
    ASSERT_EQ(run_to_end(run), 0) << log_of(run);
    EXPECT_EQ(records_of<contract::StartRecord>(run).back().first_step, steps - 10);
  }
  expect_losses_of(run, plain);
  const auto evaluations = records_of<contract::EvalRecord>(run);
  const auto expected = records_of<contract::EvalRecord>(plain);
  EXPECT_EQ(evaluations.back().samples, expected.back().samples);
  EXPECT_NEAR(evaluations.back().mlm_loss, expected.back().mlm_loss,
              1e-5 * expected.back().mlm_loss);
}

TEST_F(StagesProcess, KillingAnyStageLosesNothingButSteps) {
  constexpr int kSteps = 600;
  constexpr int kRanks = 4;
  std::string text = in_stages(2, kSteps);
  text = with(text, "every: 7", "every: 30");
  const base::Path undisturbed = make_run("undisturbed", text);
  ASSERT_EQ(run_to_end(undisturbed), 0) << log_of(undisturbed);
  std::mt19937 random(4);
  const int kills = std::max(3, repetitions(20));
  const base::Path killed = make_run("killed", text);
  int done = 0;
  for (int kill = 0; kill < kills; ++kill) {
    const int step = 1 + kSteps * kill / kills + static_cast<int>(random() % 5U);
    const KilledRank rank = kill_a_rank(killed, kRanks, step, &random);
    if (rank.while_training) {
      ++done;
      EXPECT_EQ(rank.code, static_cast<int>(contract::ExitCode::Retry)) << log_of(killed);
    }
    ASSERT_TRUE(all_gone(killed, kRanks)) << "a rank lives on";
  }
  EXPECT_GE(done, std::max(1, kills / 2)) << "too few ranks were killed while training";
  ASSERT_EQ(run_to_end(killed), 0) << log_of(killed);
  EXPECT_TRUE(final_weights(killed) == final_weights(undisturbed)) << "after " << done << " kills";
}

TEST_F(StagesProcess, OtherRanksThanStagesDivideAreRefused) {
  const base::Path run = make_run("refused", in_stages(2, 5));
  EXPECT_EQ(run_to_end(run, {"--ranks", "3"}), static_cast<int>(contract::ExitCode::User));
  EXPECT_NE(
      log_of(run).find("with 3 ranks parallel.pipeline is 2, which does not divide ranks (3)"),
      std::string::npos)
      << log_of(run);
}

}  // namespace
}  // namespace regatta::tests
