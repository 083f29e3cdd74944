// Small random models and batches for the model tests.
#pragma once

#include <cmath>
#include <random>
#include <vector>

#include "tests/trainer/model/reference_bert.h"
#include "trainer/model/bert.h"
#include "trainer/model/initial_weights.h"

namespace regatta::tests {

[[nodiscard]] inline trainer::contract::ModelShape small_shape(int hidden, int heads,
                                                               trainer::contract::Gelu gelu) {
  trainer::contract::ModelShape shape;
  shape.layers = 2;
  shape.hidden = hidden;
  shape.heads = heads;
  shape.feed_forward = 2 * hidden;
  shape.vocabulary = 61;
  shape.max_positions = 40;
  shape.gelu = gelu;
  return shape;
}

// Weights far from the initial ones, so that no gradient is near zero.
[[nodiscard]] inline std::vector<float> random_weights(const trainer::contract::TensorTable& table,
                                                       unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> arena(static_cast<std::size_t>(table.arena_size), 0.0F);
  for (const trainer::contract::TensorEntry& tensor : table.tensors) {
    const bool gamma = !tensor.weight_decay && tensor.name.find(".weight") != std::string::npos;
    for (std::int64_t i = 0; i < tensor.size; ++i) {
      arena[static_cast<std::size_t>(tensor.offset + i)] = 0.15F * normal(random) + (gamma ? 1 : 0);
    }
  }
  return arena;
}

[[nodiscard]] inline ReferenceWeights reference_weights(const trainer::contract::TensorTable& table,
                                                        const std::vector<float>& arena) {
  ReferenceWeights weights;
  for (const trainer::contract::TensorEntry& tensor : table.tensors) {
    ReferenceWeight& weight = weights[tensor.name];
    weight.columns = static_cast<std::size_t>(tensor.shape.back());
    weight.rows = static_cast<std::size_t>(tensor.size) / weight.columns;
    const auto begin = arena.begin() + tensor.offset;
    weight.values.assign(begin, begin + tensor.size);
  }
  return weights;
}

[[nodiscard]] inline trainer::samples::Sample random_sample(
    int length, int masked, const trainer::contract::ModelShape& shape, std::mt19937* random) {
  trainer::samples::Sample sample;
  const auto below = [&](int bound) {
    return static_cast<std::int32_t>((*random)() % static_cast<unsigned>(bound));
  };
  for (int i = 0; i < length; ++i) {
    sample.ids.push_back(below(shape.vocabulary));
    sample.types.push_back(2 * i < length ? 0 : 1);
  }
  for (int i = 0; i < masked; ++i) {
    sample.masked_positions.push_back(i * length / masked);
    sample.masked_labels.push_back(below(shape.vocabulary));
  }
  sample.sample_label = below(2);
  return sample;
}

}  // namespace regatta::tests
