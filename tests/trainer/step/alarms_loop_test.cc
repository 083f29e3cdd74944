// Alarms of real training: none of healthy runs, and one where something was planted.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/trainer/samples/small_dataset.h"
#include "trainer/cpu/cpu_device.h"
#include "trainer/device/forwarding_device.h"
#include "trainer/model/initial_weights.h"
#include "trainer/samples/sampler.h"
#include "trainer/step/buckets.h"
#include "trainer/step/train_loop.h"

namespace regatta::tests {
namespace {

using namespace regatta::trainer;  // the subject

// Its updates are made with another learning rate than they are given.
class HastyDevice : public device::ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;
  double times = 1;

  void update(device::Stream s, const device::OptimizerUpdate& op) override {
    op.scalars.floats()[device::kLearningRate] *= static_cast<float>(times);
    ForwardingDevice::update(s, op);
  }
};

struct Planted {
  std::int64_t step = 0;  // 0: nothing
  double learning_rate_times = 1;
  bool samples = false;  // of this step are of one word, at labels that never occur
};

class AlarmsOfTraining : public OnSmallDataset<120> {
 protected:
  static contract::RunConfig config(std::uint64_t seed) {
    contract::RunConfig config = small_run_config(*dataset_);
    config.batch_size = seed % 2 == 0 ? 8 : 16;
    config.steps = 200;
    config.seed = seed;
    config.guard.replay_every = 0;
    config.statistics_every = 0;
    config.optimizer.learning_rate = 0.003;
    config.optimizer.warmup_steps = seed % 3 == 0 ? 60 : 5;
    if (seed % 5 == 0) config.optimizer.kind = contract::OptimizerKind::Lamb;
    if (seed % 4 == 0) config.clip = contract::ClipMode::None;
    return config;
  }
  static std::vector<contract::AlarmRecord> train(const contract::RunConfig& config,
                                                  const Planted& planted = {}) {
    const auto cpu = cpu::make_cpu_device(1);
    HastyDevice device(*cpu);
    ranks::SingleCommunicator alone;
    const samples::SampleSource source(*dataset_, data::Split::Training, config.data, config.seed);
    const std::int64_t first = (planted.step - 1) * config.batch_size;
    samples::SampleStream stream = samples::stream_of(source);
    if (planted.samples) {
      stream.at = [&source, first, size = config.batch_size](std::int64_t number) {
        samples::Sample sample = source.at(number);
        if (number < first || number >= first + size) return sample;
        std::fill(sample.ids.begin(), sample.ids.end(), 7);
        std::fill(sample.masked_labels.begin(), sample.masked_labels.end(), 1);
        return sample;
      };
    }
    topology::plan::Plan plan;
    plan.buckets = step::buckets_of_bytes(contract::make_tensor_table(config.model), 0);
    step::TrainLoop loop(device, alone, base::system_clock(), config, plan, stream);
    step::TrainingState state;
    state.parameters =
        model::initial_weights(contract::make_tensor_table(config.model), config.seed);
    loop.load(state);
    std::vector<contract::AlarmRecord> alarms;
    for (std::int64_t step = 1; step <= config.steps; ++step) {
      device.times = step == planted.step ? planted.learning_rate_times : 1;
      const contract::StepRecord record = loop.step(step);
      EXPECT_TRUE(record.update_ratio && *record.update_ratio > 0);
      const auto& told = loop.noticed().alarms;
      alarms.insert(alarms.end(), told.begin(), told.end());
    }
    return alarms;
  }
};

TEST_F(AlarmsOfTraining, AreNoneInTwentyHealthyRuns) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    for (const contract::AlarmRecord& alarm : train(config(seed))) {
      ADD_FAILURE() << "seed " << seed << ": " << alarm.message << " " << alarm.deviation;
    }
  }
}

TEST_F(AlarmsOfTraining, NoticeAJumpOfTheLearningRate) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    const auto alarms = train(config(seed), {120, 30, false});
    ASSERT_FALSE(alarms.empty()) << seed;
    EXPECT_EQ(alarms[0].kind, "update_ratio");
    EXPECT_EQ(alarms[0].step, 120);
    EXPECT_FALSE(alarms[0].layer.empty());
    EXPECT_GT(alarms[0].value, 3 * alarms[0].usual);
  }
}

TEST_F(AlarmsOfTraining, NoticeABadBatch) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    const auto alarms = train(config(seed), {120, 1, true});
    ASSERT_FALSE(alarms.empty()) << seed;
    EXPECT_EQ(alarms[0].kind, "gradient_norm");
    EXPECT_EQ(alarms[0].step, 120);
  }
}

TEST_F(AlarmsOfTraining, AreNotLookedForWhereTheRunFileSaysSo) {
  contract::RunConfig c = config(1);
  c.guard.alarms = false;
  c.steps = 3;
  const auto cpu = cpu::make_cpu_device(1);
  ranks::SingleCommunicator alone;
  const samples::SampleSource source(*dataset_, data::Split::Training, c.data, c.seed);
  topology::plan::Plan plan;
  plan.buckets = step::buckets_of_bytes(contract::make_tensor_table(c.model), 0);
  step::TrainLoop loop(*cpu, alone, base::system_clock(), c, plan, samples::stream_of(source));
  step::TrainingState state;
  state.parameters = model::initial_weights(contract::make_tensor_table(c.model), c.seed);
  loop.load(state);
  for (std::int64_t step = 1; step <= 3; ++step) {
    EXPECT_EQ(loop.step(step).update_ratio, std::nullopt);
    EXPECT_TRUE(loop.noticed().alarms.empty());
  }
}

}  // namespace
}  // namespace regatta::tests
