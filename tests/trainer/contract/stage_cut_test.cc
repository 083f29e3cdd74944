// Which layers a stage gets: the exact least of the dearest stage, by trying all cuts.
#include "trainer/contract/stage_cut.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <random>
#include <set>

namespace regatta::tests {
namespace {

using namespace regatta::trainer;  // the subject
using contract::Stage;

std::vector<int> ends_of(const std::vector<Stage>& cut) {
  std::vector<int> ends;
  for (const Stage& stage : cut) ends.push_back(stage.end_layer);
  return ends;
}

double dearest(const contract::StageCosts& costs, const std::vector<int>& ends) {
  double most = 0;
  int begin = 0;
  for (std::size_t s = 0; s < ends.size(); ++s) {
    double cost = (s == 0 ? costs.first : 0) + (s + 1 == ends.size() ? costs.last : 0);
    for (int l = begin; l < ends[s]; ++l) cost += costs.layers[static_cast<std::size_t>(l)];
    most = std::max(most, cost);
    begin = ends[s];
  }
  return most;
}

// The best of all cuts, in the order of their ends: of equal ones the first.
std::vector<int> by_trying(const contract::StageCosts& costs, int stages) {
  const auto layers = static_cast<int>(costs.layers.size());
  std::vector<int> best;
  double least = std::numeric_limits<double>::infinity();
  std::vector<int> ends(static_cast<std::size_t>(stages));
  const std::function<void(std::size_t, int)> try_from = [&](std::size_t s, int begin) {
    if (s + 1 == ends.size()) {
      ends[s] = layers;
      const double cost = dearest(costs, ends);
      if (cost < least) {
        least = cost;
        best = ends;
      }
      return;
    }
    for (int end = begin + 1; end <= layers - (stages - static_cast<int>(s) - 1); ++end) {
      ends[s] = end;
      try_from(s + 1, end);
    }
  };
  try_from(0, 0);
  return best;
}

// Whole numbers, so that sums have no rounding.
TEST(StageCut, IsTheBestOfAllCuts) {
  std::mt19937 random(5);
  const auto below = [&](unsigned bound) { return static_cast<double>(random() % bound); };
  for (int layers = 1; layers <= 9; ++layers) {
    for (int stages = 1; stages <= layers; ++stages) {
      for (int trial = 0; trial < 20; ++trial) {
        contract::StageCosts costs;
        for (int l = 0; l < layers; ++l) costs.layers.push_back(below(6));
        costs.first = below(9);
        costs.last = below(20);
        const std::vector<Stage> cut = contract::cut_stages(costs, stages);
        EXPECT_EQ(ends_of(cut), by_trying(costs, stages)) << layers << " layers, " << stages;
        for (int s = 0; s < stages; ++s) {
          const Stage& stage = cut[static_cast<std::size_t>(s)];
          EXPECT_EQ(stage.number, s);
          EXPECT_EQ(stage.stages, stages);
          EXPECT_GE(stage.layers(), 1);
          EXPECT_EQ(stage.first_layer, s == 0 ? 0 : cut[static_cast<std::size_t>(s) - 1].end_layer);
        }
      }
    }
  }
}

contract::ModelShape base_shape(contract::Task task) {
  contract::ModelShape shape = contract::preset_shape("base");
  shape.vocabulary = 30522;
  shape.task = task;
  return shape;
}

// By hand: a layer of `base` is 2·(4h² + 2hf) = 14.156 MFLOP a token and 4h = 3072 a pair of
// tokens; a masked position 2h² + 2hV = 48.06 MFLOP. 100 samples of 128 tokens, 15 % masked: a
// layer is 186.2 GFLOP, the head 92.4, half a layer, so that three layers and the head are less
// than four. Without masked words the head is next to nothing.
TEST(StageCut, OfBaseGivesTheLastStageFewerLayersInPretraining) {
  const std::vector<std::int32_t> lengths(100, 128);
  const contract::BatchSizes batch = contract::batch_of_lengths(lengths, 0.15);
  EXPECT_EQ(batch.tokens, 12800);
  EXPECT_EQ(batch.squared_tokens, 100 * 128 * 128);
  EXPECT_EQ(batch.masked, 1920);
  using Ends = std::vector<int>;
  const contract::ModelShape pretraining = base_shape(contract::Task::Pretraining);
  EXPECT_EQ(ends_of(contract::cut_stages(pretraining, batch, 2)), (Ends{6, 12}));
  EXPECT_EQ(ends_of(contract::cut_stages(pretraining, batch, 4)), (Ends{3, 6, 9, 12}));
  EXPECT_EQ(ends_of(contract::cut_stages(pretraining, batch, 5)), (Ends{1, 4, 7, 10, 12}));
  const contract::BatchSizes many_masked = contract::batch_of_lengths(lengths, 0.6);  // 2 layers
  EXPECT_EQ(ends_of(contract::cut_stages(pretraining, many_masked, 2)), (Ends{7, 12}));
  EXPECT_EQ(ends_of(contract::cut_stages(pretraining, many_masked, 4)), (Ends{2, 6, 10, 12}));
  const contract::ModelShape questions = base_shape(contract::Task::QuestionAnswering);
  EXPECT_EQ(ends_of(contract::cut_stages(questions, many_masked, 2)), (Ends{6, 12}));
  EXPECT_EQ(ends_of(contract::cut_stages(questions, many_masked, 4)), (Ends{3, 6, 9, 12}));
}

TEST(StageCut, FlopsOfStagesAddUpToTheModels) {
  const contract::BatchSizes batch = contract::batch_of_lengths({20, 128, 64}, 0.15);
  for (const contract::Task task : {contract::Task::Pretraining, contract::Task::QuestionAnswering,
                                    contract::Task::Classification}) {
    const contract::ModelShape shape = base_shape(task);
    double sum = 0;
    for (const Stage& stage : contract::cut_stages(shape, batch, 5)) {
      sum += contract::stage_flops(shape, stage, batch);
    }
    const double whole = contract::training_flops(shape, batch);
    EXPECT_NEAR(sum, whole, 1e-12 * whole);
    EXPECT_EQ(contract::stage_flops(shape, contract::whole_model(shape), batch), whole);
  }
}

TEST(StageCut, EveryTensorBelongsToOneStageAndTheDecoderToTwo) {
  for (const contract::Task task : {contract::Task::Pretraining, contract::Task::QuestionAnswering,
                                    contract::Task::Classification, contract::Task::Regression}) {
    contract::ModelShape shape = base_shape(task);
    shape.labels = task == contract::Task::Classification ? 3 : 0;
    const contract::TensorTable table = contract::make_tensor_table(shape);
    std::vector<int> owners(table.tensors.size(), 0);
    const std::vector<Stage> cut =
        contract::cut_stages(shape, contract::batch_of_lengths({64}, 0.15), 5);
    for (const Stage& stage : cut) {
      const contract::StageTensors tensors = contract::stage_tensors(shape, table, stage);
      for (int i = tensors.begin; i < tensors.end; ++i) {
        ++owners[static_cast<std::size_t>(i)];
        const std::string& name = table.tensors[static_cast<std::size_t>(i)].name;
        const std::string prefix = "bert.encoder.layer.";
        if (name.rfind(prefix, 0) == 0) {
          const int layer = std::stoi(name.substr(prefix.size()));
          EXPECT_TRUE(layer >= stage.first_layer && layer < stage.end_layer) << name;
        } else {
          EXPECT_EQ(name.rfind("bert.embeddings.", 0) == 0 ? 0 : 4, stage.number) << name;
        }
      }
      const bool tied = stage.number == 4 && task == contract::Task::Pretraining;
      ASSERT_EQ(tensors.tied >= 0, tied);
      if (tied) {
        EXPECT_EQ(table.tensors[static_cast<std::size_t>(tensors.tied)].name,
                  contract::kWordEmbedding);
      }
    }
    EXPECT_EQ(std::set<int>(owners.begin(), owners.end()), std::set<int>{1});
    const contract::StageTensors whole =
        contract::stage_tensors(shape, table, contract::whole_model(shape));
    EXPECT_EQ(whole.begin, 0);
    EXPECT_EQ(whole.end, static_cast<int>(table.tensors.size()));
    EXPECT_EQ(whole.tied, -1);
  }
}

}  // namespace
}  // namespace regatta::tests
