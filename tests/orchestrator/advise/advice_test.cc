// Samples, times and the front, against published relations and against every pair of rows.
#include "orchestrator/advise/advice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "base/error.h"

namespace regatta::orchestrator::advise {
namespace {

Candidate candidate(int ranks, int batch, double step) {
  Candidate made;
  made.nodes = ranks;
  made.ranks = ranks;
  made.batch = batch;
  made.step_seconds = {step, step, step};
  return made;
}

Noise noise(double scale) { return {scale, scale, scale}; }

// McCandlish et al., arXiv 1812.06162, equation 2.11: (S / S_min − 1) · (E / E_min − 1) = 1 for
// steps S and samples E.
TEST(SamplesToTarget, LieOnThePublishedHyperbola) {
  const double scale = 1500;
  const Target target{2e6, 256};
  const double least_samples = samples_to_target(target, 1e-9, scale);
  const double huge = 1e12;
  const double least_steps = samples_to_target(target, huge, scale) / huge;
  for (const double batch : {1.0, 16.0, 256.0, 1500.0, 40'000.0}) {
    const double samples = samples_to_target(target, batch, scale);
    const double steps = samples / batch;
    EXPECT_NEAR((steps / least_steps - 1) * (samples / least_samples - 1), 1, 1e-6) << batch;
  }
  EXPECT_DOUBLE_EQ(samples_to_target(target, 256, scale), 2e6);
  // At a batch of φ half of each sample is noise: twice the samples, and twice the steps.
  EXPECT_NEAR(samples_to_target(target, scale, scale) / least_samples, 2, 1e-9);
}

// AdaptDL's form of it (Pollux, OSDI 2021): gain(k) = (var + sqr) / (var / k + sqr) and efficiency
// gain / k for a batch of k · M₀, with φ = M₀ · var / sqr.
TEST(SamplesToTarget, AreAdaptDlsEfficiency) {
  const double base = 32, variance = 7.5, square = 0.4;
  const double scale = base * variance / square;
  for (const double k : {1.0, 2.0, 8.0, 100.0}) {
    const double gain = (variance + square) / (variance / k + square);
    EXPECT_NEAR(samples_to_target({1000, 32}, k * base, scale), 1000 / (gain / k), 1e-9);
    const Advice advice = advise({candidate(1, static_cast<int>(k * base), 1)}, noise(scale),
                                 {1000, 32}, static_cast<int>(base));
    EXPECT_NEAR(advice.rows[0].efficiency, gain / k, 1e-12);
    EXPECT_NEAR(advice.rows[0].goodput.value, k * base * gain / k, 1e-9);
  }
}

TEST(Advice, CountsStepsAndEvaluations) {
  Candidate of = candidate(8, 100, 0.5);
  of.evaluate_every = 4;
  of.evaluation_seconds = 3;
  // φ = 100: twice the samples that batches of 1 would need; 1,010 / 101 · 200 = 2,000.
  const Advice advice = advise({of}, noise(100), {1010, 1}, 1);
  const Row& row = advice.rows[0];
  EXPECT_NEAR(row.samples.value, 2000, 1e-9);
  EXPECT_EQ(row.steps, 20);
  EXPECT_NEAR(row.seconds.value, 20 * 0.5 + 5 * 3, 1e-9);
  EXPECT_NEAR(row.gpu_hours.value, 25 * 8 / 3600.0, 1e-12);
  EXPECT_NEAR(row.samples_per_second, 200, 1e-12);
  // 1,010 / 101 · 400 = 4,000 samples are 13.3 steps of 300.
  const Advice broken = advise({candidate(1, 300, 0.5)}, noise(100), {1010, 1}, 1);
  EXPECT_EQ(broken.rows[0].steps, 14);
  EXPECT_NEAR(broken.rows[0].seconds.value, 7, 1e-9);
}

TEST(Advice, EndsComeFromNoiseAndStepTogether) {
  Candidate of = candidate(1, 400, 1);
  of.step_seconds = {1, 0.5, 2};
  const Advice advice = advise({of}, {300, 100, std::nullopt}, {8000, 100}, 1);
  const Row& row = advice.rows[0];
  // 8,000 · (φ + 400) / (φ + 100): φ 300 → 14,000, φ 100 → 20,000, endless → 8,000.
  EXPECT_NEAR(row.samples.value, 14'000, 1e-6);
  EXPECT_NEAR(row.samples.low, 8000, 1e-6);
  EXPECT_NEAR(row.samples.high, 20'000, 1e-6);
  EXPECT_NEAR(row.seconds.low, 20 * 0.5, 1e-9);
  EXPECT_NEAR(row.seconds.high, 50 * 2, 1e-9);
}

TEST(Advice, TheFrontIsWhatNoPairBeats) {
  std::mt19937 random(7);
  std::uniform_real_distribution<double> step(0.01, 1);
  for (int round = 0; round < 200; ++round) {
    std::vector<Candidate> candidates;
    for (const int ranks : {1, 2, 4, 8}) {
      for (const int batch : {8, 32, 128, 512})
        candidates.push_back(candidate(ranks, batch, step(random)));
    }
    const Advice advice = advise(candidates, noise(20 + round), {1e5, 32}, 1);
    for (const Row& row : advice.rows) {
      bool is_beaten = false;
      for (const Row& other : advice.rows) {
        is_beaten |= other.seconds.value <= row.seconds.value &&
                     other.gpu_hours.value <= row.gpu_hours.value &&
                     (other.seconds.value < row.seconds.value ||
                      other.gpu_hours.value < row.gpu_hours.value);
      }
      EXPECT_EQ(row.on_front, !is_beaten);
    }
    for (const Row& row : advice.rows) {
      EXPECT_LE(advice.rows[advice.best_for(Objective::TimeToAccuracy).expected].seconds.value,
                row.seconds.value);
      EXPECT_LE(advice.rows[advice.best_for(Objective::GpuHours).expected].gpu_hours.value,
                row.gpu_hours.value);
      EXPECT_GE(advice.rows[advice.best_for(Objective::Goodput).expected].goodput.value,
                row.goodput.value);
    }
    EXPECT_EQ(advice.front.front(), advice.best_for(Objective::TimeToAccuracy).expected);
    EXPECT_EQ(advice.front.back(), advice.best_for(Objective::GpuHours).expected);
  }
}

// Steps of twice the batch take 1.5 times as long: worth it only where the noise scale is large.
TEST(Advice, SaysWhereTheEndsOfTheNoiseDisagree) {
  const std::vector<Candidate> candidates{candidate(1, 100, 1), candidate(1, 200, 1.5)};
  // With φ the larger batch takes (φ + 200) / (φ + 100) of the samples, so 0.75 of that in time: it
  // wins above φ = 200.
  const Advice unsure = advise(candidates, {300, 100, 1000}, {1e6, 100}, 1);
  const Best& best = unsure.best_for(Objective::TimeToAccuracy);
  EXPECT_EQ(best.expected, 1U);
  EXPECT_EQ(best.noise_low, 0U);
  EXPECT_EQ(best.noise_high, 1U);
  EXPECT_FALSE(best.is_sure());
  EXPECT_TRUE(advise(candidates, {300, 201, std::nullopt}, {1e6, 100}, 1)
                  .best_for(Objective::TimeToAccuracy)
                  .is_sure());
}

TEST(Advice, RefusesWhatCannotBe) {
  EXPECT_THROW((void)advise({}, noise(1), {1, 1}, 1), base::Error);
  EXPECT_THROW((void)advise({candidate(2, 1, 1)}, noise(1), {1, 1}, 1), base::Error);
  EXPECT_THROW((void)advise({candidate(1, 1, 0)}, noise(1), {1, 1}, 1), base::Error);
  EXPECT_THROW((void)advise({candidate(1, 1, 1)}, noise(0), {1, 1}, 1), base::Error);
  EXPECT_THROW((void)advise({candidate(1, 1, 1)}, {2, 3, 4}, {1, 1}, 1), base::Error);
  EXPECT_THROW((void)advise({candidate(1, 1, 1)}, noise(1), {0, 1}, 1), base::Error);
}

}  // namespace
}  // namespace regatta::orchestrator::advise
