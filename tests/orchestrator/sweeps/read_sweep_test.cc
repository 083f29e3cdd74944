#include "orchestrator/sweeps/read_sweep.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/error.h"
#include "orchestrator/sweeps/run_file_keys.h"
#include "trainer/contract/run_config.h"

namespace regatta::orchestrator::sweeps {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;

const std::vector<std::string> kKeys{"optimizer.learning_rate",
                                     "optimizer.name",
                                     "optimizer.beta2",
                                     "batch.size",
                                     "steps",
                                     "deterministic"};

Sweep read(const std::string& text) { return parse_sweep(text, "run.yaml", kKeys); }

constexpr const char* kWhole = R"(
name: swept
steps: 2700
sweep:
  method: asha
  trials: 27
  concurrency: 4
  seed: 18446744073709551615
  objective: {kind: metric, direction: maximize}
  budget: {unit: samples, min: 100, max: 2700, factor: 3}
  parameters:
    optimizer.learning_rate: {kind: log_uniform, low: 1.0e-5, high: 1.0e-2, points: 4}
    optimizer.name: {kind: choice, values: [adamw, lamb]}
    optimizer.beta2: {kind: uniform, low: 0.9, high: 0.999, when: {optimizer.name: [adamw]}}
    batch.size: {kind: integer, low: 8, high: 512, log: true, when: {deterministic: true}}
    deterministic: {kind: choice, values: [true, false, 3, 0.5, "7"]}
)";

TEST(ReadSweep, ReadsAllThatTheReadmeShows) {
  const Sweep sweep = read(kWhole);
  const SweepSettings& settings = sweep.settings;
  EXPECT_EQ(settings.method, SweepMethod::Asha);
  EXPECT_EQ(settings.trials, 27);
  EXPECT_EQ(settings.concurrency, 4);
  EXPECT_EQ(settings.seed, 18446744073709551615U);
  EXPECT_EQ(settings.objective, ObjectiveKind::Metric);
  EXPECT_EQ(settings.better, runs::Better::Higher);
  EXPECT_EQ(settings.unit, BudgetUnit::Samples);
  EXPECT_EQ(rung_budgets(settings), (std::vector<std::int64_t>{100, 300, 900, 2700}));
  const auto& parameters = sweep.space.parameters();
  std::vector<std::string> keys;
  for (const SweepParameter& each : parameters) keys.push_back(each.key);
  // Parents first, else by key.
  EXPECT_EQ(keys,
            (std::vector<std::string>{"deterministic", "batch.size", "optimizer.learning_rate",
                                      "optimizer.name", "optimizer.beta2"}));
  EXPECT_EQ(parameters[0].choices,
            (std::vector<SweepValue>{true, false, std::int64_t{3}, 0.5, std::int64_t{7}}));
  EXPECT_EQ(parameters[1].kind, ParameterKind::Integer);
  EXPECT_TRUE(parameters[1].logarithmic);
  EXPECT_EQ(parameters[1].when.at(0).values, (std::vector<SweepValue>{true}));
  EXPECT_EQ(parameters[2].kind, ParameterKind::LogUniform);
  EXPECT_TRUE(parameters[2].logarithmic);
  EXPECT_EQ(parameters[2].low, 1e-5);
  EXPECT_EQ(parameters[2].high, 1e-2);
  EXPECT_EQ(parameters[2].points, 4);
  EXPECT_EQ(parameters[4].kind, ParameterKind::Uniform);
  EXPECT_FALSE(parameters[4].logarithmic);
  EXPECT_EQ(parameters[4].when.at(0).key, "optimizer.name");
}

TEST(ReadSweep, WhatIsLeftOutHasItsDefault) {
  const SweepSettings settings =
      read(
          "sweep: {method: tpe, trials: 5, objective: {direction: minimize}, parameters: "
          "{steps: {kind: integer, low: 1, high: 2}}}")
          .settings;
  EXPECT_EQ(settings.concurrency, 1);
  EXPECT_EQ(settings.seed, 1U);
  EXPECT_EQ(settings.objective, ObjectiveKind::Metric);
  EXPECT_EQ(settings.unit, BudgetUnit::Steps);
  EXPECT_EQ(rung_budgets(settings), (std::vector<std::int64_t>{0}));
}

TEST(ReadSweep, ObjectivesKnowTheirDirection) {
  const auto better = [](const std::string& objective) {
    return read("sweep: {method: random, trials: 5, objective: " + objective +
                ", parameters: {steps: {kind: integer, low: 1, high: 2}}}")
        .settings.better;
  };
  EXPECT_EQ(better("{kind: time_to_accuracy}"), runs::Better::Lower);
  EXPECT_EQ(better("{kind: time_to_accuracy, direction: minimize}"), runs::Better::Lower);
  EXPECT_EQ(better("{kind: goodput}"), runs::Better::Higher);
  EXPECT_EQ(better("{kind: metric, direction: minimize}"), runs::Better::Lower);
}

TEST(ReadSweep, AGridHasAllItsPoints) {
  const auto trials = [](const std::string& more) {
    return read("sweep: {method: grid, objective: {direction: minimize}, " + more +
                "parameters: {steps: {kind: integer, low: 1, high: 3}, batch.size: {kind: "
                "choice, values: [1, 2, 4, 8]}}}")
        .settings.trials;
  };
  EXPECT_EQ(trials(""), 12);
  EXPECT_EQ(trials("trials: 12, "), 12);
}

struct Fault {
  const char* name;
  std::string text;  // of the section, in one line
  const char* key;   // at fault
  const char* says;
};

// With these parameters.
std::string with(const std::string& parameters, const std::string& method = "random") {
  return "{method: " + method + (method == "grid" ? "" : ", trials: 5") +
         ", objective: {direction: minimize}, parameters: {" + parameters + "}}";
}
std::string asha(const std::string& budget, int trials = 100) {
  return "{method: asha, trials: " + std::to_string(trials) +
         ", objective: {direction: minimize}, budget: {" + budget +
         "}, parameters: {steps: {kind: integer, low: 1, high: 2}}}";
}

const std::string kChoice = "optimizer.name: {kind: choice, values: [adamw, lamb]}, ";
const std::string kSteps = "steps: {kind: integer, low: 1, high: 3}, ";

const Fault kFaults[] = {
    {"method", "{trials: 5}", "method", "missing; use grid, random, asha, tpe"},
    {"unknown method", "{method: bayes}", "method", "one of grid, random, asha, tpe"},
    {"trials", "{method: random}", "trials", "missing; set how many"},
    {"no trials", "{method: random, trials: 0}", "trials", "is 0; use 1 to 100000"},
    {"too many", "{method: random, trials: 100001}", "trials", "use 1 to 100000"},
    {"slots", "{method: random, trials: 5, concurrency: 0}", "concurrency", "is 0; use 1"},
    {"seed", "{method: random, trials: 5, seed: -1}", "seed", "whole number of 0"},
    {"objective", "{method: random, trials: 5}", "objective", "missing; set its direction"},
    {"direction", "{method: random, trials: 5, objective: {kind: metric}}", "objective.direction",
     "missing; use minimize"},
    {"budget", "{method: asha, trials: 5, objective: {direction: minimize}}", "budget",
     "missing; asha needs"},
    {"against time",
     "{method: random, trials: 5, objective: {kind: time_to_accuracy, direction: maximize}}",
     "objective.direction", "is wrong for time_to_accuracy, of which less is better"},
    {"against goodput",
     "{method: random, trials: 5, objective: {kind: goodput, direction: minimize}}",
     "objective.direction", "is wrong for goodput, of which more is better"},
    {"unknown objective", "{method: random, trials: 5, objective: {kind: loss}}", "objective.kind",
     "one of metric"},
    {"no parameters", with(""), "parameters", "no parameters"},
    {"a key of none", with("optimiser.name: {kind: choice, values: [a]}"),
     "parameters.optimiser.name", "did you mean 'optimizer.name'?"},
    {"a key like none", with("frobnicate: {kind: choice, values: [a]}"), "parameters.frobnicate",
     "not a key of the run file that a sweep can set; remove it"},
    {"a mapping as key", with("optimizer: {kind: choice, values: [a]}"), "parameters.optimizer",
     "not a key of the run file"},
    {"no mapping", with("steps: 5"), "parameters.steps", "expected a mapping"},
    {"nothing", with("steps: "), "parameters.steps", "expected a mapping"},
    {"kind", with("steps: {low: 1, high: 2}"), "parameters.steps.kind", "missing; use uniform"},
    {"unknown kind", with("steps: {kind: normal}"), "parameters.steps.kind", "one of uniform"},
    {"low", with("steps: {kind: integer, high: 2}"), "parameters.steps.low", "missing"},
    {"high", with("steps: {kind: uniform, low: 2}"), "parameters.steps.high", "missing"},
    {"of another kind", with("steps: {kind: uniform, low: 1, high: 2, values: [1]}"),
     "parameters.steps.values", "unknown key"},
    {"log of uniform", with("steps: {kind: uniform, low: 1, high: 2, log: true}"),
     "parameters.steps.log", "unknown key"},
    {"one point of a range", with("steps: {kind: uniform, low: 2, high: 2}"),
     "parameters.steps.high", "is 2, and low is 2; use a high above low"},
    {"the other way", with("steps: {kind: integer, low: 3, high: 2}"), "parameters.steps.high",
     "is 2, and low is 3"},
    {"endless", with("steps: {kind: uniform, low: -1.0e308, high: 1.0e308}"),
     "parameters.steps.high", "overflows"},
    {"infinite", with("steps: {kind: uniform, low: 1, high: .inf}"), "parameters.steps.high",
     "expected a number"},
    {"parts", with("steps: {kind: integer, low: 1.5, high: 2}"), "parameters.steps.low",
     "expected a whole number"},
    {"beyond doubles", with("steps: {kind: integer, low: 0, high: 9007199254740994}"),
     "parameters.steps.high", "at most 2^53"},
    {"log of zero", with("steps: {kind: log_uniform, low: 0, high: 2}"), "parameters.steps.low",
     "is 0, which has no logarithm"},
    {"log below zero", with("steps: {kind: integer, low: -1, high: 2, log: true}"),
     "parameters.steps.low", "is -1, which has no logarithm"},
    {"one point", with("steps: {kind: uniform, low: 1, high: 2, points: 1}"),
     "parameters.steps.points", "is 1; use 2 to"},
    {"points of zero", with("steps: {kind: uniform, low: 1, high: 2, points: 0}"),
     "parameters.steps.points", "is 0; use 2 to"},
    {"more points than integers", with("steps: {kind: integer, low: 1, high: 3, points: 4}"),
     "parameters.steps.points", "is 4, and the range has 3 integers"},
    {"nothing to choose", with("steps: {kind: choice, values: []}"), "parameters.steps.values",
     "no values"},
    {"no choices", with("steps: {kind: choice}"), "parameters.steps.values", "no values"},
    {"a choice twice", with("steps: {kind: choice, values: [a, b, a]}"), "parameters.steps.values",
     "lists a twice"},
    {"a number twice", with("steps: {kind: choice, values: [1, 2, 1.0]}"),
     "parameters.steps.values", "lists 1 twice"},
    {"a list of choices", with("steps: {kind: choice, values: [[1], 2]}"),
     "parameters.steps.values", "expected a list"},
    {"a condition on nothing",
     with(kSteps + "batch.size: {kind: choice, values: [1], when: "
                   "{step: [1]}}"),
     "parameters.batch.size.when.step", "did you mean 'steps'?"},
    {"a condition on what is not swept",
     with("batch.size: {kind: choice, values: [1], when: {optimizer.name: [lamb]}}"),
     "parameters.batch.size.when.optimizer.name", "not a parameter of the sweep"},
    {"a condition on a range",
     with("steps: {kind: uniform, low: 1, high: 2}, batch.size: {kind: choice, values: [1], "
          "when: {steps: [1]}}"),
     "parameters.batch.size.when.steps", "has a continuous range"},
    {"a condition never met",
     with(kChoice + "batch.size: {kind: choice, values: [1], when: {optimizer.name: [sgd]}}"),
     "parameters.batch.size.when.optimizer.name", "is never sgd; its values are adamw, lamb"},
    {"an integer never met",
     with(kSteps + "batch.size: {kind: choice, values: [1], when: {steps: [1, 4]}}"),
     "parameters.batch.size.when.steps", "is never 4; its values are integers from 1 to 3"},
    {"a part of an integer",
     with(kSteps + "batch.size: {kind: choice, values: [1], when: {steps: 1.5}}"),
     "parameters.batch.size.when.steps", "is never 1.5"},
    {"a condition without values",
     with(kSteps + "batch.size: {kind: choice, values: [1], when: {steps: []}}"),
     "parameters.batch.size.when.steps", "no values"},
    {"a condition with one twice",
     with(kSteps + "batch.size: {kind: choice, values: [1], when: {steps: [1, 1.0]}}"),
     "parameters.batch.size.when.steps", "lists 1 twice"},
    {"a condition on itself", with("steps: {kind: choice, values: [1, 2], when: {steps: [1]}}"),
     "parameters.steps.when.steps", "circular condition (steps needs steps)"},
    {"a circle",
     with("batch.size: {kind: choice, values: [1], when: {steps: [1]}}, steps: {kind: choice, "
          "values: [1], when: {deterministic: [1]}}, deterministic: {kind: choice, values: [1], "
          "when: {batch.size: [1]}}"),
     "parameters.batch.size.when.steps",
     "(batch.size needs steps needs deterministic needs batch.size)"},
    {"beside a circle",
     with("batch.size: {kind: choice, values: [1], when: {steps: [1]}}, steps: {kind: choice, "
          "values: [1], when: {steps: [1]}}"),
     "parameters.steps.when.steps", "circular"},
    {"conditions that exclude each other",
     with(kChoice + "steps: {kind: choice, values: [1, 2], when: {optimizer.name: adamw}}, "
                    "batch.size: {kind: choice, values: [1], when: {optimizer.name: lamb, "
                    "steps: 1}}"),
     "parameters.batch.size.when", "ask for different values of optimizer.name"},
    {"a grid of what is continuous",
     with(kChoice + "optimizer.beta2: {kind: uniform, low: 0, high: 0.5}", "grid"),
     "parameters.optimizer.beta2.points", "missing; a grid needs"},
    {"too large a grid", with("steps: {kind: integer, low: 0, high: 9007199254740992}", "grid"),
     "parameters", "more than 100000 points"},
    {"not all of a grid",
     "{method: grid, trials: 2, objective: {direction: minimize}, parameters: {" + kSteps + "}}",
     "trials", "is 2, and the grid has 3 points"},
    {"rungs of others",
     "{method: random, trials: 5, objective: {direction: minimize}, budget: {min: 1}}",
     "budget.min", "only for method asha"},
    {"a factor of others",
     "{method: tpe, trials: 5, objective: {direction: minimize}, budget: {factor: 3}}",
     "budget.factor", "only for method asha"},
    {"asha without max", asha("min: 1"), "budget.max", "missing; asha needs"},
    {"asha without min", asha("max: 9"), "budget.min", "missing; asha needs"},
    {"min at max", asha("min: 9, max: 9"), "budget.min", "is 9, and max is 9"},
    {"no budget", asha("min: 0, max: 9"), "budget.min", "is 0; use 1"},
    {"factor 1", asha("min: 1, max: 9, factor: 1"), "budget.factor", "is 1; use 2"},
    {"between rungs", asha("min: 100, max: 1000"), "budget.max",
     "is 1000, which is not a rung from 100 by 3; use 900 or 2700"},
    {"below the second rung", asha("min: 100, max: 200"), "budget.max", "use 300"},
    {"too few for the top", asha("min: 1, max: 27", 26), "trials",
     "is 26; for one of them to get from 1 by 3 to 27, use at least 27"},
    {"unit", asha("min: 1, max: 27, unit: hours"), "budget.unit", "one of steps, samples"},
    {"unknown", with(kSteps) + "x", "", "not valid YAML"},
    {"unknown key",
     "{methods: asha, method: random, trials: 5, objective: {direction: minimize}, "
     "parameters: {" +
         kSteps + "}}",
     "methods", "unknown key; did you mean 'method'?"},
};

TEST(ReadSweep, EachContradictionIsOneErrorWithItsKeyAndLine) {
  for (const Fault& fault : kFaults) {
    SCOPED_TRACE(fault.name);
    try {
      (void)read("name: a\nsweep: " + fault.text + "\n");
      ADD_FAILURE() << "was read";
    } catch (const base::Error& error) {
      EXPECT_EQ(error.code(), base::Code::User);
      EXPECT_THAT(error.what(), HasSubstr("run.yaml:2: "));
      EXPECT_THAT(error.what(), HasSubstr(fault.says));
      EXPECT_THAT(error.what(), Not(HasSubstr("\n")));
      const std::string key = *fault.key == 0 ? "" : std::string("sweep.") + fault.key;
      EXPECT_EQ(error.key(), key);
    }
  }
}

TEST(ReadSweep, ARunFileWithoutASectionIsNone) {
  try {
    (void)read("name: a\n");
    FAIL();
  } catch (const base::Error& error) {
    EXPECT_EQ(error.key(), "sweep");
    EXPECT_THAT(error.what(), HasSubstr("missing; add it"));
  }
}

TEST(ReadSweep, LeavesTheOtherKeysToOthers) {
  base::Table root = base::Table::parse(kWhole, "run.yaml");
  (void)read_sweep(root, kKeys);
  EXPECT_THROW(root.finish(), base::Error);  // name and steps were not asked for
  std::string text;
  root.read("name", &text);
  root.read("steps", &text);
  EXPECT_NO_THROW(root.finish());
}

// That every key is one is shown by setting it: the reader of run files refuses unknown keys.
TEST(RunFileKeys, AreKeysOfTheReader) {
  const std::vector<std::string> keys = run_file_keys();
  for (const char* const key : {"optimizer.learning_rate", "optimizer.name", "batch.size", "steps",
                                "seed", "model.layers", "checkpoint.async", "clip.norm"}) {
    EXPECT_THAT(keys, Contains(key));
  }
  for (const char* const key : {"name", "optimizer", "data.mixture", "data", "slurm.environment"}) {
    EXPECT_THAT(keys, Not(Contains(key)));
  }
  EXPECT_GT(keys.size(), 60U);
  for (const std::string& key : keys) {
    std::string text = key + ": \"~\"}";  // every level in braces
    int levels = 1;
    for (std::size_t dot; (dot = text.find('.')) != std::string::npos; ++levels) {
      text.replace(dot, 1, ": {");
    }
    text = "{" + text + std::string(static_cast<std::size_t>(levels) - 1, '}');
    try {
      (void)trainer::contract::parse_run_config(text, "a");
    } catch (const base::Error& error) {
      EXPECT_THAT(error.what(), Not(HasSubstr("unknown key"))) << key;
    }
  }
}

}  // namespace
}  // namespace regatta::orchestrator::sweeps
