// The batch of each step, beside counting step by step; and what a step is worth, beside the
// formulas of AdaScale and Pollux written another way.
#include "trainer/contract/batch_schedule.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace regatta::tests {
namespace {

using namespace regatta::trainer::contract;  // the subject

TEST(BatchSchedule, WithoutGrowthIsStepTimesBatch) {
  const BatchSchedule schedule(64);
  for (const std::int64_t step : {std::int64_t{1}, std::int64_t{2}, std::int64_t{1'000'000'000}}) {
    EXPECT_EQ(schedule.batch_at(step), 64);
    EXPECT_EQ(schedule.samples_before(step), (step - 1) * 64);
    EXPECT_EQ(schedule.samples_after(step), step * 64);
  }
  EXPECT_EQ(schedule.samples_after(0), 0);
  EXPECT_EQ(schedule.first(), 64);
  EXPECT_EQ(schedule.newest(), 64);
}

TEST(BatchSchedule, IsTheSumOfStepsOverRandomChanges) {
  std::mt19937_64 random(7);
  const auto below = [&](std::int64_t n) { return static_cast<std::int64_t>(random() % n); };
  for (int round = 0; round < 300; ++round) {
    BatchSchedule schedule(1 + below(9));
    std::vector<std::int64_t> batches;  // of steps 1, 2, …
    std::vector<BatchChange> changes = schedule.changes();
    for (std::int64_t i = 0; i < below(6); ++i) {
      const BatchChange change{changes.back().step + 1 + below(20),
                               changes.back().size + 1 + below(9)};
      schedule.change(change);
      changes.push_back(change);
    }
    for (std::size_t i = 0; i < changes.size(); ++i) {
      const std::int64_t end = i + 1 < changes.size() ? changes[i + 1].step : changes[i].step + 15;
      batches.insert(batches.end(), static_cast<std::size_t>(end - changes[i].step),
                     changes[i].size);
    }
    std::int64_t before = 0;
    for (std::size_t i = 0; i < batches.size(); ++i) {
      const auto step = static_cast<std::int64_t>(i) + 1;
      ASSERT_EQ(schedule.batch_at(step), batches[i]) << "step " << step << ", round " << round;
      ASSERT_EQ(schedule.samples_before(step), before) << "step " << step << ", round " << round;
      before += batches[i];
      ASSERT_EQ(schedule.samples_after(step), before) << "step " << step << ", round " << round;
    }
    ASSERT_EQ(schedule.newest(), changes.back().size);
    const std::optional<BatchSchedule> again = BatchSchedule::of(schedule.changes());
    ASSERT_TRUE(again && again->changes() == changes);
  }
}

TEST(BatchSchedule, IsOnlyMadeOfChangesThatFollowOneAnother) {
  EXPECT_TRUE(BatchSchedule::of({{1, 4}, {2, 5}, {9, 12}}));
  EXPECT_TRUE(BatchSchedule::of({{1, 4}, {5, 2}})) << "a fork with a smaller one";
  const std::vector<BatchChange> bad[] = {{},
                                          {{2, 4}},
                                          {{0, 4}},
                                          {{1, 0}},
                                          {{1, 4}, {1, 8}},
                                          {{1, 4}, {5, 0}},
                                          {{1, 4}, {9, 8}, {7, 16}}};
  for (const std::vector<BatchChange>& changes : bad) EXPECT_FALSE(BatchSchedule::of(changes));
}

TEST(GrownBatch, DoublesWhenTheNoiseIsSurelyTwiceTheBatchAndNeverBeyondTheLargest) {
  EXPECT_EQ(grown_batch(64, 1024, 127.9), std::nullopt);
  EXPECT_EQ(grown_batch(64, 1024, 128), 128);
  EXPECT_EQ(grown_batch(64, 1024, 1e9), 128) << "one doubling at a time";
  EXPECT_EQ(grown_batch(64, 100, 1e9), 100);
  EXPECT_EQ(grown_batch(100, 100, 1e9), std::nullopt);
  EXPECT_EQ(grown_batch(64, 1024, std::numeric_limits<double>::quiet_NaN()), std::nullopt);
}

// The gain as adaptdl's code has it (goodput.py of Pollux): (var + sqr)/(var/k + sqr), k = B/B₀,
// where φ = B₀·var/sqr.
TEST(BaseSteps, AreTheGainOfPollux) {
  for (const std::int64_t base : {1, 8, 64}) {
    for (const double k : {1.0, 1.5, 2.0, 16.0}) {
      for (const double var : {1e-6, 0.3, 1.0, 40.0, 1e6}) {
        const double sqr = 1;
        const BatchRatio ratio{2 * base, std::llround(2 * static_cast<double>(base) * k),
                               2 * static_cast<double>(base) * var / sqr};
        const double gain = (var + sqr) / (var / k + sqr);
        EXPECT_NEAR(base_steps(BatchGrowth::AdaScale, ratio), gain, 1e-12 * gain);
        EXPECT_NEAR(rate_factor(BatchGrowth::AdaScale, ratio), gain, 1e-12 * gain);
        EXPECT_DOUBLE_EQ(base_steps(BatchGrowth::SquareRoot, ratio), k);
        const double root = rate_factor(BatchGrowth::SquareRoot, ratio);
        EXPECT_NEAR(root * root, k, 1e-14 * k);
        EXPECT_DOUBLE_EQ(rate_factor(BatchGrowth::None, ratio), 1);
      }
    }
  }
  EXPECT_DOUBLE_EQ(base_steps(BatchGrowth::AdaScale, {8, 64, 0}), 1) << "no noise: nothing gained";
  EXPECT_NEAR(base_steps(BatchGrowth::AdaScale, {8, 64, 1e12}), 8, 1e-8);
}

TEST(RefuseCheckpoint, NamesTheKeyThatDoesNotGoWithIt) {
  const std::vector<BatchChange> batches{{1, 8}, {40, 16}, {90, 32}};
  double progress = 260;
  const auto key = [&](BatchGrowth growth, std::int64_t first, std::int64_t most) {
    const auto refusal = refuse_checkpoint({batches, progress}, 100, growth, first, most);
    return refusal ? std::string(refusal->key) : "";
  };
  EXPECT_EQ(key(BatchGrowth::SquareRoot, 8, 32), "");
  EXPECT_EQ(key(BatchGrowth::AdaScale, 8, 1024), "");
  EXPECT_EQ(key(BatchGrowth::None, 8, 0), "batch.growth");
  EXPECT_EQ(key(BatchGrowth::SquareRoot, 16, 32), "batch.size");
  EXPECT_EQ(key(BatchGrowth::SquareRoot, 8, 31), "batch.max_size");
  progress = 100;
  EXPECT_EQ(key(BatchGrowth::None, 8, 0), "") << "steps that were steps: forks with other batches";
}

}  // namespace
}  // namespace regatta::tests
