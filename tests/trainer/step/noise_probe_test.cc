// What a run measures of its gradient's noise: beside the same computed from the samples
// themselves, for every way of balancing; that it disturbs nothing; that checkpoints keep it.
#include "trainer/step/noise_probe.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <mutex>
#include <string>

#include "tests/trainer/ranks/thread_ranks.h"
#include "tests/trainer/samples/small_dataset.h"
#include "tests/trainer/step/frozen_run.h"
#include "tests/trainer/step/noise_truth.h"
#include "tests/trainer/step/whole_state.h"
#include "trainer/model/initial_weights.h"
#include "trainer/run/checkpoint_keeper.h"
#include "trainer/samples/sampler.h"
#include "trainer/samples/step_samples.h"
#include "trainer/step/buckets.h"
#include "trainer/step/schedule.h"
#include "trainer/step/train_loop.h"

namespace regatta::tests {
namespace {

using namespace regatta::trainer;  // the subject

TEST(HalfOfStep, IsAFairDrawOfHalfTheSamples) {
  constexpr int kBatch = 7, kSteps = 20000;
  std::vector<int> times(kBatch, 0), together(kBatch, 0);
  for (std::int64_t step = 1; step <= kSteps; ++step) {
    const std::vector<bool> half = step::half_of_step(5, step, kBatch);
    ASSERT_EQ(std::count(half.begin(), half.end(), true), kBatch / 2);
    ASSERT_EQ(half, step::half_of_step(5, step, kBatch)) << "all ranks must draw the same";
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
  EXPECT_NE(step::half_of_step(5, 1, 64), step::half_of_step(5, 2, 64));
  EXPECT_NE(step::half_of_step(5, 1, 64), step::half_of_step(6, 1, 64));
  EXPECT_EQ(step::half_of_step(5, 1, 1), std::vector<bool>{false});
}

struct Layout {
  std::string name;
  int ranks = 1;
  contract::BalanceConfig balance;
  int micro_batch = 0;
  bool sharded = false;
  contract::OptimizerKind optimizer = contract::OptimizerKind::AdamW;
  int node_ranks = 0;  // hierarchical
  int frozen_layers = 0;
};

const contract::BalanceConfig kInTurn{contract::Balance::None, contract::Deal::LongestFirst,
                                      contract::ExchangeWay::Reread};

std::vector<Layout> layouts() {
  const auto dealt = [](contract::Balance strategy, contract::Deal deal) {
    return contract::BalanceConfig{strategy, deal, contract::ExchangeWay::Reread};
  };
  const contract::BalanceConfig longest =
      dealt(contract::Balance::GlobalPresort, contract::Deal::LongestFirst);
  return {
      {"one rank", 1, longest},
      {"one rank, micro-batches", 1, longest, 4},
      {"in turn", 3, kInTurn},
      {"stratified", 3, dealt(contract::Balance::Stratified, contract::Deal::LongestFirst)},
      {"stride", 3, dealt(contract::Balance::GlobalPresort, contract::Deal::Stride)},
      {"snake", 3, dealt(contract::Balance::GlobalPresort, contract::Deal::Snake)},
      {"longest first", 3, longest},
      {"exchange",
       3,
       {contract::Balance::Exchange, contract::Deal::LongestFirst, contract::ExchangeWay::Move}},
      {"packed", 3, dealt(contract::Balance::Packed, contract::Deal::LongestFirst)},
      {"sharded", 3, longest, 0, true},
      {"sharded, micro-batches, LAMB", 3, longest, 2, true, contract::OptimizerKind::Lamb},
      {"sharded by nodes, LAMB", 4, longest, 0, true, contract::OptimizerKind::Lamb, 2},
      {"more ranks than the half has samples", 9, kInTurn, 0, true},
      {"frozen", 1, longest, 0, false, contract::OptimizerKind::AdamW, 0, 1},
      {"frozen, sharded", 3, longest, 0, true, contract::OptimizerKind::Lamb, 0, 1},
  };
}

class NoiseProbeTest : public OnSmallDataset<120> {
 protected:
  static contract::RunConfig config_of(const Layout& layout) {
    contract::RunConfig config = small_run_config(*dataset_);
    config.batch_size = 11;
    config.steps = 100;
    config.ranks = layout.ranks;
    config.ranks_per_node = layout.node_ranks > 0 ? layout.node_ranks : 1;
    config.balance = layout.balance;
    config.micro_batch_size = layout.micro_batch;
    config.sharding.optimizer = layout.sharded;
    config.optimizer.kind = layout.optimizer;
    config.fine_tuning.frozen_layers = layout.frozen_layers;
    config.statistics_every = 1;
    return config;
  }
  using Body = std::function<void(ranks::Communicator& ranks, step::TrainLoop& loop)>;
  static void on_ranks(const contract::RunConfig& config, const Body& body, int node_ranks = 0) {
    ThreadRanks(config.ranks, node_ranks).run([&](ranks::Communicator& ranks) {
      const auto device = cpu::make_cpu_device(1);
      const samples::SampleSource source(*dataset_, data::Split::Training, config.data,
                                         config.seed);
      topology::plan::Plan plan;
      plan.ranks = config.ranks;
      plan.buckets = step::buckets_per_layer(contract::make_tensor_table(config.model));
      step::TrainLoop loop(*device, ranks, base::system_clock(), config, plan,
                           samples::stream_of(source));
      body(ranks, loop);
    });
  }
  static step::TrainingState first_state(const contract::RunConfig& config) {
    step::TrainingState state;
    state.parameters =
        model::initial_weights(contract::make_tensor_table(config.model), config.seed);
    return state;
  }
  // All of a step's samples by ordinal, from whichever rank has them. Collective.
  static void add_samples(const contract::RunConfig& config, std::int64_t step,
                          ranks::Communicator& ranks, std::map<std::int32_t, samples::Sample>* all,
                          std::mutex* mutex) {
    const samples::SampleSource source(*dataset_, data::Split::Training, config.data, config.seed);
    samples::StepSamples samples(config, samples::stream_of(source), ranks.host());
    const samples::StepShare share = samples.share(step);
    const std::scoped_lock lock(*mutex);
    for (std::size_t i = 0; i < share.samples.size(); ++i) {
      EXPECT_TRUE(all->emplace(share.ordinals[i], share.samples[i]).second);
    }
  }
};

// Zero where nothing learns.
void keep_what_learns(const contract::RunConfig& config, const contract::TensorTable& table,
                      const std::vector<Gradient*>& gradients) {
  const std::vector<float> factors =
      step::learning_rate_factors(table, config.model, config.fine_tuning);
  for (std::size_t i = 0; i < factors.size(); ++i) {
    if (factors[i] != 0) continue;
    const contract::TensorEntry& tensor = table.tensors[i];
    for (Gradient* gradient : gradients) {
      std::fill_n(gradient->begin() + tensor.offset, tensor.size, 0.0);
    }
  }
}

// Noise and signal of one step against the gradients of the two sets of samples, by another model.
TEST_F(NoiseProbeTest, MeasuresTheHalfBesideTheStep) {
  constexpr std::int64_t kStep = 7;  // kLeastUpdates are over
  int limited = 0;
  for (const Layout& layout : layouts()) {
    SCOPED_TRACE(layout.name);
    contract::RunConfig config = config_of(layout);
    config.clip_norm = layout.sharded ? 0.01 : 0;  // below any norm
    config.statistics_every = kStep;
    std::map<std::int32_t, samples::Sample> samples;
    std::mutex mutex;
    step::TrainingState before, after;
    on_ranks(
        config,
        [&](ranks::Communicator& ranks, step::TrainLoop& loop) {
          loop.load(first_state(config));
          for (std::int64_t step = 1; step < kStep; ++step) (void)loop.step(step);
          add_samples(config, kStep, ranks, &samples, &mutex);
          step::TrainingState state = whole_state(ranks, loop);
          if (ranks.rank() == 0) before = state;
          (void)loop.step(kStep);
          state = whole_state(ranks, loop);
          if (ranks.rank() == 0) after = state;
        },
        layout.node_ranks);
    ASSERT_EQ(std::ssize(samples), config.batch_size);
    const std::vector<bool> in_half = step::half_of_step(config.seed, kStep, config.batch_size);
    std::vector<samples::Sample> whole, half;
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
    Gradient g = gradient_of(whole, whole_ordinals, kStep);
    Gradient difference = gradient_of(half, half_ordinals, kStep);
    const double norm = std::sqrt(squared(g));
    for (std::size_t i = 0; i < g.size(); ++i) difference[i] = g[i] - difference[i];
    const double weight = half_masked / (masked - half_masked);
    keep_what_learns(config, gradient_of.table(), {&g, &difference});
    const double limit = config.clip_norm > 0 ? std::min(1.0, config.clip_norm / norm) : 1;
    limited += limit < 1 ? 1 : 0;
    Gradient squares(g.size());  // mean of the half's and the rest's, by their counts
    for (std::size_t i = 0; i < g.size(); ++i) {
      const double of_half = g[i] - difference[i], of_rest = g[i] + weight * difference[i];
      squares[i] = limit * limit *
                   (half_masked * of_half * of_half + (masked - half_masked) * of_rest * of_rest) /
                   masked;
    }
    const Gradient inverse =
        preconditioner(config, gradient_of.table(), before.second_moment, kStep - 1, squares);
    const auto expect = [&](const contract::NoiseScale::State& state, const Gradient& scale,
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
  EXPECT_GE(limited, 4) << "layouts whose gradients are limited";
}

// The same weights, moments and losses with it and without, whenever it looks.
TEST_F(NoiseProbeTest, ChangesNoBitOfTraining) {
  for (const Layout& layout : layouts()) {
    SCOPED_TRACE(layout.name);
    std::vector<double> losses[3];
    step::TrainingState states[3];
    int looks = 0;
    double least_without = 1;  // an interrupt may lengthen some of those steps, work all of them
    for (const int every : {0, 1, 3}) {
      contract::RunConfig config = config_of(layout);
      config.statistics_every = every;
      config.clip_norm = 0.5;  // below the norm of most steps
      on_ranks(
          config,
          [&](ranks::Communicator& ranks, step::TrainLoop& loop) {
            loop.load(first_state(config));
            for (int step = 1; step <= 8; ++step) {
              const contract::StepRecord record = loop.step(step);
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
            step::TrainingState state = whole_state(ranks, loop);
            if (ranks.rank() == 0) states[looks] = std::move(state);
          },
          layout.node_ranks);
      ++looks;
    }
    EXPECT_LT(least_without, 1e-5);
    EXPECT_EQ(states[0].noise, step::NoiseStates{}) << "it did not look";
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
  for (const contract::ClipMode clip : {contract::ClipMode::Bucket, contract::ClipMode::Rank}) {
    contract::RunConfig config = config_of({"", 2, kInTurn});
    config.clip = clip;
    EXPECT_FALSE(step::measures_noise(config));
    on_ranks(config, [&](ranks::Communicator& ranks, step::TrainLoop& loop) {
      loop.load(first_state(config));
      for (int step = 1; step <= 20; ++step) {
        EXPECT_FALSE(loop.step(step).raw_noise_scale.has_value());
      }
      EXPECT_EQ(whole_state(ranks, loop).noise, step::NoiseStates{});
    });
  }
  contract::RunConfig config = config_of({"", 1, kInTurn});
  EXPECT_TRUE(step::measures_noise(config));
  config.batch_size = 1;
  EXPECT_FALSE(step::measures_noise(config)) << "half of a sample";
}

// On all ranks, bit for bit as if the run had never stopped, through the files of a checkpoint.
TEST_F(NoiseProbeTest, ACheckpointKeepsIt) {
  constexpr int kHalf = 12, kAll = 24;
  for (const Layout& layout :
       {Layout{"one rank", 1, kInTurn}, Layout{"sharded", 3, kInTurn, 0, true}}) {
    SCOPED_TRACE(layout.name);
    const contract::RunConfig config = config_of(layout);
    const contract::TensorTable table = contract::make_tensor_table(config.model);
    std::vector<contract::StepRecord> undisturbed;
    step::TrainingState half;
    on_ranks(config, [&](ranks::Communicator& ranks, step::TrainLoop& loop) {
      loop.load(first_state(config));
      for (int step = 1; step <= kAll; ++step) {
        const contract::StepRecord record = loop.step(step);
        if (ranks.rank() == 0) undisturbed.push_back(record);
        if (step != kHalf) continue;
        step::TrainingState state = whole_state(ranks, loop);
        if (ranks.rank() == 0) half = std::move(state);
      }
    });
    EXPECT_FALSE(undisturbed[kHalf - 1].noise_scale) << "no ten looks yet";
    ASSERT_TRUE(undisturbed.back().noise_scale && undisturbed.back().noise_scale_low);
    ASSERT_TRUE(undisturbed.back().raw_noise_scale && undisturbed.back().raw_noise_scale_low);

    TemporaryDirectory folder;
    contract::RunDirectory run = contract::RunDirectory::create(
        base::posix_file_system(), folder.path() / "run", contract::to_json(config));
    const contract::Fence fence(run, run.take_epoch());
    run::CheckpointKeeper keeper({base::posix_file_system(), base::system_clock(), run, fence,
                                  config, table, "data", "cccc"});
    const auto written = keeper.write(kHalf, half.whole(table), std::nullopt);
    ASSERT_EQ(written.at(0).status, "written") << written.at(0).message;
    const auto memory = cpu::make_cpu_device(1);
    step::Snapshot loaded(*memory, table, trainer::step::whole_state(table), 0, 1, true);
    std::vector<contract::CheckpointRecord> skipped;
    ASSERT_TRUE(keeper.load(&loaded, &skipped));
    EXPECT_EQ(loaded.shard().noise, half.noise);

    on_ranks(config, [&](ranks::Communicator&, step::TrainLoop& loop) {
      loop.load(loaded.shard());
      for (int step = kHalf + 1; step <= kAll; ++step) {
        const contract::StepRecord record = loop.step(step);
        const contract::StepRecord& expected = undisturbed[static_cast<std::size_t>(step) - 1];
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
    EXPECT_EQ(loaded.shard().noise, step::NoiseStates{});
    EXPECT_EQ(loaded.shard().loss_scale, 512);
  }
}

// The long one is noise_truth_test.
TEST_F(FrozenRun, TellsTheTruth) {
  const Truths truths = find_truth(200);
  const contract::BalanceConfig longest{contract::Balance::GlobalPresort,
                                        contract::Deal::LongestFirst,
                                        contract::ExchangeWay::Reread};
  const contract::BalanceConfig stratified{
      contract::Balance::Stratified, contract::Deal::LongestFirst, contract::ExchangeWay::Reread};
  const contract::StepRecord alone = compare({"one rank", 1, kInTurn}, truths, 1, 80);
  const contract::StepRecord dealt = compare({"longest first", 3, longest}, truths, 1, 80);
  (void)compare({"stratified", 3, stratified}, truths, 1, 80);
  ASSERT_TRUE(alone.raw_noise_scale && dealt.raw_noise_scale);
  EXPECT_NEAR(*dealt.raw_noise_scale, *alone.raw_noise_scale, 1e-3 * *alone.raw_noise_scale);
}

}  // namespace
}  // namespace regatta::tests
