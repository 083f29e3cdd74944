// Some steps of a run in stages, and what came of them: on ranks of any kind.
#pragma once

#include <utility>
#include <vector>

#include "base/clock.h"
#include "tests/trainer/samples/small_dataset.h"
#include "tests/trainer/step/task_samples.h"
#include "tests/trainer/step/whole_state.h"
#include "trainer/cpu/cpu_device.h"
#include "trainer/model/initial_weights.h"
#include "trainer/samples/sampler.h"
#include "trainer/step/buckets.h"
#include "trainer/step/train_loop.h"

namespace regatta::tests {

constexpr int kCourseLayers = 4;
constexpr int kCourseBatch = 18;  // two replicas of 9 samples: micro-batches of 2, and one of 1

// Micro-batches are of unequal sizes, and the learning rate is one at which losses fall.
[[nodiscard]] inline trainer::contract::RunConfig pretraining_course(
    const trainer::data::Dataset& dataset) {
  trainer::contract::RunConfig config = small_run_config(dataset);
  config.model.layers = kCourseLayers;
  config.batch_size = kCourseBatch;
  config.micro_batch_size = 2;
  config.steps = 100;
  config.optimizer.learning_rate = 1e-3;
  return config;
}
[[nodiscard]] inline trainer::contract::RunConfig task_course(trainer::contract::Task task) {
  trainer::contract::RunConfig config = task_config(task, 1);
  config.model.layers = kCourseLayers;
  config.batch_size = kCourseBatch;
  config.micro_batch_size = 2;
  config.dropout = config.attention_dropout = 0.1;
  config.optimizer.learning_rate = 1e-3;
  return config;
}
constexpr std::int64_t kCourseTaskSamples = 40;

struct Layout {
  int stages = 1;
  trainer::contract::PipelineOrder order = trainer::contract::PipelineOrder::OneForwardOneBackward;
};

struct PipelineCourse {
  std::vector<trainer::contract::StepRecord> records;  // every rank has the same losses
  trainer::contract::EvalRecord evaluation;
  trainer::step::TrainingState state;  // rank 0's

  [[nodiscard]] std::vector<double> losses() const {
    std::vector<double> losses;
    for (const auto& record : records) losses.push_back(record.loss);
    return losses;
  }
};

// Steps first … last from `start` (empty: new weights); of pre-training on `dataset`, else of the
// made-up samples of tasks.
[[nodiscard]] inline PipelineCourse train_course(trainer::ranks::Communicator& communicator,
                                                 trainer::contract::RunConfig config,
                                                 const Layout& layout,
                                                 const trainer::data::Dataset* dataset,
                                                 std::int64_t first, std::int64_t last,
                                                 const trainer::step::TrainingState& start = {}) {
  using namespace regatta::trainer;
  config.ranks = communicator.ranks();
  config.ranks_per_node = 1;
  config.parallel.pipeline = layout.stages;
  config.parallel.schedule = layout.order;
  const auto device = cpu::make_cpu_device(1);
  std::optional<samples::SampleSource> source;
  if (dataset != nullptr) {
    source.emplace(*dataset, data::Split::Training, config.data, config.seed);
  }
  topology::plan::Plan plan;
  plan.ranks = config.ranks;
  const contract::TensorTable table = contract::make_tensor_table(config.model);
  plan.buckets = step::buckets_of_bytes(table, 20000);
  step::TrainLoop loop(*device, communicator, base::system_clock(), config, plan,
                       source ? samples::stream_of(*source) : task_stream(kCourseTaskSamples));
  step::TrainingState state = start;
  if (state.parameters.empty()) state.parameters = model::initial_weights(table, config.seed);
  loop.load(state);
  PipelineCourse course;
  for (std::int64_t step = first; step <= last; ++step) course.records.push_back(loop.step(step));
  course.evaluation =
      dataset != nullptr
          ? loop.evaluate(samples::evaluation_samples(*dataset, config.data, 50), last)
          : loop.evaluate(WeighedSet(23), last);
  course.state = whole_state(communicator, loop);
  return course;
}

}  // namespace regatta::tests
