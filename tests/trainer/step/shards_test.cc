// Determinism of shards: no bit of a run depends on how many ranks share them.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "tests/trainer/ranks/thread_ranks.h"
#include "tests/trainer/samples/small_dataset.h"
#include "tests/trainer/step/whole_state.h"
#include "trainer/cpu/cpu_device.h"
#include "trainer/model/initial_weights.h"
#include "trainer/samples/sampler.h"
#include "trainer/step/buckets.h"
#include "trainer/step/granule_sums.h"
#include "trainer/step/shard_sums.h"
#include "trainer/step/train_loop.h"

namespace regatta::tests {
namespace {

using namespace regatta::trainer;  // the subject

struct Course {
  std::vector<double> figures;  // of the records, in order
  step::TrainingState state;
};

void expect_same(const Course& course, const Course& expected, const std::string& where) {
  EXPECT_TRUE(course.state.parameters == expected.state.parameters) << where;
  EXPECT_TRUE(course.state.first_moment == expected.state.first_moment) << where;
  EXPECT_TRUE(course.state.second_moment == expected.state.second_moment) << where;
  EXPECT_EQ(course.state.noise, expected.state.noise) << where;
  EXPECT_EQ(course.figures, expected.figures) << where;
}

class Shards : public OnSmallDataset<60> {
 protected:
  static contract::RunConfig config(int shards) {
    contract::RunConfig config = small_run_config(*dataset_);
    config.determinism = {contract::Determinism::Elastic, shards};
    config.batch_size = 26;
    config.micro_batch_size = 2;
    config.steps = 100;
    config.optimizer.learning_rate = 0.01;
    config.clip_norm = 0.5;  // every step is clipped
    config.statistics_every = 2;
    config.ranks_per_node = 1;
    return config;
  }
  static Course first_of(const contract::RunConfig& config) {
    Course course;
    course.state.parameters =
        model::initial_weights(contract::make_tensor_table(config.model), config.seed);
    return course;
  }
  // Goes on from `course` with steps (from, to].
  static Course go_on(contract::RunConfig config, int ranks, const Course& course, int from,
                      int to) {
    config.ranks = ranks;
    Course end = course;
    ThreadRanks(ranks).run([&](ranks::Communicator& communicator) {
      const auto device = cpu::make_cpu_device(1);
      const samples::SampleSource source(*dataset_, data::Split::Training, config.data,
                                         config.seed);
      const samples::SampleSource held_out(*dataset_, data::Split::HeldOut, config.data, 0);
      std::vector<samples::Sample> evaluated;
      for (int i = 0; i < 30; ++i) evaluated.push_back(held_out.at(i));
      topology::plan::Plan plan;
      plan.ranks = ranks;
      plan.buckets =
          step::default_buckets(config, contract::make_tensor_table(config.model), false);
      step::TrainLoop loop(*device, communicator, base::system_clock(), config, plan,
                           samples::stream_of(source));
      loop.begin_at(from, std::nullopt);
      loop.load(course.state);
      std::vector<double> figures;
      for (int step = from + 1; step <= to; ++step) {
        const contract::StepRecord record = loop.step(step);
        figures.insert(figures.end(), {record.loss, record.mlm_loss, record.nsp_loss,
                                       record.gradient_norm, record.flops});
      }
      const contract::EvalRecord record = loop.evaluate(evaluated, to);
      EXPECT_EQ(record.samples, 30);
      figures.insert(figures.end(), {record.mlm_loss, record.mlm_accuracy, record.nsp_accuracy});
      step::TrainingState state = whole_state(communicator, loop);
      if (communicator.rank() != 0) return;
      end.state = std::move(state);
      end.figures.insert(end.figures.end(), figures.begin(), figures.end());
    });
    return end;
  }
};

TEST_F(Shards, GiveTheSameBitsOnAnyNumberOfRanksThatDividesThem) {
  for (const auto kind : {contract::OptimizerKind::AdamW, contract::OptimizerKind::Lamb}) {
    contract::RunConfig c = config(12);
    c.optimizer.kind = kind;
    const Course expected = go_on(c, 1, first_of(c), 0, 5);
    for (const double figure : expected.figures) ASSERT_TRUE(std::isfinite(figure));
    for (const bool sharded : {false, true}) {
      c.sharding.optimizer = sharded;
      for (const int ranks : {1, 2, 3, 4, 6, 12}) {
        expect_same(go_on(c, ranks, first_of(c), 0, 5), expected,
                    contract::name_of(kind) + " on " + std::to_string(ranks) + " ranks" +
                        (sharded ? ", sharded" : ""));
      }
    }
  }
}

TEST_F(Shards, OtherWaysOfDealingAndOddTrees) {
  for (const auto strategy :
       {contract::Balance::None, contract::Balance::Stratified, contract::Balance::Packed}) {
    contract::RunConfig c = config(9);
    c.balance.strategy = strategy;
    const Course expected = go_on(c, 1, first_of(c), 0, 3);
    for (const int ranks : {3, 9}) {
      expect_same(go_on(c, ranks, first_of(c), 0, 3), expected, std::to_string(ranks));
    }
  }
  contract::RunConfig c = config(1);
  EXPECT_EQ(go_on(c, 1, first_of(c), 0, 2).figures.size(), 13U);
}

TEST_F(Shards, RanksMayComeAndGoBetweenSteps) {
  contract::RunConfig c = config(12);
  c.optimizer.kind = contract::OptimizerKind::Lamb;
  c.sharding.optimizer = true;
  const auto weights = [](const Course& course) { return course.state; };
  const step::TrainingState expected = weights(go_on(c, 1, first_of(c), 0, 8));
  Course course = first_of(c);
  int done = 0;
  for (const auto& [ranks, to] :
       {std::pair(4, 2), std::pair(2, 3), std::pair(6, 5), std::pair(1, 6), std::pair(12, 8)}) {
    course = go_on(c, ranks, course, done, to);
    done = to;
  }
  EXPECT_TRUE(course.state.parameters == expected.parameters);
  EXPECT_TRUE(course.state.first_moment == expected.first_moment);
  EXPECT_TRUE(course.state.second_moment == expected.second_moment);
  EXPECT_EQ(course.state.noise, expected.noise);
}

// The same mean gradient as without shards, but for rounding; and without them ranks do round.
TEST_F(Shards, ChangeNothingButRounding) {
  const contract::RunConfig sharded = config(12);
  contract::RunConfig plain = sharded;
  plain.determinism = {};
  const Course a = go_on(sharded, 2, first_of(sharded), 0, 4);
  const Course b = go_on(plain, 1, first_of(plain), 0, 4);
  ASSERT_EQ(a.figures.size(), b.figures.size());
  for (std::size_t i = 0; i < a.figures.size(); ++i) {
    EXPECT_NEAR(a.figures[i], b.figures[i], 1e-4 * std::abs(b.figures[i])) << i;
  }
  const Course c = go_on(plain, 2, first_of(plain), 0, 4);
  EXPECT_FALSE(c.state.parameters == b.state.parameters) << "this test would see a difference";
}

TEST(GranuleRanges, CoverTheArenaInWholeGranules) {
  for (const std::int64_t size : {64, 4096, 4097, 60'000, 1'000'000}) {
    for (const int ranks : {1, 2, 3, 7, 20}) {
      std::int64_t end = 0;
      for (const step::ArenaSlice& range : step::granule_ranges(size, ranks)) {
        EXPECT_EQ(range.begin, end);
        EXPECT_TRUE(range.begin % step::kGranule == 0 || range.size == 0);
        end = range.begin + range.size;
      }
      EXPECT_EQ(end, size) << ranks;
    }
  }
}

// Sums of tensors and granules, against float64 over the whole.
TEST(GranuleSums, AreTheSumsWhoeverHoldsWhat) {
  contract::ModelShape shape = contract::preset_shape("tiny");
  shape.vocabulary = 300;
  const contract::TensorTable table = contract::make_tensor_table(shape);
  std::vector<float> values = model::initial_weights(table, 7);
  std::vector<std::vector<float>> of_ranks;
  for (const int ranks : {1, 3}) {
    const auto ranges = step::granule_ranges(table.arena_size, ranks);
    ThreadRanks(ranks).run([&](ranks::Communicator& communicator) {
      const auto device = cpu::make_cpu_device(1);
      const device::DeviceMemory x(*device, table.arena_size, device::Dtype::Float32);
      const auto tensors = static_cast<std::int64_t>(table.tensors.size());
      const device::DeviceMemory sums(*device, 1 + 2 * tensors, device::Dtype::Float32);
      device->copy_to_device(0, x.view(), values.data());
      const step::ArenaSlice& range = ranges[static_cast<std::size_t>(communicator.rank())];
      step::GranuleSums subject(*device, communicator, table, {range.begin, range.size}, true);
      subject.sum(
          1,
          [&](std::int64_t begin, std::int64_t size, device::View sum) {
            device->sum_of_squares(0, x.view().slice(begin, size), sum);
          },
          sums.view().slice(0, 1));
      const device::View cells = subject.begin_cells();
      for (const step::GranuleSums::Cell& cell : subject.cells()) {
        device->sum_of_squares(0, x.view().slice(cell.begin, cell.size),
                               cells.slice(2 * cell.number, 1));
      }
      subject.sum_cells(sums.view().slice(1, 2 * tensors));
      std::vector<float> result(static_cast<std::size_t>(sums.view().size));
      device->copy_to_host(0, result.data(), sums.view());
      if (communicator.rank() == 0) of_ranks.push_back(result);
    });
  }
  EXPECT_EQ(of_ranks[0], of_ranks[1]);
  const auto squares = [&](std::int64_t begin, std::int64_t size) {
    double sum = 0;
    for (std::int64_t i = begin; i < begin + size; ++i) {
      sum += std::pow(static_cast<double>(values[static_cast<std::size_t>(i)]), 2);
    }
    return sum;
  };
  EXPECT_NEAR(of_ranks[0][0], squares(0, table.arena_size), 1e-5 * squares(0, table.arena_size));
  for (std::size_t t = 0; t < table.tensors.size(); ++t) {
    const double expected = squares(table.tensors[t].offset, table.tensors[t].size);
    EXPECT_NEAR(of_ranks[0][1 + 2 * t], expected, 1e-5 * expected) << table.tensors[t].name;
    EXPECT_EQ(of_ranks[0][2 + 2 * t], 0);
  }
}

}  // namespace
}  // namespace regatta::tests
