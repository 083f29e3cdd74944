// Against quadrature, the error function's known values, hand-made widths, sums over all that can
// be and counts of draws.
#include "orchestrator/sweeps/parzen.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tests/orchestrator/sweeps/play.h"

namespace regatta::orchestrator::sweeps {
namespace {

constexpr double kRoot2Pi = 2.5066282746310002;

// Simpson's rule.
double integral(const std::function<double(double)>& density, double from, double to) {
  constexpr int kParts = 4000;
  const double width = (to - from) / kParts;
  double sum = density(from) + density(to);
  for (int i = 1; i < kParts; ++i) sum += (i % 2 == 1 ? 4 : 2) * density(from + i * width);
  return sum * width / 3;
}

TEST(CutGaussian, IsADensityWhereverItsCentreIs) {
  for (const double centre : {-3.0, -2.9, 0.5, 4.0}) {
    for (const double sigma : {0.07, 1.0, 7.0}) {
      const CutGaussian of(centre, sigma, -3, 4);
      const auto density = [&](double x) { return of.density(x); };
      EXPECT_NEAR(integral(density, -3, 4), 1, 1e-6);
      EXPECT_NEAR(of.mass(-3, 4), 1, 1e-13);
      EXPECT_NEAR(of.mass(-1, 2), integral(density, -1, 2), 1e-6);
      for (const double u : {0.0, 1e-9, 0.3, 0.999}) {
        const double x = of.point(u);
        EXPECT_GE(x, -3);
        EXPECT_LE(x, 4);
        EXPECT_NEAR(of.mass(-3, x), u, 1e-9);
      }
    }
  }
}

SweepTrial trial_of(const SweepValues& values) {
  SweepTrial trial;
  trial.values = values;
  return trial;
}

std::vector<const SweepTrial*> all_of(const std::vector<SweepTrial>& trials) {
  std::vector<const SweepTrial*> all;
  for (const SweepTrial& trial : trials) all.push_back(&trial);
  return all;
}

// One trial at 3 in [0, 4] alone: σ = 0.1 of the range. The prior is half of it.
TEST(TrialDensity, IsTheMixtureOfThePriorAndTheTrials) {
  const Space space({{"x", ParameterKind::Uniform, 0, 4, false, {}, 0, {}}});
  const std::vector<SweepTrial> trials{trial_of({{"x", 3.0}})};
  const TrialDensity one(space, all_of(trials));
  const double inside = 0.5 * (std::erf(2.5 / std::sqrt(2)) + std::erf(7.5 / std::sqrt(2)));
  EXPECT_NEAR(one.log_at({{"x", 3.0}}), std::log(0.5 * (0.25 + 1 / (kRoot2Pi * 0.4 * inside))),
              1e-14);
  EXPECT_NEAR(one.log_at({{"x", 2.6}}),
              std::log(0.5 * (0.25 + std::exp(-0.5) / (kRoot2Pi * 0.4 * inside))), 1e-14);
  EXPECT_NEAR(TrialDensity(space, {}).log_at({{"x", 1.0}}), std::log(0.25), 1e-15);
}

// σ of many trials, seen at one of them far from all ends: 0.1 · m^(−1/(4 + D)), at least 0.03.
TEST(TrialDensity, WidthsAreThoseOfTheirNumber) {
  for (const std::size_t numbers : {1U, 3U}) {
    for (const std::size_t count : {40U, 400U, 40000U}) {
      const double scott =
          0.1 * std::pow(static_cast<double>(count), -1.0 / static_cast<double>(4 + numbers));
      const double sigma = std::max(scott, 0.03);
      const std::vector<SweepTrial> trials(count,
                                           trial_of({{"x0", 0.5}, {"x1", 0.5}, {"x2", 0.5}}));
      const Space space = unit_space(static_cast<int>(numbers));
      const TrialDensity of(space, all_of(trials));
      SweepValues at;
      for (std::size_t i = 0; i < numbers; ++i) at["x" + std::to_string(i)] = 0.5;
      const double peak = 1 / (kRoot2Pi * sigma * std::erf(0.5 / sigma / std::sqrt(2)));
      const double n = static_cast<double>(count);
      const double expected = (1 + n * std::pow(peak, static_cast<double>(numbers))) / (n + 1);
      EXPECT_NEAR(of.log_at(at), std::log(expected), 1e-9) << count << " of " << numbers;
    }
  }
}

// A small space of choices, integers and conditions, whose values can all be listed.
Space small_space() {
  SweepParameter name{"name", ParameterKind::Choice, 0, 0, false, {"a", "b", "c"}, 0, {}};
  SweepParameter size{"size", ParameterKind::Integer, 1, 9, true, {}, 0, {}};
  SweepParameter turn{"turn", ParameterKind::Integer, -2, 2, false, {}, 0, {{"name", {"b"}}}};
  SweepParameter way{"way", ParameterKind::Choice, 0, 0,
                     false, {true, false},         0, {{"name", {"c"}}}};
  return Space({name, size, turn, way});
}
std::vector<SweepValues> all_values() {
  std::vector<SweepValues> all;
  for (std::int64_t size = 1; size <= 9; ++size) {
    all.push_back({{"name", "a"}, {"size", size}});
    for (std::int64_t turn = -2; turn <= 2; ++turn) {
      all.push_back({{"name", "b"}, {"size", size}, {"turn", turn}});
    }
    for (const bool way : {true, false}) {
      all.push_back({{"name", "c"}, {"size", size}, {"way", way}});
    }
  }
  return all;
}
// One of them lacks a value, another has what is none any more.
std::vector<SweepTrial> small_trials() {
  return {trial_of({{"name", "b"}, {"size", std::int64_t{2}}, {"turn", std::int64_t{1}}}),
          trial_of({{"name", "b"}, {"size", std::int64_t{3}}}),
          trial_of({{"name", "d"}, {"size", std::int64_t{9}}}),
          trial_of({{"name", "c"}, {"size", std::int64_t{12}}, {"way", false}}),
          trial_of({{"name", "a"}, {"size", std::int64_t{1}}})};
}

TEST(TrialDensity, SumsToOneOverAllThatCanBe) {
  const Space space = small_space();
  const std::vector<SweepTrial> trials = small_trials();
  for (std::size_t count = 0; count <= trials.size(); ++count) {
    const TrialDensity of(space,
                          all_of({trials.begin(), trials.begin() + static_cast<int>(count)}));
    double sum = 0;
    for (const SweepValues& values : all_values()) sum += std::exp(of.log_at(values));
    EXPECT_NEAR(sum, 1, 1e-12) << count;
  }
}

// Pearson's χ² of 72 kinds of values in 40,000 draws: above 120 in one case of four thousand.
TEST(TrialDensity, DrawsFollowIt) {
  const Space space = small_space();
  const std::vector<SweepTrial> trials = small_trials();
  const TrialDensity of(space, all_of(trials));
  constexpr std::uint32_t kDraws = 40'000;
  std::map<SweepValues, int> counts;
  for (std::uint32_t i = 0; i < kDraws; ++i) {
    ++counts[of.drawn(chance(i, 7), [&](std::size_t place) {
      return chance(i, 8 + static_cast<std::uint32_t>(place));
    })];
  }
  double distance = 0;
  int all = 0;
  for (const SweepValues& values : all_values()) {
    const double expected = kDraws * std::exp(of.log_at(values));
    ASSERT_GT(expected, 5);
    distance += std::pow(counts[values] - expected, 2) / expected;
    all += counts[values];
  }
  EXPECT_EQ(all, static_cast<int>(kDraws)) << "nothing else is drawn";
  EXPECT_LT(distance, 120);
}

TEST(NormalQuantile, HasItsKnownValues) {
  // Of tables: Φ(1.959963984540054) = 0.975, Φ(−2.3263478740408408) = 0.01.
  EXPECT_NEAR(normal_quantile(0.975, -10, 10), 1.959963984540054, 1e-13);
  EXPECT_NEAR(normal_quantile(0.01, -10, 10), -2.3263478740408408, 1e-13);
  EXPECT_NEAR(normal_quantile(0.5, -10, 10), 0, 1e-15);
  EXPECT_NEAR(normal_below(-10), 7.619853024160526e-24, 1e-36);
  for (double z = -6; z <= 6; z += 0.25) {
    EXPECT_NEAR(normal_quantile(normal_below(z), -7, 7), z, 1e-7) << z;
  }
  EXPECT_EQ(normal_quantile(0, -3, 3), -3 + 0x1p-51);  // the first double above
}

}  // namespace
}  // namespace regatta::orchestrator::sweeps
