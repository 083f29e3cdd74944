// The heads of tasks: loss, logits and every gradient against the float64 reference; frozen layers.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/trainer/model/random_model.h"
#include "trainer/cpu/cpu_device.h"
#include "trainer/model/batch_room.h"
#include "trainer/model/bert.h"
#include "trainer/step/buckets.h"

namespace regatta::tests {
namespace {

using namespace regatta::trainer;  // the subject
using contract::Task;

constexpr float kUnknown = std::numeric_limits<float>::quiet_NaN();
constexpr std::int32_t kTaskStep = 17;

contract::ModelShape task_shape(Task task, int hidden, int heads) {
  contract::ModelShape shape = small_shape(hidden, heads, contract::Gelu::Erf);
  shape.task = task;
  if (task == Task::Classification) shape.labels = 5;
  return shape;
}

// Label, answer and value are random; those of every third sample from the second on are unknown.
std::vector<samples::Sample> task_samples(const contract::ModelShape& shape,
                                          const std::vector<int>& lengths, bool all_unknown) {
  std::mt19937 random(11);
  std::normal_distribution<float> normal;
  std::vector<samples::Sample> samples;
  for (const int length : lengths) {
    samples::Sample sample = random_sample(length, 0, shape, &random);
    const auto below = [&](int bound) {
      return static_cast<std::int32_t>(random() % static_cast<unsigned>(bound));
    };
    sample.sample_label = below(static_cast<int>(contract::outputs_of(shape)));
    sample.answer_begin = below(length);
    sample.answer_end = sample.answer_begin + below(length - sample.answer_begin);
    sample.value = 2 * normal(random);
    if (all_unknown || samples.size() % 3 == 1) {
      sample.sample_label = -1;
      // One end alone is not enough.
      (samples.size() % 2 == 1 ? sample.answer_begin : sample.answer_end) = -1;
      sample.value = kUnknown;
    }
    samples.push_back(std::move(sample));
  }
  return samples;
}

bool is_known(Task task, const samples::Sample& sample) {
  if (task == Task::Regression) return !std::isnan(sample.value);
  if (task == Task::Classification) return sample.sample_label >= 0;
  return sample.answer_begin >= 0 && sample.answer_end >= 0;
}

struct TaskPass {
  std::vector<float> weights, gradients, logits;
  float sums[6] = {};
};

// What the memory of activations holds before is `stale`.
TaskPass task_pass(const contract::ModelShape& shape, const model::BertOptions& options,
                   const samples::PackedBatch& batch, model::Mode mode,
                   const model::LossScale& scale, float stale = 0) {
  const auto device = cpu::make_cpu_device(2);
  model::Bert model(*device, shape, options);
  TaskPass pass;
  pass.weights = random_weights(model.table(), 5);
  device->copy_to_device(0, model.parameters(), pass.weights.data());
  model.reserve(model::room_for(batch, options.room));
  const device::View memory = model.activation_memory();
  const std::vector<float> fill(static_cast<std::size_t>(memory.bytes() / 4), stale);
  device->copy_to_device(0, {memory.data, memory.bytes() / 4, device::Dtype::Float32}, fill.data());
  model.zero_gradients();
  model.reset_statistics();
  model.upload(batch, kTaskStep, scale);
  model.forward(mode);
  if (mode == model::Mode::Training) {
    model.backward();
    pass.gradients.resize(pass.weights.size());
    device->copy_to_host(0, pass.gradients.data(), model.gradients());
  } else if (shape.task != Task::Pretraining) {
    const bool of_tokens = shape.task == Task::QuestionAnswering;
    pass.logits.resize(static_cast<std::size_t>((of_tokens ? batch.tokens() : batch.samples()) *
                                                contract::outputs_of(shape)));
    model.read_logits(pass.logits.data());
  }
  model.read_statistics(pass.sums);
  device->synchronize();
  return pass;
}

double norm_of(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value * value;
  return std::sqrt(sum);
}

struct HeadCase {
  const char* name;
  Task task;
  int hidden, heads;
  double dropout;
  float smoothing;
  std::vector<int> lengths;
  std::int64_t token_bucket = 1;
  bool all_unknown = false;
};

class TaskHeads : public testing::TestWithParam<HeadCase> {
 protected:
  void SetUp() override {
    const HeadCase& c = GetParam();
    shape_ = task_shape(c.task, c.hidden, c.heads);
    samples_ = task_samples(shape_, c.lengths, c.all_unknown);
    for (std::size_t i = 0; i < samples_.size(); ++i) {
      ordinals_.push_back(static_cast<std::int32_t>(3 * i + 1));
    }
    options_.dropout = {c.dropout, c.dropout, 99};
    options_.room = {c.token_bucket, 0, c.token_bucket > 1 ? 40 : 0};
    options_.label_smoothing = c.smoothing;
    batch_ = samples::collate(samples_, ordinals_);
  }
  [[nodiscard]] ReferenceTaskResult reference(const std::vector<float>& weights,
                                              double dropout) const {
    return reference_task(shape_, reference_weights(contract::make_tensor_table(shape_), weights),
                          samples_, {ordinals_.begin(), ordinals_.end()}, {dropout, dropout, 99},
                          static_cast<std::uint32_t>(kTaskStep),
                          static_cast<double>(GetParam().smoothing), kTotal);
  }
  // Softmax does not see what all of a sample's tokens have in common, and a key's bias shifts all
  // scores of a query alike: true gradients of zero, of which rounding is left.
  [[nodiscard]] bool is_zero(const std::string& tensor) const {
    if (tensor.find("self.key.bias") != std::string::npos) return true;
    if (shape_.task != Task::QuestionAnswering) return false;
    return tensor == "qa_outputs.bias" || tensor == "bert.encoder.layer." +
                                                        std::to_string(shape_.layers - 1) +
                                                        ".output.LayerNorm.bias";
  }
  [[nodiscard]] double known() const {
    return static_cast<double>(
        std::count_if(samples_.begin(), samples_.end(),
                      [&](const samples::Sample& s) { return is_known(shape_.task, s); }));
  }

  static constexpr std::int64_t kTotal = 9;  // of all ranks and micro-batches
  contract::ModelShape shape_;
  std::vector<samples::Sample> samples_;
  std::vector<std::int32_t> ordinals_;
  model::BertOptions options_;
  samples::PackedBatch batch_;
};

TEST_P(TaskHeads, LossAndGradientsMatchTheReference) {
  const TaskPass pass =
      task_pass(shape_, options_, batch_, model::Mode::Training, {1, kTotal}, 1e4F);
  const ReferenceTaskResult expected = reference(pass.weights, GetParam().dropout);
  const model::Statistics statistics = model::Bert::statistics_of(pass.sums);
  EXPECT_NEAR(statistics.sample_loss, expected.loss, 1e-4 * expected.loss);
  EXPECT_EQ(statistics.samples, known());
  EXPECT_EQ(statistics.masked, 0);
  EXPECT_EQ(statistics.mlm_loss, 0);
  for (const contract::TensorEntry& tensor : contract::make_tensor_table(shape_).tensors) {
    const std::vector<double>& want = expected.gradients.at(tensor.name);
    std::vector<double> difference;
    for (std::size_t i = 0; i < want.size(); ++i) {
      difference.push_back(
          static_cast<double>(pass.gradients[static_cast<std::size_t>(tensor.offset) + i]) -
          want[i]);
    }
    EXPECT_LE(norm_of(difference), is_zero(tensor.name) ? 1e-5 : 2e-5 * norm_of(want) + 1e-9)
        << tensor.name;
    if (known() > 0 && !is_zero(tensor.name)) {
      EXPECT_GT(norm_of(want), 1e-6) << tensor.name << ": the case tests nothing of it";
    }
  }
}

// In an evaluation, which drops nothing out; hits by the reference's logits.
TEST_P(TaskHeads, LogitsAndHitsMatchTheReference) {
  const TaskPass pass =
      task_pass(shape_, options_, batch_, model::Mode::Evaluation, {1, kTotal}, 1e4F);
  const ReferenceTaskResult expected = reference(pass.weights, 0);
  std::vector<double> want, difference;
  for (const std::vector<double>& logits : expected.logits) {
    want.insert(want.end(), logits.begin(), logits.end());
  }
  ASSERT_EQ(want.size(), pass.logits.size());
  for (std::size_t i = 0; i < want.size(); ++i) {
    difference.push_back(static_cast<double>(pass.logits[i]) - want[i]);
  }
  EXPECT_LE(norm_of(difference), 2e-5 * norm_of(want));
  EXPECT_GT(norm_of(want), 0.01);

  double hits = 0;
  const auto best = [](const std::vector<double>& logits, std::size_t first, std::size_t stride) {
    std::size_t at = first;
    for (std::size_t i = first; i < logits.size(); i += stride) {
      if (logits[i] > logits[at]) at = i;
    }
    return static_cast<std::int32_t>((at - first) / stride);
  };
  for (std::size_t i = 0; i < samples_.size(); ++i) {
    const samples::Sample& sample = samples_[i];
    if (!is_known(shape_.task, sample)) continue;
    const std::vector<double>& logits = expected.logits[i];
    if (shape_.task == Task::Classification) {
      hits += best(logits, 0, 1) == sample.sample_label ? 1 : 0;
    } else if (shape_.task == Task::QuestionAnswering) {
      hits += best(logits, 0, 2) == sample.answer_begin && best(logits, 1, 2) == sample.answer_end
                  ? 1
                  : 0;
    }
  }
  const model::Statistics statistics = model::Bert::statistics_of(pass.sums);
  EXPECT_NEAR(statistics.sample_loss, expected.loss, 1e-4 * expected.loss);
  EXPECT_EQ(statistics.sample_correct, hits);
  EXPECT_EQ(statistics.samples, known());
}

// Whatever activations held before changes nothing.
TEST_P(TaskHeads, StaleMemoryChangesNoBit) {
  for (const model::Mode mode : {model::Mode::Training, model::Mode::Evaluation}) {
    const TaskPass clean = task_pass(shape_, options_, batch_, mode, {1, kTotal}, 0);
    const TaskPass stale = task_pass(shape_, options_, batch_, mode, {1, kTotal}, 1e4F);
    EXPECT_EQ(stale.gradients, clean.gradients);
    EXPECT_EQ(stale.logits, clean.logits);
    EXPECT_EQ(std::memcmp(stale.sums, clean.sums, sizeof clean.sums), 0);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Tasks, TaskHeads,
    testing::Values(
        HeadCase{"answers", Task::QuestionAnswering, 64, 2, 0, 0, {12, 5, 31}},
        HeadCase{"answers_smoothed", Task::QuestionAnswering, 64, 2, 0.2, 0.1F, {12, 5, 31, 7}},
        HeadCase{"answers_padded", Task::QuestionAnswering, 24, 3, 0.2, 0.3F, {1, 9, 40, 2}, 64},
        HeadCase{"answers_unknown", Task::QuestionAnswering, 24, 3, 0, 0.1F, {6, 4}, 32, true},
        HeadCase{"classes", Task::Classification, 64, 2, 0, 0, {12, 5, 31}},
        HeadCase{"classes_smoothed", Task::Classification, 64, 2, 0.2, 0.1F, {12, 5, 31, 7}},
        HeadCase{"classes_padded", Task::Classification, 24, 3, 0.2, 0.3F, {1, 9, 40, 2}, 64},
        HeadCase{"classes_unknown", Task::Classification, 24, 3, 0, 0.1F, {6, 4}, 32, true},
        HeadCase{"values", Task::Regression, 64, 2, 0, 0, {12, 5, 31}},
        HeadCase{"values_dropout", Task::Regression, 64, 2, 0.2, 0, {12, 5, 31, 7}},
        HeadCase{"values_padded", Task::Regression, 24, 3, 0.2, 0, {1, 9, 40, 2}, 64},
        HeadCase{"values_unknown", Task::Regression, 24, 3, 0, 0, {6, 4}, 32, true}),
    [](const auto& tested) { return std::string(tested.param.name); });

// What the planner takes for the groups in which gradients get ready.
TEST(TaskHeadsAlone, AnnounceGradientsInTheGroupsOfTheTable) {
  for (const Task task : {Task::QuestionAnswering, Task::Classification, Task::Regression}) {
    SCOPED_TRACE(contract::name_of(task));
    const contract::ModelShape shape = task_shape(task, 24, 3);
    const auto device = cpu::make_cpu_device(1);
    model::Bert model(*device, shape, {});
    const std::vector<float> weights = random_weights(model.table(), 5);
    device->copy_to_device(0, model.parameters(), weights.data());
    model.zero_gradients();
    model.upload(samples::collate(task_samples(shape, {9}, false), {0}), 1, {1, 1});
    model.forward(model::Mode::Training);
    std::vector<int> announced, expected;
    model.backward([&](int tensors) { announced.push_back(tensors); });
    for (const topology::plan::Bucket& group : step::buckets_as_announced(model.table())) {
      expected.push_back(group.end_tensor);
    }
    EXPECT_EQ(announced, expected);
    EXPECT_EQ(announced.front(), contract::first_encoder_tensor(model.table()));
  }
}

// A sample without a label is as if it were not there: neither loss nor gradients of the others
// know of it.
TEST(TaskHeadsAlone, UnknownLabelsAddNothing) {
  for (const Task task : {Task::QuestionAnswering, Task::Classification, Task::Regression}) {
    SCOPED_TRACE(contract::name_of(task));
    const contract::ModelShape shape = task_shape(task, 24, 3);
    std::vector<samples::Sample> samples = task_samples(shape, {12, 5, 31}, false);
    ASSERT_FALSE(is_known(task, samples[1]));
    model::BertOptions options;
    options.label_smoothing = task == Task::Regression ? 0.0F : 0.1F;
    const TaskPass all = task_pass(shape, options, samples::collate(samples, {0, 1, 2}),
                                   model::Mode::Training, {1, 3});
    samples.erase(samples.begin() + 1);
    const TaskPass known =
        task_pass(shape, options, samples::collate(samples, {0, 2}), model::Mode::Training, {1, 3});
    EXPECT_FLOAT_EQ(all.sums[3], known.sums[3]);
    EXPECT_EQ(all.sums[4], known.sums[4]);
    EXPECT_EQ(all.sums[5], known.sums[5]);
    std::vector<double> difference, size;
    for (std::size_t i = 0; i < known.gradients.size(); ++i) {
      size.push_back(static_cast<double>(known.gradients[i]));
      difference.push_back(static_cast<double>(all.gradients[i]) - size.back());
    }
    EXPECT_LE(norm_of(difference), 2e-6 * norm_of(size)) << "but for the order of sums";
  }
}

// Frozen tensors have no gradient, and the others have the bits that they have without freezing.
TEST(FrozenLayers, HaveNoGradientsAndChangeNoOthers) {
  for (const Task task :
       {Task::Pretraining, Task::QuestionAnswering, Task::Classification, Task::Regression}) {
    SCOPED_TRACE(contract::name_of(task));
    contract::ModelShape shape = task_shape(task, 24, 3);
    shape.layers = 3;
    std::vector<samples::Sample> samples = task_samples(shape, {12, 5, 31}, false);
    if (task == Task::Pretraining) {
      std::mt19937 random(2);
      samples = {random_sample(12, 3, shape, &random), random_sample(31, 5, shape, &random)};
    }
    std::vector<std::int32_t> ordinals(samples.size());
    for (std::size_t i = 0; i < samples.size(); ++i) ordinals[i] = static_cast<std::int32_t>(i);
    const samples::PackedBatch batch = samples::collate(samples, ordinals);
    model::BertOptions options;
    options.dropout = {0.1, 0.1, 4};
    const contract::TensorTable table = contract::make_tensor_table(shape);
    const TaskPass free = task_pass(shape, options, batch, model::Mode::Training, {8, 3});
    for (int frozen = 1; frozen <= shape.layers; ++frozen) {
      options.frozen_layers = frozen;
      const TaskPass pass = task_pass(shape, options, batch, model::Mode::Training, {8, 3});
      EXPECT_EQ(std::memcmp(pass.sums, free.sums, sizeof free.sums), 0);
      int still = 0;
      for (const contract::TensorEntry& tensor : table.tensors) {
        bool is_frozen = tensor.name.rfind("bert.embeddings.", 0) == 0;
        for (int layer = 0; layer < frozen; ++layer) {
          is_frozen |=
              tensor.name.rfind("bert.encoder.layer." + std::to_string(layer) + ".", 0) == 0;
        }
        const auto begin = static_cast<std::ptrdiff_t>(tensor.offset);
        const auto end = begin + static_cast<std::ptrdiff_t>(tensor.size);
        const std::vector<float> found(pass.gradients.begin() + begin,
                                       pass.gradients.begin() + end);
        const std::vector<float> before(free.gradients.begin() + begin,
                                        free.gradients.begin() + end);
        const std::vector<float> zeros(found.size(), 0.0F);
        EXPECT_EQ(found, is_frozen ? zeros : before) << frozen << " frozen: " << tensor.name;
        still += is_frozen ? 1 : 0;
      }
      EXPECT_EQ(still, 5 + 16 * frozen);
    }
  }
}

}  // namespace
}  // namespace regatta::tests
