// Where the time went: adds up to the whole, and is what one sees who looks at every moment.
#include "orchestrator/runs/time_account.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace regatta::orchestrator::runs {
namespace {

TEST(TimeAccount, OfARunOfTwoAttempts) {
  const TimeAccount account = account_of(1000, 1100, {{1010, 5, 40, 30}, {1060, 2, 30, 20}});
  EXPECT_DOUBLE_EQ(account.whole, 100);
  EXPECT_DOUBLE_EQ(account.waiting, 10 + 10 + 10);
  EXPECT_DOUBLE_EQ(account.starting, 5 + 2);
  EXPECT_DOUBLE_EQ(account.training, 30 + 20);
  EXPECT_DOUBLE_EQ(account.other, 5 + 8);
}

TEST(TimeAccount, OfARunThatWaits) {
  EXPECT_DOUBLE_EQ(account_of(1000, 1007, {}).waiting, 7);
  EXPECT_DOUBLE_EQ(account_of(1000, 999, {}).whole, 0) << "a clock that went back";
}

// Attempts as they really are: apart. Each moment is looked at.
TEST(TimeAccount, IsWhatEveryMomentSays) {
  std::mt19937 dice(3);
  const auto below = [&](double limit) { return std::uniform_real_distribution(0.0, limit)(dice); };
  for (int round = 0; round < 50; ++round) {
    std::vector<AttemptTime> attempts;
    double at = 1000;
    for (int i = 0; i < round % 5; ++i) {
      AttemptTime attempt;
      attempt.start_utc = at + below(10);
      attempt.end = below(30);
      attempt.first_step = below(attempt.end);
      attempt.training = below(attempt.end - attempt.first_step);
      at = attempt.start_utc + attempt.end;
      attempts.push_back(attempt);
    }
    const double end = at + below(5);
    const TimeAccount account = account_of(1000, end, attempts);
    double waiting = 0, starting = 0, stepping = 0;
    constexpr int kMoments = 20'000;
    for (int i = 0; i < kMoments; ++i) {
      const double now = 1000 + (end - 1000) * (i + 0.5) / kMoments;
      double* where = &waiting;
      for (const AttemptTime& attempt : attempts) {
        const double since = now - attempt.start_utc;
        if (since < 0 || since > attempt.end) continue;
        where = since < attempt.first_step ? &starting : &stepping;
      }
      *where += (end - 1000) / kMoments;
    }
    const double close = 0.02;
    EXPECT_NEAR(account.waiting, waiting, close);
    EXPECT_NEAR(account.starting, starting, close);
    EXPECT_NEAR(account.training + account.other, stepping, close);
    double training = 0;
    for (const AttemptTime& attempt : attempts) training += attempt.training;
    EXPECT_NEAR(account.training, training, 1e-9);
  }
}

TEST(TimeAccount, AddsUpWhateverTheClocksSay) {
  std::mt19937 dice(4);
  const auto any = [&] { return std::uniform_real_distribution(-100.0, 200.0)(dice); };
  for (int round = 0; round < 2000; ++round) {
    std::vector<AttemptTime> attempts;
    for (int i = 0; i < round % 6; ++i) attempts.push_back({1000 + any(), any(), any(), any()});
    const TimeAccount account = account_of(1000, 1000 + any(), attempts);
    EXPECT_NEAR(account.waiting + account.starting + account.training + account.other,
                account.whole, 1e-9);
    EXPECT_GE(std::min({account.waiting, account.starting, account.training, account.other}),
              -1e-9);
  }
}

}  // namespace
}  // namespace regatta::orchestrator::runs
