#include "trainer/run/deadline.h"

#include <gtest/gtest.h>

namespace regatta::trainer {
namespace {

// Asked once a step of `step` seconds from 0 on: when it says so.
double told_at(run::Deadline deadline, double step, double until) {
  for (double now = 0; now < until; now += step) {
    if (deadline.is_due(now)) return now;
  }
  return -1;
}

TEST(Deadline, LeavesTwiceASaveAndAStep) {
  EXPECT_EQ(told_at(run::Deadline(100, 3), 2, 1000), 92) << "92 + 2·(3 + 2) > 100, 90 + 10 is not";
  EXPECT_EQ(told_at(run::Deadline(100, 0), 5, 1000), 95);
  EXPECT_EQ(told_at(run::Deadline(100, 60), 1, 1000), 0) << "too short for one: at once";
  EXPECT_EQ(told_at(run::Deadline(), 5, 100000), -1);
}

TEST(Deadline, GoesByWhatSavingTook) {
  run::Deadline deadline(100, 40);
  deadline.saved(1);
  EXPECT_EQ(told_at(deadline, 1, 1000), 97);
}

TEST(Deadline, TheLongestOfTheLastStepsCounts) {
  run::Deadline deadline(100, 1);
  EXPECT_FALSE(deadline.is_due(0));
  EXPECT_FALSE(deadline.is_due(20)) << "an evaluation";
  run::Deadline soon = deadline;
  EXPECT_TRUE(soon.is_due(59)) << "another like it might begin: 41 left, of 2·(1 + 39)";
  for (int step = 1; step <= 16; ++step) EXPECT_FALSE(deadline.is_due(20 + step)) << step;
  for (int now = 37; now < 96; ++now) EXPECT_FALSE(deadline.is_due(now)) << now << ": forgotten";
  EXPECT_FALSE(deadline.is_due(96));
  EXPECT_TRUE(deadline.is_due(97));
}

}  // namespace
}  // namespace regatta::trainer
