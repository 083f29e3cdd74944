// Runs with pipeline stages: against closed formulas, and against a simulation by events that
// shares nothing with the trainer's schedule.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <queue>
#include <string>
#include <vector>

#include "base/error.h"
#include "orchestrator/plan/drawn_steps.h"
#include "orchestrator/plan/pipeline_step.h"
#include "orchestrator/simulate/simulation.h"
#include "orchestrator/simulate/simulation_text.h"
#include "tests/shared_data.h"

namespace regatta::orchestrator {
namespace {

using testing::HasSubstr;
using topology::nccl::CommunicationCurve;
using trainer::contract::BatchSizes;
using trainer::contract::LengthTable;
using trainer::contract::PipelineOrder;
using trainer::contract::Task;

LengthTable wikipedia() {
  const std::string file = REGATTA_SOURCE_DIR "/tests/data/lengths_wikipedia_512.csv";
  return LengthTable::parse(tests::file_text(file), file);
}
LengthTable all_of(int tokens) {
  const std::string text = std::to_string(tokens);
  return LengthTable::parse(text + "," + text + ",1", "lengths");
}

// BERT-base without the word head, so that its stages are even to a six-thousandth of a layer.
simulate::SimulationInputs inputs_of(int data, int stages, int micro_batches, int micro = 4) {
  simulate::SimulationInputs inputs;
  inputs.config.model = trainer::contract::preset_shape("base");
  inputs.config.model.vocabulary = 30522;
  inputs.config.model.task = Task::Regression;
  inputs.config.data.max_length = 512;
  inputs.config.ranks = data * stages;
  inputs.config.parallel.pipeline = stages;
  inputs.config.micro_batch_size = micro;
  inputs.config.batch_size = data * micro_batches * micro;
  inputs.lengths = all_of(512);
  inputs.compute.peak_flops = 300e12;
  inputs.stage_network = plan::no_stage_network(stages);
  inputs.steps = 3;
  return inputs;
}

void expect_adds_up(const simulate::Simulation& of) {
  const simulate::StepParts& mean = of.mean;
  EXPECT_NEAR(mean.compute + mean.bubble + mean.imbalance + mean.exposed + mean.tail + mean.gather +
                  mean.overhead,
              mean.step, 1e-9 * mean.step);
  EXPECT_NEAR(of.samples_per_second * mean.step, of.batch, 1e-6 * of.batch);
  ASSERT_TRUE(of.stages);
  EXPECT_NEAR(of.stages->bubble, mean.bubble / mean.compute, 1e-12);
}

TEST(StageSimulation, EvenStagesHaveTheClosedBubble) {
  for (const PipelineOrder order : {PipelineOrder::OneForwardOneBackward, PipelineOrder::GPipe}) {
    for (const int stages : {2, 3, 4, 6, 12}) {
      for (const int times : {1, 2, 5}) {
        SCOPED_TRACE(std::to_string(stages) + " stages, " + std::to_string(times * stages));
        simulate::SimulationInputs inputs = inputs_of(2, stages, times * stages);
        inputs.config.parallel.schedule = order;
        const simulate::Simulation result = simulate::simulate_steps(inputs);
        expect_adds_up(result);
        const double even = (stages - 1.0) / (times * stages);
        EXPECT_DOUBLE_EQ(result.stages->bubble_even, even);
        EXPECT_NEAR(result.stages->bubble, even, 2e-3 * (1 + even));
        EXPECT_DOUBLE_EQ(result.stages->micro_batches, times * stages);
        EXPECT_EQ(result.stages->data, 2);
        for (const auto& stage : result.stages->cut) EXPECT_EQ(stage.layers(), 12 / stages);
        // The same as time that stands still, of all time: (p − 1) / (m + p − 1).
        const double still = result.mean.bubble / (result.mean.bubble + result.mean.compute);
        EXPECT_NEAR(still, (stages - 1.0) / (times * stages + stages - 1), 2e-3);
      }
    }
  }
}

// The work of all ranks is that of the FLOP model, however it is cut.
TEST(StageSimulation, ComputesTheWholeModelOnce) {
  for (const Task task : {Task::Regression, Task::Pretraining}) {
    simulate::SimulationInputs inputs = inputs_of(2, 4, 8);
    inputs.config.model.task = task;
    inputs.lengths = all_of(8);  // attention, which has a rate of its own, is a part of 0.2 %
    const simulate::Simulation result = simulate::simulate_steps(inputs);
    expect_adds_up(result);
    const double masked = task == Task::Pretraining ? std::round(32 * 0.15) : 0;
    const double flops = trainer::contract::training_flops(
        inputs.config.model, {64, 512, 4096, static_cast<std::int64_t>(16 * masked)});
    EXPECT_NEAR(result.mean.compute, flops / 8 / 150e12, 0.005 * result.mean.compute);
    EXPECT_NEAR(result.model_flops_per_second * result.mean.step, flops / 8, 1e-2 * flops / 8);
  }
}

// Costs of one replica, as the doc comments have them, from nothing but the model's sizes.
struct Costs {
  std::vector<std::vector<double>> forward, link;  // [stage][micro-batch]
};
Costs costs_of(const simulate::SimulationInputs& inputs, const std::vector<int>& layers,
               const std::vector<BatchSizes>& batches) {
  constexpr double kRate = 150e12, kAttention = 0.4;
  const double h = inputs.config.model.hidden, f = inputs.config.model.feed_forward;
  Costs costs;
  for (std::size_t s = 0; s < layers.size(); ++s) {
    costs.forward.emplace_back();
    costs.link.emplace_back();
    for (const BatchSizes& batch : batches) {
      const auto tokens = static_cast<double>(batch.tokens);
      const auto squares = static_cast<double>(batch.squared_tokens);
      double flops =
          layers[s] * (2 * (4 * h * h + 2 * h * f) * tokens + 4 * h * squares / kAttention);
      if (s + 1 == layers.size()) {  // pooler and one output
        flops += static_cast<double>(batch.samples) * (2 * h * h + 2 * h);
      }
      costs.forward.back().push_back(flops / kRate);
      costs.link.back().push_back(1e-5 + tokens * h * 4 / 20e9);
    }
  }
  return costs;
}

// An event for each end of computing and each arrival. A stage takes a forward as long as fewer
// than its limit of micro-batches are in flight, else a backward.
double end_by_events(const Costs& costs, bool is_gpipe) {
  const std::size_t stages = costs.forward.size(), all = costs.forward[0].size();
  struct State {
    std::size_t forward = 0, backward = 0;      // begun
    std::vector<bool> came_forward, came_back;  // arrived: a short one may overtake a long one
    bool busy = false;
  };
  const std::vector<bool> none(all, false);
  std::vector<State> state(stages, {0, 0, none, none, false});
  state.front().came_forward.assign(all, true);  // nobody sends to them
  state.back().came_back.assign(all, true);
  using Event = std::pair<double, std::function<void(double)>>;
  const auto later = [](const Event& a, const Event& b) { return a.first > b.first; };
  std::priority_queue<Event, std::vector<Event>, decltype(later)> events(later);
  std::function<void(std::size_t, double)> go_on = [&](std::size_t s, double now) {
    State& mine = state[s];
    const std::size_t limit = is_gpipe ? all : std::min(all, stages - s);
    if (mine.busy || mine.backward == all) return;
    const bool is_forward = mine.forward < all && mine.forward - mine.backward < limit;
    const std::size_t i = is_forward ? mine.forward : mine.backward;
    if (!(is_forward ? mine.came_forward : mine.came_back)[i]) return;
    ++(is_forward ? mine.forward : mine.backward);
    mine.busy = true;
    const double end = now + costs.forward[s][i] * (is_forward ? 1 : 2);
    events.emplace(end, [&, s, i, is_forward](double at) {
      state[s].busy = false;
      if (is_forward && s + 1 < stages) {
        events.emplace(at + costs.link[s][i], [&, s, i](double then) {
          state[s + 1].came_forward[i] = true;
          go_on(s + 1, then);
        });
      } else if (!is_forward && s > 0) {
        events.emplace(at + costs.link[s - 1][i], [&, s, i](double then) {
          state[s - 1].came_back[i] = true;
          go_on(s - 1, then);
        });
      }
      go_on(s, at);
    });
  };
  for (std::size_t s = 0; s < stages; ++s) go_on(s, 0);
  double now = 0;
  while (!events.empty()) {
    const Event event = events.top();
    events.pop();
    now = event.first;
    event.second(now);
  }
  for (const State& each : state) EXPECT_EQ(each.backward, all) << "no stage waits for ever";
  return now;
}

TEST(StageSimulation, IsThatOfASimulationByEvents) {
  for (const PipelineOrder order : {PipelineOrder::OneForwardOneBackward, PipelineOrder::GPipe}) {
    for (const int stages : {2, 4, 5}) {
      for (const std::uint64_t seed : {1U, 2U, 3U}) {
        simulate::SimulationInputs inputs = inputs_of(2, stages, 7);
        inputs.config.parallel.schedule = order;
        inputs.config.seed = seed;
        inputs.config.balance.strategy = trainer::contract::Balance::None;
        inputs.lengths = wikipedia();
        inputs.steps = 1;
        for (auto& send : inputs.stage_network.sends) send = CommunicationCurve::of_line(1e-5, 20);
        const simulate::Simulation result = simulate::simulate_steps(inputs);
        std::vector<int> layers;
        for (const auto& stage : result.stages->cut) layers.push_back(stage.layers());
        const trainer::contract::RunConfig replicas = plan::among_replicas(inputs.config);
        plan::DrawnSteps drawn(replicas, inputs.lengths);
        const std::vector<std::int32_t> lengths = drawn.step(0);
        double last = 0, mean = 0, busy = 0;
        for (int replica = 0; replica < 2; ++replica) {  // every second sample
          std::vector<BatchSizes> batches;
          for (std::size_t i = static_cast<std::size_t>(replica); i < lengths.size(); i += 2) {
            if (batches.empty() || batches.back().samples == 4) batches.emplace_back();
            batches.back().samples += 1;
            batches.back().tokens += lengths[i];
            batches.back().squared_tokens += std::int64_t{lengths[i]} * lengths[i];
          }
          const Costs costs = costs_of(inputs, layers, batches);
          const double end = end_by_events(costs, order == PipelineOrder::GPipe);
          last = std::max(last, end);
          mean += end / 2;
          for (const auto& stage : costs.forward) {
            for (const double each : stage) busy += 3 * each / (2 * stages);
          }
        }
        EXPECT_NEAR(result.mean.compute / busy, 1, 1e-9);
        EXPECT_NEAR(result.mean.bubble / (mean - busy), 1, 1e-9);
        EXPECT_NEAR(result.mean.imbalance, last - mean, 1e-9 * last);
        EXPECT_GT(result.mean.imbalance, 0) << "or it tells nothing";
      }
    }
  }
}

TEST(StageSimulation, MoreMicroBatchesOfTheSameSamplesHaveASmallerBubble) {
  double before = 1e9;
  for (const int micro : {16, 8, 4, 2, 1}) {
    simulate::SimulationInputs inputs = inputs_of(1, 4, 64 / micro, micro);
    inputs.config.model.task = Task::Pretraining;
    const simulate::Simulation result = simulate::simulate_steps(inputs);
    EXPECT_LT(result.stages->bubble, before) << micro;
    EXPECT_GE(result.stages->bubble, result.stages->bubble_even) << "no cut is more than even";
    before = result.stages->bubble;
  }
}

TEST(StageSimulation, MoreStagesAndSlowerLinksTakeLonger) {
  double before = 0;
  for (const double gb_per_s : {400.0, 40.0, 4.0, 0.4}) {
    simulate::SimulationInputs inputs = inputs_of(2, 4, 8);
    for (auto& send : inputs.stage_network.sends) {
      send = CommunicationCurve::of_line(1e-6, gb_per_s);
    }
    const simulate::Simulation result = simulate::simulate_steps(inputs);
    expect_adds_up(result);
    EXPECT_GT(result.mean.step, before);
    EXPECT_NEAR(result.stages->send_seconds, 1e-6 + 4 * 512 * 768 * 4 / (1e9 * gb_per_s),
                1e-3 * result.stages->send_seconds);
    before = result.mean.step;
  }
  // Eight ranks with the same samples.
  before = 0;
  for (const int stages : {2, 4, 8}) {
    const double step =
        simulate::simulate_steps(inputs_of(8 / stages, stages, 2 * stages)).mean.step;
    EXPECT_GT(step, before);
    before = step;
  }
}

// All of a stage's gradient after its last backward: the first stage, which ends last, decides.
TEST(StageSimulation, SumsEachStagesOwnGradientOverItsReplicas) {
  simulate::SimulationInputs inputs = inputs_of(2, 4, 8);
  inputs.config.buckets.overlap = false;
  inputs.config.buckets.by = trainer::contract::BucketPolicy::One;
  inputs.stage_network.sums.sum = CommunicationCurve::of_line(50e-6, 100);
  const simulate::Simulation result = simulate::simulate_steps(inputs);
  expect_adds_up(result);
  const double h = 768, layer = 12 * h * h + 13 * h;
  const double first = (30522 + 512 + 2 + 2) * h + 3 * layer;
  EXPECT_NEAR(result.mean.exposed, 50e-6 + 4 * first / 100e9, 2e-3 * result.mean.exposed);
  EXPECT_EQ(result.plan.buckets.size(), 4U) << "one for each stage";
  EXPECT_EQ(result.plan.buckets.front().begin_tensor, 0);
  inputs.stage_network.sums.sum = CommunicationCurve::of_line(50e-6, 10);
  EXPECT_NEAR(simulate::simulate_steps(inputs).mean.exposed, 50e-6 + 4 * first / 10e9,
              2e-3 * 4 * first / 10e9);
}

// In pre-training the last stage has the word embedding as the decoder's weight.
TEST(StageSimulation, TheTwoEndsSumTheWordEmbedding) {
  simulate::SimulationInputs inputs = inputs_of(1, 2, 4);
  inputs.config.model.task = Task::Pretraining;
  const double without = simulate::simulate_steps(inputs).mean.exposed;
  EXPECT_NEAR(without, 0, 1e-12);
  inputs.stage_network.ends = CommunicationCurve::of_line(1e-3, 10);
  const simulate::Simulation with = simulate::simulate_steps(inputs);
  const double seconds = 1e-3 + 4.0 * 30522 * 768 / 10e9;
  EXPECT_NEAR(with.mean.exposed, seconds, 2e-3 * seconds);
  EXPECT_NEAR(with.stages->ends_seconds, seconds, 2e-3 * seconds);
  inputs.config.model.task = Task::Regression;
  EXPECT_EQ(simulate::simulate_steps(inputs).stages->ends_seconds, 0);
}

// AdamW's 28 bytes of a weight and 4 for the norm, of the stage with most of them.
TEST(StageSimulation, TheLargestStageUpdatesLongest) {
  simulate::SimulationInputs inputs = inputs_of(2, 4, 8);
  inputs.compute.memory_bytes_per_second = 1e12;
  inputs.overhead_seconds = 0.25;
  const double h = 768, first = (30522 + 512 + 2 + 2) * h + 3 * (12 * h * h + 13 * h);
  const simulate::Simulation result = simulate::simulate_steps(inputs);
  expect_adds_up(result);
  EXPECT_NEAR(result.mean.tail, 32 * first / 1e12, 5e-3 * result.mean.tail);
  EXPECT_EQ(result.mean.overhead, 0.25);
}

// A pack passes all stages, and each one after it follows the slowest stage's time later.
TEST(StageSimulation, PacksOfAnEvaluationFollowEachOther) {
  simulate::SimulationInputs inputs = inputs_of(2, 4, 8);
  inputs.lengths = all_of(8);
  inputs.config.evaluate_samples = 80;  // 40 of a replica, 4 at once
  const double pack = trainer::contract::training_flops(inputs.config.model, {4, 32, 256, 0}) / 3;
  const double expected = pack * (4 + 10 - 1) / 4 / 150e12;
  EXPECT_NEAR(simulate::simulate_steps(inputs).evaluation_seconds, expected, 0.01 * expected);
}

TEST(StageSimulation, RefusesWhatCannotBe) {
  struct Row {
    void (*spoil)(trainer::contract::RunConfig*);
    const char* message;
  };
  const Row rows[] = {
      {[](auto* config) { config->ranks = 6; },
       "on 6 ranks: parallel.pipeline is 4, which does not divide ranks (6)"},
      {[](auto* config) { config->micro_batch_size = 32; },
       "batch.micro makes 1 micro-batches of the 32 samples"},
      {[](auto* config) { config->batch_size = 1; }, "parallel.data comes to 2"},
      {[](auto* config) { config->model.layers = 3; }, "and the model has 3 layers"},
      {[](auto* config) { config->sharding.optimizer = true; },
       "sharding.optimizer does not go with parallel.pipeline yet"},
      {[](auto* config) { config->hierarchical = true; }, "hierarchical does not go"},
      {[](auto* config) { config->clip = trainer::contract::ClipMode::Bucket; }, "clip.mode"},
      {[](auto* config) { config->fine_tuning.frozen_layers = 2; }, "frozen_layers does not go"},
  };
  for (const Row& row : rows) {
    simulate::SimulationInputs inputs = inputs_of(2, 4, 8);
    row.spoil(&inputs.config);
    try {
      (void)simulate::simulate_steps(inputs);
      ADD_FAILURE() << row.message;
    } catch (const base::Error& error) {
      EXPECT_EQ(error.code(), base::Code::User);
      EXPECT_THAT(error.what(), HasSubstr(row.message));
    }
  }
}

TEST(StageSimulation, IsToldBesideTheTable) {
  simulate::SimulatedRun run;
  run.simulation = simulate::simulate_steps(inputs_of(2, 4, 8));
  run.forecast.seconds.mean = 1;
  simulate::SimulationReport report;
  report.peak_flops = 300e12;
  report.runs.push_back(run);
  const std::string text = simulate::simulation_text(report);
  EXPECT_THAT(text, HasSubstr("  compute   bubble  uneven"));
  EXPECT_THAT(text, HasSubstr("1 node: 4 stages of 3, 3, 3 and 3 layers, 2 replicas, 8 "
                              "micro-batches of 4: the bubble is 37.5 % of computing, 37.5 % "
                              "with even stages; a send takes 0 us\n"));
  const std::string json = simulate::simulation_json(report);
  EXPECT_THAT(json, HasSubstr("\"bubble_even\": 0.375"));
  report.runs[0].simulation.stages.reset();
  EXPECT_THAT(simulate::simulation_text(report), testing::Not(HasSubstr("bubble")));
  EXPECT_THAT(simulate::simulation_json(report), HasSubstr("\"stages\": null"));
}

}  // namespace
}  // namespace regatta::orchestrator
