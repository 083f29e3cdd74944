// Which layers each stage of a pipeline has: a pure function of what a layer and the head cost.
#pragma once

#include <cstdint>
#include <vector>

#include "trainer/contract/model_shape.h"

namespace regatta::trainer::contract {

// A part of the model: neighbouring layers, below the first of them the embeddings, above the last
// the head. In pre-training the head multiplies by the word embedding, which is then at both ends.
struct Stage {
  int number = 0, stages = 1;          // 0 has the embeddings, stages − 1 the head
  int first_layer = 0, end_layer = 0;  // of the model's layers; at least one

  [[nodiscard]] bool has_embeddings() const { return number == 0; }
  [[nodiscard]] bool has_head() const { return number == stages - 1; }
  [[nodiscard]] int layers() const { return end_layer - first_layer; }
  [[nodiscard]] bool is_whole() const { return stages == 1; }
};
// All of the model.
[[nodiscard]] Stage whole_model(const ModelShape& shape);

// layer_costs[l] of layer l, first_cost and last_cost of what the first and the last stage have
// beside layers; all ≥ 0. Of all cuts into `stages` contiguous parts of at least one layer the one
// whose dearest stage is cheapest (exact, a dynamic programme over layers × stages); of those the
// one with fewest layers in the first stage, then in the second, …, because early stages hold most
// micro-batches in memory. 1 ≤ stages ≤ layers.
struct StageCosts {
  std::vector<double> layers;
  double first = 0, last = 0;
};
[[nodiscard]] std::vector<Stage> cut_stages(const StageCosts& costs, int stages);

// By training_flops() of batches like `batch` (the mean of the run's, unpadded): embeddings cost
// nothing there, the head with its decoder what it costs on the masked positions.
[[nodiscard]] std::vector<Stage> cut_stages(const ModelShape& shape, const BatchSizes& batch,
                                            int stages);

// Of `lengths`, samples of the run; masked positions by the share of tokens that the run masks.
[[nodiscard]] BatchSizes batch_of_lengths(const std::vector<std::int32_t>& lengths,
                                          double mask_fraction);

// Model FLOPs of forward and backward through a stage alone; over all stages they add up to
// training_flops().
[[nodiscard]] double stage_flops(const ModelShape& shape, const Stage& stage,
                                 const BatchSizes& batch);

// Where a stage's tensors lie in the table: one run of neighbours, [begin, end), and in
// pre-training for the last stage the word embedding as well (−1: not).
struct StageTensors {
  int begin = 0, end = 0;
  int tied = -1;  // also the first stage's
};
[[nodiscard]] StageTensors stage_tensors(const ModelShape& shape, const TensorTable& table,
                                         const Stage& stage);

}  // namespace regatta::trainer::contract
