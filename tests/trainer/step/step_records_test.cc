// What a step and an evaluation tell, against answers that are known: counted from the samples
// themselves, by formula, or from the float64 reference.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <mutex>
#include <numeric>

#include "tests/trainer/device/rounding_device.h"
#include "tests/trainer/model/random_model.h"
#include "tests/trainer/ranks/thread_ranks.h"
#include "tests/trainer/samples/small_dataset.h"
#include "trainer/cpu/cpu_device.h"
#include "trainer/samples/sample_parcel.h"
#include "trainer/samples/sampler.h"
#include "trainer/step/buckets.h"
#include "trainer/step/train_loop.h"

namespace regatta::tests {
namespace {

using namespace regatta::trainer;  // the subject

constexpr double kUnit = 0x1p-24;  // of float32
constexpr int kBatch = 13;

class Records : public OnSmallDataset<60> {
 protected:
  static contract::RunConfig config_of(int ranks) {
    contract::RunConfig config = small_run_config(*dataset_);
    config.model.hidden = 16;
    config.model.feed_forward = 32;
    config.batch_size = kBatch;
    config.steps = 100;
    config.balance.strategy = contract::Balance::None;
    config.ranks = ranks;
    config.ranks_per_node = 1;
    return config;
  }
  using Body = std::function<void(ranks::Communicator& ranks, step::TrainLoop& loop)>;
  // `rounding`: on a device that computes in 16 bits.
  static void on_ranks(const contract::RunConfig& config, const Body& body,
                       const std::function<step::StepFlags(int rank)>& local_flags = nullptr,
                       bool rounding = false) {
    ThreadRanks(config.ranks).run([&](ranks::Communicator& ranks) {
      auto device = cpu::make_cpu_device(1);
      if (rounding) device = make_rounding_device(std::move(device));
      const samples::SampleSource source(*dataset_, data::Split::Training, config.data,
                                         config.seed);
      topology::plan::Plan plan;
      plan.ranks = config.ranks;
      plan.buckets = step::buckets_per_layer(contract::make_tensor_table(config.model));
      step::TrainLoopOptions options;
      options.peak_flops = 1e12;
      if (local_flags)
        options.local_flags = [&local_flags, rank = ranks.rank()] { return local_flags(rank); };
      step::TrainLoop loop(*device, ranks, base::system_clock(), config, plan,
                           samples::stream_of(source), options);
      step::TrainingState state;
      state.parameters = random_weights(loop.model().table(), 5);
      loop.load(state);
      body(ranks, loop);
    });
  }
  static std::vector<samples::Sample> samples_of(const contract::RunConfig& config,
                                                 std::int64_t step) {
    const samples::SampleSource source(*dataset_, data::Split::Training, config.data, config.seed);
    std::vector<samples::Sample> samples;
    for (std::int64_t place = 0; place < config.batch_size; ++place) {
      samples.push_back(source.at((step - 1) * config.batch_size + place));
    }
    return samples;
  }
};

contract::BatchSizes sizes_of(const std::vector<samples::Sample>& samples,
                              const std::vector<std::int32_t>& places) {
  contract::BatchSizes sizes;
  for (const std::int32_t place : places) {
    const samples::Sample& sample = samples[static_cast<std::size_t>(place)];
    const std::int64_t length = std::ssize(sample.ids);
    ++sizes.samples;
    sizes.tokens += length;
    sizes.squared_tokens += length * length;
    sizes.masked += std::ssize(sample.masked_positions);
  }
  return sizes;
}

// Of samples that `exchange` moves: place p is made on rank p mod R.
std::int64_t moved_bytes_of(std::int64_t step, const std::vector<samples::Sample>& samples,
                            const contract::Assignment& shares) {
  std::int64_t bytes = 0;
  const int ranks = static_cast<int>(shares.size());
  for (int from = 0; from < ranks; ++from) {
    for (int to = 0; to < ranks; ++to) {
      std::vector<std::int32_t> places = shares[static_cast<std::size_t>(to)];
      std::sort(places.begin(), places.end());
      std::vector<samples::PlacedSample> moved;
      for (const std::int32_t place : places) {
        if (from == to || place % ranks != from) continue;
        moved.push_back({place, samples[static_cast<std::size_t>(place)]});
      }
      if (!moved.empty()) bytes += std::ssize(samples::make_parcel(step, moved));
    }
  }
  return bytes;
}

struct Counted {
  const char* name;
  int ranks, micro_batch, token_bucket;
  contract::BalanceConfig balance;
};

// Counts are of what is in the step's samples, however they are cut, padded and dealt.
TEST_F(Records, CountsAreThoseOfTheSamples) {
  const contract::BalanceConfig in_turn{contract::Balance::None, contract::Deal::LongestFirst,
                                        contract::ExchangeWay::Reread};
  const contract::BalanceConfig moving{contract::Balance::Exchange, contract::Deal::LongestFirst,
                                       contract::ExchangeWay::Move};
  for (const Counted& c :
       {Counted{"one rank", 1, 0, 0, in_turn}, Counted{"in micro-batches", 1, 4, 0, in_turn},
        Counted{"padded", 1, 4, 64, in_turn}, Counted{"three ranks", 3, 2, 0, in_turn},
        Counted{"padded on two ranks", 2, 3, 64, in_turn},
        Counted{"longest first",
                3,
                2,
                0,
                {contract::Balance::GlobalPresort, contract::Deal::LongestFirst, {}}},
        Counted{"moved", 3, 2, 0, moving}}) {
    SCOPED_TRACE(c.name);
    contract::RunConfig config = config_of(c.ranks);
    config.micro_batch_size = c.micro_batch;
    config.token_bucket = c.token_bucket;
    config.balance = c.balance;
    on_ranks(config, [&](ranks::Communicator&, step::TrainLoop& loop) {
      for (std::int64_t step = 1; step <= 2; ++step) {
        const contract::StepRecord record = loop.step(step);
        const std::vector<samples::Sample> samples = samples_of(config, step);
        std::vector<std::int32_t> lengths;
        for (const samples::Sample& sample : samples) {
          lengths.push_back(static_cast<std::int32_t>(sample.ids.size()));
        }
        const contract::Assignment shares = contract::assign(
            lengths, {config.balance.strategy, config.balance.deal, config.ranks, 1});
        contract::BatchSizes all;
        std::int64_t most_tokens = 0;
        std::vector<std::int64_t> tokens_of_ranks;
        double most_flops = 0, flops = 0;
        for (const std::vector<std::int32_t>& share : shares) {
          const contract::BatchSizes mine = sizes_of(samples, share);
          all.samples += mine.samples;
          all.tokens += mine.tokens;
          all.masked += mine.masked;
          most_tokens = std::max(most_tokens, mine.tokens);
          tokens_of_ranks.push_back(mine.tokens);
          most_flops = std::max(most_flops, contract::training_flops(config.model, mine));
          flops += contract::training_flops(config.model, mine);
        }
        EXPECT_EQ(record.step, step);
        EXPECT_EQ(loop.ranks().step, step);
        EXPECT_EQ(loop.ranks().tokens, tokens_of_ranks);
        EXPECT_EQ(record.samples, kBatch);
        EXPECT_EQ(record.samples, all.samples);
        EXPECT_EQ(record.tokens, all.tokens);
        EXPECT_EQ(record.masked, all.masked);
        EXPECT_DOUBLE_EQ(record.flops, flops);
        EXPECT_DOUBLE_EQ(loop.pace().flops, most_flops) << "the pace is the slowest rank's";
        EXPECT_DOUBLE_EQ(record.imbalance, static_cast<double>(most_tokens * config.ranks) /
                                               static_cast<double>(all.tokens));
        const bool moves = config.balance.strategy == contract::Balance::Exchange;
        EXPECT_EQ(record.moved_bytes, moves ? moved_bytes_of(step, samples, shares) : 0);
      }
    });
  }
}

// Rates and shares follow from the record's own counts and seconds.
TEST_F(Records, RatesFollowFromCountsAndSeconds) {
  contract::RunConfig config = config_of(3);
  config.base_batch = 4;
  config.statistics_every = 1;
  int seen = 0;
  std::mutex mutex;
  on_ranks(config, [&](ranks::Communicator& ranks, step::TrainLoop& loop) {
    for (std::int64_t step = 1; step <= 20; ++step) {
      const contract::StepRecord r = loop.step(step);
      EXPECT_EQ(loop.ranks().compute_seconds.at(static_cast<std::size_t>(ranks.rank())),
                r.forward_seconds + r.backward_seconds);
      EXPECT_DOUBLE_EQ(r.mfu, r.flops / (1e12 * r.seconds));
      // Nothing is gathered here, so that all of these three phases is computing.
      EXPECT_DOUBLE_EQ(r.utilisation,
                       (r.forward_seconds + r.backward_seconds + r.optimizer_seconds) / r.seconds);
      EXPECT_GE(r.seconds, r.data_seconds + r.forward_seconds + r.backward_seconds +
                               r.reduce_seconds + r.optimizer_seconds);
      EXPECT_LE(r.exposed_seconds, r.reduce_seconds);
      EXPECT_EQ(r.goodput.has_value(), r.efficiency.has_value());
      if (!r.goodput) continue;
      EXPECT_DOUBLE_EQ(*r.goodput, *r.efficiency * kBatch / r.seconds);
      const std::scoped_lock lock(mutex);
      seen += ranks.rank() == 0 ? 1 : 0;
    }
  });
  EXPECT_GT(seen, 0) << "the noise scale is known by then";
}

// Each value on the way to a loss is a sum of so many terms; a float32 sum of n terms is within
// n·2⁻²⁴ of their sizes.
double path_roundings(const contract::ModelShape& shape, int max_length) {
  const int layer = 5 * shape.hidden + shape.feed_forward + 2 * max_length;
  return shape.layers * layer + 3 * shape.hidden + shape.vocabulary;
}

TEST_F(Records, LossesAndNormAreThoseOfTheReference) {
  contract::RunConfig config = config_of(3);
  config.micro_batch_size = 2;
  config.clip = contract::ClipMode::None;
  on_ranks(config, [&](ranks::Communicator& ranks, step::TrainLoop& loop) {
    const contract::TensorTable& table = loop.model().table();
    std::vector<float> weights(static_cast<std::size_t>(table.arena_size));
    for (std::int64_t step = 1; step <= 2; ++step) {
      const device::View now = loop.model().parameters();
      std::copy_n(now.floats(), now.size, weights.begin());  // of a CPU device, between steps
      const contract::StepRecord record = loop.step(step);
      if (ranks.rank() != 0) continue;
      std::vector<int> ordinals(kBatch);
      std::iota(ordinals.begin(), ordinals.end(), 0);
      const ReferenceResult reference = reference_bert(
          config.model, reference_weights(table, weights), samples_of(config, step), ordinals,
          {config.dropout, config.attention_dropout, config.seed}, static_cast<std::uint32_t>(step),
          static_cast<double>(record.masked), kBatch);
      const double mlm = reference.mlm_loss / static_cast<double>(record.masked);
      const double nsp = reference.nsp_loss / kBatch;
      const double n = path_roundings(config.model, config.data.max_length) +
                       static_cast<double>(record.masked + record.tokens);
      EXPECT_NEAR(record.mlm_loss, mlm, n * kUnit * mlm);
      EXPECT_NEAR(record.nsp_loss, nsp, n * kUnit * nsp);
      EXPECT_NEAR(record.loss, mlm + nsp, n * kUnit * (mlm + nsp));
      double squares = 0;
      for (const auto& [name, gradient] : reference.gradients) {
        for (const double g : gradient) squares += g * g;
      }
      EXPECT_NEAR(record.gradient_norm, std::sqrt(squares), 2 * n * kUnit * std::sqrt(squares));
      EXPECT_EQ(record.loss_scale, 1);
      EXPECT_FALSE(record.skipped);
    }
  });
}

TEST_F(Records, TheRateIsThatOfTheStep) {
  contract::RunConfig config = config_of(2);
  config.optimizer.learning_rate = 0.004;
  config.optimizer.warmup_steps = 4;
  config.optimizer.schedule = contract::ScheduleKind::Constant;
  on_ranks(config, [&](ranks::Communicator&, step::TrainLoop& loop) {
    for (std::int64_t step = 1; step <= 6; ++step) {
      EXPECT_DOUBLE_EQ(loop.step(step).learning_rate,
                       0.001 * static_cast<double>(std::min<std::int64_t>(4, step)))
          << "step " << step;
    }
  });
}

// The gradient carries the loss scale, and what is told of it does not. A step whose gradients
// overflow is told, and changes nothing.
TEST_F(Records, OfFloat16AreFreedOfTheLossScale) {
  contract::RunConfig config = config_of(2);
  config.clip = contract::ClipMode::None;
  config.dropout = config.attention_dropout = 0;
  double norm = 0;
  on_ranks(config, [&](ranks::Communicator& ranks, step::TrainLoop& loop) {
    const double mine = loop.step(1).gradient_norm;
    if (ranks.rank() == 0) norm = mine;
  });
  config.dtype = contract::Precision::Float16;
  const auto step_from = [&](double loss_scale) {
    std::vector<contract::StepRecord> records;
    on_ranks(
        config,
        [&](ranks::Communicator& ranks, step::TrainLoop& loop) {
          step::TrainingState state;
          state.parameters = random_weights(loop.model().table(), 5);
          state.loss_scale = loss_scale;
          loop.load(state);
          for (std::int64_t step = 1; step <= 2; ++step) {
            const contract::StepRecord record = loop.step(step);
            if (ranks.rank() == 0) records.push_back(record);
            const std::optional<contract::LossScaleRecord>& change = loop.noticed().loss_scale;
            EXPECT_EQ(change.has_value(), record.skipped) << step;
            if (!record.skipped || !change) break;
            EXPECT_EQ(change->step, step);
            EXPECT_EQ(change->from, record.loss_scale);
            EXPECT_EQ(change->to, record.loss_scale / 2);
            EXPECT_EQ(change->why, "overflow");
            EXPECT_EQ(change->quantity, "gradient");
            EXPECT_EQ(change->layer, contract::layer_of(change->tensor));
            EXPECT_NE(change->message.find("(first: gradient of " + change->tensor + ", in the "),
                      std::string::npos)
                << change->message;
            const device::View now = loop.model().parameters();
            EXPECT_TRUE(std::equal(state.parameters.begin(), state.parameters.end(), now.floats()))
                << "a skipped step changes no weight";
          }
        },
        nullptr, true);
    return records;
  };
  // Some 20 operations a layer and as many around them, there and back, each of which rounds to 11
  // bits.
  const double allowed = 2 * 20 * (config.model.layers + 1) * 0x1p-11;
  for (const double loss_scale : {1.0, 512.0}) {
    const std::vector<contract::StepRecord> records = step_from(loss_scale);
    ASSERT_EQ(records.size(), 1U);
    EXPECT_EQ(records[0].loss_scale, loss_scale);
    EXPECT_FALSE(records[0].skipped);
    EXPECT_NEAR(records[0].gradient_norm, norm, allowed * norm) << loss_scale;
  }
  const std::vector<contract::StepRecord> overflown = step_from(0x1p30);
  ASSERT_EQ(overflown.size(), 2U);
  EXPECT_TRUE(overflown[0].skipped) << "float16 ends at 65504";
  EXPECT_EQ(overflown[0].loss_scale, 0x1p30);
  EXPECT_EQ(overflown[1].loss_scale, 0x1p29);
  EXPECT_TRUE(std::isfinite(overflown[0].loss));
}

// The 2,000th step in a row without overflow has a larger factor behind it, and no tensor to name.
TEST_F(Records, AFactorThatRisesIsTold) {
  contract::RunConfig config = config_of(2);
  config.dtype = contract::Precision::Float16;
  on_ranks(
      config,
      [&](ranks::Communicator&, step::TrainLoop& loop) {
        step::TrainingState state;
        state.parameters = random_weights(loop.model().table(), 5);
        state.loss_scale = 512;
        state.good_steps = 1998;
        loop.load(state);
        (void)loop.step(1);
        EXPECT_FALSE(loop.noticed().loss_scale);
        (void)loop.step(2);
        ASSERT_TRUE(loop.noticed().loss_scale);
        EXPECT_EQ(loop.noticed().loss_scale->from, 512);
        EXPECT_EQ(loop.noticed().loss_scale->to, 1024);
        EXPECT_EQ(loop.noticed().loss_scale->why, "quiet");
        EXPECT_EQ(loop.noticed().loss_scale->tensor, "");
      },
      nullptr, true);
}

// Each flag that one rank raises is seen on all, after the same step, and no other is.
TEST_F(Records, EveryFlagReachesEveryRank) {
  using Flag = bool step::StepFlags::*;
  constexpr Flag kFlags[] = {&step::StepFlags::stop,    &step::StepFlags::checkpoint,
                             &step::StepFlags::fenced,  &step::StepFlags::out_of_time,
                             &step::StepFlags::writing, &step::StepFlags::write_failed};
  std::size_t asked = 0;  // by rank 1 alone
  on_ranks(
      config_of(3),
      [&](ranks::Communicator&, step::TrainLoop& loop) {
        for (std::size_t step = 1; step <= std::size(kFlags); ++step) {
          (void)loop.step(static_cast<std::int64_t>(step));
          for (std::size_t i = 0; i < std::size(kFlags); ++i) {
            EXPECT_EQ(loop.agreed().*kFlags[i], i + 1 == step) << "flag " << i << ", step " << step;
          }
        }
      },
      [&](int rank) {
        step::StepFlags flags;
        if (rank == 1) flags.*kFlags[asked++] = true;
        return flags;
      });
}

// Each sample is scored once, on whichever rank: the sums are those of one rank.
TEST_F(Records, EvaluationsAreOfAllRanks) {
  for (const int count : {1, 2, 7, 11}) {
    const std::vector<samples::Sample> set =
        samples::evaluation_samples(*dataset_, config_of(1).data, count);
    ASSERT_EQ(std::ssize(set), count);
    contract::EvalRecord one;
    on_ranks(config_of(1),
             [&](ranks::Communicator&, step::TrainLoop& loop) { one = loop.evaluate(set, 7); });
    EXPECT_EQ(one.samples, count);
    double masked = 0;
    for (const samples::Sample& sample : set)
      masked += static_cast<double>(sample.masked_positions.size());
    for (const int ranks : {2, 3, 5}) {
      on_ranks(config_of(ranks), [&](ranks::Communicator&, step::TrainLoop& loop) {
        const contract::EvalRecord record = loop.evaluate(set, 7);
        EXPECT_EQ(record.step, 7);
        EXPECT_EQ(record.samples, count) << ranks << " ranks";
        EXPECT_EQ(record.mlm_accuracy, one.mlm_accuracy) << ranks << " ranks, " << count;
        EXPECT_EQ(record.nsp_accuracy, one.nsp_accuracy) << ranks << " ranks, " << count;
        // Losses are positive: another order of their sum is within a rounding each.
        EXPECT_NEAR(record.mlm_loss, one.mlm_loss, 2 * masked * kUnit * one.mlm_loss)
            << ranks << " ranks, " << count;
      });
    }
  }
}

}  // namespace
}  // namespace regatta::tests
