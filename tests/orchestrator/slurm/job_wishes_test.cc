#include "orchestrator/slurm/job_wishes.h"

#include <gtest/gtest.h>

namespace regatta::orchestrator {
namespace {

using Kind = slurm::JobWish::Kind;

const slurm::JobHandle kOne{"1", "0123456789abcde1"};
const slurm::JobHandle kTwo{"2", "0123456789abcde2"};
const slurm::JobHandle kThree{"3", "0123456789abcde3"};

slurm::JobWish stop(const slurm::JobHandle& job) { return {Kind::Stop, job}; }
slurm::JobWish kill(const slurm::JobHandle& job) { return {Kind::Kill, job}; }
slurm::JobWish avoid(const slurm::JobHandle& job, const std::string& node) {
  return {Kind::Avoid, job, {node}};
}

TEST(JobWishes, AreTakenInOrderKillsFirst) {
  slurm::JobWishes wishes;
  EXPECT_FALSE(wishes.take(0));
  wishes.add(stop(kTwo), 0);
  wishes.add(stop(kOne), 0);
  wishes.add(kill(kThree), 0);
  EXPECT_EQ(wishes.take(0), kill(kThree));
  EXPECT_EQ(wishes.take(0), stop(kTwo));
  EXPECT_EQ(wishes.take(0), stop(kOne));
  EXPECT_FALSE(wishes.take(0));
  EXPECT_FALSE(wishes.empty()) << "under way";
  for (const slurm::JobHandle& job : {kOne, kTwo}) wishes.finish(stop(job));
  wishes.finish(kill(kThree));
  EXPECT_TRUE(wishes.empty());
}

TEST(JobWishes, RepeatedWishesDoNotPileUp) {
  slurm::JobWishes wishes;
  for (int i = 0; i < 100; ++i) wishes.add(stop(kOne), i);
  EXPECT_EQ(wishes.take(100), stop(kOne));
  for (int i = 0; i < 100; ++i) wishes.add(stop(kOne), i);
  EXPECT_FALSE(wishes.take(200)) << "one command at a time";
  wishes.finish(stop(kOne));
  EXPECT_TRUE(wishes.empty()) << "what was asked for meanwhile is what was done";
}

TEST(JobWishes, AKillOvertakesAStop) {
  slurm::JobWishes wishes;
  wishes.add(stop(kOne), 0);
  wishes.add(kill(kOne), 0);
  wishes.add(stop(kOne), 0);
  EXPECT_EQ(wishes.take(0), kill(kOne)) << "instead of the stop that waited";
  wishes.finish(kill(kOne));
  EXPECT_TRUE(wishes.empty());

  wishes.add(stop(kOne), 0);
  ASSERT_TRUE(wishes.take(0));
  wishes.add(kill(kOne), 0);
  EXPECT_FALSE(wishes.take(0)) << "one command at a time";
  wishes.finish(stop(kOne), 10.0);
  EXPECT_EQ(wishes.take(0), kill(kOne)) << "at once, and not the stop again";
  wishes.add(stop(kOne), 0);
  wishes.finish(kill(kOne));
  EXPECT_TRUE(wishes.empty());
}

TEST(JobWishes, WhatFailedIsDueAgainLater) {
  slurm::JobWishes wishes;
  wishes.add(stop(kOne), 0);
  wishes.finish(*wishes.take(0), 10.0);
  wishes.add(stop(kOne), 1);
  EXPECT_FALSE(wishes.take(9)) << "asked for again, it still pauses";
  wishes.add(kill(kOne), 9);
  EXPECT_EQ(wishes.take(9), kill(kOne)) << "something else does not";
  wishes.finish(kill(kOne), 20.0);
  EXPECT_FALSE(wishes.take(19));
  EXPECT_EQ(wishes.take(20), kill(kOne));
}

TEST(JobWishes, TellSinceWhenTheyWait) {
  slurm::JobWishes wishes;
  EXPECT_EQ(wishes.waits_since(kOne.token), std::nullopt);
  wishes.add(stop(kOne), 5);
  wishes.finish(*wishes.take(5), 10.0);
  wishes.add(kill(kOne), 9);
  EXPECT_EQ(wishes.waits_since(kOne.token), 5);
  wishes.finish(*wishes.take(9), 30.0);
  wishes.hurry(11);
  EXPECT_EQ(wishes.take(11), kill(kOne)) << "Slurm answers again";
  EXPECT_EQ(wishes.waits_since(kOne.token), 5);
  wishes.finish(kill(kOne));
  EXPECT_EQ(wishes.waits_since(kOne.token), std::nullopt);
}

TEST(JobWishes, TheNewestNodesCount) {
  slurm::JobWishes wishes;
  wishes.add(avoid(kOne, "a"), 0);
  wishes.add(avoid(kOne, "b"), 0);
  EXPECT_EQ(wishes.take(0), avoid(kOne, "b"));
  wishes.add(avoid(kOne, "b"), 0);
  wishes.add(avoid(kOne, "c"), 0);
  wishes.finish(avoid(kOne, "b"));
  EXPECT_EQ(wishes.take(0), avoid(kOne, "c"));
  wishes.finish(avoid(kOne, "c"));
  EXPECT_TRUE(wishes.empty());
}

TEST(JobWishes, AJobThatIsOverIsForgotten) {
  slurm::JobWishes wishes;
  wishes.forget(kOne.token);
  wishes.add(stop(kOne), 0);
  wishes.forget(kOne.token);
  EXPECT_TRUE(wishes.empty());
  wishes.add(stop(kOne), 0);
  ASSERT_TRUE(wishes.take(0));
  wishes.add(kill(kOne), 0);
  wishes.forget(kOne.token);
  EXPECT_FALSE(wishes.take(0));
  wishes.finish(stop(kOne));
  EXPECT_TRUE(wishes.empty());
}

}  // namespace
}  // namespace regatta::orchestrator
