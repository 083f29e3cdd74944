#include "orchestrator/experiments/parallel_experiment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"

namespace regatta::orchestrator::experiments {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;
using trainer::contract::PipelineOrder;
using trainer::contract::RunConfig;

constexpr const char* kRun =
    "name: squad\ndata: {path: d}\nmodel: {preset: mini}\nbatch: {size: 16, micro: 2}\n";

ParallelExperiment parse(const std::string& more) {
  return parse_parallel_experiment(kRun + more, "f");
}
std::string refusal(const std::string& more) {
  try {
    (void)parse(more);
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), base::Code::User);
    return error.what();
  }
  return "";
}

constexpr const char* kWhole = R"(seed: 9
experiment:
  layouts:
  - {data: 4}
  - {pipeline: 2, name: two}
  - {data: 2, pipeline: 2, schedule: gpipe}
  seeds: [3, 0, 18446744073709551615]
)";

TEST(ParallelExperiment, ReadsLayoutsAndSeeds) {
  const ParallelExperiment experiment = parse(kWhole);
  ASSERT_EQ(experiment.layouts.size(), 3U);
  EXPECT_EQ(experiment.layouts[0].name, "data4");
  EXPECT_EQ(experiment.layouts[0].ranks(), 4);
  EXPECT_EQ(experiment.layouts[1].name, "two");
  EXPECT_EQ(experiment.layouts[1].data, 1);
  EXPECT_EQ(experiment.layouts[1].pipeline, 2);
  EXPECT_EQ(experiment.layouts[2].name, "data2-stages2-gpipe");
  EXPECT_EQ(experiment.layouts[2].schedule, PipelineOrder::GPipe);
  EXPECT_THAT(experiment.seeds, ElementsAre(3U, 0U, 18446744073709551615U));
  EXPECT_EQ(experiment.order, RunOrder::Balanced);
  EXPECT_EQ(experiment.run.name, "squad");
}

TEST(ParallelExperiment, IsAtOneBatchSize) {
  try {
    (void)parse_parallel_experiment(
        "name: squad\ndata: {path: d}\nmodel: {preset: mini}\nbatch: {size: 8, growth: adascale, "
        "max_size: 64}\nexperiment: {layouts: [{data: 2}], seeds: [1]}\n",
        "f");
    FAIL() << "not refused";
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), base::Code::User);
    EXPECT_THAT(error.what(),
                StartsWith("f:4: batch.growth: layouts are compared at one batch size"));
  }
}

TEST(ParallelExperiment, ReadsTwoSchedulesOfOneLayout) {
  const ParallelExperiment experiment =
      parse("experiment: {seeds: [1], layouts: [{pipeline: 2}, {pipeline: 2, schedule: gpipe}]}\n");
  EXPECT_EQ(experiment.layouts[1].name, "stages2-gpipe");
}

TEST(ParallelExperiment, MakesARunOfEachLayoutForEachSeed) {
  const ParallelExperiment experiment = parse(kWhole);
  const auto planned = planned_runs(experiment);
  ASSERT_EQ(planned.size(), 9U);
  std::set<std::pair<std::size_t, std::uint64_t>> made;
  std::set<std::string> names;
  for (std::size_t i = 0; i < planned.size(); ++i) {
    EXPECT_EQ(planned[i].seed, experiment.seeds[i / 3]) << "seed after seed";
    made.emplace(planned[i].layout, planned[i].seed);
    const RunConfig run = config_of(experiment, planned[i]);
    EXPECT_EQ(run.seed, planned[i].seed);
    EXPECT_EQ(run.ranks, experiment.layouts[planned[i].layout].ranks());
    EXPECT_EQ(trainer::contract::rank_grid(run).stages,
              experiment.layouts[planned[i].layout].pipeline);
    names.insert(run.name);
    // As the controller reads it.
    const std::string text = trainer::contract::to_json(run);
    EXPECT_EQ(trainer::contract::to_json(trainer::contract::parse_run_config(text, "f")), text);
  }
  EXPECT_EQ(made.size(), 9U);
  EXPECT_EQ(names.size(), 9U);
  EXPECT_TRUE(names.count("squad-two-s0") == 1) << *names.begin();
}

TEST(ParallelExperiment, RunsDifferInNothingButLayoutAndSeed) {
  const ParallelExperiment experiment = parse(kWhole);
  std::set<std::string> common;
  for (const PlannedRun& planned : planned_runs(experiment)) {
    RunConfig run = config_of(experiment, planned);
    run.name = "x";
    run.seed = 0;
    run.ranks = 1;
    run.parallel = {};
    common.insert(trainer::contract::to_json(run));
  }
  EXPECT_EQ(common.size(), 1U);
}

TEST(ParallelExperiment, KeepsTheOrderOfTheFileWhereItIsTold) {
  const std::string text = kWhole;
  const auto planned = planned_runs(parse(text + "  order: listed\n"));
  for (std::size_t i = 0; i < planned.size(); ++i) EXPECT_EQ(planned[i].layout, i % 3);
}

TEST(ParallelExperiment, NamesOfRunsAreNoLongerThanRunsMayHave) {
  ParallelExperiment experiment = parse(kWhole);
  experiment.run.name = std::string(64, 'n');
  const RunConfig run = config_of(experiment, {2, 18446744073709551615U});
  EXPECT_EQ(run.name.size(), 64U);
  EXPECT_THAT(run.name, testing::EndsWith("-data2-stages2-gpipe-s18446744073709551615"));
}

TEST(ParallelExperiment, GivesSlurmTheNodesThatALayoutFills) {
  const ParallelExperiment experiment = parse(
      "ranks: 8\nslurm: {ranks_per_node: 4}\nexperiment: {layouts: [{data: 8}, {data: 2, "
      "pipeline: 2}, {pipeline: 2}], seeds: [1]}\n");
  const auto nodes = [&](std::size_t layout) {
    const RunConfig run = config_of(experiment, {layout, 1});
    return std::pair(run.slurm->max_nodes, run.slurm->ranks_per_node);
  };
  EXPECT_EQ(nodes(0), (std::pair{2, 4}));
  EXPECT_EQ(nodes(1), (std::pair{1, 4}));
  EXPECT_EQ(nodes(2), (std::pair{1, 2}));
}

struct Bad {
  const char* name;
  const char* more;
  const char* message;
};
class BadExperiment : public testing::TestWithParam<Bad> {};

TEST_P(BadExperiment, IsRefusedWithOneLineThatSaysWhereAndWhatToDo) {
  const std::string message = refusal(GetParam().more);
  EXPECT_THAT(message, HasSubstr(GetParam().message));
  EXPECT_THAT(message, StartsWith("f"));
  EXPECT_EQ(std::count(message.begin(), message.end(), '\n'), 0);
}

const Bad kBad[] = {
    {"NoSection", "steps: 3\n", "f:1: experiment: missing; add it with layouts and seeds"},
    {"NoLayouts", "experiment: {layouts: [], seeds: [1]}\n",
     "f:5: experiment.layouts: no layouts; list at least one"},
    {"LayoutsMissing", "experiment: {seeds: [1]}\n", "experiment.layouts: no layouts"},
    {"NoSeeds", "experiment: {layouts: [{data: 2}], seeds: []}\n",
     "f:5: experiment.seeds: no seeds; list at least one"},
    {"SeedsMissing", "experiment: {layouts: [{data: 2}]}\n", "experiment.seeds: no seeds"},
    {"SeedTwice", "experiment: {layouts: [{data: 2}], seeds: [1, 2, 1]}\n",
     "f:5: experiment.seeds: has 1 twice; name each seed once"},
    {"SeedNegative", "experiment: {layouts: [{data: 2}], seeds: [-1]}\n",
     "experiment.seeds: has '-1'; use whole numbers from 0"},
    {"SeedWord", "experiment: {layouts: [{data: 2}], seeds: [1, two]}\n",
     "experiment.seeds: has 'two'; use whole numbers"},
    {"SeedTooLarge", "experiment: {layouts: [{data: 2}], seeds: [18446744073709551616]}\n",
     "has '18446744073709551616'"},
    {"LayoutTwice",
     "experiment:\n  seeds: [1]\n  layouts:\n  - {data: 2}\n  - {data: 2, pipeline: 1}\n",
     "f:9: experiment.layouts[1].data: is the layout of [0] once more; remove one of them"},
    {"NameTwice",
     "experiment:\n  seeds: [1]\n  layouts:\n  - {data: 2}\n  - {data: 4, name: data2}\n",
     "f:9: experiment.layouts[1].name: is 'data2', as that of [0]; use another"},
    {"NameBad", "experiment: {layouts: [{data: 2, name: a b}], seeds: [1]}\n",
     "experiment.layouts[0].name: is 'a b'; use 1 to 24 of"},
    {"NameLong",
     "experiment: {layouts: [{data: 2, name: abcdefghijklmnopqrstuvwxy}], seeds: [1]}\n",
     "use 1 to 24 of"},
    {"LayoutEmpty", "experiment: {layouts: [{}], seeds: [1]}\n",
     "experiment.layouts[0].data: missing, and so is pipeline"},
    {"LayoutNoMapping", "experiment: {layouts: [4], seeds: [1]}\n", "expected a mapping"},
    {"LayoutUnknownKey", "experiment: {layouts: [{data: 2, stages: 2}], seeds: [1]}\n",
     "experiment.layouts[0].stages: unknown key"},
    {"DataZero", "experiment: {layouts: [{data: 0}], seeds: [1]}\n",
     "experiment.layouts[0].data: is 0; use 1 to"},
    {"MoreStagesThanLayers", "experiment: {layouts: [{data: 1}, {pipeline: 5}], seeds: [1]}\n",
     "f:5: experiment.layouts[1].pipeline: is 5, and the model has 4 layers"},
    {"MoreReplicasThanSamples", "experiment: {layouts: [{data: 17}], seeds: [1]}\n",
     "experiment.layouts[0].data: comes to 17, and batch.size is 16"},
    {"TooFewMicroBatches", "experiment: {layouts: [{data: 8, pipeline: 2}], seeds: [1]}\n",
     "experiment.layouts[0].pipeline: does not go: batch.micro makes 1 micro-batches"},
    {"ScheduleOfNothing", "experiment: {layouts: [{data: 2, schedule: gpipe}], seeds: [1]}\n",
     "experiment.layouts[0].schedule: is of stages, and this layout has none"},
    {"ScheduleUnknown", "experiment: {layouts: [{pipeline: 2, schedule: zb}], seeds: [1]}\n",
     "experiment.layouts[0].schedule"},
    {"OrderUnknown", "experiment: {layouts: [{data: 2}], seeds: [1], order: random}\n",
     "experiment.order"},
    {"SectionUnknownKey", "experiment: {layouts: [{data: 2}], seeds: [1], repeat: 3}\n",
     "experiment.repeat: unknown key"},
    {"ParallelBeside", "parallel: {data: 2}\nexperiment: {layouts: [{data: 2}], seeds: [1]}\n",
     "f:5: parallel: stands beside experiment.layouts, which say it; remove it"},
    {"RanksPerNode",
     "ranks: 4\nranks_per_node: 4\nexperiment: {layouts: [{data: 4}, {data: 2}], seeds: [1]}\n",
     "experiment.layouts[1].data: comes to 2 ranks, and ranks_per_node is 4"},
    {"SlurmRanksPerNode",
     "ranks: 4\nslurm: {ranks_per_node: 4}\nexperiment: {layouts: [{data: 6}], seeds: [1]}\n",
     "experiment.layouts[0].data: comes to 6 ranks, and slurm.ranks_per_node is 4"},
    {"RunKeyUnknown", "stepps: 3\nexperiment: {layouts: [{data: 2}], seeds: [1]}\n",
     "f:5: stepps: unknown key"},
};
INSTANTIATE_TEST_SUITE_P(Rows, BadExperiment, testing::ValuesIn(kBad),
                         [](const auto& row) { return row.param.name; });

Layout a_layout(const std::string& name, int data, int pipeline) {
  Layout layout;
  layout.name = name;
  layout.data = data;
  layout.pipeline = pipeline;
  return layout;
}

TEST(ParallelExperiment, GoesOnWithMoreLayoutsAndSeeds) {
  const ParallelExperiment experiment = parse(kWhole);
  EXPECT_EQ(refuse_earlier(experiment, {}), std::nullopt);
  EXPECT_EQ(refuse_earlier(experiment, {experiment.layouts, experiment.seeds}), std::nullopt);
  EXPECT_EQ(refuse_earlier(experiment, {{a_layout("two", 1, 2)}, {0}}), std::nullopt);
}

TEST(ParallelExperiment, DoesNotGoOnWithAnotherList) {
  const ParallelExperiment experiment = parse(kWhole);
  const auto why = [&](const std::vector<Layout>& layouts,
                       const std::vector<std::uint64_t>& seeds) {
    return refuse_earlier(experiment, {layouts, seeds}).value_or("goes on");
  };
  EXPECT_EQ(why({a_layout("foo", 1, 2)}, {3}), "layout foo is called two here");
  EXPECT_EQ(why({a_layout("data8", 8, 1)}, {3}), "layout data8 is not here");
  EXPECT_EQ(why({a_layout("two", 2, 1)}, {3}), "layout two was data2 and is stages2 here");
  Layout gpipe = a_layout("two", 1, 2);
  gpipe.schedule = PipelineOrder::GPipe;
  EXPECT_EQ(why({gpipe}, {3}), "layout two was stages2-gpipe and is stages2 here");
  EXPECT_EQ(why({experiment.layouts}, {3, 5, 0}), "seed 5 is not here");
  EXPECT_EQ(
      why({a_layout("a", 8, 1)}, {5, 6, 7, 8}),
      "layout a is not here, seed 5 is not here, seed 6 is not here, seed 7 is not here, 1 more");
}

TEST(ExperimentTags, ReadBackWhatTheySay) {
  const RunTags tags{"4f2a91", 2, "data2-stages2", 3, 9};
  const auto texts = tags_of(tags);
  EXPECT_THAT(texts, ElementsAre("experiment-4f2a91", "layout-2-data2-stages2", "run-3-of-9"));
  const RunTags read = read_tags(texts);
  EXPECT_EQ(read.experiment, "4f2a91");
  EXPECT_EQ(read.layout, 2);
  EXPECT_EQ(read.layout_name, "data2-stages2");
  EXPECT_EQ(read.place, 3);
  EXPECT_EQ(read.runs, 9);
}

TEST(ExperimentTags, OfPeopleAreNone) {
  const RunTags read = read_tags(
      {"baseline", "layout", "layout-", "layout-x-y", "run-1", "run-a-of-b", "run-1-in-2"});
  EXPECT_EQ(read.experiment, "");
  EXPECT_EQ(read.layout, 0);
  EXPECT_EQ(read.runs, 0);
}

TEST(ExperimentTags, IdsAreWordsThatTagsMayHave) {
  for (const char* const good : {"a", "4f2a91", "A_b.c-9"}) EXPECT_TRUE(is_experiment_id(good));
  EXPECT_TRUE(is_experiment_id("a.."));
  for (const char* const bad :
       {"", ".", "..", "a b", "a,b", "a/b", "ä", "a123456789012345678901234567890123"}) {
    EXPECT_FALSE(is_experiment_id(bad)) << bad;
  }
}

}  // namespace
}  // namespace regatta::orchestrator::experiments
