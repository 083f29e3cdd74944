// A device that flips a bit of a gradient: the rank is named, within the promised number of steps;
// and looking changes no bit of training.
#include <gtest/gtest.h>

#include <mutex>
#include <optional>

#include "tests/trainer/device/flipping_device.h"
#include "tests/trainer/ranks/thread_ranks.h"
#include "tests/trainer/samples/small_dataset.h"
#include "tests/trainer/step/whole_state.h"
#include "trainer/cpu/cpu_device.h"
#include "trainer/model/initial_weights.h"
#include "trainer/samples/sampler.h"
#include "trainer/step/buckets.h"
#include "trainer/step/train_loop.h"

namespace regatta::tests {
namespace {

using namespace regatta::trainer;  // the subject

constexpr std::int64_t kEvery = 4;
const std::string kTarget = "bert.encoder.layer.1.intermediate.dense.weight";

// Of a rank: which element has a bit flipped in its n-th product, from a step on; −1: none.
using Flips = std::function<std::int64_t(std::int64_t)>;
struct Fault {
  int rank = -1;
  std::int64_t step = 1;
  Flips element_of;
};
Flips always(std::int64_t element) {
  return [element](std::int64_t) { return element; };
}

struct Seen {
  std::int64_t step = 0;  // at which the loop stopped; 0: it did not
  step::Noticed noticed;
  std::vector<double> losses;
  std::vector<float> weights;  // on rank 0
  std::int64_t flips = 0;
  std::int64_t noticed_at = 0;  // the first step with corruption
};

class Corruption : public OnSmallDataset<60> {
 protected:
  static contract::RunConfig config(int ranks, std::int64_t every = kEvery) {
    contract::RunConfig config = small_run_config(*dataset_);
    config.batch_size = 12;
    config.steps = 100;
    config.ranks = ranks;
    config.ranks_per_node = 1;
    config.guard.replay_every = every;
    return config;
  }
  // Of all ranks, `steps` steps.
  static std::vector<Seen> train(const contract::RunConfig& config, int steps, const Fault& fault,
                                 int node_ranks = 0) {
    std::vector<Seen> all(static_cast<std::size_t>(config.ranks));
    ThreadRanks world(config.ranks, node_ranks);
    world.run([&](ranks::Communicator& ranks) {
      const auto cpu = cpu::make_cpu_device(1);
      FlippingDevice device(*cpu);
      const samples::SampleSource source(*dataset_, data::Split::Training, config.data,
                                         config.seed);
      const contract::TensorTable table = contract::make_tensor_table(config.model);
      topology::plan::Plan plan;
      plan.ranks = config.ranks;
      plan.buckets = step::buckets_per_layer(table);
      step::TrainLoop loop(device, ranks, base::system_clock(), config, plan,
                           samples::stream_of(source));
      step::TrainingState state;
      state.parameters = model::initial_weights(table, config.seed);
      loop.load(state);
      Seen& seen = all[static_cast<std::size_t>(ranks.rank())];
      const contract::TensorEntry& target = table.at(kTarget);
      for (int step = 1; step <= steps; ++step) {
        if (ranks.rank() == fault.rank && step == fault.step) {
          device.flip(loop.model().gradients().slice(target.offset, target.size), fault.element_of);
        }
        try {
          seen.losses.push_back(loop.step(step).loss);
        } catch (const step::Corrupted& error) {
          EXPECT_EQ(error.code(), base::Code::Retry);
          seen.step = step;
        }
        if (!loop.noticed().corruption.empty() && seen.noticed_at == 0) {
          seen.noticed_at = step;
          seen.noticed = loop.noticed();
        }
        if (seen.step > 0) break;
      }
      seen.flips = device.flips();
      const step::TrainingState end = whole_state(ranks, loop);
      if (ranks.rank() == 0) seen.weights = end.parameters;
    });
    return all;
  }
  static void expect_named(const std::vector<Seen>& all, const Fault& fault) {
    for (const Seen& seen : all) {
      EXPECT_GE(seen.step, fault.step);
      EXPECT_LT(seen.step, fault.step + 2 * kEvery) << "the promised number of steps";
      ASSERT_EQ(seen.noticed.corruption.size(), 1U);
      const contract::CorruptionRecord& told = seen.noticed.corruption[0];
      EXPECT_EQ(told.rank, fault.rank);
      EXPECT_EQ(told.suspects, std::vector<int>{fault.rank});
      EXPECT_EQ(told.quantity, "gradient");
      EXPECT_EQ(told.tensor, kTarget);
      EXPECT_EQ(told.layer, "layer 1");
      EXPECT_EQ(told.tensors, 1) << "a weight's gradient goes nowhere else";
      EXPECT_EQ(told.step, seen.step);
      EXPECT_EQ(told.action, "stop");
      EXPECT_LT(told.checked_step, seen.step);
    }
  }
};

TEST_F(Corruption, ABitThatIsAlwaysWrongIsLaidOnItsRank) {
  for (const int ranks : {3, 4}) {
    for (int rank = 0; rank < ranks; ++rank) {
      const Fault fault{rank, 3 + rank, always(17 + rank)};
      SCOPED_TRACE(std::to_string(rank) + " of " + std::to_string(ranks));
      expect_named(train(config(ranks), 30, fault), fault);
    }
  }
}

TEST_F(Corruption, OfTwoRanksWhoDoesNotAgreeWithItself) {
  for (const int rank : {0, 1}) {
    const Fault fault{rank, 2, [](std::int64_t n) { return n; }};
    expect_named(train(config(2), 30, fault), fault);
  }
}

// A bit that is stuck, on one of two: all that can be known.
TEST_F(Corruption, OfTwoRanksThatEachKeepToTheirsNobodyIsNamed) {
  for (const Seen& seen : train(config(2), 30, {1, 2, always(5)})) {
    EXPECT_GT(seen.step, 0);
    ASSERT_EQ(seen.noticed.corruption.size(), 1U);
    EXPECT_EQ(seen.noticed.corruption[0].rank, -1);
    EXPECT_EQ(seen.noticed.corruption[0].suspects, (std::vector<int>{0, 1}));
    EXPECT_EQ(seen.noticed.corruption[0].tensor, kTarget);
  }
}

TEST_F(Corruption, OneRankNoticesWhatItDoesNowAndThen) {
  const Fault fault{0, 2, [](std::int64_t n) { return n % 2 == 0 ? n : -1; }};
  expect_named(train(config(1), 30, fault), fault);
  for (const Seen& seen : train(config(1), 12, {0, 2, always(5)})) {
    EXPECT_EQ(seen.step, 0) << "twice the same";
    EXPECT_GT(seen.flips, 12);
  }
}

TEST_F(Corruption, IsFoundInEveryLayoutOfDataParallel) {
  const auto check = [&](const char* name, const auto& change, int ranks, int node_ranks) {
    contract::RunConfig c = config(ranks);
    change(&c);
    const Fault fault{1, 2, always(33)};
    SCOPED_TRACE(name);
    expect_named(train(c, 30, fault, node_ranks), fault);
  };
  check(
      "sharded", [](auto* c) { c->sharding.optimizer = true; }, 3, 0);
  check(
      "micro-batches", [](auto* c) { c->micro_batch_size = 2; }, 3, 0);
  check(
      "clipped before the sum", [](auto* c) { c->clip = contract::ClipMode::Bucket; }, 3, 0);
  check(
      "clipped by rank", [](auto* c) { c->clip = contract::ClipMode::Rank; }, 3, 0);
  check(
      "dealt by length",
      [](auto* c) {
        c->balance = {contract::Balance::Exchange, contract::Deal::LongestFirst,
                      contract::ExchangeWay::Move};
      },
      3, 0);
  check(
      "through nodes", [](auto* c) { c->hierarchical = true; }, 4, 2);
}

// The weights of one rank, changed in its memory, make its gradients others.
TEST_F(Corruption, OtherWeightsAreToldAsSuch) {
  const contract::RunConfig c = config(3);
  ThreadRanks world(3);
  std::mutex mutex;
  world.run([&](ranks::Communicator& ranks) {
    const auto device = cpu::make_cpu_device(1);
    const samples::SampleSource source(*dataset_, data::Split::Training, c.data, c.seed);
    const contract::TensorTable table = contract::make_tensor_table(c.model);
    topology::plan::Plan plan;
    plan.ranks = 3;
    plan.buckets = step::buckets_per_layer(table);
    step::TrainLoop loop(*device, ranks, base::system_clock(), c, plan, samples::stream_of(source));
    step::TrainingState state;
    state.parameters = model::initial_weights(table, c.seed);
    loop.load(state);
    if (ranks.rank() == 2) {
      loop.model().parameters().floats()[table.at(kTarget).offset + 3] += 0.5F;
    }
    EXPECT_THROW(
        {
          for (int step = 1; step <= 2 * kEvery; ++step) (void)loop.step(step);
        },
        step::Corrupted);
    const std::scoped_lock lock(mutex);
    ASSERT_EQ(loop.noticed().corruption.size(), 1U);
    const contract::CorruptionRecord& told = loop.noticed().corruption[0];
    EXPECT_EQ(told.rank, 2);
    EXPECT_EQ(told.quantity, "weight");
    EXPECT_EQ(told.tensor, kTarget);
  });
}

// A fault of the checked step's own gradients, and of nothing else: computed again, the step has
// the bits that it should have.
TEST_F(Corruption, AWarnedStepIsComputedAgain) {
  contract::RunConfig c = config(3, 1);
  const std::vector<Seen> healthy = train(c, 6, {});
  c.guard.on_corruption = contract::OnCorruption::Warn;
  // Products into the target from step 3 on: 0, another rank's samples; 1, the rank's own.
  const std::vector<Seen> warned =
      train(c, 6, {1, 3, [](std::int64_t n) { return n == 1 ? std::int64_t{40} : -1; }});
  EXPECT_EQ(warned[1].flips, 1);
  for (std::size_t rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(warned[rank].step, 0);
    EXPECT_EQ(warned[rank].noticed_at, 3);
    ASSERT_EQ(warned[rank].noticed.corruption.size(), 1U);
    EXPECT_EQ(warned[rank].noticed.corruption[0].rank, 1);
    EXPECT_EQ(warned[rank].noticed.corruption[0].action, "warn");
    EXPECT_EQ(warned[rank].noticed.corruption[0].checked_step, 2);
    EXPECT_EQ(warned[rank].losses, healthy[rank].losses);
  }
  ASSERT_FALSE(healthy[0].weights.empty());
  EXPECT_TRUE(warned[0].weights == healthy[0].weights) << "other bits";
}

TEST_F(Corruption, LookingChangesNoBitAndFindsNothingWhereNothingIs) {
  for (const int ranks : {1, 3}) {
    for (const bool sharded : {false, true}) {
      contract::RunConfig c = config(ranks, 0);
      c.sharding.optimizer = sharded;
      c.statistics_every = 3;
      const std::vector<Seen> without = train(c, 12, {});
      c.guard.replay_every = 1;
      const std::vector<Seen> with = train(c, 12, {});
      for (std::size_t rank = 0; rank < with.size(); ++rank) {
        EXPECT_EQ(with[rank].noticed_at, 0);
        EXPECT_EQ(with[rank].losses, without[rank].losses);
      }
      ASSERT_FALSE(with[0].weights.empty());
      EXPECT_TRUE(with[0].weights == without[0].weights) << ranks << " " << sharded;
    }
  }
}

// What is not promised is not compared.
TEST_F(Corruption, IsNotLookedForWhereBitsMayDiffer) {
  contract::RunConfig c = config(2, 1);
  EXPECT_EQ(contract::replay_every(c), 1);
  c.determinism.level = contract::Determinism::Fast;
  EXPECT_EQ(contract::replay_every(c), 0);
  for (const Seen& seen : train(c, 3, {1, 1, always(5)})) EXPECT_EQ(seen.noticed_at, 0);
  c.determinism = {contract::Determinism::Elastic, 12};
  EXPECT_EQ(contract::replay_every(c), 0);
  EXPECT_STREQ(contract::why_no_replays(c), "the run's gradients are sums of shards");
  c.determinism = {};
  c.parallel.pipeline = 2;
  EXPECT_EQ(contract::replay_every(c), 0);
  EXPECT_STREQ(contract::why_no_replays(c), "the run has pipeline stages");
}

}  // namespace
}  // namespace regatta::tests
