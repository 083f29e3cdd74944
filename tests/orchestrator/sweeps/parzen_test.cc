// Against quadrature, the error function's known values, and hand-made widths.
#include "orchestrator/sweeps/parzen.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/orchestrator/sweeps/play.h"

namespace regatta::orchestrator::sweeps {
namespace {

constexpr double kRoot2Pi = 2.5066282746310002;

// Simpson's rule.
double integral(const ParzenEstimator& of, double from, double to) {
  constexpr int kParts = 4000;
  const double width = (to - from) / kParts;
  double sum = of.density(from) + of.density(to);
  for (int i = 1; i < kParts; ++i) sum += (i % 2 == 1 ? 4 : 2) * of.density(from + i * width);
  return sum * width / 3;
}

TEST(Parzen, WithoutValuesIsThePrior) {
  const ParzenEstimator even(2, 6, {});
  EXPECT_DOUBLE_EQ(even.density(2), 0.25);
  EXPECT_DOUBLE_EQ(even.density(5), 0.25);
  EXPECT_DOUBLE_EQ(even.mass(3, 4), 0.25);
  EXPECT_DOUBLE_EQ(even.point(0.999, 0.5), 4);
}

// One value at 3 in [0, 4]: σ = the greater of 3 and 1, and Φ(1/3) − Φ(−1) = 0.4719.
TEST(Parzen, IsTheMixtureOfSection42) {
  const ParzenEstimator one(0, 4, {3});
  const double inside = 0.5 * (std::erf(1 / 3.0 / std::sqrt(2)) + std::erf(1 / std::sqrt(2)));
  EXPECT_NEAR(one.density(3), 0.5 * (0.25 + 1 / (kRoot2Pi * 3 * inside)), 1e-14);
  EXPECT_NEAR(one.density(0), 0.5 * (0.25 + std::exp(-0.5) / (kRoot2Pi * 3 * inside)), 1e-14);
}

// The density at a value among many far away shows its width: the bounds are 1/min(100, n + 1) and
// 1 of the range.
TEST(Parzen, WidthsHaveBounds) {
  const std::vector<double> same(9, 0.5);  // neighbours at distance 0 but for the ends
  const ParzenEstimator narrow(0, 1, same);
  double expected = 1;
  for (int i = 0; i < 9; ++i) {
    const double sigma = i == 0 || i == 8 ? 0.5 : 0.1;
    expected += 1 / (kRoot2Pi * sigma * std::erf(0.5 / sigma / std::sqrt(2)));
  }
  EXPECT_NEAR(narrow.density(0.5), expected / 10, 1e-12);
  const std::vector<double> many(200, 0.5);
  double of_many = 1 + 2 / (kRoot2Pi * 0.5 * std::erf(1 / std::sqrt(2)));
  of_many += 198 / (kRoot2Pi * 0.01);
  EXPECT_NEAR(ParzenEstimator(0, 1, many).density(0.5), of_many / 201, 1e-10);
}

TEST(Parzen, IsADensityWhateverTheValues) {
  for (std::uint32_t run = 0; run < 20; ++run) {
    std::vector<double> values;
    for (std::uint32_t i = 0; i < 1 + run * 2; ++i) values.push_back(-3 + 7 * chance(run, i));
    if (run == 3) values.assign({-3, -3, 4, 4});
    const ParzenEstimator of(-3, 4, values);
    EXPECT_NEAR(integral(of, -3, 4), 1, 1e-6);
    EXPECT_NEAR(of.mass(-3, 4), 1, 1e-13);
    EXPECT_NEAR(of.mass(-1, 2), integral(of, -1, 2), 1e-6);
    std::reverse(values.begin(), values.end());
    EXPECT_EQ(ParzenEstimator(-3, 4, values).density(1), of.density(1));
  }
}

// Points drawn fall below x as often as the mass there says: the greatest distance of 20,000 is
// within 1.95/√20000 in all but one of 1000 cases (Kolmogorov).
TEST(Parzen, PointsFollowTheDensity) {
  constexpr int kPoints = 20'000;
  for (const auto& values : {std::vector<double>{0.2}, {0.1, 0.15, 0.9}, {0, 0.5, 0.5, 1}}) {
    const ParzenEstimator of(0, 1, values);
    std::vector<double> points;
    for (std::uint32_t i = 0; i < kPoints; ++i) {
      points.push_back(of.point(chance(i, 100), chance(i, 101)));
    }
    std::sort(points.begin(), points.end());
    EXPECT_GE(points.front(), 0);
    EXPECT_LE(points.back(), 1);
    double farthest = 0;
    for (std::size_t i = 0; i < points.size(); ++i) {
      const double below = static_cast<double>(i) / kPoints;
      farthest = std::max(farthest, std::abs(of.mass(0, points[i]) - below));
    }
    EXPECT_LT(farthest, 1.95 / std::sqrt(kPoints));
  }
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

TEST(ChoiceProbabilities, CountOneMoreThanWasSeen) {
  EXPECT_EQ(choice_probabilities({0, 0, 0, 0}), (std::vector<double>(4, 0.25)));
  EXPECT_EQ(choice_probabilities({5, 0, 1}), (std::vector<double>{6.0 / 9, 1.0 / 9, 2.0 / 9}));
}

}  // namespace
}  // namespace regatta::orchestrator::sweeps
