#include "orchestrator/compare/speed_causes.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/orchestrator/compare/made_journal.h"

namespace regatta::orchestrator::compare {
namespace {

using Json = nlohmann::ordered_json;

Json environment() {
  return Json::parse(R"({
    "build": {"type": "Release", "compiler": "GNU 12.2.0"},
    "machine": {"processor": {"name": "EPYC"}, "usable_threads": 8},
    "devices": {"of_rank_0": {"kind": "cpu"}},
    "fabric": {"ranks": 2, "transport": "MPI"},
    "numerics": {"activations": "float32", "instruction_set": "avx512", "threads": 2},
    "data": {"fingerprint": "aa"}, "model": {"fingerprint": "bb", "parameters": 100},
    "configuration": {"batch": {"size": 8}, "evaluate": {"every": 100}, "data": {"max_length": 128},
                      "checkpoint": {"every": 200}, "statistics": {"every": 10}},
    "attempt": {"clocks": {"mean_mhz": 3000, "processor_pressure": 0.5}}
  })");
}

struct Compared {
  MadeSteps a, b;
  Json environment_a = environment(), environment_b = environment();
  AttemptLayout layout;

  [[nodiscard]] std::vector<LikelyCause> causes() const {
    const SpeedAccount one = account_of(made_journal(a), layout);
    const SpeedAccount other = account_of(made_journal(b), layout);
    return causes_of(difference_of(one, other), one, other, environment_a, environment_b);
  }
};

TEST(SpeedCauses, NothingThatDiffersIsNothing) {
  Compared equal;
  EXPECT_TRUE(equal.causes().empty());
  equal.environment_b["numerics"]["instruction_set"] = "avx2";  // but as fast
  EXPECT_TRUE(equal.causes().empty());
}

TEST(SpeedCauses, SlowerComputeIsOfTheLikeliestFact) {
  Compared of;
  of.b.backward = 0.030;
  of.environment_b["numerics"]["instruction_set"] = "avx2";
  of.environment_b["build"]["compiler"] = "GNU 13.1.0";
  of.environment_b["configuration"]["evaluate"]["every"] = 10;  // costs nothing here
  const std::vector<LikelyCause> causes = of.causes();
  ASSERT_EQ(causes.size(), 1U);
  EXPECT_EQ(causes[0].part, Part::Compute);
  EXPECT_EQ(causes[0].what, "another instruction set");
  EXPECT_NEAR(causes[0].seconds, 0.010 / 8, 1e-12);
  ASSERT_EQ(causes[0].evidence.size(), 2U);
  EXPECT_EQ(causes[0].evidence[0].key, "numerics instruction_set");
  EXPECT_EQ(causes[0].evidence[0].a, R"("avx512")");
  EXPECT_EQ(causes[0].evidence[0].b, R"("avx2")");
  EXPECT_EQ(causes[0].evidence[1].key, "build compiler");
}

TEST(SpeedCauses, WhatTheMachineDidIsTold) {
  Compared of;
  of.b.backward = 0.030;
  of.a.steps = of.b.steps = 400;  // 13 s and more
  of.environment_b["training"]["clocks"] = {{"mean_mhz", 2000}, {"processor_pressure", 60}};
  of.environment_a["training"]["clocks"] = {{"mean_mhz", 2950}, {"processor_pressure", 1}};
  std::vector<LikelyCause> causes = of.causes();
  ASSERT_EQ(causes.size(), 1U);
  EXPECT_EQ(causes[0].what, "others that used the same processors");
  ASSERT_EQ(causes[0].evidence.size(), 2U);
  EXPECT_EQ(causes[0].evidence[1].key, "training clocks mean_mhz");
  of.a.steps = 250;  // less than the pressure is a mean over
  EXPECT_EQ(of.causes()[0].what, "another clock of the processors");
  of.a.steps = 400;
  of.environment_b["training"]["clocks"] = {{"mean_mhz", 2900}, {"processor_pressure", 9}};
  causes = of.causes();
  ASSERT_EQ(causes.size(), 1U);
  EXPECT_EQ(causes[0].what, "nothing that their environments tell");
  EXPECT_TRUE(causes[0].evidence.empty());
}

TEST(SpeedCauses, MoreWorkIsNoSlowerCompute) {
  Compared of;
  of.b.flops = 2e9;
  of.b.tokens = 1500;
  of.b.forward = 0.020;
  of.b.backward = 0.040;
  of.environment_b["configuration"]["data"]["max_length"] = 512;
  const std::vector<LikelyCause> causes = of.causes();
  ASSERT_EQ(causes.size(), 1U);
  EXPECT_EQ(causes[0].what, "more work in a sample");
  ASSERT_EQ(causes[0].evidence.size(), 3U);
  EXPECT_EQ(causes[0].evidence[0].key, "tokens of a sample");
  EXPECT_EQ(causes[0].evidence[0].a, "100.0");
  EXPECT_EQ(causes[0].evidence[2].key, "configuration data max_length");
}

TEST(SpeedCauses, LessWorkIsTold) {
  Compared of;
  of.b.flops = 0.5e9;
  of.b.forward = 0.005;
  of.b.backward = 0.010;
  const std::vector<LikelyCause> causes = of.causes();
  ASSERT_EQ(causes.size(), 1U);
  EXPECT_EQ(causes[0].what, "less work in a sample");
  EXPECT_LT(causes[0].seconds, 0);
}

TEST(SpeedCauses, EachPartHasItsOwn) {
  Compared of;
  of.layout = {2, true};
  of.b.data = 0.010;
  of.b.reduce = 0.008;
  of.a.evaluate_every = of.b.evaluate_every = 20;
  of.a.evaluation = 0.01;
  of.b.evaluation = 0.3;
  of.environment_b["fabric"]["transport"] = "NCCL";
  of.environment_b["configuration"]["evaluate"]["samples"] = 4096;
  const std::vector<LikelyCause> causes = of.causes();
  ASSERT_EQ(causes.size(), 3U);
  EXPECT_EQ(causes[0].part, Part::Evaluation);  // 0.29 s of each 20 steps: 12 ms a step
  EXPECT_EQ(causes[0].what, "other evaluations");
  EXPECT_EQ(causes[0].evidence.back().key, "seconds of an evaluation");
  EXPECT_EQ(causes[0].evidence.back().b, "0.3");
  EXPECT_EQ(causes[1].part, Part::Input);
  EXPECT_EQ(causes[2].part, Part::Communication);
  EXPECT_EQ(causes[2].what, "another transport");
}

TEST(SpeedCauses, ThreadsThatWaitedForAProcessorHadNeighbours) {
  Compared of;
  of.b.backward = 0.030;
  of.environment_a["training"] = {{"waited_percent", 1.5}};
  of.environment_b["training"] = {{"waited_percent", 42.0}};
  ASSERT_EQ(of.causes().size(), 1U);
  EXPECT_EQ(of.causes()[0].what, "others that used the same processors");
  EXPECT_EQ(of.causes()[0].evidence[0].key, "training waited_percent");
  of.b.data = 0.008;  // and made its samples slower
  ASSERT_EQ(of.causes().size(), 2U);
  EXPECT_EQ(of.causes()[1].what, "others that used the same processors");
  of.environment_b["configuration"]["data"]["max_length"] = 64;  // which is likelier
  EXPECT_EQ(of.causes()[1].what, "other settings of data");
  EXPECT_EQ(of.causes()[1].evidence[0].key, "configuration data max_length");
  of = Compared();
  of.b.backward = 0.030;
  of.environment_a["training"] = {{"waited_percent", 1.5}};
  of.environment_b["training"] = {{"waited_percent", 6.4}};
  EXPECT_EQ(of.causes()[0].what, "nothing that their environments tell");
}

TEST(SpeedCauses, StarvationHasTheFiguresThatWouldEndIt) {
  Compared of;
  of.layout.ranks = 2;  // each has 4 of the 8 samples
  of.a.making = 0.001;
  of.b.making = 0.050, of.b.data = 0.016;
  of.environment_a["configuration"]["input"] = {{"workers", 4}};
  of.environment_b["configuration"]["input"] = {{"workers", 1}};
  const std::vector<LikelyCause> causes = of.causes();
  ASSERT_EQ(causes.size(), 1U);
  EXPECT_EQ(causes[0].part, Part::Input);
  EXPECT_EQ(causes[0].what, "other threads for samples, or steps ahead");
  ASSERT_EQ(causes[0].evidence.size(), 3U);
  EXPECT_EQ(causes[0].evidence[0].key, "configuration input workers");
  EXPECT_EQ(causes[0].evidence[1],
            (Evidence{"share of steps that waited for samples", "0.0", "1.0"}));
  EXPECT_EQ(causes[0].evidence[2].key, "samples that a thread of a rank makes in a second");
  EXPECT_NEAR(std::stod(causes[0].evidence[2].a), 4 / 0.001, 1e-6);
  EXPECT_NEAR(std::stod(causes[0].evidence[2].b), 4 / 0.050, 1e-6);
}

TEST(SpeedCauses, ASlowerDiskIsToldByWhatItWrote) {
  Compared of;
  of.a.save_every = of.b.save_every = 10;
  of.a.saved_bytes = of.b.saved_bytes = 30'000'000;
  of.a.writing = 0.05, of.a.syncing = 0.05;
  of.b.stall = 0.5, of.b.writing = 0.1, of.b.syncing = 0.2;
  std::vector<LikelyCause> causes = of.causes();
  ASSERT_EQ(causes.size(), 1U);
  EXPECT_EQ(causes[0].what, "a slower disk for checkpoints");
  EXPECT_EQ(causes[0].evidence[0].key, "bytes of checkpoints written in a second");
  EXPECT_NEAR(std::stod(causes[0].evidence[0].a), 30e6 / 0.1, 1);
  EXPECT_NEAR(std::stod(causes[0].evidence[0].b), 30e6 / 0.3, 1);
  of.b.syncing = 0.045;  // 207 MB/s: as good as the same
  EXPECT_EQ(of.causes()[0].what, "nothing that their environments tell");
  of.b.syncing = 0.2;
  of.environment_b["configuration"]["checkpoint"]["every"] = 20;  // comes first
  causes = of.causes();
  EXPECT_EQ(causes[0].what, "other checkpoints");
  EXPECT_EQ(causes[0].evidence[1].key, "bytes of checkpoints written in a second");
}

TEST(SpeedCauses, ASlowerLinkIsToldByWhatWasSummed) {
  Compared of;
  of.layout.ranks = 2;
  of.a.reduce = of.a.exposed = 0.001;
  of.b.reduce = of.b.exposed = 0.021;
  // 400 bytes a step: sums under way for 4 ms, where two overlap; then for 20 ms with a gap.
  of.a.launched = {0.010, 0.012}, of.a.finished = {0.013, 0.014};
  of.b.launched = {0.010, 0.030}, of.b.finished = {0.020, 0.040};
  std::vector<LikelyCause> causes = of.causes();
  ASSERT_EQ(causes.size(), 1U);
  EXPECT_EQ(causes[0].part, Part::Communication);
  EXPECT_EQ(causes[0].what, "a slower link between ranks");
  EXPECT_EQ(causes[0].evidence[0].key, "bytes of gradients summed in a second");
  EXPECT_NEAR(std::stod(causes[0].evidence[0].a), 400 / 0.004, 1);
  EXPECT_NEAR(std::stod(causes[0].evidence[0].b), 400 / 0.020, 1);
  of.environment_b["fabric"]["transport"] = "NCCL";  // comes first
  EXPECT_EQ(of.causes()[0].what, "another transport");
}

TEST(SpeedCauses, OfSectionsTheKeysThatDifferAreShown) {
  Compared of;
  of.a.save_every = of.b.save_every = 10;
  of.b.stall = 0.2;
  of.environment_a["configuration"]["checkpoint"] = {{"every", 10}, {"async", true}, {"keep", 1}};
  of.environment_b["configuration"]["checkpoint"] = {{"every", 10}, {"async", false}, {"most", 2}};
  const std::vector<LikelyCause> causes = of.causes();
  ASSERT_EQ(causes.size(), 1U);
  std::vector<std::string> keys;
  for (const Evidence& each : causes[0].evidence) keys.push_back(each.key);
  EXPECT_EQ(keys,
            (std::vector<std::string>{
                "configuration checkpoint async", "configuration checkpoint keep",
                "configuration checkpoint most", "seconds that a checkpoint stops training"}));
  EXPECT_EQ(causes[0].evidence[1].b, "null");
  EXPECT_EQ(causes[0].evidence[2].a, "null");
}

// What makes B faster stands beside what makes it slower.
TEST(SpeedCauses, BothDirectionsAreTold) {
  Compared of;
  of.b.backward = 0.030;
  of.b.optimizer = 0.001;
  of.environment_b["numerics"]["threads"] = 1;
  const std::vector<LikelyCause> causes = of.causes();
  ASSERT_EQ(causes.size(), 2U);
  EXPECT_GT(causes[0].seconds, 0);
  EXPECT_EQ(causes[1].part, Part::Optimizer);
  EXPECT_LT(causes[1].seconds, 0);
}

TEST(SpeedCauses, WithoutAFingerprintThatIsSaid) {
  Compared of;
  of.b.backward = 0.030;
  of.environment_a = Json();
  const std::vector<LikelyCause> causes = of.causes();
  ASSERT_EQ(causes.size(), 1U);
  EXPECT_EQ(causes[0].what, "not known: not both have a fingerprint of what they ran on");
  EXPECT_TRUE(causes[0].evidence.empty());
}

}  // namespace
}  // namespace regatta::orchestrator::compare
