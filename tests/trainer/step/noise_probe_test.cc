// What a run measures of its gradient's noise: beside the same computed from the samples
// themselves, for every way of balancing; that it disturbs nothing; that checkpoints keep it.
#include "trainer/step/noise_probe.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <mutex>
#include <string>

#include "tests/trainer/step/frozen_run.h"
#include "tests/trainer/step/noise_truth.h"
#include "tests/trainer/samples/small_dataset.h"
#include "tests/trainer/ranks/thread_ranks.h"
#include "tests/trainer/step/whole_state.h"
#include "trainer/step/buckets.h"
#include "trainer/run/checkpoint_keeper.h"
#include "trainer/model/initial_weights.h"
#include "trainer/samples/sampler.h"
#include "trainer/samples/step_samples.h"
#include "trainer/step/train_loop.h"

namespace regatta::tests {
namespace {

using namespace regatta::trainer;  // the subject

TEST(HalfOfStep, IsAFairDrawOfHalfTheSamples) {
  constexpr int kBatch = 7, kSteps = 20000;
  std::vector<int> times(kBatch, 0), together(kBatch, 0);
  for (std::int64_t step = 1; step <= kSteps; ++step) {
    const std::vector<bool> half = half_of_step(5, step, kBatch);
    ASSERT_EQ(std::count(half.begin(), half.end(), true), kBatch / 2);
    ASSERT_EQ(half, half_of_step(5, step, kBatch)) << "all ranks must draw the same";
    for (std::size_t i = 0; i < half.size(); ++i) {
      times[i] += half[i] ? 1 : 0;
      together[i] += half[i] && half[(i + 1) % kBatch] ? 1 : 0;
    }
  }
  // Shares 3/7, and 3/7 · 2/6 with any neighbour; four deviations.
  for (std::size_t i = 0; i < kBatch; ++i) {
    EXPECT_NEAR(times[i], kSteps * 3.0 / 7, 4 * std::sqrt(kSteps * 3.0 / 7 * 4 / 7)) << i;
    EXPECT_NEAR(together[i], kSteps / 7.0, 4 * std::sqrt(kSteps / 7.0 * 6 / 7)) << i;
  }
  EXPECT_NE(half_of_step(5, 1, 64), half_of_step(5, 2, 64));
  EXPECT_NE(half_of_step(5, 1, 64), half_of_step(6, 1, 64));
  EXPECT_EQ(half_of_step(5, 1, 1), std::vector<bool>{false});
}

struct Layout {
  std::string name;
  int ranks = 1;
  BalanceConfig balance;
  int micro_batch = 0;
  bool sharded = false;
  OptimizerKind optimizer = OptimizerKind::AdamW;
  int node_ranks = 0;  // hierarchical
};

const BalanceConfig kInTurn{Balance::None, Deal::LongestFirst, ExchangeWay::Reread};

std::vector<Layout> layouts() {
  const auto dealt = [](Balance strategy, Deal deal) {
    return BalanceConfig{strategy, deal, ExchangeWay::Reread};
  };
  const BalanceConfig longest = dealt(Balance::GlobalPresort, Deal::LongestFirst);
  return {
      {"one rank", 1, longest},
      {"one rank, micro-batches", 1, longest, 4},
      {"in turn", 3, kInTurn},
      {"stratified", 3, dealt(Balance::Stratified, Deal::LongestFirst)},
      {"stride", 3, dealt(Balance::GlobalPresort, Deal::Stride)},
      {"snake", 3, dealt(Balance::GlobalPresort, Deal::Snake)},
      {"longest first", 3, longest},
      {"exchange", 3, {Balance::Exchange, Deal::LongestFirst, ExchangeWay::Move}},
      {"packed", 3, dealt(Balance::Packed, Deal::LongestFirst)},
      {"sharded", 3, longest, 0, true},
      {"sharded, micro-batches, LAMB", 3, longest, 2, true, OptimizerKind::Lamb},
      {"sharded by nodes, LAMB", 4, longest, 0, true, OptimizerKind::Lamb, 2},
      {"more ranks than the half has samples", 9, kInTurn, 0, true},
  };
}

class NoiseProbeTest : public OnSmallDataset<120> {
 protected:
  static RunConfig config_of(const Layout& layout) {
    RunConfig config = small_run_config(*dataset_);
    config.batch_size = 11;
    config.steps = 100;
    config.ranks = layout.ranks;
    config.ranks_per_node = layout.node_ranks > 0 ? layout.node_ranks : 1;
    config.balance = layout.balance;
    config.micro_batch_size = layout.micro_batch;
    config.sharding.optimizer = layout.sharded;
    config.optimizer.kind = layout.optimizer;
    config.statistics_every = 1;
    return config;
  }
  using Body = std::function<void(Communicator& ranks, TrainLoop& loop)>;
  static void on_ranks(const RunConfig& config, const Body& body, int node_ranks = 0) {
    ThreadRanks(config.ranks, node_ranks).run([&](Communicator& ranks) {
      const auto device = make_cpu_device(1);
      const SampleSource source(*dataset_, Split::Training, config.data, config.seed);
      topology::Plan plan;
      plan.ranks = config.ranks;
      plan.buckets = buckets_per_layer(make_tensor_table(config.model));
      TrainLoop loop(*device, ranks, base::system_clock(), config, plan, stream_of(source));
      body(ranks, loop);
    });
  }
  static TrainingState first_state(const RunConfig& config) {
    TrainingState state;
    state.parameters = initial_weights(make_tensor_table(config.model), config.seed);
    return state;
  }
  // All of a step's samples by ordinal, from whichever rank has them. Collective.
  static void add_samples(const RunConfig& config, std::int64_t step, Communicator& ranks,
                          std::map<std::int32_t, Sample>* all, std::mutex* mutex) {
    const SampleSource source(*dataset_, Split::Training, config.data, config.seed);
    StepSamples samples(config, stream_of(source), ranks.host());
    const StepShare share = samples.share(step);
    const std::scoped_lock lock(*mutex);
    for (std::size_t i = 0; i < share.samples.size(); ++i) {
      EXPECT_TRUE(all->emplace(share.ordinals[i], share.samples[i]).second);
    }
  }
};

// Noise and signal of one step against the gradients of the two sets of samples, by another model.
TEST_F(NoiseProbeTest, MeasuresTheHalfBesideTheStep) {
  constexpr std::int64_t kStep = 7;  // kLeastUpdates are over
  for (const Layout& layout : layouts()) {
    SCOPED_TRACE(layout.name);
    RunConfig config = config_of(layout);
    config.statistics_every = kStep;
    std::map<std::int32_t, Sample> samples;
    std::mutex mutex;
    TrainingState before, after;
    on_ranks(
        config,
        [&](Communicator& ranks, TrainLoop& loop) {
          loop.load(first_state(config));
          for (std::int64_t step = 1; step < kStep; ++step) (void)loop.step(step);
          add_samples(config, kStep, ranks, &samples, &mutex);
          TrainingState state = whole_state(ranks, loop);
          if (ranks.rank() == 0) before = state;
          (void)loop.step(kStep);
          state = whole_state(ranks, loop);
          if (ranks.rank() == 0) after = state;
        },
        layout.node_ranks);
    ASSERT_EQ(std::ssize(samples), config.batch_size);
    const std::vector<bool> in_half = half_of_step(config.seed, kStep, config.batch_size);
    std::vector<Sample> whole, half;
    std::vector<std::int32_t> whole_ordinals, half_ordinals;
    double half_masked = 0, masked = 0;
    for (const auto& [ordinal, sample] : samples) {
      whole.push_back(sample);
      whole_ordinals.push_back(ordinal);
      masked += static_cast<double>(sample.masked_positions.size());
      if (!in_half[static_cast<std::size_t>(ordinal)]) continue;
      half.push_back(sample);
      half_ordinals.push_back(ordinal);
      half_masked += static_cast<double>(sample.masked_positions.size());
    }
    GradientOf gradient_of(config, before.parameters);
    const Gradient g = gradient_of(whole, whole_ordinals, kStep);
    Gradient difference = gradient_of(half, half_ordinals, kStep);
    for (std::size_t i = 0; i < g.size(); ++i) difference[i] = g[i] - difference[i];
    const double weight = half_masked / (masked - half_masked);
    const Gradient inverse =
        preconditioner(config, gradient_of.table(), before.second_moment, kStep - 1);
    const auto expect = [&](const NoiseScale::State& state, const Gradient& scale,
                            double tolerance) {
      ASSERT_EQ(state[0], 1) << "one step was observed";
      const double noise = squared(difference, scale) * weight;
      const double all = squared(g, scale);
      EXPECT_NEAR(state[2], noise, tolerance * noise);
      EXPECT_NEAR(state[3], all - noise, tolerance * all);
    };
    // Sums of float32 in other orders differ by some 10⁻⁶ of the largest terms; the preconditioner
    // raises what is small.
    expect(after.noise[1], {}, 1e-4);
    expect(after.noise[0], inverse, 1e-3);
  }
}

// The same weights, moments and losses with it and without, whenever it looks.
TEST_F(NoiseProbeTest, ChangesNoBitOfTraining) {
  for (const Layout& layout : layouts()) {
    SCOPED_TRACE(layout.name);
    std::vector<double> losses[3];
    TrainingState states[3];
    int looks = 0;
    double least_without = 1;  // an interrupt may lengthen some of those steps, work all of them
    for (const int every : {0, 1, 3}) {
      RunConfig config = config_of(layout);
      config.statistics_every = every;
      config.clip_norm = 0.5;  // below the norm of most steps
      on_ranks(
          config,
          [&](Communicator& ranks, TrainLoop& loop) {
            loop.load(first_state(config));
            for (int step = 1; step <= 8; ++step) {
              const StepRecord record = loop.step(step);
              if (ranks.rank() != 0) continue;
              losses[looks].push_back(record.loss);
              losses[looks].push_back(record.gradient_norm);
              const bool looks_now = every > 0 && step % every == 0;
              if (looks_now) {
                EXPECT_GT(record.statistics_seconds, 1e-5);
              } else {
                least_without = std::min(least_without, record.statistics_seconds);
              }
              EXPECT_TRUE(loop.pace().disturbed || !looks_now) << "no measure of a cut";
            }
            TrainingState state = whole_state(ranks, loop);
            if (ranks.rank() == 0) states[looks] = std::move(state);
          },
          layout.node_ranks);
      ++looks;
    }
    EXPECT_LT(least_without, 1e-5);
    EXPECT_EQ(states[0].noise, NoiseStates{}) << "it did not look";
    EXPECT_EQ(states[1].noise[1][0], 8);
    EXPECT_EQ(states[2].noise[1][0], 2);
    for (const int other : {1, 2}) {
      EXPECT_EQ(losses[other], losses[0]);
      EXPECT_TRUE(states[other].parameters == states[0].parameters);
      EXPECT_TRUE(states[other].first_moment == states[0].first_moment);
      EXPECT_TRUE(states[other].second_moment == states[0].second_moment);
    }
  }
}

TEST_F(NoiseProbeTest, LimitedGradientsAreNotLookedAt) {
  for (const ClipMode clip : {ClipMode::Bucket, ClipMode::Rank}) {
    RunConfig config = config_of({"", 2, kInTurn});
    config.clip = clip;
    EXPECT_FALSE(measures_noise(config));
    on_ranks(config, [&](Communicator& ranks, TrainLoop& loop) {
      loop.load(first_state(config));
      for (int step = 1; step <= 20; ++step) {
        EXPECT_FALSE(loop.step(step).raw_noise_scale.has_value());
      }
      EXPECT_EQ(whole_state(ranks, loop).noise, NoiseStates{});
    });
  }
  RunConfig config = config_of({"", 1, kInTurn});
  EXPECT_TRUE(measures_noise(config));
  config.batch_size = 1;
  EXPECT_FALSE(measures_noise(config)) << "half of a sample";
}

// On all ranks, bit for bit as if the run had never stopped, through the files of a checkpoint.
TEST_F(NoiseProbeTest, ACheckpointKeepsIt) {
  constexpr int kHalf = 12, kAll = 24;
  for (const Layout& layout :
       {Layout{"one rank", 1, kInTurn}, Layout{"sharded", 3, kInTurn, 0, true}}) {
    SCOPED_TRACE(layout.name);
    const RunConfig config = config_of(layout);
    const TensorTable table = make_tensor_table(config.model);
    std::vector<StepRecord> undisturbed;
    TrainingState half;
    on_ranks(config, [&](Communicator& ranks, TrainLoop& loop) {
      loop.load(first_state(config));
      for (int step = 1; step <= kAll; ++step) {
        const StepRecord record = loop.step(step);
        if (ranks.rank() == 0) undisturbed.push_back(record);
        if (step != kHalf) continue;
        TrainingState state = whole_state(ranks, loop);
        if (ranks.rank() == 0) half = std::move(state);
      }
    });
    EXPECT_FALSE(undisturbed[kHalf - 1].noise_scale) << "no ten looks yet";
    ASSERT_TRUE(undisturbed.back().noise_scale && undisturbed.back().noise_scale_low);
    ASSERT_TRUE(undisturbed.back().raw_noise_scale && undisturbed.back().raw_noise_scale_low);

    TemporaryDirectory folder;
    RunDirectory run =
        RunDirectory::create(base::posix_file_system(), folder.path() / "run", to_json(config));
    const Fence fence(run, run.take_epoch());
    CheckpointKeeper keeper(base::posix_file_system(), base::system_clock(), run, fence, config,
                            table, "data", "cccc");
    const auto written = keeper.write(kHalf, half.whole(table), std::nullopt);
    ASSERT_EQ(written.at(0).status, "written") << written.at(0).message;
    const auto memory = make_cpu_device(1);
    Snapshot loaded(*memory, table, trainer::whole_state(table), 0, 1, true);
    std::vector<CheckpointRecord> skipped;
    ASSERT_TRUE(keeper.load(&loaded, &skipped));
    EXPECT_EQ(loaded.shard().noise, half.noise);

    on_ranks(config, [&](Communicator&, TrainLoop& loop) {
      loop.load(loaded.shard());
      for (int step = kHalf + 1; step <= kAll; ++step) {
        const StepRecord record = loop.step(step);
        const StepRecord& expected = undisturbed[static_cast<std::size_t>(step) - 1];
        EXPECT_EQ(record.noise_scale, expected.noise_scale);
        EXPECT_EQ(record.noise_scale_low, expected.noise_scale_low);
        EXPECT_EQ(record.noise_scale_high, expected.noise_scale_high);
        EXPECT_EQ(record.raw_noise_scale, expected.raw_noise_scale);
        EXPECT_EQ(record.raw_noise_scale_high, expected.raw_noise_scale_high);
        EXPECT_EQ(record.efficiency, expected.efficiency);
      }
    });

    // One without it, as older versions wrote, resumes, and the averages begin anew. Float16's
    // scale is no part of that.
    half.noise = {};
    half.loss_scale = 512;
    ASSERT_EQ(keeper.write(kHalf + 1, half.whole(table), std::nullopt).at(0).status, "written");
    ASSERT_TRUE(keeper.load(&loaded, &skipped));
    EXPECT_EQ(loaded.shard().noise, NoiseStates{});
    EXPECT_EQ(loaded.shard().loss_scale, 512);
  }
}

// The long one is noise_truth_test.
TEST_F(FrozenRun, TellsTheTruth) {
  const Truths truths = find_truth(200);
  const BalanceConfig longest{Balance::GlobalPresort, Deal::LongestFirst, ExchangeWay::Reread};
  const BalanceConfig stratified{Balance::Stratified, Deal::LongestFirst, ExchangeWay::Reread};
  const StepRecord alone = compare({"one rank", 1, kInTurn}, truths, 1, 80);
  const StepRecord dealt = compare({"longest first", 3, longest}, truths, 1, 80);
  (void)compare({"stratified", 3, stratified}, truths, 1, 80);
  ASSERT_TRUE(alone.raw_noise_scale && dealt.raw_noise_scale);
  EXPECT_NEAR(*dealt.raw_noise_scale, *alone.raw_noise_scale, 1e-3 * *alone.raw_noise_scale);
}

}  // namespace
}  // namespace regatta::tests
