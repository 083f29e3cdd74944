// The training loop on several ranks, as threads of one process: what ranks tell one another.
#include <gtest/gtest.h>

#include <chrono>
#include <mutex>
#include <optional>
#include <thread>

#include "tests/trainer/ranks/thread_ranks.h"
#include "tests/trainer/samples/small_dataset.h"
#include "tests/trainer/step/whole_state.h"
#include "trainer/cpu/cpu_device.h"
#include "trainer/model/initial_weights.h"
#include "trainer/ranks/borrowed_communicator.h"
#include "trainer/ranks/delayed_communicator.h"
#include "trainer/samples/sampler.h"
#include "trainer/step/buckets.h"
#include "trainer/step/train_loop.h"

namespace regatta::tests {
namespace {

using namespace regatta::trainer;  // the subject

class ManyRanks : public OnSmallDataset<60> {
 protected:
  static contract::RunConfig config(int ranks) {
    contract::RunConfig config = small_run_config(*dataset_);
    config.batch_size = 12;
    config.steps = 100;
    config.ranks = ranks;
    config.ranks_per_node = 1;
    return config;
  }
  using Body = std::function<void(ranks::Communicator& ranks, step::TrainLoop& loop)>;
  static void on_ranks(const contract::RunConfig& config, const Body& body, int node_ranks = 0,
                       const std::function<step::StepFlags(int rank)>& local_flags = nullptr,
                       double peak_flops = 1e12, bool peak_is_measured = false) {
    ThreadRanks world(config.ranks, node_ranks);
    world.run([&](ranks::Communicator& ranks) {
      const auto device = cpu::make_cpu_device(1);
      const samples::SampleSource source(*dataset_, data::Split::Training, config.data,
                                         config.seed);
      topology::plan::Plan plan;
      plan.ranks = config.ranks;
      plan.buckets = step::buckets_per_layer(contract::make_tensor_table(config.model));
      step::TrainLoopOptions options;
      options.peak_flops = peak_flops;
      options.peak_is_measured = peak_is_measured;
      if (local_flags)
        options.local_flags = [&local_flags, rank = ranks.rank()] { return local_flags(rank); };
      step::TrainLoop loop(*device, ranks, base::system_clock(), config, plan,
                           samples::stream_of(source), options);
      body(ranks, loop);
    });
  }
  static step::TrainingState first_state(const contract::RunConfig& config) {
    step::TrainingState state;
    state.parameters =
        model::initial_weights(contract::make_tensor_table(config.model), config.seed);
    return state;
  }
};

TEST_F(ManyRanks, UtilisationIsOfThePeakAndOfAMeasuredOneNeverMoreThanAll) {
  const contract::RunConfig c = config(2);
  const auto steps = [&](double peak_flops, bool is_measured) {
    std::vector<contract::StepRecord> records;
    on_ranks(
        c,
        [&](ranks::Communicator& ranks, step::TrainLoop& loop) {
          loop.load(first_state(c));
          for (int step = 1; step <= 4; ++step) {
            const contract::StepRecord record = loop.step(step);
            if (ranks.rank() == 0) records.push_back(record);
          }
        },
        0, nullptr, peak_flops, is_measured);
    return records;
  };
  for (const bool is_measured : {false, true}) {
    for (const contract::StepRecord& record : steps(1e15, is_measured)) {
      EXPECT_DOUBLE_EQ(record.mfu, record.flops / (1e15 * record.seconds));
    }
  }
  for (const contract::StepRecord& record : steps(1, false)) {
    EXPECT_DOUBLE_EQ(record.mfu, record.flops / record.seconds) << "as the run file says";
  }
  double fastest = 1;
  for (const contract::StepRecord& record : steps(1, true)) {
    fastest = std::max(fastest, record.flops / record.seconds);
    EXPECT_DOUBLE_EQ(record.mfu, record.flops / record.seconds / fastest);
  }
}

// Weights that are gathered behind a step are waited for by whoever needs them first.
TEST_F(ManyRanks, WhatAnEvaluationWaitedForIsNoStepsWaiting) {
  constexpr double kLatency = 0.2;  // of each collective; computing may hide a part of it
  contract::RunConfig c = config(2);
  c.sharding.optimizer = true;
  c.guard.replay_every = 0;
  std::vector<contract::StepRecord> records;
  ThreadRanks world(c.ranks);
  world.run([&](ranks::Communicator& real) {
    const auto far =
        ranks::make_delayed_communicator(std::make_unique<ranks::BorrowedCommunicator>(real),
                                         base::system_clock(), {kLatency, 1e12});
    const auto device = cpu::make_cpu_device(1);
    const samples::SampleSource source(*dataset_, data::Split::Training, c.data, c.seed);
    const auto tensors = contract::make_tensor_table(c.model).tensors.size();
    topology::plan::Plan plan = topology::plan::default_plan(static_cast<int>(tensors));
    plan.ranks = 2;
    step::TrainLoop loop(*device, *far, base::system_clock(), c, plan, samples::stream_of(source));
    loop.load(first_state(c));
    const std::vector<samples::Sample> set = samples::evaluation_samples(*dataset_, c.data, 8);
    for (int step = 1; step <= 4; ++step) {
      if (step == 4) (void)loop.evaluate(set, step - 1);
      const contract::StepRecord record = loop.step(step);
      if (real.rank() == 0) records.push_back(record);
    }
  });
  for (const std::size_t step : {std::size_t{1}, std::size_t{2}}) {
    EXPECT_GE(records[step].exposed_seconds, 1.6 * kLatency) << "gathered, and summed";
  }
  EXPECT_GE(records[3].exposed_seconds, 0.6 * kLatency) << "summed";
  EXPECT_LT(records[3].exposed_seconds, 1.4 * kLatency);
  for (const contract::StepRecord& record : records) {
    EXPECT_GE(record.utilisation, 0);
    EXPECT_LE(record.utilisation, 1);
  }
}

TEST_F(ManyRanks, WhatOneWantsAllDoAtTheSameStep) {
  const contract::RunConfig c = config(3);
  int asked = 0;
  on_ranks(
      c,
      [&](ranks::Communicator&, step::TrainLoop& loop) {
        loop.load(first_state(c));
        for (int step = 1; step <= 4; ++step) {
          loop.step(step);
          EXPECT_EQ(loop.agreed().checkpoint, step == 2) << step;
          EXPECT_EQ(loop.agreed().stop, step == 4) << step;
          EXPECT_FALSE(loop.agreed().fenced);
        }
      },
      0,
      [&](int rank) {
        if (rank != 2) return step::StepFlags{};
        ++asked;
        step::StepFlags flags;
        flags.stop = asked == 4;
        flags.checkpoint = asked == 2;
        return flags;
      });
}

// Other buckets in every step, as in a trial: the same bits, and steps of which all know the same.
TEST_F(ManyRanks, BucketsMayChangeBetweenSteps) {
  contract::RunConfig c = config(3);
  for (const contract::ClipMode clip : {contract::ClipMode::Global, contract::ClipMode::Rank}) {
    c.clip = clip;
    c.clip_norm = 0.5;
    const contract::TensorTable table = contract::make_tensor_table(c.model);
    const std::vector<topology::plan::Bucket> cuts[] = {step::buckets_of_bytes(table, 1),
                                                        step::buckets_of_bytes(table, 0),
                                                        step::buckets_of_bytes(table, 10000)};
    std::vector<float> weights[2];
    std::vector<step::StepPace> paces(3);
    for (const bool changing : {false, true}) {
      on_ranks(c, [&](ranks::Communicator& ranks, step::TrainLoop& loop) {
        loop.load(first_state(c));
        for (std::size_t step = 1; step <= 7; ++step) {
          if (changing) loop.cut(cuts[step % 3]);
          const contract::StepRecord record = loop.step(static_cast<std::int64_t>(step));
          const std::size_t buckets =
              changing ? cuts[step % 3].size() : record.bucket_launched.size();
          EXPECT_EQ(record.bucket_launched.size(), buckets);
          EXPECT_EQ(record.bucket_finished.size(), buckets);
        }
        paces[static_cast<std::size_t>(ranks.rank())] = loop.pace();
        const step::TrainingState state = whole_state(ranks, loop);
        if (ranks.rank() == 0) weights[changing ? 1 : 0] = state.parameters;
      });
    }
    ASSERT_FALSE(weights[0].empty());
    EXPECT_TRUE(weights[0] == weights[1]) << "other bits";
    for (const step::StepPace& pace : paces) {
      EXPECT_GT(pace.seconds, 0);
      EXPECT_GT(pace.flops, 0);
      EXPECT_EQ(pace.seconds, paces[0].seconds);
      EXPECT_EQ(pace.flops, paces[0].flops);
      EXPECT_EQ(pace.disturbed, paces[0].disturbed);
    }
  }
}

// The step took as long as the rank that took longest, and a write anywhere disturbs it.
TEST_F(ManyRanks, ThePaceIsThatOfTheSlowestRank) {
  const contract::RunConfig c = config(3);
  std::vector<step::StepPace> paces(3);
  on_ranks(
      c,
      [&](ranks::Communicator& ranks, step::TrainLoop& loop) {
        loop.load(first_state(c));
        (void)loop.step(1);
        if (ranks.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(200));
        (void)loop.step(2);
        paces[static_cast<std::size_t>(ranks.rank())] = loop.pace();
      },
      0,
      [](int rank) {
        step::StepFlags flags;
        flags.writing = rank == 2;
        return flags;
      });
  for (const step::StepPace& pace : paces) {
    EXPECT_GE(pace.seconds, 0.05) << "the others have waited for rank 1";
    EXPECT_TRUE(pace.disturbed);
  }
}

// A state is of the run, not of its ranks: saved by four with sharded moments, it continues on one,
// two or three, in any layout, as an undisturbed run does.
TEST_F(ManyRanks, AStateContinuesOnAnyNumberOfRanks) {
  contract::RunConfig c = config(4);
  c.sharding.optimizer = true;
  step::TrainingState half;
  std::vector<double> undisturbed;
  on_ranks(c, [&](ranks::Communicator& ranks, step::TrainLoop& loop) {
    loop.load(first_state(c));
    for (int step = 1; step <= 12; ++step) {
      const contract::StepRecord record = loop.step(step);
      if (ranks.rank() == 0) undisturbed.push_back(record.loss);
      if (step != 6) continue;
      step::TrainingState state = whole_state(ranks, loop);
      EXPECT_EQ(state.parameters.empty(), ranks.rank() != 0) << "only rank 0 is told";
      if (ranks.rank() == 0) half = std::move(state);
    }
  });
  for (const bool sharded : {false, true}) {
    for (const int ranks_now : {1, 2, 3, 4}) {
      contract::RunConfig now = config(ranks_now);
      now.sharding.optimizer = sharded;
      on_ranks(
          now,
          [&](ranks::Communicator& ranks, step::TrainLoop& loop) {
            loop.load(ranks.rank() == 0 ? half : step::TrainingState{});
            for (std::size_t step = 7; step <= 12; ++step) {
              const double loss = loop.step(static_cast<std::int64_t>(step)).loss;
              EXPECT_NEAR(loss, undisturbed[step - 1], 1e-5 * loss) << ranks_now << " " << step;
            }
          },
          ranks_now == 4 ? 2 : 0);
    }
  }
}

// After a rollback: another state, and step s with the samples of a later one; what was made ahead,
// and the moments, are gone. The same as a run that begins so.
TEST_F(ManyRanks, GoingBackIsBeginningWithALaterSample) {
  constexpr std::int64_t kSkipped = 64;  // a window of `stratified`, whose windows begin at step 1
  for (const contract::Balance strategy :
       {contract::Balance::GlobalPresort, contract::Balance::Stratified,
        contract::Balance::Exchange}) {
    contract::RunConfig c = config(2);
    c.balance = {strategy, contract::Deal::LongestFirst, contract::ExchangeWay::Move};
    c.sharding.optimizer = strategy == contract::Balance::Exchange;
    const std::int64_t first = kSkipped * c.batch_size;
    std::vector<double> begun, gone_back;
    std::vector<float> weights[2];
    const auto finish = [&](ranks::Communicator& ranks, step::TrainLoop& loop,
                            std::vector<double>* losses, std::vector<float>* end) {
      for (int step = 1; step <= 3; ++step) {
        const contract::StepRecord record = loop.step(step);
        if (ranks.rank() == 0) losses->push_back(record.loss);
      }
      const step::TrainingState state = whole_state(ranks, loop);
      if (ranks.rank() == 0) *end = state.parameters;
    };
    on_ranks(c, [&](ranks::Communicator& ranks, step::TrainLoop& loop) {
      loop.load(first_state(c));
      for (int step = 1; step <= 4; ++step) loop.step(step);
      loop.load(first_state(c));
      loop.skip(kSkipped);
      finish(ranks, loop, &gone_back, &weights[0]);
    });
    ThreadRanks world(c.ranks);
    world.run([&](ranks::Communicator& ranks) {
      const auto device = cpu::make_cpu_device(1);
      const samples::SampleSource source(*dataset_, data::Split::Training, c.data, c.seed);
      const samples::SampleStream later{
          [&](std::int64_t number) { return source.at(first + number); },
          [&](std::int64_t number) { return source.length_at(first + number); }};
      topology::plan::Plan plan;
      plan.ranks = c.ranks;
      plan.buckets = step::buckets_per_layer(contract::make_tensor_table(c.model));
      step::TrainLoop loop(*device, ranks, base::system_clock(), c, plan, later);
      loop.load(first_state(c));
      finish(ranks, loop, &begun, &weights[1]);
    });
    ASSERT_FALSE(weights[0].empty());
    EXPECT_EQ(gone_back, begun);
    EXPECT_TRUE(weights[0] == weights[1]) << "other bits";
  }
}

TEST_F(ManyRanks, RecordsSayHowTheRanksDid) {
  contract::RunConfig c = config(3);
  c.balance = {contract::Balance::Exchange, contract::Deal::LongestFirst,
               contract::ExchangeWay::Move};
  c.statistics_every = 1;
  std::mutex mutex;
  std::vector<contract::StepRecord> records(3);
  on_ranks(c, [&](ranks::Communicator& ranks, step::TrainLoop& loop) {
    loop.load(first_state(c));
    contract::StepRecord record;
    const int last =
        contract::NoiseScale::kLeastSteps + static_cast<int>(step::NoiseProbe::kLeastUpdates);
    for (int step = 1; step <= last; ++step) record = loop.step(step);
    const std::scoped_lock lock(mutex);
    records[static_cast<std::size_t>(ranks.rank())] = record;
  });
  for (const contract::StepRecord& record : records) {
    EXPECT_EQ(record.samples, 12);
    EXPECT_EQ(record.loss, records[0].loss) << "all ranks know the same";
    EXPECT_EQ(record.tokens, records[0].tokens);
    EXPECT_GE(record.imbalance, 1.0);
    EXPECT_LT(record.imbalance, 1.2);
    EXPECT_GT(record.moved_bytes, 0);
    ASSERT_TRUE(record.noise_scale && record.efficiency && record.goodput);
    EXPECT_GT(*record.noise_scale, 0);
    EXPECT_NEAR(*record.efficiency, (*record.noise_scale + 1) / (*record.noise_scale + 12), 1e-9)
        << "against batches of one sample";
    EXPECT_GT(*record.goodput, 0);
    EXPECT_GT(record.mfu, 0);
    EXPECT_GT(record.utilisation, 0);
    EXPECT_LE(record.utilisation, 1);
    ASSERT_EQ(record.bucket_launched.size(), record.bucket_finished.size());
    ASSERT_GE(record.bucket_launched.size(), 4U);
    for (std::size_t i = 0; i < record.bucket_launched.size(); ++i) {
      EXPECT_GE(record.bucket_launched[i], 0);
      EXPECT_LE(record.bucket_launched[i], record.bucket_finished[i]);
      EXPECT_LE(record.bucket_finished[i], record.seconds);
      if (i > 0) {
        EXPECT_GE(record.bucket_launched[i], record.bucket_launched[i - 1]);
      }
    }
  }
}

// Against batches of a quarter, efficiency is (φ + M/4)/(φ + M).
TEST_F(ManyRanks, EfficiencyIsMeasuredByTheBaseBatch) {
  contract::RunConfig c = config(2);
  c.base_batch = 3;
  c.statistics_every = 1;
  on_ranks(c, [&](ranks::Communicator&, step::TrainLoop& loop) {
    loop.load(first_state(c));
    contract::StepRecord record;
    const int last =
        contract::NoiseScale::kLeastSteps + static_cast<int>(step::NoiseProbe::kLeastUpdates);
    for (int step = 1; step <= last; ++step) record = loop.step(step);
    ASSERT_TRUE(record.noise_scale && record.efficiency);
    EXPECT_NEAR(*record.efficiency, (*record.noise_scale + 3) / (*record.noise_scale + 12), 1e-9);
  });
}

}  // namespace
}  // namespace regatta::tests
