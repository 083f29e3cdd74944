#include "orchestrator/simulate/simulation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <string>

#include "base/error.h"
#include "orchestrator/plan/step_model.h"
#include "orchestrator/simulate/run_forecast.h"
#include "orchestrator/simulate/simulation_text.h"
#include "tests/shared_data.h"

namespace regatta::orchestrator {
namespace {

using testing::HasSubstr;
using topology::nccl::CommunicationCurve;
using trainer::contract::LengthTable;

const std::string kSource = REGATTA_SOURCE_DIR;

LengthTable wikipedia() {
  return LengthTable::parse(tests::file_text(kSource + "/tests/data/lengths_wikipedia_512.csv"),
                            "lengths");
}
LengthTable all_of(int tokens) {
  const std::string text = std::to_string(tokens);
  return LengthTable::parse(text + "," + text + ",1", "lengths");
}

simulate::SimulationInputs inputs_of(int ranks, int batch) {
  simulate::SimulationInputs inputs;
  inputs.config.model = trainer::contract::preset_shape("base");
  inputs.config.model.vocabulary = 30522;
  inputs.config.data.max_length = 512;
  inputs.config.ranks = ranks;
  inputs.config.batch_size = batch;
  inputs.lengths = wikipedia();
  inputs.ranks_per_node = std::min(ranks, 8);
  inputs.compute.peak_flops = 300e12;
  inputs.network.sum = CommunicationCurve::of_line(50e-6, 100);
  inputs.network.gather = CommunicationCurve::of_line(50e-6, 200);
  inputs.steps = 20;
  return inputs;
}

void expect_adds_up(const simulate::Simulation& of) {
  const simulate::StepParts& mean = of.mean;
  EXPECT_NEAR(
      mean.compute + mean.imbalance + mean.exposed + mean.tail + mean.gather + mean.overhead,
      mean.step, 1e-9 * mean.step);
  EXPECT_LE(of.step_p5, of.step_p95);
  EXPECT_NEAR(of.samples_per_second * mean.step, of.batch, 1e-6 * of.batch);
}

TEST(Simulation, OneRankOnlyComputes) {
  simulate::SimulationInputs inputs = inputs_of(1, 32);
  inputs.network = plan::no_network();
  const simulate::Simulation result = simulate::simulate_steps(inputs);
  expect_adds_up(result);
  EXPECT_EQ(result.mean.imbalance, 0);
  EXPECT_EQ(result.mean.gather, 0);
  EXPECT_NEAR(result.mean.exposed, 0, 1e-12);
  EXPECT_EQ(result.communication_seconds, 0);
  EXPECT_DOUBLE_EQ(result.token_imbalance, 1);
  EXPECT_DOUBLE_EQ(result.mean.step, result.mean.compute);
}

// Without attention's lower rate, nothing but FLOPs: the time is theirs over the rate.
TEST(Simulation, ComputesByTheFlopModel) {
  simulate::SimulationInputs inputs = inputs_of(4, 64);
  inputs.lengths = all_of(8);  // attention is a part of 0.2 %
  inputs.network = plan::no_network();
  const simulate::Simulation result = simulate::simulate_steps(inputs);
  const trainer::contract::BatchSizes batch{64, 64 * 8, 64 * 8 * 8,
                                            4 * std::llround(16 * 8 * 0.15)};
  const double flops = trainer::contract::training_flops(inputs.config.model, batch);
  EXPECT_NEAR(result.mean.step, flops / 4 / 150e12, 0.005 * result.mean.step);
  EXPECT_NEAR(result.model_flops_per_second, 150e12, 0.005 * 150e12);
}

TEST(Simulation, AnInfiniteLinkExposesNothing) {
  simulate::SimulationInputs inputs = inputs_of(64, 512);
  const simulate::Simulation with = simulate::simulate_steps(inputs);
  expect_adds_up(with);
  EXPECT_GT(with.mean.exposed, 0);
  inputs.network = plan::no_network();
  const simulate::Simulation without = simulate::simulate_steps(inputs);
  expect_adds_up(without);
  EXPECT_NEAR(without.mean.exposed, 0, 1e-12);
  EXPECT_DOUBLE_EQ(with.mean.compute, without.mean.compute);
  EXPECT_DOUBLE_EQ(with.mean.imbalance, without.mean.imbalance);
}

TEST(Simulation, WithoutOverlapAllOfTheSumIsExposed) {
  simulate::SimulationInputs inputs = inputs_of(64, 512);
  inputs.config.buckets.overlap = false;
  inputs.config.buckets.by = trainer::contract::BucketPolicy::One;
  const simulate::Simulation result = simulate::simulate_steps(inputs);
  const double bytes =
      4.0 *
      static_cast<double>(trainer::contract::make_tensor_table(inputs.config.model).arena_size);
  EXPECT_NEAR(result.mean.exposed, 50e-6 + bytes / 100e9, 1e-3 * result.mean.exposed);
  inputs.gradient_bytes = 2;
  EXPECT_NEAR(simulate::simulate_steps(inputs).mean.exposed, 50e-6 + bytes / 2 / 100e9,
              1e-3 * result.mean.exposed);
}

TEST(Simulation, SamplesOfOneLengthAreEven) {
  simulate::SimulationInputs inputs = inputs_of(64, 512);
  inputs.lengths = all_of(100);
  const simulate::Simulation even = simulate::simulate_steps(inputs);
  EXPECT_EQ(even.mean.imbalance, 0);
  EXPECT_DOUBLE_EQ(even.token_imbalance, 1);
  EXPECT_NEAR(even.step_p5, even.step_p95, 1e-15);
  inputs.config.batch_size = 513;  // one rank has a sample more than the 8 of the others
  const simulate::Simulation odd = simulate::simulate_steps(inputs);
  EXPECT_NEAR(odd.token_imbalance, 9.0 / (513.0 / 64), 1e-9);
  EXPECT_GT(odd.mean.imbalance, 0);
}

// What `regatta-train bench balance` has for 8 ranks of 56 samples (trainer/README.md).
TEST(Simulation, BalancesAsTheTrainer) {
  struct Row {
    trainer::contract::Balance strategy;
    trainer::contract::Deal deal;
    double tokens;
  };
  const Row rows[] = {
      {trainer::contract::Balance::None, trainer::contract::Deal::Stride, 1.1408},
      {trainer::contract::Balance::Stratified, trainer::contract::Deal::Snake, 1.0013},
      {trainer::contract::Balance::GlobalPresort, trainer::contract::Deal::Stride, 1.0155},
      {trainer::contract::Balance::GlobalPresort, trainer::contract::Deal::LongestFirst, 1.0001},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.tokens);
    simulate::SimulationInputs inputs = inputs_of(8, 8 * 56);
    inputs.config.balance.strategy = row.strategy;
    inputs.config.balance.deal = row.deal;
    inputs.steps = 200;
    const simulate::Simulation result = simulate::simulate_steps(inputs);
    expect_adds_up(result);
    EXPECT_NEAR(result.token_imbalance - 1, row.tokens - 1, 0.1 * (row.tokens - 1) + 1e-4);
  }
}

TEST(Simulation, DoublingRanksWithTheSameBatchHalvesTheWorkNotTheSums) {
  simulate::SimulationInputs inputs = inputs_of(32, 1024);
  inputs.lengths = all_of(128);
  const simulate::Simulation few = simulate::simulate_steps(inputs);
  inputs.config.ranks = 64;
  const simulate::Simulation many = simulate::simulate_steps(inputs);
  EXPECT_NEAR(many.mean.compute, few.mean.compute / 2, 1e-3 * few.mean.compute);
  EXPECT_GE(many.mean.exposed, few.mean.exposed);
  EXPECT_GT(many.samples_per_second, few.samples_per_second);
  EXPECT_LT(many.samples_per_second, 2 * few.samples_per_second);
  // Twice the ranks with twice the batch have the same step.
  inputs.config.batch_size = 2048;
  EXPECT_NEAR(simulate::simulate_steps(inputs).mean.step, few.mean.step, 1e-9 * few.mean.step);
}

TEST(Simulation, ShardedStateShrinksTheTailAndGathers) {
  simulate::SimulationInputs inputs = inputs_of(64, 512);
  inputs.compute.memory_bytes_per_second = 1e12;
  const simulate::Simulation whole = simulate::simulate_steps(inputs);
  EXPECT_EQ(whole.mean.gather, 0);
  inputs.config.sharding.optimizer = true;
  inputs.config.sharding.overlap_gather = false;
  const simulate::Simulation sharded = simulate::simulate_steps(inputs);
  expect_adds_up(sharded);
  EXPECT_NEAR(sharded.mean.tail, whole.mean.tail / 64, 1e-9);
  const double bytes =
      4.0 *
      static_cast<double>(trainer::contract::make_tensor_table(inputs.config.model).arena_size);
  EXPECT_NEAR(sharded.mean.gather, 50e-6 + bytes / 200e9, 1e-9);
  inputs.config.sharding.overlap_gather = true;
  EXPECT_LT(simulate::simulate_steps(inputs).mean.gather, sharded.mean.gather);
}

TEST(Simulation, OverheadAndPaddingCostWhatTheyAre) {
  simulate::SimulationInputs inputs = inputs_of(8, 64);
  const simulate::Simulation plain = simulate::simulate_steps(inputs);
  inputs.overhead_seconds = 0.25;
  const simulate::Simulation slow = simulate::simulate_steps(inputs);
  EXPECT_NEAR(slow.mean.step - plain.mean.step, 0.25, 1e-12);
  expect_adds_up(slow);
  inputs.layout = simulate::RowLayout::Padded;
  const simulate::Simulation padded = simulate::simulate_steps(inputs);
  EXPECT_GT(padded.mean.compute / plain.mean.compute, 512 / 255.3);  // and attention by more
  EXPECT_LT(padded.mean.imbalance, 1e-4 * padded.mean.compute);      // of masked places
  inputs.layout = simulate::RowLayout::Packed;
  EXPECT_NEAR(simulate::simulate_steps(inputs).mean.compute / plain.mean.compute, 1, 0.02);
}

// Ranks that share the optimizer, whatever the run file says: each updates its part of the weights,
// and all of them are gathered.
TEST(Simulation, OptimizerPartsShareTheTail) {
  simulate::SimulationInputs inputs = inputs_of(64, 512);
  inputs.compute.memory_bytes_per_second = 1e12;
  inputs.overhead_seconds = 0.25;
  const simulate::Simulation whole = simulate::simulate_steps(inputs);
  inputs.optimizer_parts = 8;
  const simulate::Simulation parts = simulate::simulate_steps(inputs);
  expect_adds_up(parts);
  EXPECT_NEAR(parts.mean.tail, whole.mean.tail / 8, 1e-12);
  EXPECT_NEAR(parts.mean.overhead, 0.25, 1e-12);
  const double bytes =
      4.0 *
      static_cast<double>(trainer::contract::make_tensor_table(inputs.config.model).arena_size);
  EXPECT_NEAR(parts.mean.gather, 50e-6 + bytes / 200e9, 1e-9);
}

TEST(Simulation, BucketsFollowTheRunFile) {
  const auto ends = [](trainer::contract::BucketPolicy by, int gradient_bytes) {
    simulate::SimulationInputs inputs = inputs_of(8, 64);
    inputs.config.buckets.by = by;
    inputs.config.buckets.bytes = 50'000'000;
    inputs.gradient_bytes = gradient_bytes;
    inputs.steps = 1;
    std::vector<int> all;
    const simulate::Simulation result = simulate::simulate_steps(inputs);
    for (const topology::plan::Bucket& bucket : result.plan.buckets) {
      all.push_back(bucket.end_tensor);
    }
    return all;
  };
  EXPECT_EQ(ends(trainer::contract::BucketPolicy::One, 4).size(), 1U);
  EXPECT_EQ(ends(trainer::contract::BucketPolicy::PerLayer, 4).size(), 1U + 12 + 1)
      << "heads, embeddings";
  // The run file's bytes are of float32: halves are cut at the same tensors.
  const std::vector<int> cut = ends(trainer::contract::BucketPolicy::Bytes, 4);
  EXPECT_GT(cut.size(), 438e6 / 50e6) << "438 MB of gradients";
  EXPECT_EQ(ends(trainer::contract::BucketPolicy::Bytes, 2), cut);
}

// The n-th step is what n steps take longer than n - 1.
TEST(Simulation, PercentilesAreOfItsSteps) {
  simulate::SimulationInputs inputs = inputs_of(8, 64);
  inputs.config.balance.strategy = trainer::contract::Balance::None;
  std::vector<double> steps;
  double before = 0;
  simulate::Simulation result;
  for (inputs.steps = 1; inputs.steps <= 21; ++inputs.steps) {
    result = simulate::simulate_steps(inputs);
    steps.push_back(result.mean.step * inputs.steps - before);
    before = result.mean.step * inputs.steps;
  }
  std::sort(steps.begin(), steps.end());
  EXPECT_NEAR(result.step_p5, steps[1], 1e-9 * steps[1]);
  EXPECT_NEAR(result.step_p95, steps[19], 1e-9 * steps[19]);
  EXPECT_LT(steps[1], 0.99 * steps[19]) << "or they tell nothing apart";
}

// 30 samples of 8 tokens on each of 4 ranks, 10 at a time: a third of their training's FLOPs.
TEST(Simulation, AnEvaluationIsForwardOfEachRanksSamples) {
  simulate::SimulationInputs inputs = inputs_of(4, 64);
  inputs.lengths = all_of(8);
  inputs.config.evaluate_samples = 120;
  inputs.config.micro_batch_size = 10;
  const double flops = trainer::contract::training_flops(inputs.config.model, {30, 240, 1920, 36});
  const double expected = flops / 3 / 150e12;
  EXPECT_NEAR(simulate::simulate_steps(inputs).evaluation_seconds, expected, 0.005 * expected);
  inputs.evaluation_batch = 30;
  EXPECT_NEAR(simulate::simulate_steps(inputs).evaluation_seconds, expected, 0.005 * expected);
}

// Two ranks that get every second of 128 samples: their sums differ by a normal variable of
// deviation σ·√128, whose mean size is √(2/π) of it; the larger has half of that above the mean.
TEST(Simulation, DrawsEachSampleOnItsOwn) {
  simulate::SimulationInputs inputs = inputs_of(2, 128);
  inputs.config.balance.strategy = trainer::contract::Balance::None;
  inputs.network = plan::no_network();
  inputs.steps = 2000;
  constexpr int kPoints = 65536;
  double sum = 0, squares = 0;
  for (int i = 0; i < kPoints; ++i) {
    const auto length = static_cast<double>(inputs.lengths.quantile((i + 0.5) / kPoints));
    sum += length / kPoints;
    squares += length * length / kPoints;
  }
  const double deviation = std::sqrt((squares - sum * sum) * 128);
  const double expected = std::sqrt(2 / std::acos(-1.0)) * deviation / 2 / (64 * sum);
  // |N| has a deviation of 0.756 of its mean.
  EXPECT_NEAR((simulate::simulate_steps(inputs).token_imbalance - 1) / expected, 1,
              4 * 0.756 / std::sqrt(inputs.steps));
}

TEST(StepModel, IsOfTheDeviceAndTheRunFile) {
  const plan::DeviceFigures* const h100 = plan::device_figures("NVIDIA H100 80GB HBM3");
  ASSERT_NE(h100, nullptr);
  trainer::contract::RunConfig config = inputs_of(8, 64).config;
  config.dtype = trainer::contract::Precision::BFloat16;
  plan::StepModel model = plan::step_model(config, "H100", h100, 1, {});
  EXPECT_EQ(model.overhead_seconds, 0) << "what a step takes beside the rest is between nodes";
  EXPECT_EQ(model.compute.peak_flops, 989e12);
  EXPECT_NEAR(model.compute.memory_bytes_per_second, 0.77 * 3.35e12, 1);
  EXPECT_EQ(model.compute.bytes_of_element, 2);
  EXPECT_TRUE(model.share.fitted);
  model = plan::step_model(config, "H100", h100, 2, {});
  EXPECT_EQ(model.overhead_seconds, 0.009);
  EXPECT_EQ(plan::step_model(config, "H100", h100, 2, {{}, 0.5}).overhead_seconds, 0.5);
  config.peak_tflops = 500;
  model = plan::step_model(config, "H100", h100, 1, {});
  EXPECT_EQ(model.compute.peak_flops, 500e12);
  EXPECT_FALSE(model.share.fitted) << "of that peak nothing was published";
  EXPECT_EQ(plan::step_model(config, "H100", h100, 1, {0.4, {}}).compute.efficiency, 0.4);
  config.peak_tflops = 0;
  config.dtype = trainer::contract::Precision::Float32;
  EXPECT_EQ(plan::step_model(config, "H100", h100, 1, {}).compute.bytes_of_element, 4);
}

TEST(Simulation, ASeedDecidesEverything) {
  simulate::SimulationInputs inputs = inputs_of(64, 256);
  inputs.config.balance.strategy = trainer::contract::Balance::None;
  const simulate::Simulation first = simulate::simulate_steps(inputs),
                             again = simulate::simulate_steps(inputs);
  EXPECT_EQ(first.mean.step, again.mean.step);
  EXPECT_EQ(first.step_p95, again.step_p95);
  EXPECT_EQ(first.token_imbalance, again.token_imbalance);
  inputs.config.seed = 2;
  const simulate::Simulation other = simulate::simulate_steps(inputs);
  EXPECT_NE(first.mean.step, other.mean.step);
  EXPECT_NEAR(first.mean.step, other.mean.step, 0.05 * first.mean.step);
}

TEST(Simulation, RefusesWhatCannotBe) {
  struct Row {
    const char* name;
    void (*spoil)(simulate::SimulationInputs*);
    const char* message;
  };
  const Row rows[] = {
      {"fewer samples than ranks", [](auto* in) { in->config.batch_size = 7; }, "too small for 8"},
      {"longer than the row", [](auto* in) { in->config.data.max_length = 100; }, "of 100"},
      {"no steps", [](auto* in) { in->steps = 0; }, "no steps"},
      {"no peak", [](auto* in) { in->compute.peak_flops = 0; }, "peak_tflops"},
      {"no vocabulary", [](auto* in) { in->config.model.vocabulary = 0; }, "model.vocabulary"},
      {"no efficiency", [](auto* in) { in->compute.efficiency = 0; }, "an efficiency of 0"},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    simulate::SimulationInputs inputs = inputs_of(8, 64);
    row.spoil(&inputs);
    try {
      (void)simulate::simulate_steps(inputs);
      ADD_FAILURE() << "accepted";
    } catch (const base::Error& error) {
      EXPECT_EQ(error.code(), base::Code::User);
      EXPECT_THAT(error.what(), HasSubstr(row.message));
    }
  }
}

TEST(Simulation, AThousandNodesInSeconds) {
  simulate::SimulationInputs inputs = inputs_of(8192, 4 * 8192);
  inputs.steps = 1000;
  const std::clock_t begun = std::clock();
  const simulate::Simulation result = simulate::simulate_steps(inputs);
  std::printf("1,024 nodes of 8, 4 samples a rank, 1,000 steps: %.2f s of processor time\n",
              static_cast<double>(std::clock() - begun) / CLOCKS_PER_SEC);
  expect_adds_up(result);
}

TEST(ComputeModel, FewTokensLeaveADeviceIdle) {
  const trainer::contract::ModelShape large = trainer::contract::preset_shape("large");
  EXPECT_EQ(plan::fill_of(large, 1024, 0).forward, 1);
  double before = 0;
  for (const double tokens : {128.0, 512.0, 2048.0, 32768.0}) {
    const plan::Fill fill = plan::fill_of(large, tokens, 132);
    EXPECT_GT(fill.forward, before);
    EXPECT_LE(fill.forward, 1);
    EXPECT_LE(fill.backward, 1);
    before = fill.forward;
  }
  // By hand, 1,024 tokens on 132: query/key/value 8 x 24 tiles in 2 waves, projection 8 x 8 in one,
  // feed-forward 8 x 32 in 2, back 8 x 8 in one, or its 4,096 terms cut in two: 128 pieces in one.
  const double time = 3.0 * 264 / 192 + 1.0 * 132 / 64 + 4.0 * 264 / 256 + 4.0 * 132 / 128;
  EXPECT_NEAR(plan::fill_of(large, 1024, 132).forward, 12 / time, 1e-9);
}

simulate::RunForecastInputs forecast_inputs() {
  simulate::RunForecastInputs inputs;
  inputs.step_seconds = 0.5;
  inputs.batch = 10;
  inputs.samples = 100'000;  // 10,000 steps
  inputs.evaluate_every = 100;
  inputs.evaluation_seconds = 2;
  inputs.checkpoint_every = 200;
  inputs.checkpoint_seconds = 3;
  inputs.restart_seconds = 60;
  return inputs;
}

TEST(RunForecast, WithoutFailuresIsASum) {
  const simulate::RunForecast forecast = simulate::forecast_run(forecast_inputs());
  const double seconds = 10'000 * 0.5 + 100 * 2.0 + 49 * 3.0;
  EXPECT_NEAR(forecast.seconds.mean, seconds, 1e-6);
  EXPECT_EQ(forecast.seconds.p5, forecast.seconds.p95);
  EXPECT_EQ(forecast.failures, 0);
  EXPECT_EQ(forecast.lost_seconds, 0);
  EXPECT_NEAR(forecast.steps.p50, 10'000, 1e-9);
}

TEST(RunForecast, TheTargetIsMetAtAnEvaluation) {
  simulate::RunForecastInputs inputs = forecast_inputs();
  inputs.samples = 100'001;
  EXPECT_NEAR(simulate::forecast_run(inputs).steps.p50, 10'100, 1e-9);
  inputs.samples = 0;
  EXPECT_NEAR(simulate::forecast_run(inputs).steps.p50, 100, 1e-9);
}

// An interval of D seconds takes (1/rate + restart)(e^(rate D) - 1) on average.
TEST(RunForecast, LosesWhatExponentialFailuresCost) {
  for (const double failures_of_interval : {0.01, 0.3, 1.5}) {
    SCOPED_TRACE(failures_of_interval);
    simulate::RunForecastInputs inputs = forecast_inputs();
    inputs.runs = 2000;
    const double interval = 200 * 0.5 + 2 * 2 + 3.0, last = interval - 3;
    const double rate = failures_of_interval / interval;
    inputs.failures_per_second = rate;
    const auto expected = [&](double seconds) {
      return (1 / rate + inputs.restart_seconds) * std::expm1(rate * seconds);
    };
    const double mean = 49 * expected(interval) + expected(last);
    const simulate::RunForecast forecast = simulate::forecast_run(inputs);
    // 100,000 intervals; the deviation of one is below twice its mean.
    EXPECT_NEAR(forecast.seconds.mean / mean, 1, 4 * 2 / std::sqrt(2000.0 * 50));
    const double failures = 49 * std::expm1(rate * interval) + std::expm1(rate * last);
    EXPECT_NEAR(forecast.failures / failures, 1, 4 * 3 / std::sqrt(2000 * failures));
    EXPECT_NEAR(forecast.seconds.mean,
                forecast.step_seconds + forecast.evaluation_seconds + forecast.checkpoint_seconds +
                    forecast.lost_seconds + forecast.restart_seconds,
                1e-6 * mean);
    EXPECT_LT(forecast.seconds.p5, forecast.seconds.p95);
  }
}

TEST(RunForecast, SamplesVaryFromRunToRun) {
  simulate::RunForecastInputs inputs = forecast_inputs();
  inputs.evaluate_every = 1;
  inputs.evaluation_seconds = 0;
  inputs.samples_deviation = 5000;
  inputs.runs = 4000;
  const simulate::RunForecast forecast = simulate::forecast_run(inputs);
  EXPECT_NEAR(forecast.steps.mean, 10'000, 4 * 500 / std::sqrt(4000.0));
  EXPECT_NEAR(forecast.steps.p95 - forecast.steps.p5, 2 * 1.645 * 500, 120);
  const simulate::RunForecast again = simulate::forecast_run(inputs);
  EXPECT_EQ(forecast.seconds.p95, again.seconds.p95);
  inputs.seed = 2;
  EXPECT_NE(forecast.seconds.p95, simulate::forecast_run(inputs).seconds.p95);
}

TEST(RunForecast, RefusesWhatCannotBe) {
  struct Row {
    const char* name;
    void (*spoil)(simulate::RunForecastInputs*);
    const char* message;
  };
  const Row rows[] = {
      {"no number", [](auto* in) { in->step_seconds = std::nan(""); }, "a figure of nan"},
      {"negative", [](auto* in) { in->restart_seconds = -1; }, "a figure of -1"},
      {"endless", [](auto* in) { in->samples = 1e300; }, "too many steps"},
      {"too many failures", [](auto* in) { in->failures_per_second = 1; }, "more often"},
      {"too many checkpoints",
       [](auto* in) {
         in->samples = 1e9;
         in->failures_per_second = 1e-9;
         in->checkpoint_every = 1;
       },
       "raise checkpoint.every"},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    simulate::RunForecastInputs inputs = forecast_inputs();
    row.spoil(&inputs);
    try {
      (void)simulate::forecast_run(inputs);
      ADD_FAILURE() << "accepted";
    } catch (const base::Error& error) {
      EXPECT_EQ(error.code(), base::Code::User);
      EXPECT_THAT(error.what(), HasSubstr(row.message));
    }
  }
}

// Young's interval is near the best one, by the exact expectation.
TEST(RunForecast, YoungsIntervalIsNearTheBest) {
  const double rate = 1e-4, cost = 10;
  const double best = simulate::best_checkpoint_interval(cost, rate);
  EXPECT_NEAR(best, std::sqrt(2 * 10 / 1e-4), 1e-9);
  const auto wasted = [&](double interval) {
    return std::expm1(rate * (interval + cost)) / rate / interval - 1;
  };
  for (const double times : {0.5, 0.8, 1.25, 2.0}) EXPECT_LT(wasted(best), wasted(best * times));
}

simulate::SimulationReport report_of(int runs) {
  simulate::SimulationReport report;
  report.title = "demo: BERT 12 x 768 on nodes of 8 \x1b[31mGPU";
  report.peak_flops = 300e12;
  report.share = {0.5, 0.5, 0.5, true, "as told"};
  report.notes = {"a note"};
  for (int i = 0; i < runs; ++i) {
    simulate::SimulatedRun run;
    run.nodes = 1 << i;
    simulate::Simulation& of = run.simulation;
    of.ranks = 8 << i;
    of.batch = 512;
    of.mean = {0.1 / (1 << i), 0.001, 0.002, 0.003, 0, 0.004, 0.1 / (1 << i) + 0.01};
    of.samples_per_second = of.batch / of.mean.step;
    of.model_flops_per_second = 150e12 * 0.1 / (1 << i) / of.mean.step;
    simulate::RunForecast& whole = run.forecast;
    whole.seconds = {1000, 900, 990, 1100};
    whole.step_seconds = 800;
    whole.evaluation_seconds = 100;
    whole.lost_seconds = 60;
    whole.restart_seconds = 40;
    whole.failures = 1.5;
    report.runs.push_back(run);
  }
  return report;
}

TEST(SimulationText, IsATable) {
  EXPECT_EQ(simulate::simulation_text(report_of(2)),
            "demo: BERT 12 x 768 on nodes of 8 \\x1b[31mGPU\n"
            "share of the peak 50 %: as told\n"
            "\n"
            " nodes  ranks    each "
            "| step, ms   compute  uneven  exposed  optim.  gather  other "
            "| samples/s scale %  MFU %\n"
            "     1      8    64.0 "
            "|   110.00    100.00    1.00     2.00    3.00    0.00   4.00 "
            "|      4655   100.0   45.5\n"
            "     2     16    32.0 "
            "|    60.00     50.00    1.00     2.00    3.00    0.00   4.00 "
            "|      8533    91.7   41.7\n"
            "\n"
            " nodes time to target      5 % below      5 % above "
            "|steps, %  eval.  ckpt.   lost restarts "
            "| failures\n"
            "     1    16 min 30 s    15 min 00 s    18 min 20 s "
            "|    80.0   10.0    0.0    6.0      4.0 "
            "|     1.50\n"
            "     2    16 min 30 s    15 min 00 s    18 min 20 s "
            "|    80.0   10.0    0.0    6.0      4.0 "
            "|     1.50\n"
            "\n"
            "- a note\n");
}

TEST(SimulationText, BeginsWithWhatIsNotFitted) {
  simulate::SimulationReport report = report_of(2);
  report.share = {0.6, 0.4, 0.69, false, "nobody knows"};
  report.runs[0].samples_range = simulate::SamplesRange{3000, 5000};
  report.runs[1].samples_range = simulate::SamplesRange{6000, 9000};
  EXPECT_THAT(
      simulate::simulation_text(report),
      HasSubstr("GPU\nNOT FITTED: nobody knows. Taken 60 %, so samples/s may be 3000 to 5000 "
                "on 1 node, 6000 to 9000 on 2 nodes; measure it, and give --efficiency\n"));
}

TEST(SimulationText, JsonHasTheSame) {
  const std::string text = simulate::simulation_json(report_of(2));
  EXPECT_THAT(text, HasSubstr("\"scaling\": 0.9166"));
  EXPECT_THAT(text, HasSubstr("\"imbalance_seconds\": 0.001"));
  EXPECT_THAT(text, HasSubstr("\"failures\": 1.5"));
  EXPECT_THAT(text, HasSubstr("\\u001b"));
}

}  // namespace
}  // namespace regatta::orchestrator
