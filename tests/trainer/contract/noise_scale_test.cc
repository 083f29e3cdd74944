// Synthetic gradients whose noise scale is known: an item's gradient is G plus independent Gaussian
// noise, so tr Σ = dimensions · deviation².
#include "trainer/contract/noise_scale.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <random>

namespace regatta::tests {
namespace {

using namespace regatta::trainer;  // the subject

constexpr int kDimensions = 400;

// A step of ranks that count as many items as `counts` says. The mean of m items is drawn directly.
GradientNorms draw_step(const std::vector<double>& counts, double mean, double deviation,
                        std::mt19937_64* random) {
  GradientNorms step;
  step.counts = counts;
  step.squared_local.assign(counts.size(), 0);
  const double items = std::accumulate(counts.begin(), counts.end(), 0.0);
  std::normal_distribution<double> normal;
  for (int i = 0; i < kDimensions; ++i) {
    double sum = 0;
    for (std::size_t r = 0; r < counts.size(); ++r) {
      if (counts[r] == 0) continue;
      const double rank_mean = mean + deviation / std::sqrt(counts[r]) * normal(*random);
      const double gradient = counts[r] / items * rank_mean;
      step.squared_local[r] += gradient * gradient;
      sum += gradient;
    }
    step.squared_global += sum * sum;
  }
  return step;
}

struct Case {
  const char* name;
  std::vector<double> counts;
  double scale;  // φ in items = deviation² / mean², which is tr Σ / ‖G‖²
};

TEST(NoiseScale, OfSyntheticGradientsIsFound) {
  const Case cases[] = {
      {"two equal ranks, as much noise as signal", {32, 32}, 64},
      {"little noise", {64, 64, 64, 64}, 30},
      {"much noise", {32, 32, 32, 32, 32, 32, 32, 32}, 1500},
      {"three ranks, unequal", {10, 50, 100}, 200},
      {"five ranks, very unequal", {1, 5, 20, 60, 170}, 400},
      {"eight ranks, one of them without an item", {40, 0, 40, 80, 20, 40, 40, 10}, 300},
  };
  for (const Case& c : cases) {
    std::mt19937_64 random(1);
    const double items = std::accumulate(c.counts.begin(), c.counts.end(), 0.0);
    NoiseScale scale(static_cast<std::int64_t>(items), 16);  // an item is a sample
    double mean_estimate = 0;
    for (int step = 1; step <= 2000; ++step) {
      scale.observe(draw_step(c.counts, 1.0, std::sqrt(c.scale), &random));
      ASSERT_EQ(scale.samples().has_value(), step >= NoiseScale::kLeastSteps) << c.name;
      if (step > 1000) mean_estimate += scale.samples().value() / 1000;
    }
    EXPECT_NEAR(mean_estimate, c.scale, 0.1 * c.scale) << c.name;
    EXPECT_NEAR(scale.samples().value(), c.scale, 0.25 * c.scale) << c.name;
    const double phi = scale.samples().value();
    EXPECT_DOUBLE_EQ(scale.efficiency().value(), (phi + 16) / (phi + items)) << c.name;
    EXPECT_DOUBLE_EQ(scale.goodput(1000).value(), 1000 * (phi + 16) / (phi + items)) << c.name;
  }
}

// Ranks weighted alike would take the small rank's larger deviation for noise of the whole step.
TEST(NoiseScale, CountsSamplesNotItems) {
  std::mt19937_64 random(2);
  NoiseScale scale(8, 8);  // a step of 8 samples with 80 masked positions
  for (int step = 0; step < 1000; ++step) {
    scale.observe(draw_step({10, 70}, 1.0, std::sqrt(200.0), &random));
  }
  EXPECT_NEAR(scale.samples().value(), 20.0, 4.0);
  EXPECT_DOUBLE_EQ(scale.efficiency().value(), 1.0) << "the batch is the base batch";
}

TEST(NoiseScale, IsExactForOneStepByHand) {
  // g = (3, 0) and (0, 1) of 2 and 2 items: ḡ² = 10, q = 2·9 + 2·1 = 20, noise 10, signal 0.
  // g = (3, 0) and (1, 0): ḡ² = 16, q = 20, noise 4, signal 12.
  NoiseScale scale(60, 60);
  for (int step = 0; step < NoiseScale::kLeastSteps; ++step) scale.observe({{9, 1}, {2, 2}, 16});
  EXPECT_NEAR(scale.samples().value(), 60 * 4.0 / 12.0, 1e-9);
}

TEST(NoiseScale, ForgetsAtItsPace) {
  NoiseScale scale(1, 1);
  for (int step = 0; step < 1000; ++step) scale.observe({{9, 1}, {2, 2}, 16});
  for (int step = 0; step < 69; ++step) scale.observe({{4, 4}, {2, 2}, 16});     // no noise
  EXPECT_NEAR(scale.samples().value(), 4 * 0.5 / (0.5 * 12 + 0.5 * 16), 0.002);  // 0.99^69 ≈ 1/2
}

TEST(NoiseScale, PassesOverWhatSaysNothing) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  const GradientNorms nothing[] = {
      {{}, {}, 0},
      {{4}, {10}, 4},                       // one rank
      {{4, 0}, {10, 0}, 4},                 // only one counted
      {{0, 0}, {0, 0}, 0},                  // nobody did
      {{kInfinity, 1}, {2, 2}, kInfinity},  // an overflow
      {{9, 1}, {2, 2}, kNan},
      {{kNan, 1}, {2, 2}, 16},
      {{9, 1}, {2, 2}, kInfinity},
      {{1e308, 1e308}, {1e-9, 2}, 1},  // the weight overflows
  };
  NoiseScale scale(60, 60);
  for (int step = 0; step < NoiseScale::kLeastSteps; ++step) {
    for (const GradientNorms& norms : nothing) scale.observe(norms);
    EXPECT_FALSE(scale.samples().has_value());
    EXPECT_FALSE(scale.efficiency().has_value());
    EXPECT_FALSE(scale.goodput(1).has_value());
    scale.observe({{9, 1}, {2, 2}, 16});
  }
  EXPECT_NEAR(scale.samples().value(), 20.0, 1e-9);
}

TEST(NoiseScale, StaysFiniteAtItsEdges) {
  const GradientNorms edges[] = {
      {{1, 1}, {2, 2}, 0},   // ranks cancel: no signal
      {{1, 1}, {2, 2}, 4},   // all ranks agree: no noise
      {{1, 1}, {2, 2}, 16},  // rounding made the noise negative
      {{0, 0}, {2, 2}, 0},   // no gradient at all
  };
  for (const GradientNorms& norms : edges) {
    NoiseScale scale(64, 32);
    for (int step = 0; step < 20; ++step) scale.observe(norms);
    EXPECT_TRUE(std::isfinite(scale.samples().value()));
    EXPECT_GE(scale.samples().value(), 0.0);
    EXPECT_GT(scale.efficiency().value(), 0.49);
    EXPECT_LE(scale.efficiency().value(), 1.0);
  }
}

}  // namespace
}  // namespace regatta::tests
