#include "orchestrator/advise/measured_steps.h"

#include <gtest/gtest.h>

#include <random>

#include "base/error.h"

namespace regatta::orchestrator::advise {
namespace {

MeasuredStep step(int ranks, int batch, double seconds) {
  MeasuredStep made;
  made.ranks = ranks;
  made.batch = batch;
  made.seconds = {seconds, seconds, seconds};
  return made;
}

TEST(MeasuredSteps, LieOnTheLineThroughTwo) {
  const MeasuredSteps steps({step(2, 16, 0.1 + 16 * 0.02), step(2, 64, 0.1 + 64 * 0.02),
                             step(1, 16, 16 * 0.03), step(1, 64, 64 * 0.03)});
  EXPECT_EQ(steps.ranks(), (std::vector<int>{1, 2}));
  for (const int batch : {8, 16, 32, 64, 256}) {
    EXPECT_NEAR(steps.candidate(2, batch).step_seconds.value, 0.1 + 0.02 * batch, 1e-12);
    EXPECT_NEAR(steps.candidate(1, batch).step_seconds.value, 0.03 * batch, 1e-12);
  }
}

// Any other line with both figures above 0 is further off; tried with many.
TEST(MeasuredSteps, AreTheLeastSquaresOfLinesThatDoNotFall) {
  std::mt19937 random(3);
  std::uniform_real_distribution<double> noise(0.5, 1.5), any(0, 1);
  for (int round = 0; round < 100; ++round) {
    std::vector<MeasuredStep> tried;
    for (const int batch : {8, 16, 32, 64}) {
      tried.push_back(step(1, batch, noise(random) * (0.3 * any(random) + 0.01 * batch)));
    }
    const MeasuredSteps steps(tried);
    const auto miss = [&](auto line) {
      double sum = 0;
      for (const MeasuredStep& each : tried) {
        const double difference = line(each.batch) - each.seconds.value;
        sum += difference * difference;
      }
      return sum;
    };
    const double least =
        miss([&](int batch) { return steps.candidate(1, batch).step_seconds.value; });
    for (int other = 0; other < 2000; ++other) {
      const double alpha = any(random), beta = 0.05 * any(random);
      EXPECT_GE(miss([&](int batch) { return alpha + beta * batch; }), least - 1e-12);
    }
    for (const MeasuredStep& each : tried) {  // what was measured is within what is told
      const Range told = steps.candidate(1, each.batch).step_seconds;
      EXPECT_LE(told.low, each.seconds.value * (1 + 1e-9));
      EXPECT_GE(told.high, each.seconds.value * (1 - 1e-9));
    }
  }
}

TEST(MeasuredSteps, NeverTellLessThanNothing) {
  // The line through both would begin at −0.17 s; through 0 it is Σ t·b / Σ b².
  const MeasuredSteps steep({step(1, 8, 0.1), step(1, 64, 2)});
  const double beta = (8 * 0.1 + 64 * 2) / (8.0 * 8 + 64.0 * 64);
  EXPECT_NEAR(steep.candidate(1, 1).step_seconds.value, beta, 1e-12);
  // Larger batches that took less: their mean.
  const MeasuredSteps falling({step(1, 8, 0.3), step(1, 64, 0.1)});
  EXPECT_NEAR(falling.candidate(1, 500).step_seconds.value, 0.2, 1e-12);
}

TEST(MeasuredSteps, OneBatchAloneIsTakenForProportional) {
  const MeasuredSteps steps({step(4, 32, 0.8)});
  EXPECT_NEAR(steps.candidate(4, 64).step_seconds.value, 1.6, 1e-12);
}

TEST(TypicalStep, IsTheMiddleWithoutTheFirst) {
  // The first three are passed over; of 1 to 9 the quartiles are 3, 5 and 7.
  const Range range = typical_step({90, 80, 70, 1, 2, 3, 4, 5, 6, 7, 8, 9});
  EXPECT_DOUBLE_EQ(range.value, 5);
  EXPECT_DOUBLE_EQ(range.low, 3);
  EXPECT_DOUBLE_EQ(range.high, 7);
  EXPECT_THROW((void)typical_step({1, 1, 1, 1, 1, 1, 1}), base::Error);
  EXPECT_THROW(MeasuredSteps({}), base::Error);
  EXPECT_THROW(MeasuredSteps({step(1, 8, 0)}), base::Error);
}

}  // namespace
}  // namespace regatta::orchestrator::advise
