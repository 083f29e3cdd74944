// Training with a batch that grows, beside steps made one by one by loops of a constant batch, a
// plain count of samples, and the closed formulas of rates and progress.
#include "trainer/step/growing_batch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <mutex>
#include <numeric>

#include "base/error.h"
#include "tests/trainer/ranks/thread_ranks.h"
#include "tests/trainer/samples/small_dataset.h"
#include "tests/trainer/step/whole_state.h"
#include "trainer/cpu/cpu_device.h"
#include "trainer/model/initial_weights.h"
#include "trainer/samples/sampler.h"
#include "trainer/step/buckets.h"
#include "trainer/step/schedule.h"
#include "trainer/step/train_loop.h"

namespace regatta::tests {
namespace {

using namespace regatta::trainer;  // the subject
using checkpoint::BatchChange;
using checkpoint::BatchGrowthState;
using contract::BatchGrowth;

contract::NoiseScale known_noise(double scale) {
  contract::NoiseScale noise(1, 1);
  for (int i = 0; i < contract::NoiseScale::kLeastSteps; ++i)
    noise.observe({scale, 1 + scale, 1, 1});
  return noise;
}

contract::RunConfig growing(BatchGrowth growth, int size = 4, int most = 32) {
  contract::RunConfig config;
  config.batch_size = size;
  config.growth = growth;
  config.max_batch = most;
  config.steps = 60;
  return config;
}

std::string refusal(const contract::RunConfig& config, const BatchGrowthState& state) {
  step::GrowingBatch batch(config);
  try {
    batch.restore(5, state);
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), base::Code::User);
    return error.what();
  }
  return "taken";
}

TEST(GrowingBatch, WithoutGrowthIsTheStep) {
  contract::RunConfig config = growing(BatchGrowth::None);
  step::GrowingBatch batch(config);
  const contract::NoiseScale noise = known_noise(1e9);
  for (const std::int64_t step : {1, 17, 59, 60}) {
    EXPECT_EQ(batch.progress_before(step), static_cast<double>(step - 1));
    EXPECT_EQ(batch.rate_factor(step, noise), 1);
    batch.count(step, noise);
    EXPECT_EQ(batch.is_over(step), step == 60);
    EXPECT_EQ(batch.is_last(step, noise), step == 60);
    EXPECT_FALSE(batch.decide(step, noise));
  }
  EXPECT_FALSE(batch.state());
}

// Progress and end, by adding up fractions step by step; rates by the formulas.
TEST(GrowingBatch, IsOverWhenItsStepsAreWorthTheRuns) {
  for (const BatchGrowth growth : {BatchGrowth::SquareRoot, BatchGrowth::AdaScale}) {
    const contract::RunConfig config = growing(growth);
    step::GrowingBatch batch(config);
    batch.restore(0, BatchGrowthState{{{1, 4}, {6, 8}, {9, 16}, {11, 32}}, 0});
    const double phi = 24;
    const contract::NoiseScale noise = known_noise(phi);
    double worth = 0;
    std::int64_t step = 0;
    while (!batch.is_over(step)) {
      ++step;
      const double b = step < 6 ? 4 : step < 9 ? 8 : step < 11 ? 16 : 32;
      const double gain = b / 4 * (phi + 4) / (phi + b);
      EXPECT_NEAR(batch.progress_before(step), worth, 1e-12) << step;
      EXPECT_NEAR(batch.rate_factor(step, noise),
                  growth == BatchGrowth::SquareRoot ? std::sqrt(b / 4) : gain, 1e-9)
          << step;
      worth += growth == BatchGrowth::SquareRoot ? b / 4 : gain;
      EXPECT_EQ(batch.is_last(step, noise), worth >= 60 - 1e-9) << step;
      batch.count(step, noise);
      ASSERT_LE(step, 60);
    }
    EXPECT_GE(worth, 60 - 1e-9);
    EXPECT_LT(step, 40) << "fewer steps than of the first batch";
    if (growth == BatchGrowth::SquareRoot) {
      EXPECT_EQ(batch.progress_before(step + 1) * 4, batch.schedule().samples_after(step));
    }
  }
}

TEST(GrowingBatch, DecidesForLaterStepsByTheLowerEnd) {
  step::GrowingBatch batch(growing(BatchGrowth::SquareRoot, 4, 24));
  batch.restore(0, std::nullopt);
  EXPECT_FALSE(batch.decide(1, contract::NoiseScale(4, 1))) << "nothing is known";
  EXPECT_FALSE(batch.decide(2, known_noise(7.9)));
  const auto first = batch.decide(3, known_noise(8.1));
  ASSERT_TRUE(first);
  EXPECT_EQ(first->step, 3 + contract::kGrowthLead);
  EXPECT_EQ(first->size, 8);
  EXPECT_NEAR(first->noise_scale_low, 8.1, 1e-3);
  EXPECT_NEAR(first->noise_scale.value(), 8.1, 1e-9);
  EXPECT_FALSE(batch.decide(4, known_noise(15))) << "twice the batch that is decided, not in force";
  EXPECT_EQ(batch.decide(5, known_noise(1e6)).value().size, 16);
  EXPECT_EQ(batch.decide(6, known_noise(1e6)).value().size, 24) << "the largest";
  EXPECT_FALSE(batch.decide(7, known_noise(1e6)));
  EXPECT_FALSE(batch.decide(8, known_noise(1e-3))) << "it never shrinks";
  const std::vector<BatchChange> changes{{1, 4}, {7, 8}, {9, 16}, {10, 24}};
  EXPECT_EQ(batch.state().value().batches, changes);
  EXPECT_EQ(batch.schedule().batch_at(6), 4);
  EXPECT_EQ(batch.schedule().batch_at(7), 8);
}

TEST(GrowingBatch, TakesUpOnlyWhatItsRunFileAllows) {
  const BatchGrowthState state{{{1, 4}, {3, 8}}, 5.5};
  EXPECT_EQ(refusal(growing(BatchGrowth::SquareRoot), state), "taken");
  EXPECT_THAT(refusal(growing(BatchGrowth::None), state),
              testing::HasSubstr("batch.growth is none"));
  EXPECT_THAT(refusal(growing(BatchGrowth::AdaScale, 2), state),
              testing::HasSubstr("set it to that"));
  EXPECT_THAT(refusal(growing(BatchGrowth::AdaScale, 4, 7), state),
              testing::HasSubstr("max_size is 7"));
  step::GrowingBatch old(growing(BatchGrowth::AdaScale));
  old.restore(9, std::nullopt);  // of a checkpoint whose run had a constant batch
  EXPECT_EQ(old.progress_before(10), 9);
}

// As forks with another batch.size do: each step has the samples that it had.
TEST(GrowingBatch, WithoutGrowthGoesOnWithTheRunFilesBatch) {
  const contract::NoiseScale noise = known_noise(1e9);
  for (const int size : {16, 2}) {
    step::GrowingBatch batch(growing(BatchGrowth::None, size, 0));
    batch.restore(50, BatchGrowthState{{{1, 8}}, 50});
    const std::vector<BatchChange> changes{{1, 8}, {51, size}};
    EXPECT_EQ(batch.state().value().batches, changes);
    EXPECT_EQ(batch.schedule().samples_before(51), 400);
    EXPECT_EQ(batch.schedule().samples_after(60), 400 + 10 * size);
    EXPECT_EQ(batch.rate_factor(51, noise), 1);
    batch.count(51, noise);
    EXPECT_EQ(batch.state().value().progress, 51);
    EXPECT_FALSE(batch.decide(51, noise));
    EXPECT_TRUE(batch.is_over(60));

    // Further attempts, and a fork of the fork.
    step::GrowingBatch later(growing(BatchGrowth::None, size, 0));
    later.restore(51, batch.state());
    EXPECT_EQ(later.state(), batch.state());
    step::GrowingBatch third(growing(BatchGrowth::None, 4, 0));
    third.restore(55, BatchGrowthState{changes, 55});
    EXPECT_EQ(third.schedule().samples_after(56), 400 + 5 * size + 4);
  }
  // What was decided for steps to come is void.
  step::GrowingBatch constant(growing(BatchGrowth::None, 8, 0));
  constant.restore(50, BatchGrowthState{{{1, 8}, {53, 16}}, 50});
  EXPECT_FALSE(constant.state());
  step::GrowingBatch anew(growing(BatchGrowth::None, 16, 0));
  anew.restore(0, BatchGrowthState{{{1, 8}}, 0});
  EXPECT_FALSE(anew.state()) << "no step of the other batch was taken";
}

class GrowingLoop : public OnSmallDataset<60> {
 protected:
  static contract::RunConfig config(BatchGrowth growth, int ranks = 1) {
    contract::RunConfig config = small_run_config(*dataset_);
    config.model.hidden = 16;
    config.model.feed_forward = 32;
    config.dropout = config.attention_dropout = 0.1;
    config.batch_size = 4;
    config.micro_batch_size = 3;
    config.growth = growth;
    config.max_batch = 24;
    config.steps = 40;
    config.optimizer.learning_rate = 4e-3;
    config.optimizer.warmup_steps = 6;
    config.statistics_every = 2;
    config.ranks = ranks;
    config.ranks_per_node = 1;
    return config;
  }
  static topology::plan::Plan plan_of(const contract::RunConfig& config) {
    topology::plan::Plan plan;
    plan.ranks = config.ranks;
    plan.buckets = step::buckets_per_layer(contract::make_tensor_table(config.model));
    return plan;
  }
  static samples::SampleStream stream() {
    static const samples::SampleSource source(*dataset_, data::Split::Training,
                                              small_run_config(*dataset_).data, 1);
    return samples::stream_of(source);
  }
  static step::TrainingState first_state(const contract::RunConfig& config) {
    step::TrainingState state;
    state.parameters =
        model::initial_weights(contract::make_tensor_table(config.model), config.seed);
    return state;
  }

  struct Course {
    std::vector<contract::StepRecord> records;
    std::vector<BatchChange> batches;
    std::vector<step::TrainingState> states;  // after steps 0, 1, …
    std::vector<std::optional<BatchGrowthState>> growths;
    std::multiset<std::int64_t> taken;  // numbers of samples, of all ranks
  };
  // From a state after `done` steps to the end.
  static Course train(const contract::RunConfig& config, const step::TrainingState& from,
                      const std::optional<BatchGrowthState>& growth, std::int64_t done = 0) {
    Course course;
    std::mutex mutex;
    samples::SampleStream watched = stream();
    watched.at = [&, at = watched.at](std::int64_t number) {
      const std::lock_guard lock(mutex);
      course.taken.insert(number);
      return at(number);
    };
    ThreadRanks world(config.ranks);
    world.run([&](ranks::Communicator& ranks) {
      const auto device = cpu::make_cpu_device(1);
      step::TrainLoop loop(*device, ranks, base::system_clock(), config, plan_of(config), watched);
      loop.begin_at(done, growth);
      loop.load(from);
      const auto keep = [&] {
        step::TrainingState state = whole_state(ranks, loop);
        if (ranks.rank() != 0) return;
        course.states.push_back(std::move(state));
        course.growths.push_back(loop.batch().state());
      };
      keep();
      for (std::int64_t step = done; !loop.is_over(step);) {
        const contract::StepRecord record = loop.step(++step);
        if (ranks.rank() == 0) course.records.push_back(record);
        keep();
      }
      if (ranks.rank() == 0) course.batches = loop.batch().schedule().changes();
    });
    return course;
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

const BatchGrowthState kForced{{{1, 4}, {4, 8}, {6, 9}, {8, 24}}, 0};

// One step by a loop of a constant batch, on the samples where the growing run has them.
step::TrainingState by_hand(const contract::RunConfig& of, const samples::SampleStream& samples,
                            const step::TrainingState& from, std::int64_t step, std::int64_t first,
                            int batch, double rate) {
  contract::RunConfig config = of;
  config.growth = BatchGrowth::None;
  config.max_batch = 0;
  config.batch_size = batch;
  config.steps = 1'000'000;
  config.optimizer.schedule = contract::ScheduleKind::Constant;
  config.optimizer.warmup_steps = 0;
  config.optimizer.learning_rate = rate;
  const std::int64_t shift = first - (step - 1) * batch;
  samples::SampleStream shifted;
  // The step after it is made ahead, too, and may lie before the stream begins.
  const auto at = [shift](std::int64_t n) { return std::max<std::int64_t>(0, n + shift); };
  shifted.at = [=](std::int64_t n) { return samples.at(at(n)); };
  shifted.length = [=](std::int64_t n) { return samples.length(at(n)); };
  const auto device = cpu::make_cpu_device(1);
  ranks::SingleCommunicator alone;
  topology::plan::Plan plan;
  plan.buckets = step::buckets_per_layer(contract::make_tensor_table(config.model));
  step::TrainLoop loop(*device, alone, base::system_clock(), config, plan, shifted);
  step::TrainingState begin = from;
  begin.noise = {};  // so that what is kept is of this step alone
  loop.load(begin);
  (void)loop.step(step);
  return whole_state(alone, loop);
}

TEST_F(GrowingLoop, HasTheBitsOfItsStepsMadeByHand) {
  for (const BatchGrowth growth : {BatchGrowth::SquareRoot, BatchGrowth::AdaScale}) {
    contract::RunConfig c = config(growth);
    c.max_batch = 24;
    c.statistics_every = 1;
    const Course course = train(c, first_state(c), kForced);
    ASSERT_EQ(course.batches, kForced.batches) << "nothing beyond what was forced";
    const std::size_t count = course.records.size();
    ASSERT_GT(count, 10U);
    ASSERT_LT(count, 30U);
    std::int64_t first = 0;
    double worth = 0;
    int before = 4;  // the batch
    for (std::size_t i = 0; i < count; ++i) {
      const auto step = static_cast<std::int64_t>(i) + 1;
      const int batch = step < 4 ? 4 : step < 6 ? 8 : step < 8 ? 9 : 24;
      EXPECT_EQ(course.records[i].samples, batch) << step;
      // Of the noise scale before the step: what the record of the last one says.
      const std::optional<double> phi = i == 0 ? std::nullopt : course.records[i - 1].noise_scale;
      const std::optional<double> low =
          i == 0 ? std::nullopt : course.records[i - 1].noise_scale_low;
      const double noise = phi ? *phi : low.value_or(0);
      const double gain = batch / 4.0 * (noise + 4) / (noise + batch);
      const double factor = growth == BatchGrowth::SquareRoot ? std::sqrt(batch / 4.0) : gain;
      const double rate = course.records[i].learning_rate;
      // Warm-up to step 6 of 40, then a straight line to 0, by what the steps before are worth.
      const double place = worth + 1;
      const double line = place <= 6 ? place / 6 : 1 - std::max(0.0, place - 7) / 34;
      EXPECT_NEAR(rate, 4e-3 * line * factor, 1e-15) << step;
      const step::TrainingState expected =
          by_hand(c, stream(), course.states[i], step, first, batch, rate);
      ASSERT_TRUE(course.states[i + 1].parameters == expected.parameters) << "step " << step;
      ASSERT_TRUE(course.states[i + 1].second_moment == expected.second_moment) << "step " << step;
      // Noise and signal: sums with the pace of forgetting, noise per sample of a step.
      for (const std::size_t kind : {0U, 1U}) {
        const auto& old = course.states[i].noise[kind];
        const auto& now = course.states[i + 1].noise[kind];
        const double noise_of_old = old[2] * before / batch;
        const double wanted = 0.98 * noise_of_old + expected.noise[kind][2];
        if (expected.noise[kind][0] == 0) continue;  // nothing is preconditioned yet
        EXPECT_NEAR(now[2], wanted, 1e-12 * wanted) << "step " << step;
        EXPECT_NEAR(now[3], 0.98 * old[3] + expected.noise[kind][3], 1e-9 * std::abs(now[2]))
            << "step " << step;
      }
      first += batch;
      before = batch;
      worth += growth == BatchGrowth::SquareRoot ? batch / 4.0 : gain;
      EXPECT_NEAR(course.records[i].progress.value(), worth, 1e-9) << step;
    }
    EXPECT_GE(worth, 40 - 1e-9);
    EXPECT_LT(*std::next(course.records.rbegin())->progress, 40);
  }
}

// Every sample of the stream once, in order, none left out; on several ranks, too.
TEST_F(GrowingLoop, TakesEverySampleOfTheStreamOnce) {
  for (const int ranks : {1, 3}) {
    for (const contract::Balance strategy :
         {contract::Balance::GlobalPresort, contract::Balance::None, contract::Balance::Exchange}) {
      contract::RunConfig c = config(BatchGrowth::SquareRoot, ranks);
      c.balance.strategy = strategy;
      const Course course = train(c, first_state(c), kForced);
      std::int64_t trained = 0;
      for (const contract::StepRecord& record : course.records) trained += record.samples;
      std::vector<std::int64_t> expected(static_cast<std::size_t>(trained));
      std::iota(expected.begin(), expected.end(), 0);
      EXPECT_EQ(std::vector(course.taken.begin(), course.taken.end()), expected)
          << ranks << " ranks, strategy " << static_cast<int>(strategy);
      EXPECT_EQ(trained, 4 * 3 + 8 * 2 + 9 * 2 + 24 * (std::ssize(course.records) - 7));
    }
  }
}

// A fork with another batch: its steps go on in the stream where the others ended. `stratified`
// takes the windows of a run that always had it.
TEST_F(GrowingLoop, AForkWithAnotherBatchGoesOnWhereItsParentWas) {
  for (const int ranks : {1, 3}) {
    for (const contract::Balance strategy :
         {contract::Balance::None, contract::Balance::Exchange, contract::Balance::Stratified}) {
      contract::RunConfig c = config(BatchGrowth::None, ranks);
      c.max_batch = 0;
      c.balance.strategy = strategy;
      c.batch_size = 9;
      c.steps = 15;
      const BatchGrowthState parent{{{1, 4}}, 10};
      const Course course = train(c, first_state(c), parent, 10);
      std::multiset<std::int64_t> expected;
      for (std::int64_t number = 4 * 10; number < 4 * 10 + 9 * 5; ++number) expected.insert(number);
      if (strategy == contract::Balance::Stratified) {
        expected = train(c, first_state(c), std::nullopt, 10).taken;
      }
      EXPECT_EQ(course.taken, expected)
          << ranks << " ranks, strategy " << static_cast<int>(strategy);
      ASSERT_EQ(course.records.size(), 5U);
      for (const contract::StepRecord& record : course.records) {
        EXPECT_EQ(record.samples, 9);
        EXPECT_FALSE(record.progress) << "a step is a step";
      }
      const std::vector<BatchChange> batches{{1, 4}, {11, 9}};
      EXPECT_EQ(course.batches, batches);
    }
  }
}

// Ranks agree to what float32 sums allow; the batches are the same to the sample.
TEST_F(GrowingLoop, IsTheSameRunOnOneTwoAndThreeRanks) {
  const contract::RunConfig one = config(BatchGrowth::SquareRoot);
  const Course alone = train(one, first_state(one), kForced);
  struct Way {
    const char* name;
    int ranks, stages;
    bool sharded;
  };
  for (const Way& way :
       {Way{"two ranks", 2, 1, false}, Way{"three ranks", 3, 1, false},
        Way{"three parts of the state", 3, 1, true}, Way{"two stages", 2, 2, false},
        Way{"two replicas of two stages", 4, 2, false}}) {
    contract::RunConfig c = config(BatchGrowth::SquareRoot, way.ranks);
    c.sharding.optimizer = way.sharded;
    c.parallel.pipeline = way.stages;
    if (way.stages > 1) c.micro_batch_size = 1;
    const Course course = train(c, first_state(c), kForced);
    ASSERT_EQ(course.records.size(), alone.records.size()) << way.name;
    for (std::size_t i = 0; i < alone.records.size(); ++i) {
      EXPECT_EQ(course.records[i].samples, alone.records[i].samples) << way.name;
      EXPECT_EQ(course.records[i].progress, alone.records[i].progress) << way.name;
      EXPECT_NEAR(course.records[i].loss, alone.records[i].loss, 1e-3) << way.name;
      const std::optional<double>& noise = alone.records[i].noise_scale;
      ASSERT_EQ(course.records[i].noise_scale.has_value(), noise.has_value()) << way.name;
      if (noise) {
        EXPECT_NEAR(*course.records[i].noise_scale, *noise, 1e-2 * *noise) << way.name;
      }
    }
    EXPECT_LT(distance(course.states.back().parameters, alone.states.back().parameters), 1e-3)
        << way.name;
  }
}

// By its own decisions, taken up after every step by another loop: the same bits and batches.
TEST_F(GrowingLoop, GoesOnFromEveryStepAsItWas) {
  for (const BatchGrowth growth : {BatchGrowth::SquareRoot, BatchGrowth::AdaScale}) {
    contract::RunConfig c = config(growth);
    c.statistics_every = 1;
    c.steps = 200;
    const Course course = train(c, first_state(c), std::nullopt);
    ASSERT_GT(course.batches.size(), 2U) << "the batch grows";
    ASSERT_GT(course.batches[1].step, contract::NoiseScale::kLeastSteps);
    bool pending = false;
    for (std::size_t at = 1; at + 1 < course.states.size(); ++at) {
      const auto done = static_cast<std::int64_t>(at);
      pending = pending || course.growths[at]->batches.back().step > done + 1;
      if (at % 20 != 0 && course.growths[at]->batches.back().step <= done) continue;
      const Course again = train(c, course.states[at], course.growths[at], done);
      ASSERT_EQ(again.batches, course.batches) << "from " << done;
      ASSERT_EQ(again.records.size() + at, course.records.size()) << "from " << done;
      ASSERT_TRUE(again.states.back().parameters == course.states.back().parameters)
          << "from " << done;
      ASSERT_EQ(again.growths.back(), course.growths.back()) << "from " << done;
      ASSERT_EQ(again.states.back().noise, course.states.back().noise) << "from " << done;
    }
    EXPECT_TRUE(pending) << "no state had a change that was decided and not in force";
  }
}

}  // namespace
}  // namespace regatta::tests
