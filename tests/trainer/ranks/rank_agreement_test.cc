#include "trainer/ranks/rank_agreement.h"

#include <gtest/gtest.h>

#include <atomic>

#include "tests/trainer/ranks/thread_ranks.h"

namespace regatta::tests {
namespace {

using namespace regatta::trainer;  // the subject

TEST(RankAgreement, WhatFailsOnOneFailsOnAllWithItsWords) {
  ThreadRanks world(4);
  std::atomic<int> thrown = 0;
  world.run([&](ranks::Communicator& ranks) {
    ranks::run_on_all_ranks(ranks.host(), [] {});  // nothing fails: nothing is thrown
    try {
      ranks::run_on_all_ranks(ranks.host(), [&] {
        if (ranks.rank() >= 2) {
          throw base::Error(base::Code::User, "no data on " + std::to_string(ranks.rank()));
        }
      });
    } catch (const ranks::AgreedError& error) {
      ++thrown;
      EXPECT_EQ(error.code(), base::Code::User);
      EXPECT_STREQ(error.what(), "rank 2: no data on 2");
    }
    ranks.host().barrier();  // and they go on together
  });
  EXPECT_EQ(thrown, 4);
}

TEST(RankAgreement, AnyExceptionIsABugWithWords) {
  ThreadRanks world(2);
  world.run([&](ranks::Communicator& ranks) {
    try {
      ranks::run_on_all_ranks(ranks.host(), [&] {
        if (ranks.rank() == 0) throw std::runtime_error(std::string(5000, 'x'));
      });
      ADD_FAILURE();
    } catch (const ranks::AgreedError& error) {
      EXPECT_EQ(error.code(), base::Code::Developer);
      EXPECT_EQ(std::string(error.what()), std::string(1000, 'x'));
    }
  });
}

TEST(RankAgreement, DifferencesAreNamed) {
  ThreadRanks world(3);
  world.run([&](ranks::Communicator& ranks) {
    ranks::same_everywhere(ranks.host(), "the program", "1.0");
    try {
      ranks::same_everywhere(ranks.host(), "the program", ranks.rank() == 2 ? "1.1" : "1.0");
      ADD_FAILURE();
    } catch (const ranks::AgreedError& error) {
      EXPECT_EQ(error.code(), base::Code::Operator);
      const std::string words = error.what();
      EXPECT_NE(words.find("the program differs: rank 0 has 1.0, rank 2 has 1.1"),
                std::string::npos)
          << words;
    }
  });
}

TEST(RankAgreement, TheFirstRanksTextReachesAll) {
  ThreadRanks world(3);
  world.run([&](ranks::Communicator& ranks) {
    const std::string own = ranks.rank() == 0 ? "a plan\nof two lines" : "other";
    EXPECT_EQ(ranks::text_of_rank_0(ranks.host(), own), "a plan\nof two lines");
    EXPECT_EQ(ranks::text_of_rank_0(ranks.host(), ranks.rank() == 0 ? "" : "x"), "");
  });
}

}  // namespace
}  // namespace regatta::tests
