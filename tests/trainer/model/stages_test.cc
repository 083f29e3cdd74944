// A model in stages, chained by hand in one process, against the same model in one piece: the same
// bits, forward and back.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tests/trainer/model/random_model.h"
#include "trainer/contract/stage_cut.h"
#include "trainer/cpu/cpu_device.h"
#include "trainer/model/bert.h"

namespace regatta::tests {
namespace {

using namespace regatta::trainer;  // the subject
using contract::Task;

constexpr int kStageLayers = 5;
constexpr std::int32_t kStageStep = 3;

contract::ModelShape stage_shape(Task task) {
  contract::ModelShape shape = small_shape(24, 3, contract::Gelu::Erf);
  shape.layers = kStageLayers;
  shape.task = task;
  if (task == Task::Classification) shape.labels = 5;
  return shape;
}

// Micro-batches of different sizes; the last has fewer samples.
std::vector<samples::PackedBatch> stage_batches(const contract::ModelShape& shape) {
  std::mt19937 random(8);
  std::vector<samples::PackedBatch> batches;
  std::int32_t ordinal = 0;
  for (const std::vector<int>& lengths : {std::vector<int>{12, 31}, {5, 40}, {9, 17}, {2}}) {
    std::vector<samples::Sample> samples;
    std::vector<std::int32_t> ordinals;
    for (const int length : lengths) {
      samples::Sample sample = random_sample(
          length, shape.task == Task::Pretraining ? 1 + length / 7 : 0, shape, &random);
      sample.answer_begin = length / 3;
      sample.answer_end = length / 2;
      sample.value = 0.1F * static_cast<float>(length);
      samples.push_back(sample);
      ordinals.push_back(ordinal++);
    }
    batches.push_back(samples::collate(samples, ordinals));
  }
  return batches;
}

model::LossScale stage_scale(const std::vector<samples::PackedBatch>& batches) {
  model::LossScale scale{0, 0, 1};
  for (const samples::PackedBatch& batch : batches) {
    scale.masked += batch.masked();
    scale.samples += batch.samples();
  }
  scale.masked = std::max<std::int64_t>(1, scale.masked);
  return scale;
}

struct Outcome {
  std::vector<float> gradients, sums, logits;  // logits of the last batch, evaluated
};

void start(device::Device& device, model::Bert& model, const std::vector<float>& weights) {
  device.copy_to_device(0, model.parameters(), weights.data());
  model.renew_compute_copy();
  model.zero_gradients();
  model.reset_statistics();
}
// `model` has the head, and has gone forward through the batch.
std::vector<float> logits_of(device::Device& device, model::Bert& model,
                             const samples::PackedBatch& batch) {
  const Task task = model.shape().task;
  if (task == Task::Pretraining) return {};
  const std::int64_t rows = task == Task::QuestionAnswering ? batch.tokens() : batch.samples();
  std::vector<float> logits(static_cast<std::size_t>(rows * contract::outputs_of(model.shape())));
  model.read_logits(logits.data());
  device.synchronize();
  return logits;
}
std::vector<float> gradients_of(device::Device& device, const model::Bert& model) {
  std::vector<float> gradients(static_cast<std::size_t>(model.table().arena_size));
  device.copy_to_host(0, gradients.data(), model.gradients());
  device.synchronize();
  return gradients;
}
std::vector<float> sums_of(device::Device& device, model::Bert& model) {
  std::vector<float> sums(6);
  model.read_statistics(sums.data());
  device.synchronize();
  return sums;
}

Outcome in_one_piece(device::Device& device, const contract::ModelShape& shape,
                     const model::BertOptions& options, const std::vector<float>& weights) {
  model::Bert model(device, shape, options);
  start(device, model, weights);
  const std::vector<samples::PackedBatch> batches = stage_batches(shape);
  for (const samples::PackedBatch& batch : batches) {
    model.upload(batch, kStageStep, stage_scale(batches));
    model.forward(model::Mode::Training);
    model.backward();
  }
  Outcome outcome{gradients_of(device, model), sums_of(device, model), {}};
  model.upload(batches.back(), 0, {});
  model.forward(model::Mode::Evaluation);
  outcome.logits = logits_of(device, model, batches.back());
  return outcome;
}

// All forward, then all back; each stage has a model of its own, which knows the others' weights as
// not a number, so that it cannot have used them.
Outcome in_stages(device::Device& device, const contract::ModelShape& shape,
                  const model::BertOptions& options, const std::vector<float>& weights,
                  const std::vector<contract::Stage>& cut) {
  const std::vector<samples::PackedBatch> batches = stage_batches(shape);
  const contract::TensorTable table = contract::make_tensor_table(shape);
  std::vector<std::unique_ptr<model::Bert>> models;
  for (const contract::Stage& stage : cut) {
    model::BertOptions of_stage = options;
    of_stage.stage = stage;
    models.push_back(std::make_unique<model::Bert>(device, shape, of_stage));
    const contract::StageTensors own = contract::stage_tensors(shape, table, stage);
    std::vector<float> known(weights.size(), std::nanf(""));
    for (int i = 0; i < static_cast<int>(table.tensors.size()); ++i) {
      const contract::TensorEntry& entry = table.tensors[static_cast<std::size_t>(i)];
      if ((i < own.begin || i >= own.end) && i != own.tied) continue;
      std::copy_n(weights.begin() + entry.offset, entry.size, known.begin() + entry.offset);
    }
    if (own.tied >= 0) {  // with the rows that round the vocabulary up
      const std::int64_t from = table.tensors.back().offset + table.tensors.back().size;
      std::fill(known.begin() + from, known.end(), 0.0F);
      const contract::TensorEntry& bias = table.at("cls.predictions.bias");
      std::fill_n(known.begin() + bias.offset + bias.size,
                  contract::vocabulary_rows(shape) - bias.size, 0.0F);
    }
    start(device, *models.back(), known);
  }
  const auto forward = [&](int slot, const samples::PackedBatch& batch, std::int32_t step,
                           const model::LossScale& scale, model::Mode mode) {
    for (std::size_t s = 0; s < models.size(); ++s) {
      models[s]->use(slot);
      models[s]->upload(batch, step, scale);
      if (s > 0) device.copy(0, models[s]->stage_input(), models[s - 1]->stage_output());
      models[s]->forward(mode);
    }
  };
  for (std::size_t i = 0; i < batches.size(); ++i) {
    forward(static_cast<int>(i), batches[i], kStageStep, stage_scale(batches),
            model::Mode::Training);
  }
  for (std::size_t i = 0; i < batches.size(); ++i) {
    for (std::size_t s = models.size(); s-- > 0;) {
      models[s]->use(static_cast<int>(i));
      if (s + 1 < models.size()) {
        device.copy(0, models[s]->output_gradient(), models[s + 1]->input_gradient());
      }
      models[s]->backward();
    }
  }
  Outcome outcome;
  outcome.sums = sums_of(device, *models.back());
  outcome.gradients.assign(weights.size(), 0.0F);
  for (std::size_t s = 0; s < models.size(); ++s) {
    const std::vector<float> own = gradients_of(device, *models[s]);
    for (std::size_t i = 0; i < own.size(); ++i) outcome.gradients[i] += own[i];
  }
  forward(0, batches.back(), 0, {}, model::Mode::Evaluation);
  outcome.logits = logits_of(device, *models.back(), batches.back());
  return outcome;
}

double distance(const float* a, const float* b, std::int64_t size) {
  double sum = 0, norm = 0;
  for (std::int64_t i = 0; i < size; ++i) {
    const auto x = static_cast<double>(a[i]), y = static_cast<double>(b[i]);
    sum += (x - y) * (x - y);
    norm += y * y;
  }
  return std::sqrt(sum / norm);
}

class Stages : public testing::TestWithParam<Task> {};

// The word embedding alone is summed in another order where it is at both ends.
TEST_P(Stages, AreTheModelInOnePieceBitForBit) {
  const contract::ModelShape shape = stage_shape(GetParam());
  const contract::TensorTable table = contract::make_tensor_table(shape);
  const std::vector<float> weights = random_weights(table, 5);
  const bool tied = shape.task == Task::Pretraining;
  for (const std::int64_t token_bucket : {1, 32}) {
    const auto device = cpu::make_cpu_device(2);
    const model::BertOptions options{
        {0.2, 0.1, 99}, device::Dtype::Float32, {token_bucket, tied ? 0.15 : 0.0}};
    const Outcome whole = in_one_piece(*device, shape, options, weights);
    for (const int stages : {2, 3, 4, 5}) {
      SCOPED_TRACE(std::to_string(stages) + " stages, bucket " + std::to_string(token_bucket));
      contract::StageCosts costs;
      costs.layers.assign(kStageLayers, 1.0);
      const Outcome cut =
          in_stages(*device, shape, options, weights, contract::cut_stages(costs, stages));
      EXPECT_EQ(cut.sums, whole.sums);
      EXPECT_EQ(cut.logits, whole.logits);
      for (const contract::TensorEntry& entry : table.tensors) {
        const float* a = cut.gradients.data() + entry.offset;
        const float* b = whole.gradients.data() + entry.offset;
        if (tied && entry.name == contract::kWordEmbedding) {
          EXPECT_LT(distance(a, b, entry.size), 1e-6);
          EXPECT_GT(distance(b, a, entry.size), 0) << "or it need not be told apart";
        } else {
          EXPECT_EQ(std::memcmp(a, b, static_cast<std::size_t>(entry.size) * sizeof(float)), 0)
              << entry.name;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Tasks, Stages,
                         testing::Values(Task::Pretraining, Task::QuestionAnswering,
                                         Task::Classification, Task::Regression),
                         [](const auto& tested) {
                           std::string name = contract::name_of(tested.param);
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

// Of its own layers only, so that a stage of two of twelve layers takes about a sixth.
TEST(StageActivations, AreThoseOfItsLayers) {
  contract::ModelShape shape = contract::preset_shape("base");
  shape.vocabulary = 30522;
  const model::BatchRoom room{4096, 32, 640, 128};
  const auto bytes_of = [&](const contract::Stage& stage) {
    return model::activation_layout(shape, room, device::Dtype::Float32, stage).bytes;
  };
  const auto whole = model::activation_layout(shape, room, device::Dtype::Float32).bytes;
  const auto middle = bytes_of({2, 6, 4, 6});
  const auto one_more = bytes_of({2, 6, 4, 7});
  const std::int64_t layer = one_more - middle;
  // qkv, attention, the feed-forward's two and z and y of two norms, of 4 bytes; log Σ exp and four
  // statistics a token.
  EXPECT_EQ(layer, 4 * room.tokens * (3 * 768 + 768 + 2 * 3072 + 4 * 768 + 12 + 4));
  EXPECT_LT(middle, whole - 10 * layer);
}

}  // namespace
}  // namespace regatta::tests
