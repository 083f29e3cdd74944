#include "trainer/numerics/update_ratio.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>
#include <set>

#include "trainer/cpu/cpu_device.h"

namespace regatta::trainer {
namespace {

contract::TensorTable table_of(int hidden) {
  contract::ModelShape shape = contract::preset_shape("tiny");
  shape.layers = 2;
  shape.hidden = hidden;
  shape.heads = 2;
  shape.feed_forward = 4 * hidden;
  shape.max_positions = 64;
  shape.vocabulary = 300;
  return contract::make_tensor_table(shape);
}

struct Weights {
  std::vector<float> before, after;
};
// Each tensor changes by another share of itself, so that layers differ.
Weights changed(const contract::TensorTable& table) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal(0, 1);
  Weights weights;
  weights.before.assign(static_cast<std::size_t>(table.arena_size), 0.0F);
  weights.after = weights.before;
  for (std::size_t t = 0; t < table.tensors.size(); ++t) {
    const contract::TensorEntry& tensor = table.tensors[t];
    for (std::int64_t i = 0; i < tensor.size; ++i) {
      const auto at = static_cast<std::size_t>(tensor.offset + i);
      weights.before[at] = normal(random);
      weights.after[at] = weights.before[at] + 0.001F * static_cast<float>(t + 1) * normal(random);
    }
  }
  return weights;
}

// ‖Δw‖/‖w‖ by layer, of all weights, in float64.
std::map<std::string, double> exact(const contract::TensorTable& table, const Weights& weights) {
  std::map<std::string, std::pair<double, double>> sums;
  for (const contract::TensorEntry& tensor : table.tensors) {
    auto& [change, weight] = sums[contract::layer_of(tensor.name)];
    for (std::int64_t i = tensor.offset; i < tensor.offset + tensor.size; ++i) {
      const auto at = static_cast<std::size_t>(i);
      const double was = weights.before[at], is = weights.after[at];
      change += (is - was) * (is - was);
      weight += was * was;
    }
  }
  std::map<std::string, double> ratios;
  for (const auto& [layer, sum] : sums) ratios[layer] = std::sqrt(sum.first / sum.second);
  return ratios;
}

std::vector<numerics::LayerUpdate> sampled(const contract::TensorTable& table,
                                           const std::vector<numerics::Span>& spans,
                                           const Weights& weights) {
  const auto device = cpu::make_cpu_device(1);
  device::DeviceMemory memory(*device, table.arena_size, device::Dtype::Float32);
  numerics::UpdateRatio ratio(*device, table, spans);
  device->copy_to_device(0, memory.view(), weights.before.data());
  ratio.before(memory.view());
  device->copy_to_device(0, memory.view(), weights.after.data());
  ratio.after(memory.view());
  device->wait_host(device->record(0));
  return ratio.layers();
}

TEST(UpdateRatio, OfASmallModelIsExact) {
  const contract::TensorTable table = table_of(8);
  const Weights weights = changed(table);
  const auto expected = exact(table, weights);
  const auto layers = sampled(table, {{0, table.arena_size}}, weights);
  ASSERT_EQ(layers.size(), 4U);
  EXPECT_EQ(layers[0].layer, "the head");
  EXPECT_EQ(layers[1].layer, "layer 1");
  EXPECT_EQ(layers[2].layer, "layer 0");
  EXPECT_EQ(layers[3].layer, "the embeddings");
  for (std::size_t i = 0; i < 3; ++i) {  // the word embedding alone is larger than a sample
    EXPECT_NEAR(layers[i].ratio(), expected.at(layers[i].layer), 1e-9) << layers[i].layer;
  }
  EXPECT_NEAR(layers[3].ratio(), expected.at("the embeddings"),
              0.1 * expected.at("the embeddings"));
}

TEST(UpdateRatio, OfALargeModelIsCloseToAllWeights) {
  const contract::TensorTable table = table_of(64);
  const Weights weights = changed(table);
  const auto expected = exact(table, weights);
  for (const auto& layer : sampled(table, {{0, table.arena_size}}, weights)) {
    EXPECT_NEAR(layer.ratio(), expected.at(layer.layer), 0.1 * expected.at(layer.layer))
        << layer.layer;
  }
}

// Ranks that hold parts: their sums are of weights of all of them.
TEST(UpdateRatio, PartsAddUp) {
  const contract::TensorTable table = table_of(8);
  const Weights weights = changed(table);
  const auto whole = sampled(table, {{0, table.arena_size}}, weights);
  const std::int64_t cut = table.arena_size / 3 + 1;
  const auto first = sampled(table, {{0, 64}, {64, cut - 64}}, weights);
  const auto second = sampled(table, {{cut, table.arena_size - cut}}, weights);
  ASSERT_EQ(first.size(), whole.size());
  for (std::size_t i = 0; i + 1 < whole.size(); ++i) {
    EXPECT_NEAR(first[i].change + second[i].change, whole[i].change, 1e-9 * whole[i].change);
    EXPECT_NEAR(first[i].weight + second[i].weight, whole[i].weight, 1e-9 * whole[i].weight);
  }
}

TEST(UpdateRatio, TheSampleIsSpreadOverATensorAndStandsForAllOfIt) {
  const contract::TensorTable table = table_of(64);
  const numerics::WeightSample sample = numerics::sample_weights(table, {{0, table.arena_size}});
  const contract::TensorEntry& words = table.at(contract::kWordEmbedding);
  std::vector<std::int64_t> begins;
  double all = 0;
  for (const numerics::SampledRun& run : sample.runs) {
    all += run.stands_for * static_cast<double>(run.span.size);
    if (run.span.begin >= words.offset) begins.push_back(run.span.begin - words.offset);
  }
  EXPECT_NEAR(all, static_cast<double>(table.parameter_count), 1e-6);
  ASSERT_EQ(begins.size(), 4U);
  for (std::int64_t i = 0; i < 4; ++i) {
    EXPECT_EQ(begins[static_cast<std::size_t>(i)], words.size * (2 * i + 1) / 8 - 128);
  }
}

}  // namespace
}  // namespace regatta::trainer
