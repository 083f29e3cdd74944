// A run whose weights stand still, and the noise scale that its records tell beside the truth.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "tests/trainer/ranks/thread_ranks.h"
#include "tests/trainer/samples/small_dataset.h"
#include "tests/trainer/step/noise_truth.h"
#include "tests/trainer/step/whole_state.h"
#include "trainer/model/initial_weights.h"
#include "trainer/samples/sampler.h"
#include "trainer/step/buckets.h"
#include "trainer/step/train_loop.h"

namespace regatta::tests {

struct FrozenLayout {
  const char* name;
  int ranks;
  trainer::contract::BalanceConfig balance;
  trainer::contract::OptimizerKind optimizer = trainer::contract::OptimizerKind::AdamW;
};

class FrozenRun : public OnSmallDataset<400> {
 protected:
  static constexpr int kBatch = 32;
  static constexpr std::int64_t kTrained = 60;

  static trainer::contract::RunConfig config_of(const FrozenLayout& layout) {
    trainer::contract::RunConfig config = small_run_config(*dataset_);
    config.batch_size = kBatch;
    config.steps = 1'000'000;
    config.ranks = layout.ranks;
    config.ranks_per_node = 1;
    config.balance = layout.balance;
    config.optimizer.kind = layout.optimizer;
    config.optimizer.schedule = trainer::contract::ScheduleKind::Constant;
    config.optimizer.learning_rate = 0.003;
    config.optimizer.beta2 = 0.95;
    config.statistics_every = 0;
    return config;
  }
  // The last record of `steps` steps after `from`, which had `done`; and the state behind it.
  static trainer::contract::StepRecord train(const trainer::contract::RunConfig& config,
                                             const trainer::step::TrainingState& from,
                                             std::int64_t done, std::int64_t steps,
                                             trainer::step::TrainingState* to) {
    trainer::contract::StepRecord last;
    ThreadRanks(config.ranks).run([&](trainer::ranks::Communicator& ranks) {
      const auto device = trainer::cpu::make_cpu_device(1);
      const trainer::samples::SampleSource source(*dataset_, trainer::data::Split::Training,
                                                  config.data, config.seed);
      topology::plan::Plan plan;
      plan.ranks = config.ranks;
      plan.buckets =
          trainer::step::buckets_per_layer(trainer::contract::make_tensor_table(config.model));
      trainer::step::TrainLoop loop(*device, ranks, base::system_clock(), config, plan,
                                    trainer::samples::stream_of(source));
      loop.load(from);
      trainer::contract::StepRecord record;
      for (std::int64_t step = done + 1; step <= done + steps; ++step) record = loop.step(step);
      trainer::step::TrainingState state = trainer::whole_state(ranks, loop);
      if (ranks.rank() != 0) return;
      last = record;
      *to = std::move(state);
    });
    return last;
  }
  // So that its estimates are all of one distribution: no weight moves, nor does √v̂ but for one
  // factor for all of it.
  static trainer::contract::RunConfig frozen(trainer::contract::RunConfig config) {
    config.optimizer.learning_rate = 1e-30;
    config.optimizer.beta2 = 1 - 1e-6;
    config.statistics_every = 1;
    return config;
  }
  static std::vector<std::vector<float>> independent_gradients(
      const trainer::contract::RunConfig& config, const trainer::step::TrainingState& state,
      int batches) {
    const trainer::samples::SampleSource source(*dataset_, trainer::data::Split::Training,
                                                config.data, 77);
    GradientOf gradient_of(config, state.parameters);
    std::mt19937_64 random(1);
    std::vector<std::int32_t> ordinals(kBatch);
    std::iota(ordinals.begin(), ordinals.end(), 0);
    std::vector<std::vector<float>> gradients;
    for (int i = 0; i < batches; ++i) {
      std::vector<trainer::samples::Sample> samples;
      for (int s = 0; s < kBatch; ++s) {
        samples.push_back(source.at(static_cast<std::int64_t>(
            random() % static_cast<std::uint64_t>(1000 * source.size()))));
      }
      const Gradient g = gradient_of(samples, ordinals, 10000 + i);
      gradients.emplace_back(g.begin(), g.end());
    }
    return gradients;
  }

  // Of one estimator in independent windows of a run.
  struct Windows {
    int missed = 0;  // the truth was not within the interval
    double noise = 0, signal = 0, sum = 0, squares = 0;

    void add(const std::string& name, const NoiseTruth& truth,
             const std::optional<double>& estimate, const std::optional<double>& low,
             const std::optional<double>& high, const trainer::contract::NoiseScale::State& state) {
      ASSERT_TRUE(estimate && low && high) << name;
      std::printf("%s: %.1f within %.1f … %.1f, truth %.1f ± %.1f\n", name.c_str(), *estimate, *low,
                  *high, truth.samples, truth.error);
      EXPECT_LT(*high, 4 * *low) << name << ": that would say little";
      const double slack = 2 * truth.error;
      missed += *low > truth.samples + slack || *high < truth.samples - slack ? 1 : 0;
      noise += state[2];
      signal += state[3];
      sum += *estimate;
      squares += *estimate * *estimate;
    }
    // Of all windows together φ is the truth within three standard errors, and of six windows two
    // at most miss it (a chance of 1 in 500 that more do).
    void check(const std::string& name, const NoiseTruth& truth, int windows) const {
      EXPECT_LE(missed, windows / 3) << name;
      if (windows < 2) return;
      const double n = windows;
      const double variance = (squares - sum * sum / n) / (n - 1) / n + truth.error * truth.error;
      const double pooled = kBatch * noise / signal;
      std::printf("%s: all windows %.1f, truth %.1f, standard error %.1f\n", name.c_str(), pooled,
                  truth.samples, std::sqrt(variance));
      EXPECT_NEAR(pooled, truth.samples, 3 * std::sqrt(variance)) << name;
    }
  };

  struct Truths {
    trainer::step::TrainingState trained;
    NoiseTruth raw, preconditioned;
  };
  static Truths find_truth(int batches) {
    Truths truths;
    const trainer::contract::RunConfig alone = config_of({"", 1, {}});
    trainer::step::TrainingState first;
    first.parameters =
        trainer::model::initial_weights(trainer::contract::make_tensor_table(alone.model), 1);
    (void)train(alone, first, 0, kTrained, &truths.trained);
    const auto gradients = independent_gradients(alone, truths.trained, batches);
    const Gradient inverse =
        preconditioner(frozen(alone), trainer::contract::make_tensor_table(alone.model),
                       truths.trained.second_moment, kTrained);
    truths.raw = truth_of(gradients, kBatch, {});
    truths.preconditioned = truth_of(gradients, kBatch, inverse);
    EXPECT_LT(truths.raw.error, 0.25 * truths.raw.samples);
    EXPECT_LT(truths.preconditioned.error, 0.25 * truths.preconditioned.samples);
    return truths;
  }

  // The record at the end of the first window.
  static trainer::contract::StepRecord compare(const FrozenLayout& layout, const Truths& truths,
                                               int windows, std::int64_t steps) {
    SCOPED_TRACE(layout.name);
    const std::string name = layout.name;
    trainer::step::TrainingState state = truths.trained;
    trainer::contract::StepRecord first;
    Windows raw, preconditioned;
    for (int window = 0; window < windows; ++window) {
      state.noise = {};
      const trainer::step::TrainingState before = state;
      const trainer::contract::StepRecord record =
          train(frozen(config_of(layout)), before, kTrained + window * steps, steps, &state);
      if (window == 0) first = record;
      for (std::size_t i = 0; i < state.parameters.size(); ++i) {
        if (std::abs(state.parameters[i] - truths.trained.parameters[i]) < 1e-20F) continue;
        ADD_FAILURE() << "the weights are not frozen";
        return first;
      }
      raw.add(name + ", raw", truths.raw, record.raw_noise_scale, record.raw_noise_scale_low,
              record.raw_noise_scale_high, state.noise[1]);
      preconditioned.add(name + ", preconditioned", truths.preconditioned, record.noise_scale,
                         record.noise_scale_low, record.noise_scale_high, state.noise[0]);
    }
    raw.check(name + ", raw", truths.raw, windows);
    preconditioned.check(name + ", preconditioned", truths.preconditioned, windows);
    return first;
  }
};

}  // namespace regatta::tests
