// The whole model on the real GPU: gradients against the float64 reference, training against the
// CPU device, and what must not change a bit.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "tests/gpu/gpu.h"
#include "tests/trainer/model/random_model.h"
#include "tests/trainer/samples/small_dataset.h"
#include "tests/trainer/step/whole_state.h"
#include "trainer/bench/bench_step.h"
#include "trainer/cpu/cpu_device.h"
#include "trainer/model/initial_weights.h"
#include "trainer/samples/sampler.h"
#include "trainer/step/train_loop.h"

namespace regatta::tests {
namespace {

using namespace regatta::trainer;                  // the subject
using Lengths = std::vector<std::pair<int, int>>;  // tokens, masked

struct TypeCase {
  const char* name;
  device::Dtype compute;
  bool tf32;
  double unit;  // the relative error of one rounding
};
const TypeCase kTypes[] = {{"float32", device::Dtype::Float32, false, 0x1p-24},
                           {"tf32", device::Dtype::Float32, true, 0x1p-11},
                           {"bfloat16", device::Dtype::BFloat16, false, 0x1p-9},
                           {"float16", device::Dtype::Float16, false, 0x1p-11}};

std::unique_ptr<device::Device> gpu(const TypeCase& type) {
  cuda::CudaOptions options;
  options.tf32 = type.tf32;
  return make_gpu(options);
}

double norm(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value * value;
  return std::sqrt(sum);
}

struct Batch {
  std::vector<samples::Sample> samples;
  std::vector<std::int32_t> ordinals;
  model::LossScale scale{0, 0, 1};
};

Batch make_batch(const contract::ModelShape& shape, const Lengths& lengths) {
  std::mt19937 random(11);
  Batch batch;
  for (const auto& [length, masked] : lengths) {
    batch.ordinals.push_back(static_cast<std::int32_t>(3 * batch.samples.size() + 1));
    batch.samples.push_back(random_sample(length, masked, shape, &random));
    batch.scale.masked += masked;
    ++batch.scale.samples;
  }
  return batch;
}

struct PassResult {
  std::vector<float> gradients;
  model::Statistics statistics;
};

// `stale`: what the activations' memory is filled with first.
PassResult run_pass(device::Device& device, const contract::ModelShape& shape,
                    const model::BertOptions& options, const Batch& batch, int stale = 0) {
  model::Bert model(device, shape, options);
  const std::vector<float> weights = random_weights(model.table(), 5);
  device.copy_to_device(0, model.parameters(), weights.data());
  model.renew_compute_copy();
  const samples::PackedBatch packed = samples::collate(batch.samples, batch.ordinals);
  model.reserve(model::room_for(packed, options.room));
  const device::View memory = model.activation_memory();
  const std::vector<char> bytes(static_cast<std::size_t>(memory.size), static_cast<char>(stale));
  device.copy_to_device(0, memory, bytes.data());
  model.zero_gradients();
  model.reset_statistics();
  model.upload(packed, 17, batch.scale);
  model.forward(model::Mode::Training);
  model.backward();
  PassResult result;
  result.gradients.resize(weights.size());
  device.copy_to_host(0, result.gradients.data(), model.gradients());
  float sums[6];
  model.read_statistics(sums);
  device.synchronize();
  device.forget_repeats();
  result.statistics = model::Bert::statistics_of(sums);
  return result;
}

struct GradientCase {
  const char* name;
  int hidden, heads;
  contract::Gelu gelu;
  double dropout;
  Lengths lengths;
};
const GradientCase kShapes[] = {
    {"plain", 64, 2, contract::Gelu::Erf, 0.0, {{12, 3}, {5, 1}, {31, 5}}},
    {"dropout", 64, 2, contract::Gelu::Erf, 0.2, {{12, 3}, {5, 1}, {31, 5}}},
    {"tanh", 64, 1, contract::Gelu::Tanh, 0.1, {{40, 6}}},
    {"heads_of_64", 128, 2, contract::Gelu::Tanh, 0.1, {{40, 6}, {33, 4}, {1, 1}, {39, 6}}},
    {"odd_sizes", 24, 3, contract::Gelu::Erf, 0.1, {{1, 1}, {2, 1}, {40, 7}, {17, 2}}}};

class CudaGradients : public testing::TestWithParam<std::tuple<TypeCase, GradientCase>> {};

// A gradient passes through some 60 roundings in a model of two layers, forward and backward; four
// times their random walk is allowed, relative to the tensor's norm. For float32 the CPU device's
// bound holds, which allows for sums of many terms.
TEST_P(CudaGradients, MatchTheReference) {
  const auto& [type, c] = GetParam();
  const contract::ModelShape shape = small_shape(c.hidden, c.heads, c.gelu);
  const Batch batch = make_batch(shape, c.lengths);
  const auto device = gpu(type);
  const model::BertOptions options{
      {c.dropout, c.dropout, 99}, type.compute, {device->token_bucket()}};
  const PassResult result = run_pass(*device, shape, options, batch);

  const contract::TensorTable table = contract::make_tensor_table(shape);
  const ReferenceResult expected = reference_bert(
      shape, reference_weights(table, random_weights(table, 5)), batch.samples,
      {batch.ordinals.begin(), batch.ordinals.end()}, {c.dropout, c.dropout, 99}, 17U,
      static_cast<double>(batch.scale.masked), static_cast<double>(batch.scale.samples));
  const double allowed = std::max(2e-5, 4 * std::sqrt(60.0) * type.unit);
  EXPECT_NEAR(result.statistics.mlm_loss, expected.mlm_loss, 5 * allowed * expected.mlm_loss);
  EXPECT_NEAR(result.statistics.sample_loss, expected.nsp_loss, 5 * allowed * expected.nsp_loss);
  EXPECT_EQ(result.statistics.masked, static_cast<double>(batch.scale.masked));
  EXPECT_EQ(result.statistics.samples, static_cast<double>(batch.scale.samples));
  for (const contract::TensorEntry& tensor : table.tensors) {
    const std::vector<double>& want = expected.gradients.at(tensor.name);
    std::vector<double> difference;
    for (std::size_t i = 0; i < want.size(); ++i) {
      difference.push_back(
          static_cast<double>(result.gradients[static_cast<std::size_t>(tensor.offset) + i]) -
          want[i]);
    }
    // A key's bias shifts all scores of a query alike, so its true gradient is zero, the sum of
    // terms as large as those of the query's.
    std::string scale_name = tensor.name;
    const std::size_t key = scale_name.find("self.key.bias");
    if (key != std::string::npos) scale_name.replace(key, 13, "self.query.bias");
    EXPECT_LE(norm(difference), allowed * norm(expected.gradients.at(scale_name)) + 1e-6)
        << tensor.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Gpu, CudaGradients,
                         testing::Combine(testing::ValuesIn(kTypes), testing::ValuesIn(kShapes)),
                         [](const auto& tested) {
                           return std::string(std::get<0>(tested.param).name) + "_" +
                                  std::get<1>(tested.param).name;
                         });

class CudaTypes : public testing::TestWithParam<TypeCase> {};
INSTANTIATE_TEST_SUITE_P(Gpu, CudaTypes, testing::ValuesIn(kTypes),
                         [](const auto& tested) { return std::string(tested.param.name); });

// Padding and what an earlier batch left in memory change no bit.
TEST_P(CudaTypes, StaleActivationsChangeNoBit) {
  const contract::ModelShape shape = small_shape(64, 1, contract::Gelu::Tanh);
  const Batch batch = make_batch(shape, {{12, 3}, {5, 1}, {31, 5}});
  const auto device = gpu(GetParam());
  const model::BertOptions options{{0.1, 0.1, 99}, GetParam().compute, {device->token_bucket()}};
  const PassResult zeros = run_pass(*device, shape, options, batch, 0);
  const PassResult not_numbers = run_pass(*device, shape, options, batch, 0xFF);
  EXPECT_EQ(zeros.gradients, not_numbers.gradients);
  EXPECT_EQ(zeros.statistics.mlm_loss, not_numbers.statistics.mlm_loss);
}

// Rows of padding are zeros in every sum, so only the order of additions may differ.
TEST_P(CudaTypes, RoomForMoreTokensChangesOnlyRounding) {
  const contract::ModelShape shape = small_shape(64, 1, contract::Gelu::Tanh);
  const Batch batch = make_batch(shape, {{12, 3}, {5, 1}, {31, 5}});
  const auto device = gpu(GetParam());
  model::BertOptions options{{0.1, 0.1, 99}, GetParam().compute, {1}};
  const PassResult exact = run_pass(*device, shape, options, batch);
  options.room.token_bucket = 256;
  const PassResult padded = run_pass(*device, shape, options, batch);
  double difference = 0;
  double size = 0;
  for (std::size_t i = 0; i < exact.gradients.size(); ++i) {
    const auto value = static_cast<double>(exact.gradients[i]);
    difference += std::pow(value - static_cast<double>(padded.gradients[i]), 2);
    size += value * value;
  }
  EXPECT_GT(size, 0);
  EXPECT_LE(std::sqrt(difference),
            std::max(2e-6, 4 * std::sqrt(60.0) * GetParam().unit) * std::sqrt(size));
  EXPECT_EQ(exact.statistics.masked, padded.statistics.masked);
  EXPECT_EQ(exact.statistics.samples, padded.statistics.samples);
}

class CudaTraining : public OnSmallDataset<120> {
 protected:
  static contract::RunConfig config(trainer::contract::Precision precision) {
    contract::RunConfig config;
    config.model = contract::preset_shape("tiny");
    config.model.max_positions = 64;
    config.model.vocabulary = static_cast<int>(dataset_->vocabulary().size());
    config.data.max_length = 48;
    config.batch_size = 16;
    config.steps = 60;
    config.optimizer.learning_rate = 1e-3;
    config.optimizer.warmup_steps = 5;
    config.dtype = precision;
    if (gpu_is_emulated()) {
      config.model.hidden = 64;
      config.model.heads = 1;
      config.model.feed_forward = 128;
      config.data.max_length = 24;
      config.batch_size = 10;
      config.token_bucket = 32;
    }
    return config;
  }
  struct Course {
    std::vector<double> losses;
    std::vector<float> parameters;
    step::TrainingState end;
    int skipped = 0;
  };
  // `disturbance`: what each initial weight is off by, relatively, one way or the other. Continues
  // `from`, the state after `done` steps, where there is one.
  static Course train(device::Device& device, const contract::RunConfig& config, int steps,
                      float disturbance = 0, const step::TrainingState* from = nullptr,
                      int done = 0) {
    const samples::SampleSource source(*dataset_, data::Split::Training, config.data, config.seed);
    ranks::SingleCommunicator communicator;
    const contract::TensorTable table = contract::make_tensor_table(config.model);
    step::TrainLoop loop(device, communicator, base::system_clock(), config,
                         topology::plan::default_plan(static_cast<int>(table.tensors.size())),
                         samples::stream_of(source));
    step::TrainingState start;
    start.parameters = model::initial_weights(table, config.seed);
    std::mt19937 random(21);
    for (float& weight : start.parameters) {
      weight *= 1 + (random() % 2U == 0 ? disturbance : -disturbance);
    }
    loop.load(from != nullptr ? *from : start);
    Course course;
    for (int step = done + 1; step <= done + steps; ++step) {
      const contract::StepRecord record = loop.step(step);
      course.losses.push_back(record.loss);
      course.skipped += record.skipped ? 1 : 0;
    }
    course.end = whole_state(communicator, loop);
    course.parameters = course.end.parameters;
    device.forget_repeats();
    return course;
  }
};

const int kSteps = gpu_is_emulated() ? 3 : 30;

// Rounding grows from step to step. How fast, a run on the CPU shows whose weights start eight
// roundings off: the GPU, which rounds elsewhere in every step, may depart four times as far.
TEST_F(CudaTraining, Float32FollowsTheCpu) {
  const contract::RunConfig c = config(trainer::contract::Precision::Float32);
  const auto best = cpu::make_cpu_device(4);
  const auto device = make_gpu({});
  const Course cpu = train(*best, c, kSteps);
  const Course other = train(*best, c, kSteps, 0x1p-21F);
  const Course cuda = train(*device, c, kSteps);
  double apart = 0;
  for (std::size_t i = 0; i < cpu.losses.size(); ++i) {
    apart = std::max(apart, std::abs(cpu.losses[i] - other.losses[i]));
    EXPECT_NEAR(cuda.losses[i], cpu.losses[i], 4 * apart + 4e-6 * cpu.losses[i]) << i;
  }
  if (kSteps >= 30) {
    EXPECT_LT(cpu.losses.back(), cpu.losses.front());
  }
}

TEST_F(CudaTraining, ShorterTypesFollowTheCpuAtADistance) {
  const auto cpu_device = cpu::make_cpu_device(4);
  const Course cpu = train(*cpu_device, config(trainer::contract::Precision::Float32), kSteps);
  for (const auto precision :
       {trainer::contract::Precision::Tf32, trainer::contract::Precision::BFloat16}) {
    SCOPED_TRACE(contract::name_of(precision));
    cuda::CudaOptions options;
    options.tf32 = precision == trainer::contract::Precision::Tf32;
    const auto device = make_gpu(options);
    const Course cuda = train(*device, config(precision), kSteps);
    for (std::size_t i = 0; i < cpu.losses.size(); ++i) {
      EXPECT_NEAR(cuda.losses[i], cpu.losses[i], 0.02 * cpu.losses[i]) << i;
    }
  }
}

// What one device and type saves, another continues: CPU and GPU, float32 and shorter. The state
// itself arrives bit for bit, the next steps agree as far as the types do.
TEST_F(CudaTraining, AStateMovesBetweenDevicesAndTypes) {
  const auto cpu = cpu::make_cpu_device(4);
  const auto gpu = make_gpu({});
  const contract::RunConfig c = config(trainer::contract::Precision::Float32);
  const int half = kSteps / 2 + 1;
  const Course first = train(*cpu, c, half);
  const Course straight = train(*cpu, c, 2, 0, &first.end, half);
  for (const auto precision :
       {trainer::contract::Precision::Float32, trainer::contract::Precision::BFloat16,
        trainer::contract::Precision::Float16}) {
    SCOPED_TRACE(contract::name_of(precision));
    const contract::RunConfig there = config(precision);
    const Course arrived = train(*gpu, there, 0, 0, &first.end, half);
    EXPECT_EQ(arrived.end.parameters, first.end.parameters);
    EXPECT_EQ(arrived.end.first_moment, first.end.first_moment);
    EXPECT_EQ(arrived.end.second_moment, first.end.second_moment);
    const Course moved = train(*gpu, there, 2, 0, &first.end, half);
    const Course back = train(*cpu, c, 0, 0, &moved.end, half + 2);
    EXPECT_EQ(back.end.parameters, moved.end.parameters);
    EXPECT_EQ(back.end.second_moment, moved.end.second_moment);
    if (precision == trainer::contract::Precision::Float16)
      continue;  // its first factors may skip steps
    EXPECT_NEAR(moved.losses[0], straight.losses[0], 0.02 * straight.losses[0]);
    EXPECT_NEAR(moved.losses[1], straight.losses[1], 0.02 * straight.losses[1]);
  }
}

TEST_F(CudaTraining, Float16LearnsWithItsLossScaling) {
  const auto device = make_gpu({});
  const Course cuda = train(*device, config(trainer::contract::Precision::Float16), kSteps);
  EXPECT_LT(cuda.skipped, kSteps / 2);
  if (kSteps >= 30) {
    EXPECT_LT(cuda.losses.back(), 0.95 * cuda.losses.front());
  }
}

TEST_F(CudaTraining, GraphsChangeNoBit) {
  for (const auto precision :
       {trainer::contract::Precision::Float32, trainer::contract::Precision::BFloat16}) {
    SCOPED_TRACE(contract::name_of(precision));
    const auto device = make_gpu({});  // one: timed choices of products stay
    contract::RunConfig c = config(precision);
    c.micro_batch_size = 5;
    c.graphs = true;
    const Course replayed = train(*device, c, gpu_is_emulated() ? 3 : 8);
    c.graphs = false;
    const Course enqueued = train(*device, c, gpu_is_emulated() ? 3 : 8);
    EXPECT_EQ(replayed.parameters, enqueued.parameters);
    EXPECT_EQ(replayed.losses, enqueued.losses);
  }
}

TEST_F(CudaTraining, TheSameRunHasTheSameBits) {
  for (const auto precision :
       {trainer::contract::Precision::Float32, trainer::contract::Precision::BFloat16,
        trainer::contract::Precision::Float16}) {
    SCOPED_TRACE(contract::name_of(precision));
    const auto device = make_gpu({});
    const Course one = train(*device, config(precision), gpu_is_emulated() ? 2 : 6);
    const Course two = train(*device, config(precision), gpu_is_emulated() ? 2 : 6);
    EXPECT_EQ(one.parameters, two.parameters);
  }
}

TEST(CudaStepBench, TellsHowLongTheGpuWaitsBetweenSteps) {
  trainer::bench::BenchStepOptions options;
  options.shape = trainer::contract::preset_shape("tiny");
  options.shape.hidden = 64;
  options.shape.heads = 1;
  options.shape.feed_forward = 64;
  options.shape.vocabulary = 100;
  options.precision = trainer::contract::Precision::BFloat16;
  options.samples = 2;
  options.steps = 2;
  options.warmup_steps = 1;
  const auto device = make_gpu({});
  const auto json = nlohmann::json::parse(
      trainer::bench::bench_step(*device, base::system_clock(),
                                 trainer::contract::LengthTable::parse("8,20,1\n", "t"), options));
  EXPECT_GE(json["idle_share"].get<double>(), 0);
  EXPECT_LT(json["idle_share"].get<double>(), 1);
  EXPECT_GT(json["samples_per_second"].get<double>(), 0);
}

}  // namespace
}  // namespace regatta::tests
