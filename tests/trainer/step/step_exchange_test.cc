// What ranks tell each other once per step, against figures added up by hand, and the order in
// which a step goes through its phases.
#include "trainer/step/step_exchange.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>

#include "tests/trainer/ranks/thread_ranks.h"
#include "tests/trainer/samples/small_dataset.h"
#include "trainer/cpu/cpu_device.h"
#include "trainer/model/initial_weights.h"
#include "trainer/samples/sampler.h"
#include "trainer/step/buckets.h"
#include "trainer/step/step_timer.h"
#include "trainer/step/train_loop.h"

namespace regatta::tests {
namespace {

using namespace regatta::trainer;  // the subject

using Flag = bool step::StepFlags::*;
constexpr Flag kFlags[] = {&step::StepFlags::stop,    &step::StepFlags::checkpoint,
                           &step::StepFlags::fenced,  &step::StepFlags::out_of_time,
                           &step::StepFlags::writing, &step::StepFlags::write_failed};

std::vector<bool> raised(const step::StepFlags& flags) {
  std::vector<bool> found;
  for (const Flag flag : kFlags) found.push_back(flags.*flag);
  return found;
}

TEST(StepExchange, AFlagIsRaisedWhereAnyRankRaisedIt) {
  for (std::size_t i = 0; i < std::size(kFlags); ++i) {
    for (std::size_t rank = 0; rank < 3; ++rank) {
      std::vector<step::LocalStep> ranks(3);
      ranks[rank].flags.*kFlags[i] = true;
      std::vector<bool> expected(std::size(kFlags), false);
      expected[i] = true;
      EXPECT_EQ(raised(step::combine(ranks).flags), expected) << "flag " << i << ", rank " << rank;
    }
  }
  std::vector<step::LocalStep> ranks(2);
  EXPECT_EQ(raised(step::combine(ranks).flags), std::vector<bool>(std::size(kFlags), false));
  ranks[0].flags.stop = ranks[1].flags.stop = ranks[1].flags.checkpoint = true;
  EXPECT_EQ(raised(step::combine(ranks).flags),
            std::vector<bool>({true, true, false, false, false, false}));
}

// Floating-point sums depend on their order: with 2^53 first, the ones are lost.
TEST(StepExchange, SumsAreAddedInRankOrder) {
  std::vector<step::LocalStep> ranks(3);
  const auto sums = [&](double first, double second, double third) {
    const double values[] = {first, second, third};
    for (std::size_t rank = 0; rank < 3; ++rank) {
      ranks[rank].mlm_loss = values[rank];
      ranks[rank].sample_loss = -values[rank];
      ranks[rank].flops = 2 * values[rank];
    }
    return step::combine(ranks);
  };
  const step::StepExchange last = sums(1, 1, 0x1p53);
  EXPECT_EQ(last.mlm_loss, 0x1p53 + 2);
  EXPECT_EQ(last.sample_loss, -0x1p53 - 2);
  EXPECT_EQ(last.flops, 0x1p54 + 4);
  const step::StepExchange first = sums(0x1p53, 1, 1);
  EXPECT_EQ(first.mlm_loss, 0x1p53);
  EXPECT_EQ(first.sample_loss, -0x1p53);
  EXPECT_EQ(first.flops, 0x1p54);
}

TEST(StepExchange, KnowsWhatEachRankDid) {
  std::vector<step::LocalStep> ranks(3);
  ranks[0].tokens = 300;
  ranks[2].tokens = 700;
  ranks[1].compute_seconds = 0.25;
  const contract::RanksRecord each = step::combine(ranks).each;
  EXPECT_EQ(each.tokens, std::vector<std::int64_t>({300, 0, 700}));
  EXPECT_EQ(each.compute_seconds, std::vector<double>({0, 0.25, 0}));
}

TEST(StepExchange, CountsAreExact) {
  constexpr std::int64_t kLarge = (std::int64_t{1} << 53U) + 1;  // that no double holds
  std::vector<step::LocalStep> ranks(2);
  ranks[0].samples = kLarge;
  ranks[1].samples = 2;
  ranks[0].tokens = 300;
  ranks[1].tokens = 100;
  ranks[0].masked = 45;
  ranks[1].masked = 14;
  ranks[1].moved_bytes = kLarge;
  const step::StepExchange all = step::combine(ranks);
  EXPECT_EQ(all.samples, kLarge + 2);
  EXPECT_EQ(all.tokens, 400);
  EXPECT_EQ(all.masked, 59);
  EXPECT_EQ(all.moved_bytes, kLarge);
  EXPECT_EQ(all.imbalance, 1.5);  // 300 over a mean of 200
  for (step::LocalStep& rank : ranks) rank.tokens = 0;
  EXPECT_EQ(step::combine(ranks).imbalance, 0);
}

// Two stages of two replicas. Replica 0 ends after 10 s, of which its ranks computed 6 and 8;
// replica 1 after 8, of which they computed 8 and 4: 10 s without work in 26 with.
TEST(StepExchange, OfStagesCountsSamplesOnceAndTellsTheBubble) {
  std::vector<step::LocalStep> ranks(4);
  const double computed[] = {6, 8, 8, 4}, waited[] = {3, 0, 2, 1};
  for (std::size_t rank = 0; rank < 4; ++rank) {
    const bool first_replica = rank % 2 == 0;
    ranks[rank].compute_seconds = computed[rank];
    ranks[rank].waited_seconds = waited[rank];
    ranks[rank].samples = first_replica ? 5 : 7;
    ranks[rank].tokens = first_replica ? 300 : 100;
    ranks[rank].masked = first_replica ? 40 : 20;
    ranks[rank].micro_batches = first_replica ? 4 : 6;
    ranks[rank].predicted_bubble = first_replica ? 0.2 : 0.4;
    ranks[rank].flops = 1;
  }
  const step::StepExchange all = step::combine(ranks, 2);
  EXPECT_EQ(all.samples, 12);
  EXPECT_EQ(all.tokens, 400);
  EXPECT_EQ(all.masked, 60);
  EXPECT_EQ(all.imbalance, 1.5);
  EXPECT_EQ(all.flops, 4) << "each has counted its stage's";
  EXPECT_DOUBLE_EQ(all.bubble.value(), 10.0 / 26);
  EXPECT_DOUBLE_EQ(all.bubble_predicted.value(), 0.3);
  EXPECT_DOUBLE_EQ(all.bubble_even.value(), 1.0 / 5);
  ranks[2].waited_seconds = std::nan("");
  EXPECT_FALSE(step::combine(ranks, 2).bubble.has_value()) << "a rank has not measured";
  EXPECT_FALSE(step::combine(ranks).bubble_even.has_value()) << "there are no stages";
}

TEST(StepExchange, PaceIsOfTheSlowestRankAndOfTheOneWithMostToCompute) {
  std::vector<step::LocalStep> ranks(3);
  ranks[0].seconds = 0.5;
  ranks[1].seconds = 2;
  ranks[2].seconds = 1;
  ranks[0].flops = 7e9;
  ranks[2].flops = 9e9;
  const step::StepPace pace = step::combine(ranks).pace;
  EXPECT_EQ(pace.seconds, 2);
  EXPECT_EQ(pace.flops, 9e9);
  EXPECT_FALSE(pace.disturbed);
  ranks[1].input_stalled = true;
  EXPECT_TRUE(step::combine(ranks).pace.disturbed);
  ranks[1].input_stalled = false;
  ranks[2].flags.writing = true;
  EXPECT_TRUE(step::combine(ranks).pace.disturbed);
  ranks[2].flags = {};
  ranks[2].flags.stop = true;
  EXPECT_FALSE(step::combine(ranks).pace.disturbed);
}

// 0.1, 0.2 and 0.3 add up to other bits in another order.
TEST(StepExchange, EveryRankGetsTheSameBits) {
  ThreadRanks world(3);
  world.run([](ranks::Communicator& communicator) {
    const int rank = communicator.rank();
    step::LocalStep mine;
    mine.mlm_loss = 0.1 * (rank + 1);
    mine.seconds = 3.0 - rank;
    mine.tokens = 100 * (rank + 1);
    mine.flags.out_of_time = rank == 1;
    mine.flags.write_failed = rank == 2;
    const step::StepExchange all = step::exchange(communicator.host(), mine);
    EXPECT_EQ(all.mlm_loss, 0.1 + 0.1 * 2 + 0.1 * 3) << rank;
    EXPECT_EQ(all.pace.seconds, 3) << rank;
    EXPECT_EQ(all.tokens, 600) << rank;
    EXPECT_EQ(all.imbalance, 1.5) << rank;
    EXPECT_EQ(raised(all.flags), std::vector<bool>({false, false, false, true, false, true}))
        << rank;
  });
}

class TickingClock final : public base::Clock {
 public:
  [[nodiscard]] double monotonic_seconds() const override { return now; }
  [[nodiscard]] double utc_seconds() const override { return now; }
  void sleep(std::chrono::duration<double> duration) override { now += duration.count(); }
  double now = 100;
};

TEST(StepTimer, LapsAddUpToTheStep) {
  TickingClock clock;
  std::vector<watch::Phase> entered;
  const step::Beat beat = [&](std::int64_t step, watch::Phase phase) {
    EXPECT_EQ(step, 7);
    entered.push_back(phase);
  };
  step::StepTimer timer(clock, beat, 7);
  EXPECT_EQ(timer.start(), 100);
  double data = 0, forward = 0;
  timer.enter(watch::Phase::Data);
  clock.now += 1;
  timer.lap(&data);
  timer.enter(watch::Phase::Forward);
  clock.now += 2;
  timer.lap(&forward);
  clock.now += 4;
  timer.lap(&data);
  EXPECT_EQ(data, 5);
  EXPECT_EQ(forward, 2);
  EXPECT_EQ(timer.seconds(), 7);
  EXPECT_EQ(entered, std::vector<watch::Phase>({watch::Phase::Data, watch::Phase::Forward}));
  const step::Beat none;
  step::StepTimer(clock, none, 1).enter(watch::Phase::Data);  // nobody is told
}

class StepOrder : public OnSmallDataset<60> {};

TEST_F(StepOrder, PhasesAreThoseOfTheFlow) {
  using watch::Phase;
  contract::RunConfig config = small_run_config(*dataset_);
  config.batch_size = 16;  // two micro-batches on each rank
  config.micro_batch_size = 4;
  config.steps = 2;
  config.ranks = 2;
  config.ranks_per_node = 1;
  std::vector<Phase> entered;  // by rank 0
  ThreadRanks world(config.ranks);
  world.run([&](ranks::Communicator& communicator) {
    const auto device = cpu::make_cpu_device(1);
    const samples::SampleSource source(*dataset_, data::Split::Training, config.data, config.seed);
    topology::plan::Plan plan;
    plan.ranks = config.ranks;
    plan.buckets = step::buckets_per_layer(contract::make_tensor_table(config.model));
    step::TrainLoopOptions options;
    if (communicator.rank() == 0) {
      options.beat = [&](std::int64_t, Phase phase) { entered.push_back(phase); };
    }
    step::TrainLoop loop(*device, communicator, base::system_clock(), config, plan,
                         samples::stream_of(source), options);
    step::TrainingState state;
    state.parameters = model::initial_weights(loop.model().table(), config.seed);
    loop.load(state);
    (void)loop.step(1);
  });
  EXPECT_EQ(entered,
            std::vector<Phase>({Phase::Data, Phase::Forward, Phase::Backward, Phase::Forward,
                                Phase::Backward, Phase::Reduce, Phase::Optimizer}));
}

// From the dataset to the journal, in the order that trainer/README.md draws.
TEST_F(StepOrder, ReadsInTheOrderOfTheFlowOnOneScreen) {
  std::ifstream file(REGATTA_SOURCE_DIR "/trainer/step/train_loop.cc");
  std::ostringstream bytes;
  bytes << file.rdbuf();
  const std::string text = bytes.str();
  const std::size_t begin = text.find("contract::StepRecord TrainLoop::step(");
  ASSERT_NE(begin, std::string::npos);
  const std::size_t end = text.find("\n}\n", begin);
  const std::string body = text.substr(begin, end - begin);
  EXPECT_LE(std::count(body.begin(), body.end(), '\n'), 50);
  std::size_t at = 0;
  for (const char* part :
       {"take_batches(", "sum_gradients(", "finish_sums()", "update(", "exchange(", "describe("}) {
    const std::size_t found = body.find(part, at);
    ASSERT_NE(found, std::string::npos) << part << " comes after what precedes it";
    at = found;
  }
}

}  // namespace
}  // namespace regatta::tests
