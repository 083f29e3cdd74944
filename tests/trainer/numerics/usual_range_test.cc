#include "trainer/numerics/usual_range.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace regatta::trainer {
namespace {

using numerics::UsualRange;

// e^0, e^0.1, … e^4.7: median e^2.35 and a median distance of 1.2, as one writes down by hand.
TEST(UsualRange, IsTheMedianOfLogarithmsAndTheirMedianDistance) {
  UsualRange range;
  for (std::size_t i = 0; i < UsualRange::kLeast; ++i) {
    EXPECT_FALSE(range.judge(std::exp(0.1 * static_cast<double>(i)))) << "too few before " << i;
  }
  const auto judged = range.judge(std::exp(10));
  ASSERT_TRUE(judged);
  EXPECT_NEAR(judged->usual, std::exp(2.35), 1e-9);
  EXPECT_NEAR(judged->deviation, (10 - 2.35) / (1.4826 * 1.2), 1e-9);
  EXPECT_FALSE(judged->unusual) << "4.3 spreads";
}

TEST(UsualRange, NeedsManySpreadsAndManyTimes) {
  struct Case {
    const char* name;
    double spread, value;
    bool unusual;
  };
  for (const Case& c :
       {Case{"steady, twice", 0, 2, false}, Case{"steady, four times", 0, 4, true},
        Case{"steady, a quarter", 0, 0.25, false}, Case{"noisy, four times", 0.5, 4, false},
        Case{"noisy, thousand times", 0.5, 1000, true}}) {
    UsualRange range;
    for (std::size_t i = 0; i < UsualRange::kMost; ++i) {
      (void)range.judge(std::exp(i % 2 == 0 ? c.spread : -c.spread));
    }
    const auto judged = range.judge(c.value);
    ASSERT_TRUE(judged) << c.name;
    EXPECT_EQ(judged->unusual, c.unusual) << c.name;
    EXPECT_NEAR(judged->usual, 1, 1e-9) << c.name;
  }
}

TEST(UsualRange, ABadValueMovesNothingAndANewLevelBecomesUsual) {
  UsualRange range;
  for (std::size_t i = 0; i < UsualRange::kMost; ++i) (void)range.judge(1);
  EXPECT_TRUE(range.judge(1e6)->unusual);
  EXPECT_NEAR(range.judge(1)->usual, 1, 1e-12);
  std::size_t steps = 0;
  while (range.judge(100)->unusual) ++steps;
  EXPECT_GT(steps, UsualRange::kMost / 4);
  EXPECT_LE(steps, UsualRange::kMost / 2 + 1) << "half of what is remembered";
}

TEST(UsualRange, WhatIsNoPositiveNumberJoinsNothing) {
  UsualRange range;
  for (const double value : {0.0, -1.0, std::numeric_limits<double>::quiet_NaN(),
                             std::numeric_limits<double>::infinity()}) {
    for (std::size_t i = 0; i < UsualRange::kMost; ++i) EXPECT_FALSE(range.judge(value)) << value;
  }
  EXPECT_FALSE(range.judge(1)) << "still nothing before it";
}

// 100 runs of 400 values of a noise that is larger than a gradient norm's, and falls.
TEST(UsualRange, SaysNothingOfNoise) {
  std::mt19937_64 random(7);
  std::normal_distribution<double> noise(0, 0.3);
  int unusual = 0;
  for (int run = 0; run < 100; ++run) {
    UsualRange range;
    for (int i = 0; i < 400; ++i) {
      const auto judged = range.judge(std::exp(noise(random)) * 10 / (10 + i));
      unusual += judged && judged->unusual ? 1 : 0;
    }
  }
  EXPECT_EQ(unusual, 0);
}

}  // namespace
}  // namespace regatta::trainer
