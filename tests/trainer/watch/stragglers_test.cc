#include "trainer/watch/stragglers.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace regatta::tests {
namespace {

using trainer::contract::RanksRecord;
using trainer::watch::Stragglers;
using Changes = std::vector<Stragglers::Change>;

RanksRecord record(const std::vector<double>& seconds, std::int64_t tokens = 1000) {
  return {1, std::vector<std::int64_t>(seconds.size(), tokens), seconds};
}

// Of so many spans of a step each, all alike.
Changes after(Stragglers* stragglers, const RanksRecord& one, int steps) {
  Changes all;
  for (int i = 0; i < steps; ++i) {
    stragglers->add(one);
    for (const Stragglers::Change& change : stragglers->judge()) all.push_back(change);
  }
  return all;
}

TEST(Stragglers, OneIsToldOnceAndWhenItIsOver) {
  Stragglers stragglers;
  EXPECT_TRUE(after(&stragglers, record({1, 1, 1, 1.5}), 29).empty()) << "too soon";
  const Changes found = after(&stragglers, record({1, 1, 1, 1.5}), 100);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].rank, 3);
  EXPECT_TRUE(found[0].is_slow);
  EXPECT_DOUBLE_EQ(found[0].times, 1.5);
  EXPECT_EQ(
      describe(found[0], "node17"),
      "rank 3 (node17) is a straggler: it computes a token in 1.50 times what the other ranks "
      "take, and they wait for it in every step");
  EXPECT_TRUE(after(&stragglers, record({1, 1, 1, 1.2}), 100).empty()) << "between the limits";
  const Changes over = after(&stragglers, record({1, 1, 1, 1.05}), 100);
  ASSERT_EQ(over.size(), 1U);
  EXPECT_EQ(over[0].rank, 3);
  EXPECT_FALSE(over[0].is_slow);
  EXPECT_EQ(describe(over[0], "node17"),
            "rank 3 (node17) is no straggler any more: it computes as fast as the others");
}

TEST(Stragglers, OfTwoTheSlowOneIsNamed) {
  Stragglers stragglers;
  const Changes found = after(&stragglers, record({2, 3}), 30);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].rank, 1);
}

TEST(Stragglers, TwoOfFourDoNotHideEachOther) {
  Stragglers stragglers;
  const Changes found = after(&stragglers, record({1, 2, 2, 1}), 30);
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].rank, 1);
  EXPECT_EQ(found[1].rank, 2);
}

TEST(Stragglers, MoreTokensAreNoReason) {
  Stragglers stragglers;
  EXPECT_TRUE(after(&stragglers, {1, {1000, 1000, 2000}, {1, 1, 2}}, 100).empty());
}

TEST(Stragglers, WithoutAnythingToTellThereAreNone) {
  Stragglers stragglers;
  EXPECT_TRUE(after(&stragglers, record({7}), 100).empty()) << "alone";
  EXPECT_TRUE(after(&stragglers, {1, {1000, 1000}, {}}, 100).empty()) << "a GPU's";
  EXPECT_TRUE(after(&stragglers, {1, {0, 0}, {1, 9}}, 100).empty()) << "no tokens";
  EXPECT_TRUE(after(&stragglers, record({0, 0, 0}), 100).empty()) << "a clock that stands";
}

TEST(Stragglers, AnotherNumberOfRanksBeginsAnew) {
  Stragglers stragglers;
  EXPECT_TRUE(after(&stragglers, record({1, 1, 9}), 29).empty());
  EXPECT_TRUE(after(&stragglers, record({1, 9}), 29).empty());
  EXPECT_EQ(after(&stragglers, record({1, 9}), 1).size(), 1U);
}

// A rank that stands still in one step of ten is waited for as one that is slow in all.
TEST(Stragglers, PausesInEverySpanCount) {
  Stragglers stragglers;
  Changes found;
  for (int span = 0; span < 30; ++span) {
    for (int step = 0; step < 10; ++step) stragglers.add(record({1, step == 5 ? 11.0 : 1.0}));
    for (const Stragglers::Change& change : stragglers.judge()) found.push_back(change);
  }
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].rank, 1);
  EXPECT_DOUBLE_EQ(found[0].times, 2);
}

// What a busy machine does to healthy ranks: log-normal noise of 20 % on each step, a pause of ten
// times on one of twenty. An hour of it names nobody; 1.5 times is named within two windows.
TEST(Stragglers, NoiseNamesNobodyAndHidesNobody) {
  for (const int ranks : {2, 8, 64}) {
    std::mt19937_64 random(static_cast<std::uint64_t>(ranks));
    std::lognormal_distribution<double> noise(0, 0.2);
    std::bernoulli_distribution pause(0.05);
    const auto draw = [&](int slow) {
      std::vector<double> seconds;
      for (int rank = 0; rank < ranks; ++rank) {
        seconds.push_back(noise(random) * (pause(random) ? 10 : 1) * (rank == slow ? 1.5 : 1));
      }
      return record(seconds);
    };
    Stragglers healthy;
    for (int i = 0; i < 3600; ++i) EXPECT_TRUE(after(&healthy, draw(-1), 1).empty()) << ranks;
    Stragglers stragglers;
    Changes found;
    for (int i = 0; i < 60; ++i) {
      for (const Stragglers::Change& change : after(&stragglers, draw(1), 1))
        found.push_back(change);
    }
    ASSERT_FALSE(found.empty()) << ranks;
    EXPECT_EQ(found[0].rank, 1);
    EXPECT_NEAR(found[0].times, 1.5, 0.25);
  }
}

}  // namespace
}  // namespace regatta::tests
