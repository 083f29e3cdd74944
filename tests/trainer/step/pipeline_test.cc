// Steps in pipeline stages, ranks being threads of one process, against the same steps on one rank.
#include "trainer/step/pipeline.h"

#include <gtest/gtest.h>

#include <cmath>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "tests/trainer/ranks/thread_ranks.h"
#include "tests/trainer/step/pipeline_course.h"

namespace regatta::tests {
namespace {

using namespace regatta::trainer;  // the subject
using contract::PipelineOrder;
using contract::Task;

constexpr PipelineOrder kOrders[] = {PipelineOrder::OneForwardOneBackward, PipelineOrder::GPipe};

class InStages : public OnSmallDataset<60> {
 protected:
  struct Way {
    int ranks = 1;
    Layout layout;
  };
  static std::string text_of(const Way& way) {
    return std::to_string(way.layout.stages) + " stages of " + std::to_string(way.ranks) +
           " ranks, " +
           contract::pipeline_order_names().at(static_cast<std::size_t>(way.layout.order));
  }
  static std::vector<Way> ways() {
    std::vector<Way> ways;
    for (const PipelineOrder order : kOrders) {
      ways.push_back({2, {2, order}});
      ways.push_back({4, {2, order}});
      ways.push_back({4, {4, order}});
    }
    ways.push_back({8, {4, PipelineOrder::OneForwardOneBackward}});
    ways.push_back({3, {3, PipelineOrder::OneForwardOneBackward}});
    return ways;
  }
  // Rank 0's.
  static PipelineCourse train(const contract::RunConfig& config, const Way& way, std::int64_t first,
                              std::int64_t last, const step::TrainingState& start = {}) {
    std::optional<PipelineCourse> course;
    const bool pretraining = config.model.task == Task::Pretraining;
    ThreadRanks(way.ranks).run([&](ranks::Communicator& ranks) {
      PipelineCourse mine = train_course(ranks, config, way.layout,
                                         pretraining ? dataset_ : nullptr, first, last, start);
      if (ranks.rank() == 0) course = std::move(mine);
    });
    return *course;
  }
  static void expect_near(const PipelineCourse& course, const PipelineCourse& one,
                          double tolerance) {
    ASSERT_EQ(course.records.size(), one.records.size());
    for (std::size_t i = 0; i < one.records.size(); ++i) {
      const contract::StepRecord &got = course.records[i], &want = one.records[i];
      ASSERT_NEAR(got.loss, want.loss, tolerance * want.loss) << i;
      ASSERT_NEAR(got.gradient_norm, want.gradient_norm, 10 * tolerance * want.gradient_norm) << i;
      EXPECT_EQ(got.samples, want.samples);
      EXPECT_EQ(got.tokens, want.tokens);
      EXPECT_EQ(got.masked, want.masked);
      EXPECT_NEAR(got.flops, want.flops, 1e-12 * want.flops);
    }
    EXPECT_EQ(course.evaluation.samples, one.evaluation.samples);
  }
};

// As many steps as show that nothing is left out: what is wrong in one step shows in the next.
TEST_F(InStages, PretrainingIsThatOfOneRank) {
  contract::RunConfig config = pretraining_course(*dataset_);
  config.statistics_every = 1;  // ten looks tell the noise
  const PipelineCourse one = train(config, {}, 1, 11);
  for (const Way& way : ways()) {
    SCOPED_TRACE(text_of(way));
    const PipelineCourse course = train(config, way, 1, 11);
    expect_near(course, one, 1e-5);
    EXPECT_NEAR(course.evaluation.mlm_loss, one.evaluation.mlm_loss,
                1e-5 * one.evaluation.mlm_loss);
    const auto noise = [](const PipelineCourse& of) {
      return of.records.back().raw_noise_scale_low.value_or(0);
    };
    EXPECT_GT(noise(one), 0);
    EXPECT_NEAR(noise(course), noise(one), 1e-2 * noise(one));
    const auto preconditioned = [](const PipelineCourse& of) {
      return of.records.back().efficiency.value_or(0);
    };
    EXPECT_NEAR(preconditioned(course), preconditioned(one), 1e-2);
  }
}

TEST_F(InStages, LambAndClippingAreThoseOfOneRank) {
  contract::RunConfig config = pretraining_course(*dataset_);
  config.optimizer.kind = contract::OptimizerKind::Lamb;
  config.clip_norm = 0.1;  // far below any norm here
  const PipelineCourse one = train(config, {}, 1, 6);
  for (const Way& way : {Way{2, {2}}, Way{4, {2}}, Way{4, {4, PipelineOrder::GPipe}}}) {
    SCOPED_TRACE(text_of(way));
    expect_near(train(config, way, 1, 6), one, 1e-5);
  }
}

// Where nothing is tied and nothing is summed over ranks, no sum is made in another order.
TEST_F(InStages, TasksAreThoseOfOneRankBitForBit) {
  for (const Task task : {Task::QuestionAnswering, Task::Classification, Task::Regression}) {
    contract::RunConfig config = task_course(task);
    config.clip = contract::ClipMode::None;
    const PipelineCourse one = train(config, {}, 1, 6);
    for (const PipelineOrder order : kOrders) {
      for (const int stages : {2, 4}) {
        const Way way{stages, {stages, order}};
        SCOPED_TRACE(contract::name_of(task) + ", " + text_of(way));
        const PipelineCourse course = train(config, way, 1, 6);
        EXPECT_EQ(course.losses(), one.losses());
        EXPECT_EQ(course.state.parameters, one.state.parameters);
        EXPECT_EQ(course.state.first_moment, one.state.first_moment);
        EXPECT_EQ(course.state.second_moment, one.state.second_moment);
        ASSERT_EQ(course.evaluation.metrics.size(), one.evaluation.metrics.size());
        for (std::size_t i = 0; i < one.evaluation.metrics.size(); ++i) {
          EXPECT_EQ(course.evaluation.metrics[i].value, one.evaluation.metrics[i].value);
        }
      }
    }
  }
}

TEST_F(InStages, TasksOnReplicasAreThoseOfOneRank) {
  const contract::RunConfig config = task_course(Task::QuestionAnswering);
  const PipelineCourse one = train(config, {}, 1, 4);
  for (const Way& way : {Way{4, {2}}, Way{8, {4, PipelineOrder::GPipe}}}) {
    SCOPED_TRACE(text_of(way));
    const PipelineCourse course = train(config, way, 1, 4);
    expect_near(course, one, 1e-4);
    EXPECT_NEAR(course.evaluation.metrics.back().value, one.evaluation.metrics.back().value,
                1e-3 * std::abs(one.evaluation.metrics.back().value));
  }
}

// Gradients are added in the order of micro-batches by both.
TEST_F(InStages, OrdersChangeNoBit) {
  const contract::RunConfig config = pretraining_course(*dataset_);
  const PipelineCourse a = train(config, {4, {2, kOrders[0]}}, 1, 5);
  const PipelineCourse b = train(config, {4, {2, kOrders[1]}}, 1, 5);
  EXPECT_EQ(a.losses(), b.losses());
  EXPECT_EQ(a.state.parameters, b.state.parameters);
}

// A state of any layout goes on in any other as it would have gone on.
TEST_F(InStages, AStateGoesOnInAnyLayout) {
  const contract::RunConfig config = pretraining_course(*dataset_);
  const std::vector<Way> all{{1, {}}, {2, {}}, {2, {2}}, {4, {2}}, {4, {4, PipelineOrder::GPipe}}};
  const PipelineCourse one = train(config, {}, 1, 8);
  for (const Way& before : all) {
    const PipelineCourse half = train(config, before, 1, 4);
    for (const Way& after : all) {
      SCOPED_TRACE(text_of(before) + ", then " + text_of(after));
      const PipelineCourse rest = train(config, after, 5, 8, half.state);
      for (std::size_t i = 0; i < rest.records.size(); ++i) {
        const double want = one.records[4 + i].loss;
        EXPECT_NEAR(rest.records[i].loss, want, 1e-5 * want) << i;
      }
    }
    const PipelineCourse straight = train(config, before, 1, 8);
    const PipelineCourse resumed = train(config, before, 5, 8, half.state);
    EXPECT_EQ(resumed.state.parameters, straight.state.parameters) << text_of(before);
    EXPECT_EQ(resumed.state.second_moment, straight.state.second_moment) << text_of(before);
  }
}

TEST_F(InStages, TellTheirBubble) {
  const contract::RunConfig config = pretraining_course(*dataset_);
  const contract::StepRecord alone = train(config, {}, 1, 1).records.at(0);
  EXPECT_FALSE(alone.bubble || alone.bubble_predicted || alone.bubble_even);
  const contract::StepRecord record = train(config, {4, {4}}, 1, 1).records.at(0);
  EXPECT_NEAR(record.bubble_even.value(), 3.0 / 9, 1e-12) << "nine micro-batches";
  EXPECT_GT(record.bubble_predicted.value(), record.bubble_even.value())
      << "stages and micro-batches are not equal";
  EXPECT_GT(record.bubble.value(), 0);
}

// The others wait in a receive, or a send, and learn of it.
TEST_F(InStages, ALostStageIsARetryOfAll) {
  const contract::RunConfig config = pretraining_course(*dataset_);
  for (const int lost : {0, 1, 2}) {
    std::mutex mutex;
    int told = 0;
    ThreadRanks(3).run([&](ranks::Communicator& ranks) {
      contract::RunConfig c = config;
      c.ranks = 3;
      c.ranks_per_node = 1;
      c.parallel.pipeline = 3;
      const auto device = cpu::make_cpu_device(1);
      const samples::SampleSource source(*dataset_, data::Split::Training, c.data, c.seed);
      topology::plan::Plan plan;
      plan.ranks = 3;
      plan.buckets = step::buckets_per_layer(contract::make_tensor_table(c.model));
      try {
        step::TrainLoop loop(*device, ranks, base::system_clock(), c, plan,
                             samples::stream_of(source));
        step::TrainingState state;
        state.parameters = model::initial_weights(loop.model().table(), c.seed);
        loop.load(state);
        (void)loop.step(1);
        if (ranks.rank() == lost) return;
        (void)loop.step(2);
        ADD_FAILURE() << "rank " << ranks.rank() << " has taken a step alone";
      } catch (const base::Error& error) {
        const std::scoped_lock lock(mutex);
        EXPECT_EQ(error.code(), base::Code::Retry) << error.what();
        ++told;
      }
    });
    EXPECT_EQ(told, 2) << "rank " << lost << " is lost";
  }
}

}  // namespace
}  // namespace regatta::tests
