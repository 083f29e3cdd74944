// The section `parallel`: who has which stage, and one clear error for each layout that cannot be.
#include "trainer/contract/parallel_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/document.h"
#include "base/error.h"
#include "trainer/contract/run_change.h"
#include "trainer/contract/run_config.h"

namespace regatta::trainer::contract {
namespace {

using testing::HasSubstr;

RunConfig parse(const std::string& text) {
  return parse_run_config("data: {path: /d}\nmodel: {preset: mini}\n" + text, "f");
}

TEST(ParallelConfig, OfStagesAndReplicasMakesTheRanks) {
  const RunConfig given =
      parse("batch: {size: 32, micro: 2}\nparallel: {data: 2, pipeline: 4, schedule: gpipe}\n");
  EXPECT_EQ(given.ranks, 8);
  EXPECT_EQ(given.parallel.schedule, PipelineOrder::GPipe);
  const RunConfig counted =
      parse("batch: {size: 32, micro: 2}\nranks: 8\nparallel: {pipeline: 4}\n");
  EXPECT_EQ(rank_grid(counted).data, 2);
  EXPECT_EQ(counted.parallel.schedule, PipelineOrder::OneForwardOneBackward);
  EXPECT_EQ(parse("batch: {size: 32, micro: 2}\nparallel: {pipeline: 4}\n").ranks, 4);
  EXPECT_EQ(parse("parallel: {data: 2}\n").ranks, 2);
  EXPECT_EQ(parse("ranks: 2\n").parallel.pipeline, 1);
}

TEST(ParallelConfig, HasTheStageOutermost) {
  const RankGrid grid{3, 2};
  EXPECT_EQ(grid.ranks(), 6);
  for (int stage = 0; stage < 2; ++stage) {
    EXPECT_EQ(grid.ranks_of_stage(stage),
              (std::vector<int>{3 * stage, 3 * stage + 1, 3 * stage + 2}));
    for (int replica = 0; replica < 3; ++replica) {
      const int rank = grid.rank_of(stage, replica);
      EXPECT_EQ(grid.stage_of(rank), stage);
      EXPECT_EQ(grid.replica_of(rank), replica);
    }
  }
}

TEST(ParallelConfig, ReadsBackFromItsCanonicalTextAndIsAbsentWithoutStages) {
  const RunConfig config =
      parse("batch: {size: 32, micro: 2}\nparallel: {data: 2, pipeline: 4, schedule: gpipe}\n");
  const std::string text = to_json(config);
  EXPECT_EQ(to_json(parse_run_config(text, "f")), text);
  EXPECT_EQ(parse_run_config(text, "f").parallel.schedule, PipelineOrder::GPipe);
  EXPECT_THAT(to_json(parse("ranks: 2\n")), testing::Not(HasSubstr("parallel")));
}

TEST(ParallelConfig, MayChangeWhileTheRunExists) {
  const RunConfig before = parse("ranks: 4\nbatch: {size: 32, micro: 2}\n");
  const RunConfig after =
      parse("ranks: 4\nbatch: {size: 32, micro: 2}\nparallel: {pipeline: 2, schedule: gpipe}\n");
  EXPECT_TRUE(fixed_differences(before, after).empty());
}

// A section that is not a run's: who knows it reads it, and all else is as strict as ever.
TEST(ParallelConfig, IsReadBesideASectionOfAnother) {
  const std::string file = "data: {path: /d}\nexperiment: {seeds: [1, 2]}\nsteps: 7\n";
  std::vector<std::string> seeds;
  const auto others = [&](base::Table& root) {
    base::Table section = root.table("experiment");
    section.read("seeds", &seeds);
    section.finish();
  };
  EXPECT_EQ(parse_run_config(file, "f", others).steps, 7);
  EXPECT_EQ(seeds, (std::vector<std::string>{"1", "2"}));
  const auto refusal = [](const auto& read) -> std::string {
    try {
      (void)read();
    } catch (const base::Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(refusal([&] { return parse_run_config(file, "f"); }),
            "f:2: experiment: makes many runs of one file; start them with `regatta experiment "
            "parallel`");
  EXPECT_THAT(refusal([&] { return parse_run_config(file + "stepps: 7\n", "f", others); }),
              HasSubstr("f:4: stepps: unknown key"));
}

struct Bad {
  const char* name;
  const char* text;
  const char* key;
  const char* message;
};
class BadParallel : public testing::TestWithParam<Bad> {};

TEST_P(BadParallel, IsRefusedWithOneLineThatSaysWhatToDo) {
  try {
    (void)parse(GetParam().text);
    ADD_FAILURE() << "it was taken";
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), base::Code::User);
    EXPECT_EQ(error.key(), GetParam().key);
    EXPECT_THAT(error.what(), HasSubstr(GetParam().message));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, BadParallel,
    testing::Values(
        Bad{"MoreStagesThanLayers", "batch: {size: 64, micro: 1}\nparallel: {pipeline: 5}\n",
            "parallel.pipeline", "is 5, and the model has 4 layers; use at most one stage"},
        Bad{"RanksThatStagesDoNotDivide",
            "ranks: 6\nbatch: {size: 64, micro: 1}\nparallel: {pipeline: 4}\n", "parallel.pipeline",
            "is 4, which does not divide ranks (6); set ranks to a multiple of it"},
        Bad{"ReplicasThatAreNotTheRanks",
            "ranks: 8\nbatch: {size: 64, micro: 1}\nparallel: {data: 3, pipeline: 2}\n",
            "parallel.data", "is 3, and ranks is 8 with parallel.pipeline 2; use 4"},
        Bad{"ReplicasWithoutStagesThatAreNotTheRanks", "ranks: 2\nparallel: {data: 3}\n",
            "parallel.data", "is 3, and ranks is 2 with parallel.pipeline 1; use 2"},
        Bad{"MoreReplicasThanSamples", "batch: {size: 8}\nparallel: {data: 9, pipeline: 2}\n",
            "parallel.data", "f:4: parallel.data: is 9, and batch.size is 8; use at most one"},
        Bad{"FewerMicroBatchesThanStages", "batch: {size: 24, micro: 8}\nparallel: {pipeline: 4}\n",
            "batch.micro",
            "makes 3 micro-batches of the 24 samples that a replica has of a step, and "
            "parallel.pipeline is 4; set batch.micro to at most 6"},
        Bad{"AllSamplesAtOnce", "batch: {size: 24}\nparallel: {data: 2, pipeline: 2}\n",
            "batch.micro", "makes 1 micro-batches of the 12 samples"},
        Bad{"FewerSamplesThanStages", "batch: {size: 3, micro: 1}\nparallel: {pipeline: 4}\n",
            "batch.micro", "raise batch.size, or use fewer stages"},
        Bad{"NoStages", "parallel: {pipeline: 0}\n", "parallel.pipeline", "is 0; use 1 to"},
        Bad{"AnUnknownOrder", "parallel: {schedule: zigzag}\n", "parallel.schedule", "1f1b"},
        Bad{"AnUnknownKey", "parallel: {tensor: 2}\n", "parallel.tensor", "unknown key"},
        Bad{"ShardedState",
            "batch: {micro: 1}\nparallel: {pipeline: 2}\nsharding: {optimizer: true}\n",
            "sharding.optimizer", "does not go with parallel.pipeline yet"},
        Bad{"ClippingByRank", "batch: {micro: 1}\nparallel: {pipeline: 2}\nclip: {mode: rank}\n",
            "clip.mode", "use global or none"},
        Bad{"SumsThroughNodes", "batch: {micro: 1}\nparallel: {pipeline: 2}\nhierarchical: true\n",
            "hierarchical", "set it to false"},
        Bad{"FrozenLayers",
            "batch: {micro: 1}\nparallel: {pipeline: 2}\nfine_tuning: {frozen_layers: 1}\n",
            "fine_tuning.frozen_layers", "use 0"}),
    [](const auto& tested) { return std::string(tested.param.name); });

}  // namespace
}  // namespace regatta::trainer::contract
