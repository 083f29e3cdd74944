#include "orchestrator/slurm/job_requests.h"

#include <gtest/gtest.h>

namespace regatta::orchestrator {
namespace {

using Kind = slurm::JobRequest::Kind;

const slurm::JobHandle kOne{"1", "0123456789abcde1"};
const slurm::JobHandle kTwo{"2", "0123456789abcde2"};
const slurm::JobHandle kThree{"3", "0123456789abcde3"};

slurm::JobRequest stop(const slurm::JobHandle& job) { return {Kind::Stop, job}; }
slurm::JobRequest kill(const slurm::JobHandle& job) { return {Kind::Kill, job}; }
slurm::JobRequest avoid(const slurm::JobHandle& job, const std::string& node) {
  return {Kind::Avoid, job, {node}};
}

TEST(JobRequests, AreTakenInOrderKillsFirst) {
  slurm::JobRequests requests;
  EXPECT_FALSE(requests.take(0));
  requests.add(stop(kTwo), 0);
  requests.add(stop(kOne), 0);
  requests.add(kill(kThree), 0);
  EXPECT_EQ(requests.take(0), kill(kThree));
  EXPECT_EQ(requests.take(0), stop(kTwo));
  EXPECT_EQ(requests.take(0), stop(kOne));
  EXPECT_FALSE(requests.take(0));
  EXPECT_FALSE(requests.empty()) << "under way";
  for (const slurm::JobHandle& job : {kOne, kTwo}) requests.finish(stop(job));
  requests.finish(kill(kThree));
  EXPECT_TRUE(requests.empty());
}

TEST(JobRequests, RepeatedWishesDoNotPileUp) {
  slurm::JobRequests requests;
  for (int i = 0; i < 100; ++i) requests.add(stop(kOne), i);
  EXPECT_EQ(requests.take(100), stop(kOne));
  for (int i = 0; i < 100; ++i) requests.add(stop(kOne), i);
  EXPECT_FALSE(requests.take(200)) << "one command at a time";
  requests.finish(stop(kOne));
  EXPECT_TRUE(requests.empty()) << "what was asked for meanwhile is what was done";
}

TEST(JobRequests, AKillOvertakesAStop) {
  slurm::JobRequests requests;
  requests.add(stop(kOne), 0);
  requests.add(kill(kOne), 0);
  requests.add(stop(kOne), 0);
  EXPECT_EQ(requests.take(0), kill(kOne)) << "instead of the stop that waited";
  requests.finish(kill(kOne));
  EXPECT_TRUE(requests.empty());

  requests.add(stop(kOne), 0);
  ASSERT_TRUE(requests.take(0));
  requests.add(kill(kOne), 0);
  EXPECT_FALSE(requests.take(0)) << "one command at a time";
  requests.finish(stop(kOne), 10.0);
  EXPECT_EQ(requests.take(0), kill(kOne)) << "at once, and not the stop again";
  requests.add(stop(kOne), 0);
  requests.finish(kill(kOne));
  EXPECT_TRUE(requests.empty());
}

TEST(JobRequests, WhatFailedIsDueAgainLater) {
  slurm::JobRequests requests;
  requests.add(stop(kOne), 0);
  requests.finish(*requests.take(0), 10.0);
  requests.add(stop(kOne), 1);
  EXPECT_FALSE(requests.take(9)) << "asked for again, it still pauses";
  requests.add(kill(kOne), 9);
  EXPECT_EQ(requests.take(9), kill(kOne)) << "something else does not";
  requests.finish(kill(kOne), 20.0);
  EXPECT_FALSE(requests.take(19));
  EXPECT_EQ(requests.take(20), kill(kOne));
}

TEST(JobRequests, TellSinceWhenTheyWait) {
  slurm::JobRequests requests;
  EXPECT_EQ(requests.waits_since(kOne.token), std::nullopt);
  requests.add(stop(kOne), 5);
  requests.finish(*requests.take(5), 10.0);
  requests.add(kill(kOne), 9);
  EXPECT_EQ(requests.waits_since(kOne.token), 5);
  requests.finish(*requests.take(9), 30.0);
  requests.hurry(11);
  EXPECT_EQ(requests.take(11), kill(kOne)) << "Slurm answers again";
  EXPECT_EQ(requests.waits_since(kOne.token), 5);
  requests.finish(kill(kOne));
  EXPECT_EQ(requests.waits_since(kOne.token), std::nullopt);
}

TEST(JobRequests, TheNewestNodesCount) {
  slurm::JobRequests requests;
  requests.add(avoid(kOne, "a"), 0);
  requests.add(avoid(kOne, "b"), 0);
  EXPECT_EQ(requests.take(0), avoid(kOne, "b"));
  requests.add(avoid(kOne, "b"), 0);
  requests.add(avoid(kOne, "c"), 0);
  requests.finish(avoid(kOne, "b"));
  EXPECT_EQ(requests.take(0), avoid(kOne, "c"));
  requests.finish(avoid(kOne, "c"));
  EXPECT_TRUE(requests.empty());
}

TEST(JobRequests, AJobThatIsOverIsForgotten) {
  slurm::JobRequests requests;
  requests.forget(kOne.token);
  requests.add(stop(kOne), 0);
  requests.forget(kOne.token);
  EXPECT_TRUE(requests.empty());
  requests.add(stop(kOne), 0);
  ASSERT_TRUE(requests.take(0));
  requests.add(kill(kOne), 0);
  requests.forget(kOne.token);
  EXPECT_FALSE(requests.take(0));
  requests.finish(stop(kOne));
  EXPECT_TRUE(requests.empty());
}

}  // namespace
}  // namespace regatta::orchestrator
