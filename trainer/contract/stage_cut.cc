#include "trainer/contract/stage_cut.h"

#include <algorithm>
#include <limits>
#include <string>

#include "base/error.h"

namespace regatta::trainer::contract {
namespace {

std::size_t nth(int i) { return static_cast<std::size_t>(i); }

// The cost of the dearest of `stages` stages over layers [0, end), each with its own layers alone:
// what the first stage has besides is in sums, what the last has is added by the caller.
class CutTable {
 public:
  CutTable(const StageCosts& costs, int stages) : costs_(costs) {
    const auto layers = static_cast<int>(costs.layers.size());
    sums_.assign(1, 0.0);
    for (const double cost : costs.layers) sums_.push_back(sums_.back() + cost);
    // best_[s][l]: of stages s … stages − 1 over layers l … layers − 1.
    best_.assign(nth(stages), std::vector<double>(nth(layers) + 1, kImpossible));
    for (int l = 0; l < layers; ++l) {
      best_[nth(stages) - 1][nth(l)] = cost(stages - 1, stages, l, layers);
    }
    for (int s = stages - 2; s >= 0; --s) {
      for (int l = 0; l < layers; ++l) {
        for (int end = l + 1; end < layers; ++end) {
          const double dearest = std::max(cost(s, stages, l, end), best_[nth(s) + 1][nth(end)]);
          best_[nth(s)][nth(l)] = std::min(best_[nth(s)][nth(l)], dearest);
        }
      }
    }
  }

  // Of stage s with layers [begin, end).
  [[nodiscard]] double cost(int s, int stages, int begin, int end) const {
    return sums_[nth(end)] - sums_[nth(begin)] + (s == 0 ? costs_.first : 0) +
           (s == stages - 1 ? costs_.last : 0);
  }
  [[nodiscard]] double best(int s, int layer) const { return best_[nth(s)][nth(layer)]; }

 private:
  static constexpr double kImpossible = std::numeric_limits<double>::infinity();
  const StageCosts& costs_;
  std::vector<double> sums_;  // of the layers before
  std::vector<std::vector<double>> best_;
};

struct Parts {
  double layer = 0, head = 0;
};

// Forward and backward of one layer, and of the head.
Parts part_flops(const ModelShape& shape, const BatchSizes& batch) {
  ModelShape one = shape, none = shape;
  one.layers = 1;
  none.layers = 0;
  const double head = training_flops(none, batch);
  return {training_flops(one, batch) - head, head};
}

}  // namespace

Stage whole_model(const ModelShape& shape) { return {0, 1, 0, shape.layers}; }

std::vector<Stage> cut_stages(const StageCosts& costs, int stages) {
  const auto layers = static_cast<int>(costs.layers.size());
  base::check(stages >= 1 && stages <= layers, "every stage has a layer");
  const CutTable table(costs, stages);
  const double limit = table.best(0, 0);
  std::vector<Stage> cut;
  int begin = 0;
  for (int s = 0; s < stages; ++s) {
    int end = s == stages - 1 ? layers : begin + 1;
    // The fewest layers that leave the rest within the limit.
    while (s < stages - 1 && table.best(s + 1, end) > limit) ++end;
    cut.push_back({s, stages, begin, end});
    begin = end;
  }
  return cut;
}

std::vector<Stage> cut_stages(const ModelShape& shape, const BatchSizes& batch, int stages) {
  const Parts parts = part_flops(shape, batch);
  return cut_stages(StageCosts{std::vector<double>(nth(shape.layers), parts.layer), 0, parts.head},
                    stages);
}

BatchSizes batch_of_lengths(const std::vector<std::int32_t>& lengths, double mask_fraction) {
  BatchSizes sizes;
  for (const std::int64_t length : lengths) {
    ++sizes.samples;
    sizes.tokens += length;
    sizes.squared_tokens += length * length;
  }
  sizes.masked = static_cast<std::int64_t>(mask_fraction * static_cast<double>(sizes.tokens));
  return sizes;
}

double stage_flops(const ModelShape& shape, const Stage& stage, const BatchSizes& batch) {
  if (stage.is_whole()) return training_flops(shape, batch);
  const Parts parts = part_flops(shape, batch);
  return stage.layers() * parts.layer + (stage.has_head() ? parts.head : 0);
}

StageTensors stage_tensors(const ModelShape& shape, const TensorTable& table, const Stage& stage) {
  const auto all = static_cast<int>(table.tensors.size());
  // The table goes down through the layers: a layer's tensors begin with its output's LayerNorm.
  const auto first_of = [&](int layer) {
    const std::string name =
        layer < 0 ? "bert.embeddings.LayerNorm.weight"
                  : "bert.encoder.layer." + std::to_string(layer) + ".output.LayerNorm.weight";
    return static_cast<int>(&table.at(name) - table.tensors.data());
  };
  StageTensors tensors;
  tensors.begin = stage.has_head() ? 0 : first_of(stage.end_layer - 1);
  tensors.end = stage.has_embeddings() ? all : first_of(stage.first_layer - 1);
  if (!stage.is_whole() && stage.has_head() && shape.task == Task::Pretraining) {
    tensors.tied = all - 1;
  }
  return tensors;
}

}  // namespace regatta::trainer::contract
