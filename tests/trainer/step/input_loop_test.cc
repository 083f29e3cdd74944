// Samples that are made ahead, by several threads: no bit depends on it, and where steps wait for
// their samples, as many threads as it takes are found.
#include <gtest/gtest.h>

#include <functional>
#include <thread>

#include "base/statistics.h"
#include "tests/trainer/samples/small_dataset.h"
#include "tests/trainer/step/whole_state.h"
#include "trainer/cpu/cpu_device.h"
#include "trainer/model/initial_weights.h"
#include "trainer/samples/sampler.h"
#include "trainer/step/train_loop.h"

namespace regatta::tests {
namespace {

using namespace regatta::trainer;  // the subject

class InputLoop : public OnSmallDataset<120> {
 protected:
  static contract::RunConfig config_of(const contract::InputConfig& input) {
    contract::RunConfig config = small_run_config(*dataset_);
    config.batch_size = 12;
    config.steps = 400;
    config.statistics_every = 4;
    config.dropout = config.attention_dropout = 0.1;
    config.input = input;
    return config;
  }

  struct Course {
    std::vector<contract::StepRecord> steps;
    std::vector<contract::InputRecord> told;
    step::TrainingState state;
  };
  // skip_at: from that step on samples of a later one are taken; 0: never. slow: for so many
  // seconds a step's samples are waited for.
  static Course train(const contract::RunConfig& config, std::int64_t steps,
                      std::int64_t skip_at = 0, double slow = 0) {
    const auto device = cpu::make_cpu_device(1);
    const samples::SampleSource source(*dataset_, data::Split::Training, config.data, config.seed);
    samples::SampleStream stream = samples::stream_of(source);
    if (slow > 0) {
      const std::chrono::duration<double> each(slow / config.batch_size);
      stream.at = [each, at = stream.at](std::int64_t number) {
        std::this_thread::sleep_for(each);
        return at(number);
      };
    }
    ranks::SingleCommunicator communicator;
    const contract::TensorTable table = contract::make_tensor_table(config.model);
    step::TrainLoop loop(*device, communicator, base::system_clock(), config,
                         topology::plan::default_plan(static_cast<int>(table.tensors.size())),
                         std::move(stream));
    step::TrainingState start;
    start.parameters = model::initial_weights(table, config.seed);
    loop.load(start);
    Course course;
    for (std::int64_t step = 1; step <= steps && !loop.is_over(step - 1); ++step) {
      if (step == skip_at) loop.skip(3);
      course.steps.push_back(loop.step(step));
      if (loop.input_told()) course.told.push_back(*loop.input_told());
    }
    course.state = whole_state(communicator, loop);
    return course;
  }
};

TEST_F(InputLoop, NoBitDependsOnThreadsOrStepsAhead) {
  const auto weights = [](int workers, int prefetch, const auto& change) {
    contract::RunConfig config = config_of({workers, prefetch});
    change(&config);
    return train(config, 30, 17).state.parameters;
  };
  const std::vector<std::function<void(contract::RunConfig*)>> kinds = {
      [](contract::RunConfig*) {},
      [](contract::RunConfig* config) { config->micro_batch_size = 5; },
      [](contract::RunConfig* config) {
        config->determinism = {contract::Determinism::Elastic, 4};
      },
      [](contract::RunConfig* config) {
        config->batch_size = 4;
        config->growth = contract::BatchGrowth::SquareRoot;
        config->max_batch = 24;
        config->statistics_every = 2;
      }};
  for (std::size_t kind = 0; kind < kinds.size(); ++kind) {
    const std::vector<float> expected = weights(1, 1, kinds[kind]);
    for (const contract::InputConfig& input :
         {contract::InputConfig{1, 6}, {3, 1}, {2, 3}, {5, 16}, {0, 0}}) {
      EXPECT_TRUE(weights(input.workers, input.prefetch, kinds[kind]) == expected)
          << "kind " << kind << ", " << input.workers << " workers, " << input.prefetch << " ahead";
    }
  }
}

TEST_F(InputLoop, RanksThatExchangeAndBatchesThatGrowMakeOneStepAhead) {
  const auto ahead = [](const std::function<void(contract::RunConfig*)>& change) {
    contract::RunConfig config = config_of({4, 9});
    config.ranks = 2;
    config.ranks_per_node = 2;
    change(&config);
    const samples::InputTuner tuner = step::input_tuner(config);
    int most = 0;
    for (const samples::InputChoice& way : tuner.ways()) most = std::max(most, way.prefetch);
    return most;
  };
  EXPECT_EQ(ahead([](contract::RunConfig*) {}), 9);
  EXPECT_EQ(ahead([](contract::RunConfig* config) {
              config->balance.strategy = contract::Balance::Exchange;
            }),
            1);
  EXPECT_EQ(ahead([](contract::RunConfig* config) {
              config->growth = contract::BatchGrowth::SquareRoot;
              config->max_batch = 48;
            }),
            1);
}

// Samples take 1.7 times as long to make as steps to compute.
TEST_F(InputLoop, AsManyThreadsAsItTakesAreFound) {
  const Course fast = train(config_of({}), 40);
  ASSERT_EQ(fast.told.size(), 1U);
  EXPECT_FALSE(fast.told[0].starved) << fast.told[0].why;
  std::vector<double> seconds;
  for (const contract::StepRecord& step : fast.steps) seconds.push_back(step.seconds);
  const double slow = 1.7 * std::max(0.004, base::median(seconds));

  const auto stalls = [](const Course& course) {
    int stalled = 0;
    for (auto step = course.steps.end() - 40; step != course.steps.end(); ++step) {
      stalled += step->input_stalled ? 1 : 0;
    }
    return stalled;
  };
  const Course one = train(config_of({1, 1}), 100, 0, slow);
  EXPECT_GT(stalls(one), 30) << "one thread is too slow";
  ASSERT_FALSE(one.told.empty());
  EXPECT_TRUE(one.told[0].starved);
  EXPECT_NE(one.told[0].why.find("input.workers"), std::string::npos) << one.told[0].why;

  const Course found = train(config_of({}), 200, 0, slow);
  ASSERT_FALSE(found.told.empty());
  EXPECT_GT(found.told.back().workers, 1) << found.told.back().why;
  EXPECT_LT(stalls(found), 20) << found.told.back().why;
  EXPECT_TRUE(std::equal(one.steps.begin(), one.steps.end(), found.steps.begin(),
                         [](const auto& a, const auto& b) { return a.loss == b.loss; }));
}

}  // namespace
}  // namespace regatta::tests
