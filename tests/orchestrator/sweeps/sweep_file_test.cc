#include "orchestrator/sweeps/sweep_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"
#include "base/json.h"

namespace regatta::orchestrator::sweeps {
namespace {

using testing::HasSubstr;
using trainer::contract::RunConfig;

constexpr const char* kBegin = R"(name: rates
steps: 700
data: {path: /data}
batch: {size: 64}
evaluate: {every: 50}
checkpoint: {every: 100}
)";
constexpr const char* kAsha = R"(
sweep:
  method: asha
  trials: 9
  objective: {direction: maximize}
  budget: {unit: samples, min: 640, max: 5760, factor: 3}
  parameters:
    batch.size: {kind: choice, values: [16, 64, 100]}
    optimizer.name: {kind: choice, values: [adamw, lamb]}
    optimizer.learning_rate: {kind: log_uniform, low: 1.0e-5, high: 1.0e-2}
    optimizer.beta2: {kind: uniform, low: 0.9, high: 0.999, when: {optimizer.name: [adamw]}}
)";

SweepFile read(const std::string& text) { return parse_sweep_file(text, "run.yaml"); }

std::string problem_of(const std::string& text) {
  try {
    check_trials(read(text), 100);
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), base::Code::User);
    return error.what();
  }
  return "";
}

std::string with(const std::string& objective, const std::string& parameters,
                 const std::string& more = "") {
  return kBegin + more + "\nsweep:\n  method: random\n  trials: 40\n  objective: " + objective +
         "\n  parameters:\n    " + parameters + "\n";
}

constexpr const char* kRates = "optimizer.learning_rate: {kind: uniform, low: 0.1, high: 0.2}";

TEST(SweepFile, ReadsBothAndIsReadBack) {
  const SweepFile file = read(std::string(kBegin) + kAsha);
  EXPECT_EQ(file.run.name, "rates");
  EXPECT_EQ(file.run.steps, 700);
  EXPECT_EQ(file.sweep.settings.trials, 9);
  const std::string text = to_json(file);
  EXPECT_EQ(to_json(read(text)), text);
  // All that a section may say, with conditions, points and integers.
  const SweepFile grid = read(std::string(kBegin) + R"(
sweep:
  method: grid
  concurrency: 3
  seed: 18446744073709551615
  objective: {kind: time_to_accuracy}
  budget: {max: 50}
  parameters:
    batch.size: {kind: integer, low: 8, high: 512, log: true, points: 3}
    graphs: {kind: choice, values: [true, false]}
    clip.norm: {kind: uniform, low: 0.5, high: 2, points: 2, when: {graphs: [true]}}
target: {value: 0.5}
)");
  EXPECT_EQ(grid.sweep.settings.trials, 9);
  EXPECT_EQ(to_json(read(to_json(grid))), to_json(grid));
  EXPECT_EQ(read(to_json(grid)).sweep.settings.seed, 18446744073709551615U);
}

TEST(SweepFile, ValuesGoThereAndBack) {
  const SweepValues values{{"a", true}, {"b", std::int64_t{7}}, {"c", 1e-5}, {"d", "lamb"}};
  const SweepValues back = values_from(values_json(values));
  ASSERT_EQ(back.size(), 4U);
  for (const auto& [key, value] : values) EXPECT_TRUE(same_value(back.at(key), value)) << key;
  EXPECT_THROW((void)values_from({{"a", nlohmann::ordered_json::array()}}), base::Error);
}

TEST(SweepFile, WhatContradictsTheRunIsSaid) {
  EXPECT_EQ(problem_of(with("{direction: maximize}", kRates)), "");
  EXPECT_THAT(problem_of(with("{direction: minimize}", kRates)),
              HasSubstr("sweep.objective.direction: mlm_accuracy is better the higher it is"));
  EXPECT_THAT(
      problem_of(with("{direction: maximize}", kRates, "target: {metric: mlm_loss, value: 2}")),
      HasSubstr("mlm_loss is better the lower it is; use minimize"));
  EXPECT_THAT(problem_of(with("{kind: time_to_accuracy}", kRates)), HasSubstr("add a target"));
  EXPECT_EQ(problem_of(with("{kind: time_to_accuracy}", kRates, "target: {value: 0.5}")), "");
  EXPECT_THAT(problem_of(with("{kind: goodput}", kRates, "statistics: {every: 0}")),
              HasSubstr("set statistics.every above 0"));
  EXPECT_EQ(problem_of(with("{kind: goodput}", kRates)), "");
  // A value that no trial may have is found before anything runs, with the trial that has it.
  const std::string heads =
      problem_of(with("{direction: maximize}", "model.heads: {kind: choice, values: [2, 5]}",
                      "model: {hidden: 128}"));
  EXPECT_THAT(heads, testing::StartsWith("trial "));
  EXPECT_THAT(heads, HasSubstr("(model.heads 5)"));
  // Both readers speak of the file.
  EXPECT_THAT(problem_of(with("{direction: maximize}", "batch.sise: {kind: integer}")),
              testing::AllOf(HasSubstr("run.yaml:"), HasSubstr("did you mean 'batch.size'?")));
  EXPECT_THAT(problem_of(with("{direction: maximize}", kRates, "stepps: 4")),
              HasSubstr("did you mean 'steps'?"));
  const std::string steps =
      std::string(kBegin) + kAsha + "    steps: {kind: integer, low: 1, high: 9}\n";
  EXPECT_THAT(problem_of(steps), HasSubstr("how far a trial trains is the sweep's budget"));
  for (const char* const judged :
       {"target.metric: {kind: choice, values: [mlm_loss, mlm_accuracy]}",
        "target.value: {kind: uniform, low: 0.1, high: 0.2}",
        "task: {kind: choice, values: [pretraining, classification]}"}) {
    EXPECT_THAT(problem_of(with("{direction: maximize}", judged, "target: {value: 0.5}")),
                HasSubstr("trials are judged by it"));
  }
  EXPECT_THAT(heads, testing::Not(HasSubstr(":1:"))) << "a line of no file";
  // With the line where it stands, also where only both readers together know it.
  const auto line = [](const std::string& text, const std::string& key) {
    return "run.yaml:" +
           std::to_string(std::count(text.begin(),
                                     text.begin() + static_cast<std::ptrdiff_t>(text.find(key)),
                                     '\n') +
                          1) +
           ": ";
  };
  for (const auto& [text, key] :
       {std::pair(with("{direction: maximize}", "task: {kind: choice, values: [pretraining]}"),
                  "task:"),
        std::pair(with("{direction: maximize}", "target.value: {kind: uniform, low: 0.1, high: 1}"),
                  "target.value:"),
        std::pair(steps, "steps: {"),
        std::pair(with("{direction: minimize}", kRates), "objective:"),
        std::pair(with("{kind: time_to_accuracy}", kRates), "objective:")}) {
    EXPECT_THAT(problem_of(text), testing::StartsWith(line(text, key))) << text;
  }
  // A run file with a sweep is no run.
  try {
    (void)trainer::contract::parse_run_config(std::string(kBegin) + kAsha, "run.yaml");
    FAIL();
  } catch (const base::Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("regatta sweep submit"));
  }
}

TEST(SweepFile, ATrialIsTheCommonRunWithItsValues) {
  const SweepFile file = read(std::string(kBegin) + kAsha);
  const SweepValues values{{"batch.size", std::int64_t{100}},
                           {"optimizer.name", "adamw"},
                           {"optimizer.learning_rate", 0.003},
                           {"optimizer.beta2", 0.95}};
  const RunConfig trial = trial_config(file, {12, values, 1920});
  EXPECT_EQ(trial.name, "rates-t12");
  EXPECT_EQ(trial.batch_size, 100);
  EXPECT_EQ(trial.optimizer.learning_rate, 0.003);
  EXPECT_EQ(trial.optimizer.beta2, 0.95);
  EXPECT_EQ(trial.data.path, "/data");
  // 1,920 samples are 19.2 batches of 100; the last rung's 5,760 are 57.6.
  EXPECT_EQ(trial.steps, 20);
  EXPECT_EQ(trial.optimizer.decay_steps, 58);
  // Every 50 steps of 64 are every 32 of 100.
  EXPECT_EQ(trial.evaluate_every, 32);
  EXPECT_EQ(trial.checkpoint_every, 64);
  // Promoted, nothing else of it is another.
  RunConfig promoted = trial_config(file, {12, values, 5760});
  EXPECT_EQ(promoted.steps, 58);
  promoted.steps = trial.steps;
  EXPECT_EQ(trainer::contract::to_json(promoted), trainer::contract::to_json(trial));
  // Of the common batch, the common intervals.
  SweepValues common = values;
  common["batch.size"] = std::int64_t{64};
  EXPECT_EQ(trial_config(file, {1, common, 640}).evaluate_every, 50);
  EXPECT_EQ(trial_config(file, {1, common, 640}).steps, 10);
}

TEST(SweepFile, WithoutABudgetATrialIsAsLongAsItsFile) {
  const SweepFile file = read(with("{direction: maximize}", kRates));
  const RunConfig trial = trial_config(file, {1, {{"optimizer.learning_rate", 0.1}}, 0});
  EXPECT_EQ(trial.steps, 700);
  EXPECT_EQ(trial.optimizer.decay_steps, 0);
  EXPECT_EQ(steps_of(file.run, BudgetUnit::Samples, 0), 700);
  // A rate that ends by itself is left alone.
  const SweepFile decays = read(std::string(kBegin) + "optimizer: {decay_steps: 30}\n" + kAsha);
  EXPECT_EQ(trial_config(decays, {1, {}, 640}).optimizer.decay_steps, 30);
}

TEST(SweepFile, PathsAreChangedWithTheConditionsOnThem) {
  SweepFile file = read(with("{direction: maximize}",
                             "data.path: {kind: choice, values: [a, 7]}\n"
                             "    optimizer.name: {kind: choice, values: [adamw, lamb]}\n"
                             "    seed: {kind: integer, low: 1, high: 5, when: {data.path: a}}"));
  change_paths(&file.sweep, [](const std::string& key, const std::string& path) {
    EXPECT_EQ(key, "data.path");
    return "/sets/" + path;
  });
  const auto json = sweep_json(file.sweep).at("parameters");
  EXPECT_EQ(json.at("data.path").at("values"), (std::vector<std::string>{"/sets/a", "/sets/7"}));
  EXPECT_EQ(json.at("seed").at("when").at("data.path"), std::vector<std::string>{"/sets/a"});
  EXPECT_EQ(json.at("optimizer.name").at("values"), (std::vector<std::string>{"adamw", "lamb"}));
  EXPECT_THAT(
      problem_of(with("{direction: maximize}", "from.path: {kind: integer, low: 1, high: 3}")),
      HasSubstr("from.path: is a path, which no range has"));
}

TEST(SweepFile, LongNamesKeepTheTrialsNumber) {
  const std::string name(64, 'n');
  SweepFile file = read(with("{direction: maximize}", kRates));
  file.run.name = name;
  const RunConfig trial = trial_config(file, {1234, {}, 0});
  EXPECT_EQ(trial.name, std::string(58, 'n') + "-t1234");
}

}  // namespace
}  // namespace regatta::orchestrator::sweeps
