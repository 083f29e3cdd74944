// The bubble that a training loop measures on devices whose time is FLOPs alone, beside the one
// that `regatta simulate` predicts of the same model, lengths and layout: the schedule, its waits
// and the loop's clocks are real, and only the speed of the devices is made up. So four stages need
// no four cores; pipeline_bubble_test measures those that are there.
#include <gtest/gtest.h>

#include <cstdio>
#include <map>
#include <mutex>
#include <numeric>
#include <string>
#include <tuple>
#include <vector>

#include "base/clock.h"
#include "base/statistics.h"
#include "orchestrator/simulate/simulation.h"
#include "tests/trainer/device/paced_device.h"
#include "tests/trainer/ranks/thread_ranks.h"
#include "tests/trainer/samples/small_dataset.h"
#include "trainer/contract/length_table.h"
#include "trainer/cpu/cpu_device.h"
#include "trainer/model/initial_weights.h"
#include "trainer/samples/sampler.h"
#include "trainer/step/buckets.h"
#include "trainer/step/train_loop.h"

namespace regatta::tests {
namespace {

using namespace regatta::trainer;  // the subject
using contract::PipelineOrder;

constexpr int kMicro = 4, kSteps = 7;
constexpr double kSpeed = 5e8;  // FLOPs per second, of which a core does some twenty times as many

struct PacedLayout {
  int stages, replicas, micro_batches;
  PipelineOrder order;
};

class PacedBubble : public OnSmallDataset<60>, public testing::WithParamInterface<PacedLayout> {
 protected:
  static contract::RunConfig config_of(const PacedLayout& layout) {
    contract::RunConfig config = small_run_config(*dataset_);
    config.model.layers = 4;
    config.model.hidden = 64;
    config.model.feed_forward = 256;
    config.micro_batch_size = kMicro;
    config.batch_size = kMicro * layout.micro_batches * layout.replicas;
    config.steps = kSteps;
    config.ranks = layout.stages * layout.replicas;
    config.ranks_per_node = config.ranks;
    config.parallel.pipeline = layout.stages;
    config.parallel.schedule = layout.order;
    config.statistics_every = 0;
    return config;
  }

  // The bubble of each step, as the journal has it, and by the loop's own FLOPs.
  struct Measured {
    std::vector<double> bubbles, by_flops;
    double late = 0;  // share of a rank's time
  };
  static Measured measured(const contract::RunConfig& config) {
    Measured all;
    std::mutex mutex;
    ThreadRanks(config.ranks).run([&](ranks::Communicator& communicator) {
      const auto cpu = cpu::make_cpu_device(1);
      PacedDevice device(*cpu, kSpeed);
      const samples::SampleSource source(*dataset_, data::Split::Training, config.data,
                                         config.seed);
      topology::plan::Plan plan;
      plan.ranks = config.ranks;
      const contract::TensorTable table = contract::make_tensor_table(config.model);
      plan.buckets = step::buckets_of_bytes(table, 1 << 20);
      step::TrainLoop loop(device, communicator, base::system_clock(), config, plan,
                           samples::stream_of(source));
      step::TrainingState state;
      state.parameters = model::initial_weights(table, config.seed);
      loop.load(state);
      double seconds = 0;
      for (int step = 1; step <= kSteps; ++step) {
        const contract::StepRecord record = loop.step(step);
        seconds += record.seconds;
        if (communicator.rank() != 0) continue;
        all.by_flops.push_back(record.bubble_predicted.value());
        if (step > 1) all.bubbles.push_back(record.bubble.value());
      }
      const std::lock_guard lock(mutex);
      all.late = std::max(all.late, device.late_seconds() / seconds);
    });
    return all;
  }

  // Links take no time, and neither do threads' copies.
  static double simulated(const contract::RunConfig& config) {
    const samples::SampleSource source(*dataset_, data::Split::Training, config.data, config.seed);
    const samples::SampleStream stream = samples::stream_of(source);
    std::map<std::int32_t, int> counts;
    for (std::int64_t i = 0; i < std::int64_t{kSteps} * config.batch_size; ++i) {
      ++counts[stream.length(i)];
    }
    std::string text;
    for (const auto& [length, count] : counts) {
      const std::string tokens = std::to_string(length);
      text += tokens + "," + tokens + "," + std::to_string(count) + "\n";
    }
    orchestrator::simulate::SimulationInputs inputs;
    inputs.lengths = contract::LengthTable::parse(text, "lengths of the run");
    inputs.stage_network = orchestrator::plan::no_stage_network(config.parallel.pipeline);
    inputs.compute.peak_flops = kSpeed;
    inputs.config = config;
    return orchestrator::simulate::simulate_steps(inputs).stages->bubble;
  }
};

TEST_P(PacedBubble, IsAsSimulated) {
  const PacedLayout& layout = GetParam();
  const contract::RunConfig config = config_of(layout);
  const double prediction = simulated(config);
  const Measured all = measured(config);
  const double mean = std::accumulate(all.by_flops.begin(), all.by_flops.end(), 0.0) / kSteps;
  const double median = base::percentile(all.bubbles, 0.5);
  std::printf(
      "%d stages x %d, %d micro-batches, %s: bubble %.3f simulated, %.3f by the loop's FLOPs, "
      "%.3f measured, (p-1)/m %.3f; operations late by %.3f of the time\n",
      layout.stages, layout.replicas, layout.micro_batches,
      contract::pipeline_order_names().at(static_cast<std::size_t>(layout.order)).c_str(),
      prediction, mean, median, (layout.stages - 1.0) / layout.micro_batches, all.late);
  EXPECT_NEAR(mean / prediction, 1, 0.05);
  EXPECT_NEAR(median / prediction, 1, 0.15);
}

std::string name_of_layout(const testing::TestParamInfo<PacedLayout>& info) {
  const PacedLayout& layout = info.param;
  return std::to_string(layout.stages) + "Stages" + std::to_string(layout.replicas) + "Replicas" +
         std::to_string(layout.micro_batches) + "Micro" +
         (layout.order == PipelineOrder::GPipe ? "GPipe" : "1F1B");
}

constexpr PipelineOrder kOneByOne = PipelineOrder::OneForwardOneBackward;
INSTANTIATE_TEST_SUITE_P(Layouts, PacedBubble,
                         testing::Values(PacedLayout{2, 1, 4, kOneByOne},
                                         PacedLayout{4, 1, 8, kOneByOne},
                                         PacedLayout{4, 1, 8, PipelineOrder::GPipe},
                                         PacedLayout{4, 2, 4, kOneByOne},
                                         PacedLayout{2, 2, 8, PipelineOrder::GPipe}),
                         name_of_layout);

}  // namespace
}  // namespace regatta::tests
