#include "orchestrator/plan/layouts.h"

#include <gmock/gmock.h>

#include <cmath>
#include <string>

#include "base/error.h"
#include "orchestrator/cli/plan_text.h"
#include "orchestrator/plan/compute_model.h"
#include "orchestrator/plan/planner.h"
#include "orchestrator/plan/stage_network.h"
#include "orchestrator/plan/step_model.h"
#include "tests/shared_data.h"
#include "tests/topology/sources/examples.h"
#include "topology/nccl/allocation.h"

namespace regatta::orchestrator {
namespace {

using testing::HasSubstr;
using testing::Not;
using topology::plan::PlanDecision;
using trainer::contract::RankGrid;

trainer::contract::RunConfig bert(const char* preset, int ranks, int batch) {
  trainer::contract::RunConfig config;
  config.model = trainer::contract::preset_shape(preset);
  config.model.vocabulary = 30522;
  config.data.path = "d";
  config.data.max_length = 512;
  config.dtype = trainer::contract::Precision::BFloat16;
  config.device = trainer::contract::DeviceKind::Cuda;
  config.ranks = ranks;
  config.batch_size = batch;
  return config;
}

plan::PlanRequest request(const char* cluster, int nodes, trainer::contract::RunConfig config) {
  plan::PlanRequest made;
  made.config = std::move(config);
  made.machines = topology::sources::generate(topology::example(cluster), nodes);
  return made;
}

const PlanDecision* find(const topology::plan::Plan& plan, const std::string& key) {
  for (const PlanDecision& each : plan.decisions) {
    if (each.key == key) return &each;
  }
  return nullptr;
}

topology::nccl::Allocation allocation(const char* cluster, int nodes, int ranks_per_node) {
  const topology::graph::Graph graph =
      topology::sources::generate(topology::example(cluster), nodes);
  return topology::nccl::allocation_of(graph, graph.of_kind(topology::graph::Kind::Node),
                                       ranks_per_node);
}

TEST(StageSeconds, OfAllStagesAreThoseOfTheModel) {
  plan::ComputeFigures figures;
  figures.peak_flops = 300e12;
  figures.memory_bytes_per_second = 1e12;
  figures.multiprocessors = 132;
  figures.kernel_seconds = 4e-6;
  for (const char* preset : {"base", "large"}) {
    const trainer::contract::ModelShape shape = bert(preset, 1, 1).model;
    const trainer::contract::BatchSizes batch{16, 4000, 1'200'000, 600};
    const plan::ComputeSeconds whole = plan::compute_seconds(shape, batch, figures);
    const plan::PartSeconds parts = plan::part_seconds(shape, batch, figures);
    for (const int stages : {1, 2, 5, 12}) {
      plan::ComputeSeconds sum;
      for (const auto& stage : trainer::contract::cut_stages(shape, batch, stages)) {
        const plan::ComputeSeconds seconds = plan::stage_seconds(parts, stage);
        sum.forward += seconds.forward;
        sum.backward += seconds.backward;
      }
      EXPECT_NEAR(sum.forward, whole.forward, 1e-12 * whole.forward);
      EXPECT_NEAR(sum.backward, whole.backward, 1e-12 * whole.backward);
    }
  }
}

// Hidden states of 4,096 tokens of BERT-base are 12.6 MB: over NVLink of 450 GB/s, or over the
// 50 GB/s of a NIC, which is one for each GPU of a DGX H100.
TEST(StageNetwork, SendsGoOverTheLinksOfTheMachines) {
  const topology::nccl::Allocation dgx = allocation("dgx-h100", 2, 8);
  const plan::StageNetwork network = plan::stage_network(dgx, nullptr, RankGrid{4, 4});
  ASSERT_EQ(network.sends.size(), 3U);
  constexpr double kBytes = 4096.0 * 768 * 4;
  const double within = network.sends[0].seconds(kBytes);
  const double across = network.sends[1].seconds(kBytes);
  EXPECT_EQ(network.sends[2].seconds(kBytes), within) << "stages 2 and 3 are on the second node";
  EXPECT_GT(within, kBytes / 450e9);
  EXPECT_LT(within, 3 * kBytes / 450e9 + 20e-6);
  EXPECT_GT(across, kBytes / 50e9);
  EXPECT_LT(across, 1.5 * kBytes / 50e9 + 50e-6);
  // Four replicas on a node sum among themselves; with eight on each of two nodes, over NVLink too.
  const double large = network.sums.sum.seconds(1e8);
  EXPECT_LT(large, 1e8 / 50e9) << "no NIC takes part";
  EXPECT_NEAR(plan::stage_network(allocation("dgx-h100", 2, 8), nullptr, RankGrid{8, 2})
                      .sums.sum.seconds(1e8) /
                  plan::network_of(allocation("dgx-h100", 1, 8), nullptr, false).sum.seconds(1e8),
              1, 1e-9);
  EXPECT_GT(network.ends.seconds(1e8), 1e8 / 50e9) << "the last stage is on the other node";
  // All of one replica on a node: nothing is left of the network.
  const plan::StageNetwork one =
      plan::stage_network(allocation("dgx-h100", 1, 8), nullptr, RankGrid{1, 8});
  EXPECT_EQ(one.sums.sum.seconds(1e9), 0);
  EXPECT_LT(one.ends.seconds(1e8), 1e8 / 50e9);
}

// A node of pcie-100gbe has four GPUs and one NIC.
TEST(StageNetwork, SendersOfANodeShareItsNics) {
  const topology::nccl::Allocation nodes = allocation("pcie-100gbe", 2, 4);
  const double alone = plan::stage_network(nodes, nullptr, RankGrid{1, 8}).sends[3].seconds(1e8);
  const double shared = plan::stage_network(nodes, nullptr, RankGrid{4, 2}).sends[0].seconds(1e8);
  EXPECT_NEAR(shared / alone, 4.0 / nodes.nics, 0.4);
  EXPECT_GT(shared, 1.5 * alone);
}

TEST(StageNetwork, RefusesStagesThatDoNotFillNodes) {
  const topology::nccl::Allocation dgx = allocation("dgx-h100", 3, 8);
  const auto refusal = [&](const RankGrid& grid) {
    try {
      (void)plan::stage_network(dgx, nullptr, grid);
    } catch (const base::Error& error) {
      EXPECT_EQ(error.code(), base::Code::User);
      return std::string(error.what());
    }
    return std::string("no error");
  };
  EXPECT_THAT(refusal({12, 2}), HasSubstr("the 12 replicas of a stage neither fill nodes of 8"));
  EXPECT_THAT(refusal({3, 8}), HasSubstr("the 3 replicas of a stage"));
  EXPECT_THAT(refusal({5, 3}), HasSubstr("data 5 x pipeline 3 has 15 ranks, and the machines "
                                         "have 24"));
  EXPECT_EQ(refusal({4, 6}), "no error");
}

TEST(Layouts, DataParallelWinsForBertBaseOnOneNode) {
  for (const char* cluster : {"dgx-h100", "dgx-a100", "hgx-h200"}) {
    SCOPED_TRACE(cluster);
    const plan::PlanReport report = plan::plan_run(request(cluster, 1, bert("base", 8, 256)));
    const PlanDecision* const layout = find(report.plan, "parallel.pipeline");
    ASSERT_NE(layout, nullptr);
    EXPECT_EQ(layout->choice, "1");
    EXPECT_EQ(layout->run_file, "1");
    ASSERT_EQ(layout->options.size(), 4U) << "1, 2, 4 and 8 stages";
    EXPECT_EQ(layout->options[0].step_seconds, report.plan.timeline->step_seconds);
    for (std::size_t i = 1; i < layout->options.size(); ++i) {
      EXPECT_GT(layout->options[i].step_seconds, layout->options[0].step_seconds);
    }
    EXPECT_THAT(layout->why, HasSubstr("data 8 x pipeline 1 is already the fastest by the model: "
                                       "the next, data 4 x pipeline 2 in micro-batches of "));
    EXPECT_THAT(layout->why, HasSubstr(" % longer, with a bubble of "));
    const double longer =
        100 * (layout->options[1].step_seconds / layout->options[0].step_seconds - 1);
    const std::size_t at = layout->why.find("would take ") + 11;
    EXPECT_NEAR(std::stod(layout->why.substr(at)), longer, 0.5 + 0.05 * longer);
    EXPECT_THAT(cli::plan_sentences(report), HasSubstr("parallel.pipeline: the run file has 1; "));
    EXPECT_THAT(cli::plan_table(report), HasSubstr("parallel.pipeline "));
    EXPECT_THAT(topology::plan::to_json(report.plan), HasSubstr("\"parallel.pipeline\""));
  }
}

TEST(Layouts, ARunFilesOwnLayoutIsComparedAndKept) {
  trainer::contract::RunConfig config = bert("base", 8, 256);
  config.parallel.pipeline = 4;
  config.micro_batch_size = 8;
  const plan::PlanReport report = plan::plan_run(request("dgx-h100", 1, config));
  EXPECT_THAT(report.stages, HasSubstr("4 stages of 3, 3, 3 and 3 layers, 2 replicas, 16 "
                                       "micro-batches of 8: the bubble is "));
  EXPECT_THAT(report.stages, HasSubstr("18.8 % with even stages"));
  const PlanDecision* const layout = find(report.plan, "parallel.pipeline");
  ASSERT_NE(layout, nullptr);
  EXPECT_EQ(layout->run_file, "4");
  EXPECT_EQ(layout->choice, "1");
  EXPECT_THAT(layout->why, HasSubstr("data 8 x pipeline 1 would save "));
  EXPECT_EQ(find(report.plan, "batch.micro"), nullptr) << "the run file says it";
  EXPECT_NEAR(layout->options[2].step_seconds, report.plan.timeline->step_seconds, 1e-12);
  // The same as planning the other one.
  config.parallel.pipeline = 1;
  const plan::PlanReport other = plan::plan_run(request("dgx-h100", 1, config));
  const PlanDecision* const back = find(other.plan, "parallel.pipeline");
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_NEAR(back->options[i].step_seconds, layout->options[i].step_seconds, 1e-12) << i;
  }
  // Buckets cover the table, which the trainer takes no plan without.
  const auto table = trainer::contract::make_tensor_table(config.model);
  const std::string json = topology::plan::to_json(report.plan);
  EXPECT_NO_THROW(
      (void)topology::plan::parse_plan(json, "plan", static_cast<int>(table.tensors.size())));
  // Told to take the choice, the run file has it; else it stays.
  config.parallel.pipeline = 4;
  const auto written =
      trainer::contract::parse_run_config(cli::planned_run_file(config, report.plan), "stdout");
  EXPECT_EQ(written.parallel.pipeline, 1);
  EXPECT_EQ(written.ranks, 8);
}

// Sums over 100 Gbit Ethernet take longer than the bubble.
TEST(Layouts, StagesWinWhereSumsAreSlow) {
  const trainer::contract::RunConfig config = bert("large", 16, 64);
  const plan::PlanReport report = plan::plan_run(request("pcie-100gbe", 4, config));
  const PlanDecision* const layout = find(report.plan, "parallel.pipeline");
  ASSERT_NE(layout, nullptr);
  EXPECT_EQ(layout->run_file, "1");
  EXPECT_NE(layout->choice, "1") << layout->why;
  EXPECT_THAT(layout->why, HasSubstr("stages have not been tried on GPUs yet"));
  const PlanDecision* const micro = find(report.plan, "batch.micro");
  ASSERT_NE(micro, nullptr);
  EXPECT_EQ(micro->run_file, "0");
  const auto written =
      trainer::contract::parse_run_config(cli::planned_run_file(config, report.plan), "stdout");
  EXPECT_EQ(std::to_string(written.parallel.pipeline), layout->choice);
  EXPECT_EQ(std::to_string(written.micro_batch_size), micro->choice);
  EXPECT_EQ(trainer::contract::rank_grid(written).ranks(), 16);
  // Planned as it says, it takes as long as was promised.
  const plan::PlanReport as_told = plan::plan_run(request("pcie-100gbe", 4, written));
  for (const PlanDecision::Option& option : layout->options) {
    if (option.value != layout->choice) continue;
    EXPECT_NEAR(as_told.plan.timeline->step_seconds, option.step_seconds, 1e-12);
  }
}

// A choice of stages leaves what they do not go with, or makes way for it: whichever is faster.
TEST(Layouts, ChoicesThatDoNotGoTogetherAreSettled) {
  const PlanDecision stages{"parallel.pipeline", "4", "1", "why", {{"1", 0.10}, {"4", 0.07}}};
  const PlanDecision micro{"batch.micro", "2", "0", "why", {}};
  const auto sharding = [](double seconds) {
    return PlanDecision{
        "sharding.optimizer", "true", "false", "why", {{"false", 0.10}, {"true", seconds}}};
  };
  std::vector<PlanDecision> decisions{sharding(0.08), stages, micro};
  plan::settle_layout(&decisions);
  ASSERT_EQ(decisions.size(), 3U);
  EXPECT_EQ(decisions[0].choice, "false");
  EXPECT_THAT(decisions[0].why, HasSubstr("does not go with the stages"));
  EXPECT_EQ(decisions[1].choice, "4");
  decisions = {sharding(0.06), stages, micro};
  plan::settle_layout(&decisions);
  ASSERT_EQ(decisions.size(), 2U) << "no micro-batches without stages";
  EXPECT_EQ(decisions[0].choice, "true");
  EXPECT_EQ(decisions[1].choice, "1");
  EXPECT_THAT(decisions[1].why, HasSubstr("sharding.optimizer true alone would save more"));
  const PlanDecision global{"clip.mode", "none", "global", "why", {{"none", 0.01}}};
  decisions = {global, stages, micro};
  plan::settle_layout(&decisions);
  EXPECT_EQ(decisions[0].choice, "none") << "goes with stages";
  EXPECT_EQ(decisions[1].choice, "4");
}

TEST(Layouts, WhatCannotBeComparedIsANote) {
  trainer::contract::RunConfig config = bert("base", 8, 256);
  config.micro_batch_size = 32;  // 1 micro-batch of data parallel ranks, 2 of pipeline 2, …
  const plan::PlanReport some = plan::plan_run(request("dgx-h100", 1, config));
  ASSERT_NE(find(some.plan, "parallel.pipeline"), nullptr);
  EXPECT_EQ(find(some.plan, "parallel.pipeline")->options.size(), 4U);
  config.micro_batch_size = 40;
  const plan::PlanReport fewer = plan::plan_run(request("dgx-h100", 1, config));
  EXPECT_THAT(cli::plan_table(fewer),
              HasSubstr("note: parallel.pipeline 8 was not compared: batch.micro makes 7 "
                        "micro-batches of the 256 samples that a replica has of a step, and "
                        "parallel.pipeline is 8; set batch.micro to at most 32\n"));
  config.micro_batch_size = 0;
  config.sharding.optimizer = true;
  const plan::PlanReport none = plan::plan_run(request("dgx-h100", 1, config));
  EXPECT_EQ(find(none.plan, "parallel.pipeline"), nullptr);
  EXPECT_THAT(cli::plan_table(none),
              HasSubstr("note: pipeline stages were not compared: sharding.optimizer does not go "
                        "with parallel.pipeline yet"));
  // Stages of 12 ranks on nodes of 8.
  const plan::PlanReport odd = plan::plan_run(request("dgx-h100", 3, bert("base", 24, 240)));
  EXPECT_THAT(cli::plan_table(odd), HasSubstr("parallel.pipeline 2 was not compared: the 12 "
                                              "replicas of a stage neither fill nodes of 8"));
  EXPECT_THAT(find(odd.plan, "parallel.pipeline")->why, Not(HasSubstr("pipeline 2 ")));
}

TEST(Layouts, RefusesARunThatCannotBe) {
  trainer::contract::RunConfig config = bert("base", 8, 256);
  config.parallel.pipeline = 4;
  config.micro_batch_size = 8;
  const auto refusal = [](const plan::PlanRequest& refused) {
    try {
      (void)plan::plan_run(refused);
    } catch (const base::Error& error) {
      EXPECT_EQ(error.code(), base::Code::User);
      return std::string(error.what());
    }
    return std::string("no error");
  };
  plan::PlanRequest unknown;
  unknown.config = config;
  EXPECT_THAT(refusal(unknown), HasSubstr("give a cluster (--cluster)"));
  config.ranks = 6;
  EXPECT_THAT(refusal(request("dgx-h100", 1, config)),
              HasSubstr("cannot plan the run: parallel.pipeline is 4, which does not divide ranks "
                        "(6)"));
}

}  // namespace
}  // namespace regatta::orchestrator
