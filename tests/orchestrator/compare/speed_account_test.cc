#include "orchestrator/compare/speed_account.h"

#include <gtest/gtest.h>

#include <numeric>

#include "base/error.h"
#include "tests/orchestrator/compare/made_journal.h"

namespace regatta::orchestrator::compare {
namespace {

namespace contract = trainer::contract;

double sum_of(const SpeedAccount& account) {
  return std::accumulate(account.parts.begin(), account.parts.end(), 0.0);
}

// Sixty steps, of which the first fifth is passed over: 48 of 34 ms + 1 ms of data + 2 ms between.
TEST(SpeedAccount, PartsAreThoseOfTheStepsAndAddUpToTheWallTime) {
  MadeSteps of;
  of.data = 0.001;
  of.gap = 0.002;
  of.evaluate_every = 16;  // at 16, 32 and 48
  of.evaluation = 0.5;
  of.save_every = 24;  // at 24 and 48
  of.stall = 0.1;
  const SpeedAccount account = account_of(made_journal(of), {});
  EXPECT_EQ(account.first_step, 13);
  EXPECT_EQ(account.last_step, 60);
  EXPECT_EQ(account.steps, 48);
  EXPECT_EQ(account.samples, 48 * 8);
  EXPECT_EQ(account.tokens, 48 * 800);
  EXPECT_NEAR(account.of(Part::Compute), 48 * 0.030, 1e-9);
  EXPECT_NEAR(account.of(Part::Optimizer), 48 * 0.004, 1e-9);
  EXPECT_NEAR(account.of(Part::Input), 48 * 0.001, 1e-9);
  EXPECT_NEAR(account.of(Part::Evaluation), 3 * 0.5, 1e-9);
  EXPECT_NEAR(account.of(Part::Checkpoints), 2 * 0.1, 1e-9);
  EXPECT_NEAR(account.of(Part::Other), 47 * 0.002, 1e-9);  // not behind the last step
  EXPECT_EQ(account.of(Part::Communication), 0);
  EXPECT_NEAR(account.seconds, 48 * 0.035 + 1.5 + 0.2 + 47 * 0.002, 1e-9);
  EXPECT_NEAR(sum_of(account), account.seconds, 1e-12);
  EXPECT_EQ(account.evaluations, 3);
  EXPECT_EQ(account.checkpoints, 2);
}

// Rank 0 computes 30 ms of at most 40 and 36 in the mean, and waits 15: 10 of these for the
// busiest.
TEST(SpeedAccount, WaitingIsForTheBusiestRankAndForSums) {
  MadeSteps of;
  of.reduce = 0.013;
  of.rest = 0.002;
  of.ranks = {0.030, 0.038, 0.036, 0.040};
  const SpeedAccount account = account_of(made_journal(of), {4, true});
  EXPECT_NEAR(account.of(Part::Compute), 48 * 0.036, 1e-9);
  EXPECT_NEAR(account.of(Part::Imbalance), 48 * 0.004, 1e-9);
  EXPECT_NEAR(account.of(Part::Communication), 48 * 0.005, 1e-9);
  EXPECT_NEAR(account.of(Part::Optimizer), 48 * 0.004, 1e-9);
  EXPECT_NEAR(sum_of(account), 48 * 0.049, 1e-9);
}

// The same step, told by a rank 0 that is the busiest: the parts are the same.
TEST(SpeedAccount, DoesNotDependOnWhichRankTells) {
  MadeSteps idle;
  idle.reduce = 0.015;
  idle.ranks = {0.030, 0.040};
  MadeSteps busy = idle;
  busy.backward = 0.030;
  busy.reduce = 0.005;
  busy.ranks = {0.040, 0.030};
  const SpeedAccount one = account_of(made_journal(idle), {2, true});
  const SpeedAccount other = account_of(made_journal(busy), {2, true});
  for (std::size_t i = 0; i < kParts; ++i) {
    EXPECT_NEAR(one.parts[i], other.parts[i], 1e-9) << kPartNames[i];
  }
  EXPECT_NEAR(one.of(Part::Imbalance), 48 * 0.005, 1e-9);
  EXPECT_NEAR(one.of(Part::Communication), 48 * 0.005, 1e-9);
}

// Sharded weights are gathered within forward: 6 ms exposed, of which 2 are behind backward.
TEST(SpeedAccount, GathersWithinForwardAreCommunication) {
  MadeSteps of;
  of.reduce = 0.002;
  of.exposed = 0.006;
  const SpeedAccount account = account_of(made_journal(of), {2, true});
  EXPECT_NEAR(account.of(Part::Compute), 48 * 0.026, 1e-9);
  EXPECT_NEAR(account.of(Part::Communication), 48 * 0.006, 1e-9);
}

TEST(SpeedAccount, StagesWaitForEachOther) {
  MadeSteps of;
  of.rest = 0.012;
  std::vector<contract::JournalRecord> records = made_journal(of);
  for (contract::JournalRecord& record : records) {
    if (auto* step = std::get_if<contract::StepRecord>(&record.body)) step->bubble = 0.3;
  }
  const SpeedAccount account = account_of(records, {2, true});
  EXPECT_NEAR(account.of(Part::Bubble), 48 * 0.009, 1e-9);
  EXPECT_NEAR(account.of(Part::Communication), 48 * 0.003, 1e-9);
}

// A GPU's host only enqueues, so its forward and backward tell nothing.
TEST(SpeedAccount, OfAGpuAllButInputIsCompute) {
  MadeSteps of;
  of.data = 0.001;
  const SpeedAccount account = account_of(made_journal(of), {8, false});
  EXPECT_NEAR(account.of(Part::Compute), 48 * 0.034, 1e-9);
  EXPECT_NEAR(account.of(Part::Input), 48 * 0.001, 1e-9);
  EXPECT_EQ(account.of(Part::Optimizer) + account.of(Part::Communication), 0);
}

TEST(SpeedAccount, PassesOverTheStepsThatTriedCuts) {
  std::vector<contract::JournalRecord> records = made_journal({});
  contract::JournalRecord trial = records.at(40);  // behind step 40
  trial.body = contract::TrialRecord{};
  records.insert(records.begin() + 41 + 1, trial);
  EXPECT_EQ(account_of(records, {}).first_step, 41);
}

TEST(SpeedAccount, PassesOverAFifthButTwentyStepsAtMost) {
  for (const auto& [steps, first] : {std::pair(15, 4), {50, 11}, {100, 21}, {1000, 21}}) {
    MadeSteps of;
    of.steps = steps;
    EXPECT_EQ(account_of(made_journal(of), {}).first_step, first) << steps;
  }
}

TEST(SpeedAccount, TakesTheEndOfALongJournal) {
  std::vector<contract::JournalRecord> records = made_journal({});
  const SpeedAccount whole = account_of(records, {});
  records.erase(records.begin(), records.begin() + 22);
  const SpeedAccount end = account_of(records, {});
  EXPECT_EQ(end.first_step, 29);
  EXPECT_NEAR(end.per_sample(end.seconds), whole.per_sample(whole.seconds), 1e-12);
}

TEST(SpeedAccount, TooFewStepsAreTold) {
  MadeSteps of;
  of.steps = 12;
  try {
    (void)account_of(made_journal(of), {});
    FAIL() << "nine steps are too few";
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), base::Code::User);
    EXPECT_STREQ(error.what(),
                 "its journal has 9 steps beyond the first ones; a comparison of speed takes at "
                 "least 10");
  }
  of.steps = 13;
  EXPECT_EQ(account_of(made_journal(of), {}).steps, 10);
  EXPECT_THROW((void)account_of({}, {}), base::Error);
}

TEST(SpeedDifference, PartsAddUpToTheDifference) {
  MadeSteps slow;
  slow.forward = 0.013;
  slow.data = 0.004;
  slow.optimizer = 0.002;
  slow.samples = 6;
  const SpeedAccount a = account_of(made_journal({}), {}), b = account_of(made_journal(slow), {});
  const SpeedDifference difference = difference_of(a, b);
  EXPECT_NEAR(difference.whole(), 0.039 / 6 - 0.034 / 8, 1e-12);
  EXPECT_NEAR(std::accumulate(difference.parts.begin(), difference.parts.end(), 0.0),
              difference.whole(), 1e-12);
  EXPECT_NEAR(difference.more_work + difference.slower, difference.parts[0], 1e-12);
  const SpeedDifference back = difference_of(b, a);
  EXPECT_NEAR(back.whole(), -difference.whole(), 1e-15);
  EXPECT_NEAR(back.more_work, -difference.more_work, 1e-15);
}

// Twice the work in twice the time is no slower; the same work in twice the time is.
TEST(SpeedDifference, TellsMoreWorkFromSlowerWork) {
  MadeSteps more;
  more.flops = 2e9;
  more.forward = 0.020;
  more.backward = 0.040;
  const SpeedAccount a = account_of(made_journal({}), {});
  const SpeedDifference work = difference_of(a, account_of(made_journal(more), {}));
  EXPECT_NEAR(work.more_work, 0.030 / 8, 1e-12);
  EXPECT_NEAR(work.slower, 0, 1e-12);
  // Twice the work at half the speed of each: the same either way round.
  more.forward = 0.040;
  more.backward = 0.080;
  const SpeedAccount b = account_of(made_journal(more), {});
  EXPECT_NEAR(difference_of(a, b).more_work, 0.045 / 8, 1e-12);
  EXPECT_NEAR(difference_of(b, a).more_work, -0.045 / 8, 1e-12);
  EXPECT_NEAR(difference_of(b, a).slower, -0.045 / 8, 1e-12);
  more.forward = 0.020;
  more.backward = 0.040;
  more.flops = 1e9;
  const SpeedDifference slow = difference_of(a, account_of(made_journal(more), {}));
  EXPECT_NEAR(slow.more_work, 0, 1e-12);
  EXPECT_NEAR(slow.slower, 0.030 / 8, 1e-12);
  more.flops = 0;  // not known
  EXPECT_NEAR(difference_of(a, account_of(made_journal(more), {})).slower, 0.030 / 8, 1e-12);
}

TEST(SpeedDifference, LittleIsNoise) {
  MadeSteps other;
  other.optimizer = 0.0045;  // 1.5 % of a step
  const SpeedAccount a = account_of(made_journal({}), {});
  EXPECT_TRUE(difference_of(a, account_of(made_journal(other), {})).is_noise());
  other.optimizer = 0.005;  // 2.9 %
  EXPECT_FALSE(difference_of(a, account_of(made_journal(other), {})).is_noise());
}

// Steps in blocks of four seconds' difference: their means differ, so does chance.
TEST(SpeedDifference, WhatStepsDifferByIsNoise) {
  MadeSteps of;
  of.steps = 200;
  std::vector<contract::JournalRecord> records = made_journal(of);
  double later = 0;
  for (contract::JournalRecord& record : records) {
    if (auto* step = std::get_if<contract::StepRecord>(&record.body)) {
      const double more = (step->step / 30) % 2 == 0 ? 0.010 : 0;
      step->forward_seconds += more;
      step->seconds += more;
      later += more;
    }
    record.seconds += later;
  }
  MadeSteps other = of;
  other.forward = 0.013;
  const SpeedAccount a = account_of(records, {}), b = account_of(made_journal(other), {});
  EXPECT_GT(a.error * 8, 0.0010);
  EXPECT_TRUE(difference_of(a, b).is_noise());
  EXPECT_EQ(b.error, account_of(made_journal(other), {}).error);
  EXPECT_LT(b.error, 1e-12);
}

}  // namespace
}  // namespace regatta::orchestrator::compare
