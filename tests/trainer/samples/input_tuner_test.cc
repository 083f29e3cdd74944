#include "trainer/samples/input_tuner.h"

#include <gmock/gmock.h>

#include <cmath>

namespace regatta::tests {
namespace {

using testing::ElementsAre, testing::HasSubstr;
using trainer::contract::InputRecord;
using trainer::samples::InputChoice;
using trainer::samples::InputLook;
using trainer::samples::InputTuner;

// Steps that compute for `computing` and take 10 samples, made in `making` by each of as many
// workers as help; every `slow_every`-th takes `slow` to make.
struct Machine {
  double computing = 0.010, making = 0.004, slow = 0;
  int slow_every = 0, helpful = 100;
  std::int64_t bytes = 1000;

  // Each step's samples are begun when a worker is free and the step is `prefetch` or less ahead.
  struct Time {
    std::vector<double> workers;
    std::vector<double> taken{0.0};  // when each step was begun
    double now = 0;
  };
  InputLook step(Time* time, const InputChoice& choice, std::int64_t number) const {
    time->workers.resize(static_cast<std::size_t>(choice.workers), time->now);
    const auto free = std::min_element(time->workers.begin(), time->workers.end());
    const bool is_slow = slow_every > 0 && number % slow_every == 0;
    const double each = (is_slow ? slow : making) * std::max(1, choice.workers / helpful);
    const auto ahead = std::max<std::ptrdiff_t>(0, std::ssize(time->taken) - 1 - choice.prefetch);
    *free = std::max(*free, time->taken[static_cast<std::size_t>(ahead)]) + each;
    InputLook look;
    look.waited_seconds = std::max(0.0, *free - time->now);
    look.step_seconds = look.waited_seconds + computing;
    look.making_seconds = each;
    look.samples = 10;
    look.bytes = bytes;
    time->taken.push_back(time->now + look.waited_seconds);
    time->now += look.step_seconds;
    return look;
  }
  std::vector<InputRecord> run(InputTuner* tuner, int steps) const {
    std::vector<InputRecord> records;
    Time time;
    for (int number = 1; number <= steps; ++number) {
      if (auto record = tuner->observe(number, step(&time, tuner->choice(), number))) {
        records.push_back(std::move(*record));
      }
    }
    return records;
  }
};

InputTuner tuner_of(int most_workers, int workers = 0, int prefetch = 0) {
  return {{workers, prefetch}, most_workers, true};
}

TEST(InputTuner, OneThreadAndOneStepIsEnoughForMostRuns) {
  InputTuner tuner = tuner_of(8);
  const auto records = Machine{}.run(&tuner, 300);
  ASSERT_EQ(records.size(), 1U);
  EXPECT_EQ(records[0].step, InputTuner::kPassedOver + InputTuner::kWindow);
  EXPECT_EQ(tuner.choice(), (InputChoice{1, 1}));
  EXPECT_FALSE(records[0].starved);
  EXPECT_DOUBLE_EQ(records[0].samples_per_second, 10 / 0.004);
  EXPECT_DOUBLE_EQ(records[0].demand_per_second, 10 / 0.010);
  EXPECT_EQ(records[0].why,
            "1 worker makes 2500 samples/s up to 1 step ahead, and steps take 1000");
}

// As where all cores are busy, and the thread that made them was late.
TEST(InputTuner, AMomentIsNoWaiting) {
  for (const double share : {0.015, 0.03}) {
    InputTuner tuner = tuner_of(8);
    std::vector<InputRecord> records;
    for (int step = 1; step <= 200; ++step) {
      const InputLook look{0.010, share * 0.010, 0.004, 10, 1000};
      if (auto record = tuner.observe(step, look)) records.push_back(*record);
    }
    ASSERT_EQ(records.size(), 1U);
    EXPECT_EQ(records[0].starved, share > InputTuner::kGain);
  }
}

TEST(InputTuner, ThreadsAreAddedUntilNoStepWaits) {
  for (const double making : {0.015, 0.035, 0.075}) {
    Machine machine;
    machine.making = making;
    InputTuner tuner = tuner_of(16);
    const auto records = machine.run(&tuner, 400);
    ASSERT_EQ(records.size(), 1U) << making;
    const int least = static_cast<int>(std::ceil(making / machine.computing));
    EXPECT_GE(tuner.choice().workers, least) << making;
    EXPECT_LT(tuner.choice().workers, 2 * least) << "the least power of two that is enough";
    EXPECT_GE(tuner.choice().prefetch, tuner.choice().workers);
    EXPECT_FALSE(records[0].starved);
    EXPECT_GE(records[0].samples_per_second, records[0].demand_per_second);
    EXPECT_EQ(records[0].tried_workers.back(), tuner.choice().workers);
  }
}

TEST(InputTuner, StepsAheadAreForSingleOnesThatTakeLong) {
  Machine machine;
  machine.slow = 0.025;
  machine.slow_every = 5;
  InputTuner tuner = tuner_of(16);
  const auto records = machine.run(&tuner, 400);
  ASSERT_EQ(records.size(), 1U);
  EXPECT_EQ(tuner.choice().workers, 1);
  EXPECT_GT(tuner.choice().prefetch, 1);
  EXPECT_FALSE(records[0].starved);
}

TEST(InputTuner, WhereNothingHelpsTheLeastStaysAndTheReasonIsTold) {
  Machine machine;
  machine.making = 0.030;
  machine.helpful = 1;  // each of two takes twice as long
  InputTuner tuner = tuner_of(4);
  const auto records = machine.run(&tuner, 500);
  ASSERT_EQ(records.size(), 1U) << "told once";
  EXPECT_TRUE(records[0].starved);
  EXPECT_EQ(tuner.choice(), (InputChoice{1, 1}));
  EXPECT_THAT(records[0].tried_workers, ElementsAre(1, 1, 2, 4));
  EXPECT_THAT(records[0].why,
              HasSubstr("steps wait for their samples: 1 worker makes 333 samples/s,"
                        " and steps would take 1000; of 4 ways with up to 4 "
                        "workers none was faster"));
}

TEST(InputTuner, TheFastestStaysWhereNoneIsEnough) {
  Machine machine;
  machine.making = 0.090;
  InputTuner tuner = tuner_of(4);
  const auto records = machine.run(&tuner, 500);
  ASSERT_EQ(records.size(), 1U);
  EXPECT_TRUE(records[0].starved);
  EXPECT_EQ(tuner.choice().workers, 4);
}

TEST(InputTuner, WhatTheRunFileSetsIsNotTried) {
  Machine machine;
  machine.making = 0.035;
  InputTuner workers = tuner_of(16, 2);
  const auto records = machine.run(&workers, 500);
  for (const InputChoice& way : workers.ways()) EXPECT_EQ(way.workers, 2);
  ASSERT_EQ(records.size(), 1U);
  EXPECT_THAT(records[0].why, HasSubstr("about 4 workers would end that (input.workers)"));
  InputTuner both = tuner_of(16, 4, 7);
  EXPECT_EQ(both.choice(), (InputChoice{4, 7}));
  EXPECT_EQ(both.ways().size(), 1U);
  EXPECT_FALSE(machine.run(&both, 100).at(0).starved);
  const InputTuner ahead = tuner_of(16, 0, 3);
  for (const InputChoice& way : ahead.ways()) EXPECT_EQ(way.prefetch, 3);

  InputTuner next({0, 0}, 16, false);  // as with samples that ranks exchange
  EXPECT_EQ(next.ways(), (std::vector<InputChoice>{{1, 1}}));
  EXPECT_THAT(machine.run(&next, 100).at(0).why, HasSubstr("have one step made ahead"));
}

TEST(InputTuner, StepsAheadStayWithinTheirMemory) {
  Machine machine;
  machine.making = 0.035;
  machine.bytes = InputTuner::kMostBytes / 5;
  InputTuner tuner = tuner_of(16);
  (void)machine.run(&tuner, 500);
  EXPECT_EQ(tuner.choice().prefetch, 4);
  machine.bytes = InputTuner::kMostBytes;
  InputTuner large = tuner_of(16);
  const auto records = machine.run(&large, 500);
  EXPECT_EQ(large.choice(), (InputChoice{1, 1}));
  EXPECT_TRUE(records.at(0).starved);
}

// A disk that gets slower in mid-run.
TEST(InputTuner, LooksAgainWhileTheRunGoesOn) {
  InputTuner tuner = tuner_of(8);
  (void)Machine{}.run(&tuner, 100);
  EXPECT_EQ(tuner.choice(), (InputChoice{1, 1}));
  Machine slower;
  slower.making = 0.015;
  const auto records = slower.run(&tuner, 400);
  ASSERT_EQ(records.size(), 1U);
  EXPECT_EQ(tuner.choice().workers, 2);
  EXPECT_FALSE(records[0].starved);
  Machine hiccups;
  hiccups.slow = 1;
  hiccups.slow_every = 120;
  EXPECT_TRUE(hiccups.run(&tuner, 1000).empty()) << "one step in a hundred waits";
}

}  // namespace
}  // namespace regatta::tests
