// Whole steps: learning, accumulation, evaluation, and the deferred device.
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "tests/trainer/device/deferred_device.h"
#include "tests/trainer/samples/small_dataset.h"
#include "tests/trainer/step/whole_state.h"
#include "trainer/cpu/cpu_device.h"
#include "trainer/model/initial_weights.h"
#include "trainer/samples/sampler.h"
#include "trainer/step/schedule.h"
#include "trainer/step/train_loop.h"

namespace regatta::tests {
namespace {

using namespace regatta::trainer;  // the subject

class Loop : public OnSmallDataset<120> {
 protected:
  static contract::RunConfig config() {
    contract::RunConfig config = small_run_config(*dataset_);
    config.batch_size = 12;
    config.steps = 200;
    config.optimizer.learning_rate = 5e-3;
    config.dropout = config.attention_dropout = 0.1;
    return config;
  }

  // The state after `steps` steps, and the last record.
  static step::TrainingState train(device::Device& device, const contract::RunConfig& config,
                                   std::int64_t steps, contract::StepRecord* last = nullptr) {
    const samples::SampleSource source(*dataset_, data::Split::Training, config.data, config.seed);
    ranks::SingleCommunicator communicator;
    const contract::TensorTable table = contract::make_tensor_table(config.model);
    step::TrainLoop loop(device, communicator, base::system_clock(), config,
                         topology::plan::default_plan(static_cast<int>(table.tensors.size())),
                         samples::stream_of(source));
    step::TrainingState start;
    start.parameters = model::initial_weights(table, config.seed);
    loop.load(start);
    for (std::int64_t step = 1; step <= steps; ++step) {
      const contract::StepRecord record = loop.step(step);
      if (last != nullptr) *last = record;
    }
    return whole_state(communicator, loop);
  }
  static double distance(const std::vector<float>& a, const std::vector<float>& b) {
    double sum = 0, size = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
      sum += std::pow(static_cast<double>(a[i]) - static_cast<double>(b[i]), 2);
      size += std::pow(static_cast<double>(a[i]), 2);
    }
    return std::sqrt(sum / size);
  }
};

TEST_F(Loop, LearnsMoreThanTheConstantGuess) {
  const contract::RunConfig c = config();
  const auto device = cpu::make_cpu_device(2);
  const samples::SampleSource source(*dataset_, data::Split::Training, c.data, c.seed);
  const std::vector<samples::Sample> set = samples::evaluation_samples(*dataset_, c.data, 200);
  ranks::SingleCommunicator communicator;
  const contract::TensorTable table = contract::make_tensor_table(c.model);
  step::TrainLoop loop(*device, communicator, base::system_clock(), c,
                       topology::plan::default_plan(static_cast<int>(table.tensors.size())),
                       samples::stream_of(source));
  loop.load({model::initial_weights(table, c.seed), {}, {}});
  const contract::EvalRecord before = loop.evaluate(set, 0);
  for (std::int64_t step = 1; step <= c.steps; ++step) loop.step(step);
  const contract::EvalRecord after = loop.evaluate(set, c.steps);
  EXPECT_LT(before.mlm_accuracy, 0.1);
  EXPECT_GT(after.mlm_accuracy, 1.3 * samples::constant_guess_accuracy(set));
  EXPECT_LT(after.mlm_loss, 0.7 * before.mlm_loss);
  EXPECT_EQ(after.samples, static_cast<std::int64_t>(set.size()));
}

TEST_F(Loop, SameBitsOnOneAndTwoThreads) {
  const auto one = cpu::make_cpu_device(1);
  const auto two = cpu::make_cpu_device(2);
  EXPECT_EQ(train(*one, config(), 5).parameters, train(*two, config(), 5).parameters);
}

// Padding rounds token counts up; only the order of sums may notice.
TEST_F(Loop, PaddingToABucketLearnsTheSame) {
  contract::RunConfig c = config();
  c.micro_batch_size = 5;
  const auto device = cpu::make_cpu_device(1);
  contract::StepRecord exact, padded;
  const step::TrainingState a = train(*device, c, 5, &exact);
  c.token_bucket = 128;
  const step::TrainingState b = train(*device, c, 5, &padded);
  EXPECT_LT(distance(a.parameters, b.parameters), 1e-6);
  EXPECT_EQ(exact.tokens, padded.tokens);
  EXPECT_EQ(exact.masked, padded.masked);
  EXPECT_NEAR(exact.loss, padded.loss, 1e-5);
  const auto deferred = make_deferred_device(1);
  EXPECT_EQ(train(*deferred, c, 5).parameters, b.parameters);
}

TEST_F(Loop, DeferredDeviceGivesTheSameBits) {
  for (const contract::OptimizerKind kind :
       {contract::OptimizerKind::AdamW, contract::OptimizerKind::Lamb}) {
    contract::RunConfig c = config();
    c.optimizer.kind = kind;
    c.micro_batch_size = 5;
    const auto plain = cpu::make_cpu_device(1);
    const auto deferred = make_deferred_device(1);
    const step::TrainingState a = train(*plain, c, 4);
    const step::TrainingState b = train(*deferred, c, 4);
    EXPECT_EQ(a.parameters, b.parameters);
    EXPECT_EQ(a.first_moment, b.first_moment);
    EXPECT_EQ(a.second_moment, b.second_moment);
  }
}

// Micro-batches change nothing but the order of sums: masks follow the ordinal and the loss is
// normalised by the whole batch.
TEST_F(Loop, AccumulationEqualsOneBatch) {
  contract::RunConfig c = config();
  contract::StepRecord whole, parts;
  const auto device = cpu::make_cpu_device(1);
  const step::TrainingState a = train(*device, c, 3, &whole);
  c.micro_batch_size = 5;
  const step::TrainingState b = train(*device, c, 3, &parts);
  EXPECT_NEAR(whole.loss, parts.loss, 1e-4);
  EXPECT_EQ(whole.tokens, parts.tokens);
  EXPECT_LT(distance(a.parameters, b.parameters), 1e-4);
}

TEST_F(Loop, ResumingFromASavedStateChangesNoBit) {
  const contract::RunConfig c = config();
  const auto device = cpu::make_cpu_device(1);
  const step::TrainingState straight = train(*device, c, 6);
  const samples::SampleSource source(*dataset_, data::Split::Training, c.data, c.seed);
  ranks::SingleCommunicator communicator;
  const topology::plan::Plan plan = topology::plan::default_plan(
      static_cast<int>(contract::make_tensor_table(c.model).tensors.size()));
  step::TrainLoop loop(*device, communicator, base::system_clock(), c, plan,
                       samples::stream_of(source));
  loop.load(train(*device, c, 3));
  for (std::int64_t step = 4; step <= 6; ++step) loop.step(step);
  const step::TrainingState resumed = whole_state(communicator, loop);
  EXPECT_EQ(resumed.parameters, straight.parameters);
  EXPECT_EQ(resumed.second_moment, straight.second_moment);
}

TEST_F(Loop, ClippingLimitsTheGradientNotTheReportedNorm) {
  contract::RunConfig c = config();
  c.clip_norm = 1e-3;
  contract::StepRecord record;
  const auto device = cpu::make_cpu_device(1);
  const step::TrainingState state = train(*device, c, 1, &record);
  EXPECT_GT(record.gradient_norm, 0.05);
  // After one step the first moment is (1 − β1) times the clipped gradient.
  double squares = 0;
  for (const float m : state.first_moment) squares += std::pow(static_cast<double>(m), 2);
  EXPECT_NEAR(std::sqrt(squares), 0.1 * c.clip_norm, 1e-4 * c.clip_norm);
}

TEST_F(Loop, ALossThatIsNoNumberEndsTheRun) {
  contract::RunConfig c = config();
  c.optimizer.learning_rate = 1e30;
  c.optimizer.warmup_steps = 0;
  const auto device = cpu::make_cpu_device(1);
  try {
    (void)train(*device, c, 20);
    FAIL() << "no error";
  } catch (const step::Diverged& error) {
    EXPECT_EQ(error.code(), base::Code::User);
    EXPECT_GT(error.step, 1);
    EXPECT_EQ(std::string(error.what()), "the loss is not finite at step " +
                                             std::to_string(error.step) +
                                             " (first: " + step::to_text(error.first, 1) + ")");
  }
}

TEST(Schedule, MatchesHandComputedRates) {
  contract::OptimizerConfig c;
  c.learning_rate = 1.0;
  c.warmup_steps = 10;
  c.schedule = contract::ScheduleKind::Linear;
  EXPECT_DOUBLE_EQ(step::learning_rate(c, 110, 1), 0.1);
  EXPECT_DOUBLE_EQ(step::learning_rate(c, 110, 10), 1.0);
  EXPECT_DOUBLE_EQ(step::learning_rate(c, 110, 11), 1.0);
  EXPECT_DOUBLE_EQ(step::learning_rate(c, 110, 12), 0.99);
  EXPECT_DOUBLE_EQ(step::learning_rate(c, 110, 61), 0.5);
  EXPECT_DOUBLE_EQ(step::learning_rate(c, 110, 110), 1 - 99.0 / 100);
  EXPECT_DOUBLE_EQ(step::learning_rate(c, 110, 111), 0.0);
  EXPECT_DOUBLE_EQ(step::learning_rate(c, 110, 200), 0.0);
  c.end_learning_rate = 0.2;
  EXPECT_DOUBLE_EQ(step::learning_rate(c, 110, 61), 0.6);
  c.schedule = contract::ScheduleKind::Polynomial;
  c.power = 2;
  EXPECT_DOUBLE_EQ(step::learning_rate(c, 110, 61), 0.2 + 0.8 * 0.25);
  c.decay_steps = 60;
  EXPECT_DOUBLE_EQ(step::learning_rate(c, 110, 61), 0.2);
  c.schedule = contract::ScheduleKind::Constant;
  EXPECT_DOUBLE_EQ(step::learning_rate(c, 110, 100), 1.0);
  c.warmup_steps = 0;
  EXPECT_DOUBLE_EQ(step::learning_rate(c, 110, 1), 1.0);
}

// Of a batch that grows, steps lie between those of the first one.
TEST(Schedule, BetweenTwoStepsIsNeverAboveTheRate) {
  contract::OptimizerConfig c;
  c.learning_rate = 1;
  c.warmup_steps = 10;
  EXPECT_DOUBLE_EQ(step::learning_rate(c, 110, 2.5), 0.25);
  EXPECT_DOUBLE_EQ(step::learning_rate(c, 110, 10.5), 1) << "neither warm-up nor decay";
  EXPECT_DOUBLE_EQ(step::learning_rate(c, 110, 11), 1);
  EXPECT_DOUBLE_EQ(step::learning_rate(c, 110, 61.5), 0.495);
}

// No step of a run is wasted: with transformers' numbers (get_linear_schedule_with_warmup after
// k steps: k/w, then (n − k)/(n − w)), the k-th step decays as there.
TEST(Schedule, NoStepHasRateZero) {
  contract::OptimizerConfig c;
  c.learning_rate = 1.0;
  for (const std::int64_t warmup : {0, 1, 3, 9, 10}) {
    c.warmup_steps = warmup;
    for (const contract::ScheduleKind kind :
         {contract::ScheduleKind::Linear, contract::ScheduleKind::Polynomial}) {
      c.schedule = kind;
      for (std::int64_t step = 1; step <= 10; ++step) {
        const auto k = static_cast<double>(step - 1);
        const auto w = static_cast<double>(warmup);
        const double expected = step <= warmup ? (k + 1) / w : (10 - k) / (10 - w);
        EXPECT_NEAR(step::learning_rate(c, 10, static_cast<double>(step)), expected, 1e-15)
            << "warm-up " << warmup << ", step " << step;
        EXPECT_GT(step::learning_rate(c, 10, static_cast<double>(step)), 0);
      }
    }
  }
}

TEST(Schedule, PowerIsThePolynomialsAlone) {
  contract::OptimizerConfig c;
  c.learning_rate = 1.0;
  c.power = 3;
  c.schedule = contract::ScheduleKind::Linear;
  const double linear = step::learning_rate(c, 100, 60);
  c.schedule = contract::ScheduleKind::Polynomial;
  EXPECT_DOUBLE_EQ(step::learning_rate(c, 100, 60), linear * linear * linear);
}

}  // namespace
}  // namespace regatta::tests
