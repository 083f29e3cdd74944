// Known values, worked out by hand. The median is that of numpy.median; the percentile is that of
// numpy.percentile with method="nearest", except for a rank that ends in .5.
#include "base/statistics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace regatta::base {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(Statistics, MedianIsTheMiddleOrTheMeanOfTheMiddleTwo) {
  EXPECT_EQ(median({7}), 7);
  EXPECT_EQ(median({3, 1}), 2);
  EXPECT_EQ(median({3, 1, 2}), 2);
  EXPECT_EQ(median({4, 1, 2, 3}), 2.5);
  EXPECT_EQ(median({5, 5, 1, 9, 5, 5}), 5);
  EXPECT_EQ(median({-1, -8, 0.5, 1e9, 0.25}), 0.25);
  EXPECT_EQ(median({kInfinity, 1, 2}), 2);
  EXPECT_EQ(median({kInfinity, 1}), kInfinity);
}

TEST(Statistics, PercentileIsTheValueOfTheNearestRank) {
  const std::vector<double> ten{90, 20, 70, 40, 50, 60, 30, 80, 10, 0};  // rank·10
  EXPECT_EQ(percentile(ten, 0), 0);
  EXPECT_EQ(percentile(ten, 0.05), 0);   // rank 0.45
  EXPECT_EQ(percentile(ten, 0.06), 10);  // rank 0.54
  EXPECT_EQ(percentile(ten, 0.25), 20);  // rank 2.25
  EXPECT_EQ(percentile(ten, 0.95), 90);  // rank 8.55
  EXPECT_EQ(percentile(ten, 1), 90);
  EXPECT_EQ(percentile(ten, 0.5), 50) << "rank 4.5 is rounded up; no interpolation to 45";
  EXPECT_EQ(percentile({2, 1}, 0.5), 2) << "rank 0.5";
  EXPECT_EQ(percentile({42}, 0.3), 42);
}

TEST(Statistics, MeanIsTheSumByTheCount) {
  EXPECT_EQ(mean({7}), 7);
  EXPECT_EQ(mean({1, 2, 6}), 3);
  EXPECT_EQ(mean({-1, 1}), 0);
  EXPECT_EQ(mean({0.5, 0.25}), 0.375);
}

TEST(Statistics, RobustDeviationIsThatOfNormalValuesWhateverAFewSay) {
  EXPECT_EQ(robust_deviation({7}), 0);
  EXPECT_DOUBLE_EQ(robust_deviation({1, 2, 3, 4, 5}), 1.4826);    // distances 2 1 0 1 2
  EXPECT_DOUBLE_EQ(robust_deviation({1, 2, 3, 4, 1e9}), 1.4826);  // distances 2 1 0 1 ∞
  EXPECT_DOUBLE_EQ(robust_deviation({10, 14}), 2 * 1.4826);       // median 12
  EXPECT_EQ(robust_deviation({5, 5, 5, 900}), 0) << "more than half are equal";
  std::vector<double> quantiles;  // of the normal distribution with deviation 3: ±0.6745·3 …
  for (const double z : {-1.2816, -0.5244, 0.0, 0.5244, 1.2816, -0.6745, 0.6745}) {
    quantiles.push_back(100 + 3 * z);
  }
  EXPECT_NEAR(robust_deviation(quantiles), 3, 1e-3);
}

TEST(Statistics, NanGoesIntoEveryResult) {
  EXPECT_TRUE(std::isnan(median({1, kNan, 2})));
  EXPECT_TRUE(std::isnan(median_or({kNan}, 0)));
  EXPECT_TRUE(std::isnan(percentile({1, 2, kNan}, 0)));
  EXPECT_TRUE(std::isnan(mean({1, kNan})));
  EXPECT_TRUE(std::isnan(robust_deviation({1, kNan, 2})));
}

TEST(Statistics, OfNothingThereIsNone) {
  EXPECT_EQ(median_or({}, -1), -1);
  EXPECT_EQ(median_or({3, 1, 2}, -1), 2);
  EXPECT_DEATH((void)median({}), "at least one value");
  EXPECT_DEATH((void)percentile({}, 0.5), "at least one value");
  EXPECT_DEATH((void)mean({}), "at least one value");
  EXPECT_DEATH((void)robust_deviation({}), "at least one value");
}

TEST(Statistics, ShareOfAPercentileIsFromZeroToOne) {
  EXPECT_DEATH((void)percentile({1, 2}, 95), "from 0 to 1");
  EXPECT_DEATH((void)percentile({1, 2}, -0.1), "from 0 to 1");
  EXPECT_DEATH((void)percentile({1, 2}, kNan), "from 0 to 1");
}

}  // namespace
}  // namespace regatta::base
