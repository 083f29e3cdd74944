// Synthetic gradients whose noise scale is known: an item's gradient is G plus independent Gaussian
// noise, so tr Σ = dimensions · deviation².
#include "trainer/contract/noise_scale.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace regatta::tests {
namespace {

using namespace regatta::trainer;  // the subject

// A step whose half counts `half` items and whose other samples count `rest`. The mean of m items
// is drawn directly.
contract::HalfNorms draw_step(double half, double rest, double mean, double deviation,
                              int dimensions, std::mt19937_64* random) {
  contract::HalfNorms step;
  step.half_items = half;
  step.rest = rest;
  std::normal_distribution<double> normal;
  for (int i = 0; i < dimensions; ++i) {
    const double h = mean + deviation / std::sqrt(half) * normal(*random);
    const double other = mean + deviation / std::sqrt(rest) * normal(*random);
    const double whole = (half * h + rest * other) / (half + rest);
    step.difference += (whole - h) * (whole - h);
    step.whole += whole * whole;
  }
  return step;
}

struct Case {
  const char* name;
  double half, rest;
  double scale;  // φ in items = deviation² / mean², which is tr Σ / ‖G‖²
};

TEST(NoiseScale, OfSyntheticGradientsIsFound) {
  const Case cases[] = {
      {"as much noise as signal", 32, 32, 64}, {"little noise", 128, 128, 30},
      {"much noise", 128, 128, 1500},          {"a small half", 10, 150, 200},
      {"a large half", 150, 10, 200},
  };
  for (const Case& c : cases) {
    std::mt19937_64 random(1);
    const double items = c.half + c.rest;
    contract::NoiseScale scale(static_cast<std::int64_t>(items), 16);  // an item is a sample
    double mean_estimate = 0;
    for (int step = 1; step <= 4000; ++step) {
      scale.observe(draw_step(c.half, c.rest, 1.0, std::sqrt(c.scale), 400, &random));
      ASSERT_EQ(scale.samples().has_value(), step >= contract::NoiseScale::kLeastSteps) << c.name;
      ASSERT_EQ(scale.interval().has_value(), step >= contract::NoiseScale::kLeastSteps) << c.name;
      if (step > 1000) mean_estimate += scale.samples().value() / 3000;
    }
    // Noise and signal have deviations of at most √(2/400)·M·n/m-fold of themselves a step, and
    // 3000 steps are some 30 windows.
    EXPECT_NEAR(mean_estimate, c.scale, 0.05 * c.scale) << c.name;
    const double phi = scale.samples().value();
    EXPECT_DOUBLE_EQ(scale.efficiency().value(), (phi + 16) / (phi + items)) << c.name;
  }
}

// Of many short runs, 95 in 100 have the truth within their interval.
TEST(NoiseScale, IntervalsHoldTheTruthAsOftenAsTheySay) {
  constexpr int kRuns = 1500;
  for (const double scale_of_batch : {0.1, 1.0, 8.0}) {
    for (const int steps : {contract::NoiseScale::kLeastSteps, 40, 300}) {
      std::mt19937_64 random(3);
      int held = 0, endless = 0;
      double width = 0;
      const int runs = steps == 300 ? kRuns / 5 : kRuns;
      for (int run = 0; run < runs; ++run) {
        contract::NoiseScale scale(64, 1);
        for (int step = 0; step < steps; ++step) {
          scale.observe(draw_step(30, 34, 1.0, std::sqrt(64 * scale_of_batch), 40, &random));
        }
        const contract::NoiseInterval interval = scale.interval().value();
        const double truth = 64 * scale_of_batch;
        held += interval.low <= truth && (!interval.high || truth <= *interval.high) ? 1 : 0;
        endless += interval.high ? 0 : 1;
        width += interval.high ? (*interval.high - interval.low) / truth / runs : 0;
        ASSERT_TRUE(scale.samples() || !interval.high);
        ASSERT_LE(interval.low, scale.samples().value_or(interval.low));
        ASSERT_TRUE(!interval.high || *interval.high >= scale.samples().value());
      }
      const double share = static_cast<double>(held) / runs;
      // Four deviations of a count, and 2 % for a mean of so few that is not quite normal.
      const double allowed = 4 * std::sqrt(0.95 * 0.05 / runs) + 0.02;
      EXPECT_NEAR(share, 0.95, allowed) << scale_of_batch << " of a batch, " << steps << " steps";
      if (scale_of_batch <= 1) {
        EXPECT_EQ(endless, 0) << scale_of_batch << ", " << steps;
        EXPECT_LT(width, 1.5) << scale_of_batch << ", " << steps;
      }
    }
  }
}

// At both ends r of the interval the weighted mean of noise − r·signal is as many of its standard
// errors from 0 as Student's distribution says, reckoned step by step.
TEST(NoiseScale, IntervalsEndWhereFiellerSays) {
  struct Row {
    int steps;
    double quantile;  // of as many degrees of freedom as the weights leave: 8.97, 98
  };
  for (const Row& row : {Row{contract::NoiseScale::kLeastSteps, 2.263}, Row{2000, 1.9845}}) {
    std::mt19937_64 random(6);
    contract::NoiseScale scale(1, 1);
    std::vector<double> noise, signal, weight;
    for (int step = 0; step < row.steps; ++step) {
      const contract::HalfNorms norms = draw_step(32, 32, 1.0, 8.0, 40, &random);
      scale.observe(norms);
      noise.push_back(norms.difference);
      signal.push_back(norms.whole - norms.difference);
      weight.push_back(std::pow(0.98, row.steps - 1 - step));
    }
    const contract::NoiseInterval interval = scale.interval().value();
    for (const double r : {interval.low, interval.high.value()}) {
      double all = 0, all2 = 0, mean = 0, variance = 0;
      for (std::size_t i = 0; i < noise.size(); ++i) {
        all += weight[i];
        all2 += weight[i] * weight[i];
        mean += weight[i] * (noise[i] - r * signal[i]);
      }
      mean /= all;
      for (std::size_t i = 0; i < noise.size(); ++i) {
        variance += std::pow(weight[i] / all * (noise[i] - r * signal[i] - mean), 2);
      }
      const double n = all * all / all2;
      EXPECT_NEAR(std::abs(mean) / std::sqrt(variance * n / (n - 1)), row.quantile, 0.002)
          << row.steps << " steps, end " << r;
    }
  }
}

// Noise alone: nothing speaks against a φ without end, and everything against a small one.
TEST(NoiseScale, WithoutASignalHasNoUpperEnd) {
  std::mt19937_64 random(4);
  int endless = 0, unknown = 0;
  for (int run = 0; run < 200; ++run) {
    contract::NoiseScale scale(64, 1);
    for (int step = 0; step < 100; ++step) {
      scale.observe(draw_step(32, 32, 0.0, 8.0, 400, &random));
    }
    const contract::NoiseInterval interval = scale.interval().value();
    EXPECT_GT(interval.low, 10 * 64);
    endless += interval.high ? 0 : 1;
    if (scale.samples()) continue;
    ++unknown;
    EXPECT_DOUBLE_EQ(scale.efficiency().value(), (interval.low + 1) / (interval.low + 64));
    EXPECT_LT(scale.efficiency().value(), 1) << "no better than told";
  }
  EXPECT_GE(endless, 180);                       // 97.5 of 100
  EXPECT_NEAR(unknown, 100, 5 * std::sqrt(50));  // the mean signal is as often below 0 as above
}

TEST(NoiseScale, IsExactForOneStepByHand) {
  // h = (3, 1) of 2 items, h' = (5, −1) of 4: ḡ = (13/3, −1/3), ‖ḡ − h‖² = 32/9, ‖ḡ‖² = 170/9;
  // noise 16/9, signal 154/9.
  contract::NoiseScale scale(60, 1);
  for (int step = 0; step < contract::NoiseScale::kLeastSteps; ++step) {
    scale.observe({32.0 / 9, 170.0 / 9, 2, 4});
  }
  const double phi = 60 * 16.0 / 154;
  EXPECT_NEAR(scale.samples().value(), phi, 1e-9);
  EXPECT_NEAR(scale.efficiency().value(), (phi + 1) / (phi + 60), 1e-12);
  // Steps without any spread leave no doubt (but for rounding, whose root this is).
  EXPECT_NEAR(scale.interval()->low, phi, 1e-5);
  EXPECT_NEAR(scale.interval()->high.value(), phi, 1e-5);
}

TEST(NoiseScale, ForgetsAtItsPace) {
  contract::NoiseScale scale(1, 1);
  for (int step = 0; step < 2000; ++step) scale.observe({4, 16, 2, 2});  // noise 4, signal 12
  for (int step = 0; step < 34; ++step) scale.observe({0, 16, 2, 2});    // no noise
  const double left = std::pow(0.98, 34);
  EXPECT_NEAR(scale.samples().value(), 4 * left / (left * 12 + (1 - left) * 16), 1e-9);
}

TEST(NoiseScale, GoesOnFromItsState) {
  std::mt19937_64 random(5);
  contract::NoiseScale undisturbed(64, 4), resumed(64, 4);
  for (int step = 0; step < 60; ++step) {
    const contract::HalfNorms norms = draw_step(30, 34, 1.0, 9.0, 50, &random);
    undisturbed.observe(norms);
    if (step % 7 == 3) {  // killed, and back from what was saved
      const contract::NoiseScale::State saved = resumed.state();
      resumed = contract::NoiseScale(64, 4);
      resumed.restore(saved);
    }
    resumed.observe(norms);
    ASSERT_EQ(resumed.samples(), undisturbed.samples());
    ASSERT_EQ(resumed.state(), undisturbed.state());
    if (!undisturbed.interval()) continue;
    ASSERT_EQ(resumed.interval()->low, undisturbed.interval()->low);
    ASSERT_EQ(resumed.interval()->high, undisturbed.interval()->high);
  }
  ASSERT_TRUE(undisturbed.samples());
  contract::NoiseScale::State broken = undisturbed.state();
  broken[3] = std::numeric_limits<double>::quiet_NaN();
  resumed.restore(broken);
  EXPECT_FALSE(resumed.samples()) << "begins anew";
  EXPECT_EQ(resumed.state(), contract::NoiseScale::State{});
}

TEST(NoiseScale, PassesOverWhatSaysNothing) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  const contract::HalfNorms nothing[] = {
      {4, 4, 0, 10},                                       // an empty half
      {4, 4, 10, 0},                                       // nothing but the half
      {4, 4, -1, 10},                                      // no counts at all
      {4, 4, kNan, 2},      {kInfinity, kInfinity, 2, 2},  // an overflow
      {4, kNan, 2, 2},      {kNan, 16, 2, 2},
      {4, kInfinity, 2, 2}, {1e308, 1, 2, 1e-9},  // the weight overflows
  };
  contract::NoiseScale scale(60, 60);
  for (int step = 0; step < contract::NoiseScale::kLeastSteps; ++step) {
    for (const contract::HalfNorms& norms : nothing) scale.observe(norms);
    EXPECT_FALSE(scale.samples().has_value());
    EXPECT_FALSE(scale.efficiency().has_value());
    scale.observe({4, 16, 2, 2});
  }
  EXPECT_NEAR(scale.samples().value(), 20.0, 1e-9);
}

TEST(NoiseScale, StaysFiniteAtItsEdges) {
  const contract::HalfNorms edges[] = {
      {1, 0, 2, 2},  // halves cancel: no signal
      {0, 4, 2, 2},  // they agree: no noise
      {4, 1, 2, 2},  // less gradient than noise
      {0, 0, 2, 2},  // no gradient at all
  };
  for (const contract::HalfNorms& norms : edges) {
    contract::NoiseScale scale(64, 32);
    for (int step = 0; step < 20; ++step) scale.observe(norms);
    EXPECT_EQ(scale.samples().has_value(), norms.whole > norms.difference);
    EXPECT_TRUE(std::isfinite(scale.samples().value_or(0)));
    EXPECT_GE(scale.samples().value_or(0), 0.0);
    EXPECT_GT(scale.efficiency().value(), 0.49);
    EXPECT_LE(scale.efficiency().value(), 1.0);
    const contract::NoiseInterval interval = scale.interval().value();
    EXPECT_TRUE(std::isfinite(interval.low));
    EXPECT_TRUE(!interval.high || std::isfinite(*interval.high));
  }
}

// A batch that grows: the true φ is that of an item, whatever steps count, and no estimate may jump
// with the batch. Intervals hold as often as before while steps of both sizes are in the averages.
TEST(NoiseScale, OfABatchThatGrowsStaysThatOfTheGradient) {
  constexpr int kRuns = 600;
  constexpr double kTruth = 200;
  for (const int after : {1, 10, 60}) {  // steps of the larger batch
    std::mt19937_64 random(8);
    int held = 0;
    double mean = 0;
    for (int run = 0; run < kRuns; ++run) {
      contract::NoiseScale scale(64, 16);
      const auto observe = [&](double items, int steps) {
        scale.set_batch(static_cast<std::int64_t>(items));
        for (int step = 0; step < steps; ++step) {
          scale.observe(draw_step(items / 2, items / 2, 1.0, std::sqrt(kTruth), 100, &random));
        }
      };
      observe(64, 60);
      observe(256, after);
      const contract::NoiseInterval interval = scale.interval().value();
      held += interval.low <= kTruth && (!interval.high || kTruth <= *interval.high) ? 1 : 0;
      mean += scale.samples().value() / kRuns;
      const double phi = scale.samples().value();
      ASSERT_DOUBLE_EQ(scale.efficiency().value(), (phi + 16) / (phi + 256));
    }
    EXPECT_NEAR(mean, kTruth, 0.03 * kTruth) << after << " steps after";
    EXPECT_NEAR(static_cast<double>(held) / kRuns, 0.95, 4 * std::sqrt(0.95 * 0.05 / kRuns) + 0.02)
        << after << " steps after";
  }
}

// The same as if noise were averaged as tr Σ of a sample from the start: reckoned by hand.
TEST(NoiseScale, AveragesTheNoiseOfASampleOverBatches) {
  struct Row {
    double batch, noise, signal;
  };
  std::vector<Row> rows;
  for (int i = 0; i < 25; ++i) {
    rows.push_back({i < 12 ? 8.0 : i < 18 ? 16.0 : 48.0, 3.0 + i % 4, 5.0 + i % 3});
  }
  contract::NoiseScale scale(8, 1), as_one(1, 1);
  double trace = 0, signal = 0, weight = 1;
  for (const Row& row : rows) {
    scale.set_batch(static_cast<std::int64_t>(row.batch));
    scale.observe({row.noise, row.signal + row.noise, 2, 2});
    as_one.observe({row.noise * row.batch, row.signal + row.noise * row.batch, 2, 2});
  }
  for (auto row = rows.rbegin(); row != rows.rend(); ++row, weight *= 0.98) {
    trace += weight * row->batch * row->noise;
    signal += weight * row->signal;
  }
  EXPECT_NEAR(scale.samples().value(), trace / signal, 1e-9 * trace / signal);
  const contract::NoiseInterval interval = scale.interval().value();
  const contract::NoiseInterval expected = as_one.interval().value();
  EXPECT_NEAR(interval.low, expected.low, 1e-9 * expected.low);
  EXPECT_NEAR(interval.high.value(), expected.high.value(), 1e-9 * expected.high.value());
  // There and back: the batch is no part of what was observed.
  contract::NoiseScale other = scale;
  other.set_batch(8);
  EXPECT_NEAR(other.samples().value(), scale.samples().value(), 1e-12 * trace / signal);
}

}  // namespace
}  // namespace regatta::tests
