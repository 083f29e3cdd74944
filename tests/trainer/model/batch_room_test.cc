// Room, padding and memory as pure functions.
#include "trainer/model/batch_room.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <utility>

#include "tests/trainer/model/random_model.h"
#include "trainer/model/activation_layout.h"
#include "trainer/step/loss_scaler.h"
#include "trainer/step/memory_needs.h"

namespace regatta::tests {
namespace {

using namespace regatta::trainer;  // the subject

samples::PackedBatch batch_of(const std::vector<std::pair<int, int>>& lengths) {
  const contract::ModelShape shape = small_shape(64, 2, contract::Gelu::Erf);
  std::mt19937 random(7);
  std::vector<samples::Sample> samples;
  std::vector<std::int32_t> ordinals;
  for (const auto& [length, masked] : lengths) {
    ordinals.push_back(static_cast<std::int32_t>(samples.size()));
    samples.push_back(random_sample(length, masked, shape, &random));
  }
  return samples::collate(samples, ordinals);
}

TEST(BatchRoom, WithoutABucketIsExactlyTheBatch) {
  const samples::PackedBatch batch = batch_of({{12, 3}, {5, 1}});
  EXPECT_EQ(model::room_for(batch, {1, 0.15, 0}), (model::BatchRoom{17, 2, 4, 12}));
}

TEST(BatchRoom, WithABucketDependsOnTheBucketOnly) {
  const model::RoomPolicy policy{64, 0.15, 40};
  const model::BatchRoom room = model::room_for(batch_of({{30, 4}, {40, 6}, {20, 3}}), policy);
  EXPECT_EQ(room.tokens, 128);
  EXPECT_EQ(room.samples, 8);
  EXPECT_EQ(room.masked, 28);  // ⌈0.15·128⌉ + 8
  EXPECT_EQ(room.max_length, 40);
  EXPECT_EQ(room, model::room_for(batch_of({{25, 1}, {40, 2}, {17, 9}, {11, 1}}), policy));
  EXPECT_EQ(model::room_for(batch_of({{40, 39}, {20, 1}}), policy).masked, 40) << "all must fit";
}

TEST(BatchRoom, InputsHoldTheBatchAndHarmlessPadding) {
  samples::Sample known, unknown;
  {
    const contract::ModelShape shape = small_shape(64, 2, contract::Gelu::Erf);
    std::mt19937 random(7);
    known = random_sample(12, 3, shape, &random);
    unknown = random_sample(5, 1, shape, &random);
  }
  known.answer_begin = 2;
  known.answer_end = 4;
  known.value = -1.5F;
  unknown.value = std::numeric_limits<float>::quiet_NaN();
  const samples::PackedBatch batch = samples::collate({known, unknown}, {0, 1});
  const model::BatchRoom room = model::room_for(batch, {64, 0.15, 0});
  const model::InputLayout layout = model::input_layout(room);
  std::vector<std::int32_t> block(static_cast<std::size_t>(layout.size), 77);
  model::write_inputs(batch, {9, 0.25F, 0.5F}, room, block.data());
  const auto part = [&](std::int64_t offset, std::int64_t count) {
    return std::vector<std::int32_t>(block.begin() + offset, block.begin() + offset + count);
  };
  const auto padded = [](std::vector<std::int32_t> values, std::int64_t count, std::int32_t with) {
    values.resize(static_cast<std::size_t>(count), with);
    return values;
  };
  EXPECT_EQ(part(layout.ids, 64), padded(batch.ids, 64, 0));
  EXPECT_EQ(part(layout.ordinals, 64), padded(batch.ordinals, 64, 0));
  EXPECT_EQ(part(layout.cumulative, 9), padded(batch.cumulative, 9, 17));
  EXPECT_EQ(part(layout.masked_rows, room.masked), padded(batch.masked_rows, room.masked, -1));
  EXPECT_EQ(part(layout.masked_labels, room.masked), padded(batch.masked_labels, room.masked, -1));
  EXPECT_EQ(part(layout.first_rows, 8), padded(batch.first_rows, 8, -1));
  EXPECT_EQ(part(layout.sample_labels, 8), padded(batch.sample_labels, 8, -1));
  EXPECT_EQ(part(layout.answers, 16), padded(batch.answers, 16, -1));
  EXPECT_EQ(batch.answers, (std::vector<std::int32_t>{2, 4, -1, -1}));
  for (std::size_t i = 0; i < 8; ++i) {
    const auto value = std::bit_cast<float>(block[static_cast<std::size_t>(layout.values) + i]);
    EXPECT_TRUE(i == 0 ? value == -1.5F : std::isnan(value)) << i << ": " << value;
  }
  EXPECT_EQ(block[static_cast<std::size_t>(layout.step)], 9);
  EXPECT_EQ(std::bit_cast<float>(block[static_cast<std::size_t>(layout.loss_scales)]), 0.25F);
  EXPECT_EQ(std::bit_cast<float>(block[static_cast<std::size_t>(layout.loss_scales) + 1]), 0.5F);
  // Still sorted by (id, token), every token once.
  const std::vector<std::int32_t> ids = part(layout.ids, 64);
  const std::vector<std::int32_t> sorted = part(layout.sorted, 64);
  std::vector<std::int32_t> expected(64);
  for (std::int32_t t = 0; t < 64; ++t) expected[static_cast<std::size_t>(t)] = t;
  std::stable_sort(expected.begin(), expected.end(), [&](std::int32_t a, std::int32_t b) {
    return ids[static_cast<std::size_t>(a)] < ids[static_cast<std::size_t>(b)];
  });
  EXPECT_EQ(sorted, expected);
}

TEST(ActivationLayout, BuffersAreAlignedAndDoNotOverlap) {
  contract::ModelShape shape = contract::preset_shape("tiny");
  shape.vocabulary = 100;
  shape.labels = 3;
  const std::pair<contract::Task, device::Dtype> rows[] = {
      {contract::Task::Pretraining, device::Dtype::Float32},
      {contract::Task::Pretraining, device::Dtype::BFloat16},
      {contract::Task::QuestionAnswering, device::Dtype::BFloat16},
      {contract::Task::Classification, device::Dtype::BFloat16},
      {contract::Task::Regression, device::Dtype::Float32}};
  for (const auto& [task, compute] : rows) {
    shape.task = task;
    SCOPED_TRACE(contract::name_of(task));
    const model::ActivationLayout layout = model::activation_layout(shape, {33, 3, 7, 20}, compute);
    std::vector<model::Buffer> buffers = {
        layout.branch,          layout.gradient_a,    layout.gradient_b,   layout.gradient_qkv,
        layout.gradient_inner,  layout.masked_hidden, layout.masked_inner, layout.masked_activated,
        layout.masked_gradient, layout.logits,        layout.first_hidden, layout.pooled,
        layout.first_gradient,  layout.sample_logits, layout.kept_logits};
    const auto add_norm = [&](const model::NormBuffers& norm) {
      buffers.insert(buffers.end(), {norm.z, norm.mean, norm.rstd, norm.y});
    };
    add_norm(layout.embedding);
    add_norm(layout.masked_norm);
    for (const model::LayerBuffers& layer : layout.layers) {
      buffers.insert(buffers.end(),
                     {layer.qkv, layer.lse, layer.attention, layer.inner, layer.activated});
      add_norm(layer.attention_norm);
      add_norm(layer.output_norm);
    }
    // Each task has those of its own head.
    std::erase_if(buffers, [](const model::Buffer& buffer) { return buffer.size == 0; });
    const bool asks = task == contract::Task::QuestionAnswering;
    const bool pretrains = task == contract::Task::Pretraining;
    EXPECT_EQ(std::ssize(buffers),
              5 + 4 + 13 * 2 + (pretrains ? 5 + 4 : 0) + (asks ? 0 : 3) + (pretrains ? 1 : 2));
    std::sort(buffers.begin(), buffers.end(),
              [](const model::Buffer& a, const model::Buffer& b) { return a.offset < b.offset; });
    std::int64_t end = 0;
    for (const model::Buffer& buffer : buffers) {
      EXPECT_EQ(buffer.offset % 256, 0);
      EXPECT_GE(buffer.offset, end);
      EXPECT_LT(buffer.offset - end, 256);
      end = buffer.offset + buffer.size * device::size_of(buffer.dtype);
    }
    EXPECT_LE(end, layout.bytes);
    EXPECT_LT(layout.bytes - end, 256);
    // Rows of the rounded vocabulary; two of each token; two, three classes or one of each sample.
    EXPECT_EQ(layout.logits.size, pretrains ? 7 * 128 : 0);
    const bool classes = task == contract::Task::Classification;
    const bool values = task == contract::Task::Regression;
    EXPECT_EQ(layout.sample_logits.size, asks ? 33 * 2 : 3 * (classes ? 3 : values ? 1 : 2));
    EXPECT_EQ(layout.kept_logits.size, pretrains ? 0 : layout.sample_logits.size);
    EXPECT_EQ(layout.kept_logits.dtype, device::Dtype::Float32);
    EXPECT_EQ(layout.layers[0].lse.dtype, device::Dtype::Float32);
    EXPECT_EQ(layout.layers[0].qkv.dtype, compute);
  }
}

TEST(MemoryNeeds, CountsEveryArrayOfARun) {
  contract::RunConfig config;
  config.model = contract::preset_shape("tiny");
  config.model.vocabulary = 1000;
  config.batch_size = 64;
  config.micro_batch_size = 16;
  config.data.max_length = 128;
  const std::int64_t arena = contract::make_tensor_table(config.model).arena_size;
  const step::MemoryNeeds plain = step::memory_needs(config, {}, 1000);
  EXPECT_EQ(plain.parameters, 4 * arena);
  EXPECT_EQ(plain.gradients, 4 * arena);
  EXPECT_EQ(plain.moments, 8 * arena);
  EXPECT_EQ(plain.statistics, 4 * arena);
  EXPECT_EQ(plain.total(), plain.parameters + plain.gradients + plain.moments + plain.statistics +
                               plain.activations + plain.inputs + plain.workspace);
  contract::RunConfig silent = config;
  silent.statistics_every = 0;
  EXPECT_EQ(step::memory_needs(silent, {}, 1000).statistics, 0);
  EXPECT_EQ(plain.workspace, 1000);
  contract::RunConfig sharded = config;
  sharded.ranks = 8;
  sharded.sharding.optimizer = true;
  EXPECT_EQ(step::memory_needs(sharded, {}, 0).moments, arena);
  sharded.hierarchical = true;
  sharded.ranks_per_node = 4;
  EXPECT_EQ(step::memory_needs(sharded, {}, 0).moments, 2 * arena);
  EXPECT_EQ(plain.room.tokens, 8192 + 256);  // an evaluation: more than 16 × 128
  model::BertOptions options;
  options.compute = device::Dtype::BFloat16;
  const step::MemoryNeeds half = step::memory_needs(config, options, 0);
  EXPECT_EQ(half.parameters, 6 * arena);
  EXPECT_LT(half.activations, 0.55 * static_cast<double>(plain.activations));
  config.micro_batch_size = 0;
  config.batch_size = 256;
  EXPECT_GT(step::memory_needs(config, {}, 0).activations,
            3.5 * static_cast<double>(plain.activations));
  EXPECT_NE(step::describe(plain, config).find("an evaluation"), std::string::npos);
  const std::string text = step::describe(step::memory_needs(config, {}, 0), config);
  EXPECT_NE(text.find("at most"), std::string::npos);
  EXPECT_NE(text.find("batch.micro"), std::string::npos);
}

// A stage holds its own moments, and the activations of the micro-batches that it has in flight.
TEST(MemoryNeeds, OfStagesAreThoseOfTheLargest) {
  contract::RunConfig config;
  config.model = contract::preset_shape("base");
  config.model.vocabulary = 30522;
  config.data.max_length = 512;
  config.batch_size = 512;
  config.micro_batch_size = 32;  // more tokens than an evaluation packs
  const contract::TensorTable table = contract::make_tensor_table(config.model);
  const step::MemoryNeeds whole = step::memory_needs(config, {}, 0);
  config.ranks = 4;
  config.parallel.pipeline = 4;
  const step::MemoryNeeds in_turn = step::memory_needs(config, {}, 0);
  config.parallel.schedule = contract::PipelineOrder::GPipe;
  const step::MemoryNeeds one_way = step::memory_needs(config, {}, 0);
  EXPECT_EQ(in_turn.gradients, whole.gradients) << "allocated whole";
  EXPECT_EQ(in_turn.moments, one_way.moments);
  const std::int64_t word = table.at(contract::kWordEmbedding).size;
  EXPECT_GT(in_turn.moments, 8 * word) << "of the stages at the ends";
  EXPECT_LT(in_turn.moments, 8 * (word + (table.parameter_count - word) / 2));
  EXPECT_LT(in_turn.activations, 1.5 * static_cast<double>(whole.activations));
  EXPECT_NEAR(static_cast<double>(one_way.activations),
              4.0 * static_cast<double>(in_turn.activations),
              0.6 * static_cast<double>(one_way.activations))
      << "of sixteen micro-batches instead of at most four";
  EXPECT_GT(one_way.activations, 3 * in_turn.activations);
}

TEST(LossScaler, HalvesOnOverflowAndRecovers) {
  step::LossScaler scaler(contract::Precision::Float16);
  EXPECT_EQ(scaler.factor(), 65536);
  EXPECT_TRUE(scaler.observe(false));
  EXPECT_EQ(scaler.factor(), 32768);
  for (int step = 0; step < 2000; ++step) EXPECT_TRUE(scaler.observe(true));
  EXPECT_EQ(scaler.factor(), 65536);
  for (int step = 0; step < 16; ++step) EXPECT_TRUE(scaler.observe(false));
  EXPECT_EQ(scaler.factor(), 1);
  EXPECT_FALSE(scaler.observe(false)) << "the loss itself diverges";
  const step::LossScaler resumed(contract::Precision::Float16, 512, 1999);
  EXPECT_EQ(resumed.factor(), 512);
  step::LossScaler again = resumed;
  EXPECT_TRUE(again.observe(true));
  EXPECT_EQ(again.factor(), 1024);
}

// Patience begins anew with an overflow, and the factor has an end.
TEST(LossScaler, WaitsForAllItsStepsAfterAnOverflowAndStopsAtItsMost) {
  step::LossScaler scaler(contract::Precision::Float16, 1024, 1500);
  EXPECT_TRUE(scaler.observe(false));
  EXPECT_EQ(scaler.factor(), 512);
  EXPECT_EQ(scaler.good_steps(), 0);
  for (int step = 0; step < 1999; ++step) EXPECT_TRUE(scaler.observe(true));
  EXPECT_EQ(scaler.factor(), 512);
  EXPECT_TRUE(scaler.observe(true));
  EXPECT_EQ(scaler.factor(), 1024);
  step::LossScaler most(contract::Precision::Float16, 8388608, 1999);
  for (int step = 0; step < 2 * 2000; ++step) EXPECT_TRUE(most.observe(true));
  EXPECT_EQ(most.factor(), 16777216) << "2²⁴";
}

TEST(LossScaler, IsOneForOtherTypes) {
  step::LossScaler scaler(contract::Precision::BFloat16, 512, 3);
  EXPECT_EQ(scaler.factor(), 1);
  EXPECT_TRUE(scaler.observe(true));
  EXPECT_EQ(scaler.factor(), 1);
  EXPECT_FALSE(scaler.observe(false));
}

}  // namespace
}  // namespace regatta::tests
