#include "orchestrator/plan/planner.h"

#include <gmock/gmock.h>

#include <cmath>
#include <set>

#include "base/error.h"
#include "orchestrator/cli/plan_text.h"
#include "orchestrator/plan/plan_decisions.h"
#include "orchestrator/plan/plan_seats.h"
#include "tests/shared_data.h"
#include "tests/topology/nccl/allocations.h"
#include "tests/topology/sources/examples.h"
#include "topology/nccl/allocation.h"

namespace regatta::orchestrator {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using topology::graph::Graph;
using topology::nccl::Collective;
using topology::plan::PlanDecision;

trainer::contract::RunConfig bert(const char* preset, int ranks, int samples_per_rank) {
  trainer::contract::RunConfig config;
  config.model = trainer::contract::preset_shape(preset);
  config.model.vocabulary = 30522;
  config.data.max_length = 512;
  config.dtype = trainer::contract::Precision::BFloat16;
  config.device = trainer::contract::DeviceKind::Cuda;
  config.ranks = ranks;
  config.batch_size = ranks * samples_per_rank;
  config.optimizer.kind = trainer::contract::OptimizerKind::Lamb;
  return config;
}

Graph machines(const char* name, int nodes) {
  return topology::sources::generate(topology::example(name), nodes);
}

plan::PlanRequest request(const char* cluster, int nodes, int ranks) {
  plan::PlanRequest made;
  made.config = bert("large", ranks, 16);
  made.machines = machines(cluster, nodes);
  return made;
}

trainer::contract::LengthTable wikipedia() {
  const std::string file = REGATTA_SOURCE_DIR "/tests/data/lengths_wikipedia_512.csv";
  return trainer::contract::LengthTable::parse(tests::file_text(file), file);
}

const PlanDecision& decision(const topology::plan::Plan& plan, const std::string& key) {
  for (const PlanDecision& each : plan.decisions) {
    if (each.key == key) return each;
  }
  throw std::runtime_error("no decision on " + key);
}

std::string refusal(const plan::PlanRequest& refused) {
  try {
    (void)plan::plan_run(refused);
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), base::Code::User);
    return error.what();
  }
  return "no error";
}

TEST(Planner, PlansEveryExampleCluster) {
  struct Row {
    const char* cluster;
    int nodes, ranks;
  };
  for (const Row& row : {Row{"pcie-100gbe", 4, 16}, Row{"dgx-a100", 8, 64}, Row{"dgx-h100", 8, 64},
                         Row{"hgx-h200", 1, 8}, Row{"gb200-nvl72", 18, 72}}) {
    SCOPED_TRACE(row.cluster);
    const plan::PlanReport report = plan::plan_run(request(row.cluster, row.nodes, row.ranks));
    const topology::plan::Plan& plan = report.plan;
    EXPECT_EQ(plan.ranks, row.ranks);
    EXPECT_FALSE(plan.measured);
    EXPECT_THAT(report.notes, IsEmpty());
    ASSERT_TRUE(plan.timeline);
    EXPECT_EQ(plan.timeline->buckets.size(), plan.buckets.size());
    EXPECT_GT(plan.timeline->step_seconds, 0);
    ASSERT_EQ(plan.seats.size(), static_cast<std::size_t>(row.ranks));
    EXPECT_NE(plan.seats.front().nic, "");
    std::set<std::string> names;
    int chosen = 0;
    for (const auto& cut : plan.alternatives) {
      names.insert(cut.name);
      if (cut.name != plan.cut) continue;
      ++chosen;
      EXPECT_EQ(cut.buckets, static_cast<int>(plan.buckets.size()));
    }
    EXPECT_EQ(chosen, 1) << plan.cut;
    EXPECT_THAT(names, testing::IsSupersetOf({"25 MB", "one bucket", "Megatron-Core's rule",
                                              "as ready", "programme"}));
    for (const PlanDecision& each : plan.decisions) {
      EXPECT_FALSE(each.why.empty());
      EXPECT_GE(each.options.size(), 2U);
    }
    const auto tensors = static_cast<int>(report.inputs.tensors.size());
    const topology::plan::Plan back =
        topology::plan::parse_plan(topology::plan::to_json(plan), "plan.json", tensors);
    EXPECT_EQ(topology::plan::to_json(back), topology::plan::to_json(plan));
    EXPECT_EQ(
        topology::plan::to_json(plan::plan_run(request(row.cluster, row.nodes, row.ranks)).plan),
        topology::plan::to_json(plan))
        << "the same request gives the same plan";
  }
}

TEST(Planner, FastLinksWaitLessThanSlowOnes) {
  const auto exposed = [](const char* cluster, int nodes, int ranks) {
    return plan::plan_run(request(cluster, nodes, ranks)).plan.timeline->exposed_seconds;
  };
  EXPECT_GT(exposed("pcie-100gbe", 16, 64), 5 * exposed("dgx-h100", 8, 64));
}

TEST(Planner, OneRankHasOneBucketAndNothingToDecide) {
  const plan::PlanReport report = plan::plan_run(request("dgx-h100", 1, 1));
  EXPECT_EQ(report.plan.buckets.size(), 1U);
  EXPECT_EQ(report.plan.timeline->exposed_seconds, 0);
  EXPECT_THAT(report.plan.decisions, IsEmpty());
}

TEST(Planner, RefusesWhatItCannotPlan) {
  plan::PlanRequest one = request("dgx-a100", 2, 24);
  EXPECT_THAT(refusal(one), HasSubstr("needs 3 nodes with 8 GPUs, and there are 2"));
  one = request("dgx-a100", 2, 12);
  EXPECT_THAT(refusal(one), HasSubstr("12 ranks do not fill nodes of 8"));
  one = request("dgx-a100", 2, 16);
  one.machines = Graph();
  EXPECT_THAT(refusal(one), HasSubstr("the speed of the devices is unknown"));
  one.config.peak_tflops = 1;
  EXPECT_THAT(refusal(one), HasSubstr("nothing is known of the machines; give a cluster"));
  one.config.ranks = 1 << 20;
  EXPECT_THAT(refusal(one), HasSubstr("use 1 to 65536"));
  one = request("dgx-a100", 2, 16);
  one.config.model.vocabulary = 0;
  EXPECT_THAT(refusal(one), HasSubstr("without the vocabulary"));
}

// A log of 16 ranks that took twice what NCCL's model reckons, at every size.
plan::MeasuredLog log_of(const char* name, const topology::nccl::CostModel& model, int ranks,
                         double factor) {
  plan::MeasuredLog measured{name, {}};
  measured.log.collective = Collective::AllReduce;
  measured.log.ranks = ranks;
  for (std::uint64_t bytes = 1024; bytes <= (std::uint64_t{1} << 31); bytes *= 2) {
    topology::nccl::NcclTestRow row;
    row.bytes = bytes;
    row.in_place_us = factor * model.choice({.bytes = bytes}).us;
    measured.log.rows.push_back(row);
  }
  return measured;
}

TEST(Planner, MeasurementsReplaceTheModel) {
  plan::PlanRequest with = request("dgx-a100", 2, 16);
  const plan::NodeChoice choice = plan::choose_nodes(with.machines, with.config);
  const topology::nccl::CostModel model(
      topology::nccl::allocation_of(with.machines, choice.nodes, choice.ranks_per_node));
  with.measured = {log_of("ours.log", model, 16, 1.5), log_of("other.log", model, 32, 1.5)};
  const plan::PlanReport slow = plan::plan_run(with);
  EXPECT_TRUE(slow.plan.measured);
  ASSERT_EQ(slow.notes.size(), 1U);
  EXPECT_THAT(slow.notes.front(), HasSubstr("other.log was left out: "));
  const plan::PlanReport prior = plan::plan_run(request("dgx-a100", 2, 16));
  const auto longest = [](const plan::PlanReport& report) {
    const auto curve = report.plan.timeline->communication_seconds;
    return curve;
  };
  // Of the same cut it would be 1.5 times as long.
  if (slow.plan.buckets.size() == prior.plan.buckets.size()) {
    EXPECT_NEAR(longest(slow) / longest(prior), 1.5, 0.05);
  }
  EXPECT_GE(slow.plan.timeline->step_seconds, prior.plan.timeline->step_seconds);
}

TEST(Planner, WithoutMachinesALogIsEnough) {
  plan::PlanRequest with = request("dgx-a100", 2, 16);
  const plan::NodeChoice choice = plan::choose_nodes(with.machines, with.config);
  const topology::nccl::CostModel model(
      topology::nccl::allocation_of(with.machines, choice.nodes, choice.ranks_per_node));
  plan::PlanRequest without = with;
  without.machines = Graph();
  without.config.peak_tflops = 312;
  without.measured = {log_of("ours.log", model, 16, 1)};
  const plan::PlanReport report = plan::plan_run(without);
  EXPECT_TRUE(report.plan.measured);
  EXPECT_THAT(report.machines, HasSubstr("as measured"));
  EXPECT_THAT(report.plan.seats, IsEmpty());
  without.measured = {log_of("other.log", model, 8, 1)};
  EXPECT_THAT(refusal(without), HasSubstr("an all-reduce measured on 16 ranks"));
}

// A log of sums that take 50 us and a microsecond for 100 kB.
plan::MeasuredLog line_log(int ranks) {
  plan::MeasuredLog measured{"line.log", {}};
  measured.log.collective = Collective::AllReduce;
  measured.log.ranks = ranks;
  for (std::uint64_t bytes = 1024; bytes <= (std::uint64_t{1} << 31); bytes *= 2) {
    topology::nccl::NcclTestRow row;
    row.bytes = bytes;
    row.in_place_us = 50 + static_cast<double>(bytes) / 1e5;
    measured.log.rows.push_back(row);
  }
  return measured;
}
plan::PlanRequest without_machines(int ranks) {
  plan::PlanRequest made;
  made.config = bert("large", ranks, 16);
  made.config.peak_tflops = 312;
  made.measured = {line_log(ranks)};
  return made;
}

TEST(Planner, SumsTakeWhatTheModelOrTheLogSays) {
  const plan::PlanReport measured = plan::plan_run(without_machines(16));
  for (const topology::plan::BucketSpan& span : measured.plan.timeline->buckets) {
    EXPECT_NEAR(span.end_seconds - span.start_seconds,
                50e-6 + static_cast<double>(span.bytes) / 100e9, 1e-9);
  }
  const plan::PlanRequest with = request("dgx-a100", 2, 16);
  const plan::NodeChoice choice = plan::choose_nodes(with.machines, with.config);
  const topology::nccl::CostModel model(
      topology::nccl::allocation_of(with.machines, choice.nodes, choice.ranks_per_node));
  const auto seconds_of = [&](double bytes) {
    return 1e-6 * model.choice({.bytes = static_cast<std::uint64_t>(bytes)}).us;
  };
  // The curve has a point at every quarter of an octave.
  const plan::PlanReport report = plan::plan_run(with);
  for (const topology::plan::BucketSpan& span : report.plan.timeline->buckets) {
    const auto bytes = static_cast<double>(span.bytes);
    EXPECT_GE(span.end_seconds - span.start_seconds, seconds_of(bytes / std::exp2(0.25)));
    EXPECT_LE(span.end_seconds - span.start_seconds, seconds_of(bytes * std::exp2(0.25)));
  }
}

// An all-reduce is a reduce-scatter and a gather, so half of it is the first.
TEST(Planner, AShardedRunReducesAndScatters) {
  plan::PlanRequest with = without_machines(16);
  with.config.sharding.optimizer = true;
  const plan::PlanReport report = plan::plan_run(with);
  for (const topology::plan::BucketSpan& span : report.plan.timeline->buckets) {
    EXPECT_NEAR(span.end_seconds - span.start_seconds,
                25e-6 + static_cast<double>(span.bytes) / 200e9, 1e-9);
  }
}

TEST(Planner, PassesOverNodesWithTooFewGpus) {
  Graph graph;
  for (const auto& [name, gpus] : {std::pair("a", 2), std::pair("b", 4), std::pair("c", 4)}) {
    const topology::graph::VertexIndex node = graph.add(topology::graph::Kind::Node, name);
    for (int i = 0; i < gpus; ++i) {
      graph.add(topology::graph::Kind::Gpu, name + ("/gpu#" + std::to_string(i)), node);
    }
  }
  trainer::contract::RunConfig config = bert("base", 8, 1);
  config.ranks_per_node = 4;
  EXPECT_THAT(plan::choose_nodes(graph, config).nodes,
              ElementsAre(graph.find("b"), graph.find("c")));
}

// Half of the samples have 100 tokens, half 300: 200 in the mean, and squares of 50,000.
TEST(Planner, TakesTheMomentsOfItsLengths) {
  plan::PlanRequest with = without_machines(16);
  with.given.efficiency = 0.5;
  with.lengths = trainer::contract::LengthTable::parse("100,100,1\n300,300,1\n", "lengths");
  plan::PlanFigures figures;
  figures.peak_flops = 312e12;
  figures.efficiency = 0.5;
  figures.mean_tokens = 200;
  figures.mean_squared_tokens = 50'000;
  EXPECT_DOUBLE_EQ(plan::plan_run(with).inputs.compute_seconds,
                   plan::plan_inputs(with.config, figures).compute_seconds);
}

// Uneven shares lengthen the step as much as the slowest rank's; a part of it is no rank's share,
// and few samples fill a device less.
TEST(Planner, TheSlowestRankDecides) {
  const auto wiki = wikipedia();
  const auto compute = [&](trainer::contract::Balance strategy) {
    plan::PlanRequest with = request("dgx-h100", 1, 8);
    with.lengths = wiki;
    with.config.balance.strategy = strategy;
    return plan::plan_run(with).inputs.compute_seconds;
  };
  const trainer::contract::RunConfig config = bert("large", 8, 16);
  const double uneven = plan::imbalance_of(config, trainer::contract::Balance::None, 8, wiki) - 1;
  ASSERT_GT(uneven, 0.1);
  const double longer = compute(trainer::contract::Balance::None) /
                            compute(trainer::contract::Balance::GlobalPresort) -
                        1;
  EXPECT_GT(longer, uneven / 2);
  EXPECT_LT(longer, uneven * 3 / 2);
}

TEST(Planner, TakesOnlyStoredPlansThatFit) {
  plan::PlanRequest with = request("dgx-a100", 2, 16);
  const int tensors = plan::plan_run(with).plan.buckets.back().end_tensor;
  const auto stored = [&](const char* why, int ranks, double utc_seconds) {
    topology::plan::StoredPlan plan;
    plan.key = {"",        "NCCL 2.28.9",
                "an A100", trainer::contract::model_fingerprint(with.config.model),
                ranks,     8};
    plan.plan.ranks = ranks;
    plan.plan.buckets = {{0, 1}, {1, tensors}};
    plan.plan.why = why;
    plan.utc_seconds = utc_seconds;
    return plan;
  };
  with.stored = {stored("the older one", 16, 5), stored("the newer one", 16, 6),
                 stored("of more ranks", 32, 9), stored("the oldest one", 16, 4)};
  EXPECT_THAT(plan::plan_run(with).plan.why, HasSubstr("the newer one"));
  with.stored = {stored("of more ranks", 32, 9)};
  EXPECT_THAT(plan::plan_run(with).plan.why, Not(HasSubstr("of more ranks")));
}

// NCCL's own choice was measured twice as slow as the model says, ring with Simple as fast as it
// says.
TEST(Planner, NcclIsToldWhatWasMeasuredToBeFaster) {
  plan::PlanRequest with = request("dgx-a100", 2, 16);
  const plan::NodeChoice choice = plan::choose_nodes(with.machines, with.config);
  const topology::nccl::CostModel model(
      topology::nccl::allocation_of(with.machines, choice.nodes, choice.ranks_per_node));
  plan::MeasuredLog ring = log_of("ring.log", model, 16, 1);
  ring.way = topology::nccl::Way{topology::nccl::Algorithm::Ring, topology::nccl::Protocol::Simple};
  for (auto& row : ring.log.rows) {
    row.in_place_us = *model.time_us({.bytes = row.bytes}, *ring.way);
  }
  with.measured = {log_of("own.log", model, 16, 2), ring};
  const plan::PlanReport report = plan::plan_run(with);
  ASSERT_FALSE(report.plan.tuner.ranges.empty());
  const topology::plan::TunedRange& range = report.plan.tuner.ranges.back();
  EXPECT_EQ(range.way.algorithm, topology::nccl::Algorithm::Ring);
  EXPECT_TRUE(range.measured);
  EXPECT_LT(range.us, range.default_us);
  EXPECT_THAT(cli::plan_table(report), HasSubstr("NCCL: AllReduce of "));
  EXPECT_THAT(report.example_csv, HasSubstr("allreduce,"));
  const auto tensors = static_cast<int>(report.inputs.tensors.size());
  const std::string json = topology::plan::to_json(report.plan);
  EXPECT_EQ(topology::plan::to_json(topology::plan::parse_plan(json, "plan.json", tensors)), json);
  with.measured.pop_back();
  const plan::PlanReport slow = plan::plan_run(with);
  EXPECT_TRUE(slow.plan.tuner.ranges.empty());
  EXPECT_LT(report.plan.timeline->step_seconds, slow.plan.timeline->step_seconds);
}

TEST(Planner, ARunForTheCpuIsToldOfGpus) {
  plan::PlanRequest with = request("dgx-a100", 2, 16);
  with.config.device = trainer::contract::DeviceKind::Cpu;
  EXPECT_THAT(plan::plan_run(with).notes, ElementsAre(HasSubstr("the run is for the CPU")));
}

TEST(Planner, TwoLogsOfTheSameAreTold) {
  plan::PlanRequest with = request("dgx-a100", 2, 16);
  const plan::NodeChoice choice = plan::choose_nodes(with.machines, with.config);
  const topology::nccl::CostModel model(
      topology::nccl::allocation_of(with.machines, choice.nodes, choice.ranks_per_node));
  with.measured = {log_of("first.log", model, 16, 1), log_of("second.log", model, 16, 1)};
  EXPECT_THAT(plan::plan_run(with).notes,
              ElementsAre("second.log takes the place of an earlier log of the same"));
}

TEST(Planner, ReadsNamesOfMeasurements) {
  EXPECT_EQ(plan::parse_measured("a=b/c.log").file, "a=b/c.log");
  EXPECT_EQ(plan::parse_measured("Ring/LL128=x/y.log").file, "x/y.log");
  EXPECT_EQ(plan::parse_measured("Ring/LL128=x").way->protocol, topology::nccl::Protocol::Ll128);
  EXPECT_EQ(plan::parse_measured("NVLSTree/Simple/16=x").way->channels, 16);
  EXPECT_FALSE(plan::parse_measured("/tmp/x.log").way);
  for (const char* bad : {"Rung/LL=x", "Ring/LL256=x", "Ring/LL/0=x", "Ring/LL/65=x"}) {
    EXPECT_THROW((void)plan::parse_measured(bad), base::Error) << bad;
  }
}

TEST(PlanSeats, GpusTakeTheirNearestNics) {
  const Graph graph = machines("dgx-a100", 2);
  const plan::NodeChoice choice = plan::choose_nodes(graph, bert("base", 16, 1));
  const auto seats = plan::seats_of(graph, choice.nodes, 8);
  ASSERT_EQ(seats.size(), 16U);
  std::set<std::string> nics;
  for (int i = 0; i < 8; ++i) nics.insert(seats[static_cast<std::size_t>(i)].nic);
  EXPECT_EQ(nics.size(), 8U) << "no two GPUs share one";
  EXPECT_EQ(nics.count("mlx5_8"), 0U) << "nor takes a storage NIC";
  EXPECT_EQ(seats[8].node, graph.vertex(choice.nodes[1]).id);
  EXPECT_EQ(seats[8].gpu, 0);
  EXPECT_EQ(seats[8].nic, seats[0].nic) << "nodes are alike";
}

TEST(PlanSeats, PlacementFollowsTheFabric) {
  struct Row {
    const char* cluster;
    int nodes, used;
    const char* switches;
    int segment;
  };
  for (const Row& row : {Row{"dgx-h100", 64, 8, "", 0}, Row{"gb200-nvl72", 36, 18, "", 18},
                         Row{"gb200-nvl72", 36, 4, "", 4}, Row{"dgx-h100", 64, 1, "", 0}}) {
    SCOPED_TRACE(std::string(row.cluster) + " " + std::to_string(row.used));
    const Graph graph = machines(row.cluster, row.nodes);
    auto nodes = graph.of_kind(topology::graph::Kind::Node);
    nodes.resize(static_cast<std::size_t>(row.used));
    const topology::plan::Placement placement = plan::placement_of(graph, nodes);
    EXPECT_EQ(placement.switches, row.switches);
    EXPECT_EQ(placement.segment, row.segment);
  }
}

TEST(PlanDecisions, ShardingPaysWhereTheOptimizerIsLongAndLinksAreFast) {
  const plan::PlanReport fast = plan::plan_run(request("hgx-h200", 1, 8));
  const PlanDecision& sharded = decision(fast.plan, "sharding.optimizer");
  EXPECT_EQ(sharded.run_file, "false");
  ASSERT_EQ(sharded.options.size(), 2U);
  EXPECT_LT(sharded.options[1].step_seconds, sharded.options[0].step_seconds);
}

TEST(PlanDecisions, PresortedSamplesBeatDealtOnes) {
  plan::PlanRequest with = request("dgx-h100", 1, 8);
  with.lengths = wikipedia();
  with.config.balance.strategy = trainer::contract::Balance::None;
  const plan::PlanReport report = plan::plan_run(with);
  const PlanDecision& balance = decision(report.plan, "balance.strategy");
  EXPECT_EQ(balance.run_file, "none");
  EXPECT_NE(balance.choice, "none");
  EXPECT_THAT(balance.why, HasSubstr("would save"));
  EXPECT_THAT(cli::planned_run_file(with.config, report.plan),
              HasSubstr("\"strategy\": \"" + balance.choice + "\""));
}

TEST(PlanDecisions, ImbalanceHasKnownLimits) {
  const trainer::contract::RunConfig config = bert("base", 8, 16);
  const auto alike = trainer::contract::LengthTable::parse("128,128,1\n", "t");
  for (const auto strategy :
       {trainer::contract::Balance::None, trainer::contract::Balance::GlobalPresort}) {
    EXPECT_NEAR(plan::imbalance_of(config, strategy, 8, alike), 1, 1e-12);
  }
  const auto wiki = wikipedia();
  const double dealt = plan::imbalance_of(config, trainer::contract::Balance::None, 8, wiki);
  const double sorted =
      plan::imbalance_of(config, trainer::contract::Balance::GlobalPresort, 8, wiki);
  EXPECT_GT(dealt, 1.1);
  EXPECT_LT(sorted, 1.02);
}

// Eight nodes of eight: inside 7/8 of the bytes go over NVLink twice, between nodes an eighth of
// them each. By NCCL's model of large sums it cannot beat what NCCL itself does on trees.
TEST(PlanDecisions, HierarchicalSumsAreThreeCalls) {
  const auto allocation = topology::h100_nodes(8);
  const auto curve = plan::hierarchical_curve(allocation, 1e9);
  ASSERT_TRUE(curve);
  topology::nccl::Allocation node = topology::h100_nodes(1), across = topology::h100_nodes(8);
  across.ranks_per_node = 1;
  across.nics = 1;
  const topology::nccl::CostModel within(node), between(across);
  const std::uint64_t bytes = std::uint64_t{1} << 28;
  const double expected = within.choice({Collective::ReduceScatter, bytes}).us +
                          between.choice({Collective::AllReduce, bytes / 8}).us +
                          within.choice({Collective::AllGather, bytes}).us;
  EXPECT_NEAR(1e6 * curve->seconds(static_cast<double>(bytes)), expected, 0.02 * expected);
  EXPECT_FALSE(plan::hierarchical_curve(topology::h100_nodes(1), 1e9));
  across.nodes = 8;
  EXPECT_FALSE(plan::hierarchical_curve(across, 1e9)) << "one rank a node";
}

// A NIC for two ranks of a node: each has half of it.
TEST(PlanDecisions, HierarchicalSumsShareTheNics) {
  topology::nccl::Allocation allocation = topology::h100_nodes(8), across = topology::h100_nodes(8);
  allocation.nics = 4;
  const auto curve = plan::hierarchical_curve(allocation, 1e9);
  ASSERT_TRUE(curve);
  across.ranks_per_node = across.nics = 1;
  across.gb_per_s_a_nic = 25;
  const topology::nccl::CostModel within(topology::h100_nodes(1)), between(across);
  const std::uint64_t bytes = std::uint64_t{1} << 28;
  const double expected = within.choice({Collective::ReduceScatter, bytes}).us +
                          between.choice({Collective::AllReduce, bytes / 8}).us +
                          within.choice({Collective::AllGather, bytes}).us;
  EXPECT_NEAR(1e6 * curve->seconds(static_cast<double>(bytes)), expected, 0.02 * expected);
}

// On links where a gather of all weights takes longer than forward, forward hides as much of it.
TEST(PlanDecisions, AGatherHidesBehindTheNextForward) {
  plan::PlanRequest with = request("pcie-100gbe", 4, 16);
  const plan::PlanReport hidden = plan::plan_run(with);
  with.config.sharding.overlap_gather = false;
  const plan::PlanReport waited = plan::plan_run(with);
  const auto sharded = [](const plan::PlanReport& report) {
    return decision(report.plan, "sharding.optimizer").options.at(1).step_seconds;
  };
  EXPECT_NEAR(sharded(waited) - sharded(hidden), hidden.inputs.forward_seconds, 1e-9);
}

TEST(PlanDecisions, WhatSavesTooLittleStays) {
  int small = 0, large = 0;
  for (const auto& [cluster, ranks] : {std::pair("pcie-100gbe", 16), std::pair("dgx-a100", 32),
                                       std::pair("dgx-h100", 64), std::pair("hgx-h200", 8)}) {
    const plan::PlanReport report = plan::plan_run(request(cluster, 8, ranks));
    for (const PlanDecision& each : report.plan.decisions) {
      SCOPED_TRACE(std::string(cluster) + " " + each.key);
      double own = 0, best = HUGE_VAL;
      for (const PlanDecision::Option& option : each.options) {
        best = std::min(best, option.step_seconds);
        if (option.value == each.run_file) own = option.step_seconds;
      }
      ASSERT_GT(own, 0);
      EXPECT_EQ(each.choice != each.run_file, 1 - best / own >= 0.01) << each.why;
      small += best < own && best > 0.99 * own ? 1 : 0;
      large += best < 0.99 * own ? 1 : 0;
    }
  }
  EXPECT_GT(small, 0) << "or the first half was not tried";
  EXPECT_GT(large, 0) << "or the second";
}

// Two ranks of one sample each, of 64 or 512 tokens: a step is even, or the longer one's share of
// both is what it costs. The mean of 16 steps has a whole number of uneven ones.
TEST(PlanDecisions, ImbalanceOfTwoRanksByHand) {
  const trainer::contract::RunConfig config = bert("base", 2, 1);
  const auto flops = [&](std::int64_t tokens) {
    return trainer::contract::training_flops(config.model,
                                             {1, tokens, tokens * tokens, tokens * 15 / 100});
  };
  const double uneven = 2 * flops(512) / (flops(64) + flops(512)) - 1;
  const auto lengths = trainer::contract::LengthTable::parse("64,64,1\n512,512,1\n", "t");
  const double steps =
      16 * (plan::imbalance_of(config, trainer::contract::Balance::None, 2, lengths) - 1) / uneven;
  EXPECT_NEAR(steps, std::round(steps), 1e-9);
  EXPECT_GT(steps, 0);
  EXPECT_LT(steps, 16);
}

TEST(PlanText, SaysWhatWasChosenAndWhy) {
  plan::PlanRequest with = request("pcie-100gbe", 4, 16);
  with.lengths = wikipedia();
  const plan::PlanReport report = plan::plan_run(with);
  const std::string text = cli::plan_table(report);
  for (const char* part : {"16 ranks on 4 nodes of 4", "modelled", "25 MB", "one bucket", "chosen",
                           "sharding.optimizer", "balance.strategy", "clip.mode", "hierarchical",
                           "seats: 16 ranks on 4 nodes like"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
  const std::string sentences = cli::plan_sentences(report);
  EXPECT_THAT(sentences, HasSubstr("give a log of all_reduce_perf with --measured"));
  EXPECT_THAT(sentences, HasSubstr("hide behind backward"));
  EXPECT_THAT(sentences, HasSubstr(report.plan.why));
  EXPECT_THAT(sentences, Not(HasSubstr("  \n")));
}

}  // namespace
}  // namespace regatta::orchestrator
