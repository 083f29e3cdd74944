#include "orchestrator/sweeps/sweep_file.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "orchestrator/sweeps/draws.h"
#include "orchestrator/sweeps/grid.h"
#include "orchestrator/sweeps/read_sweep.h"
#include "orchestrator/sweeps/run_file_keys.h"

namespace regatta::orchestrator::sweeps {
namespace {

using Json = nlohmann::ordered_json;
using trainer::contract::RunConfig;

constexpr std::size_t kLongestName = 64;  // of a run
constexpr const char* kBatchSize = "batch.size";
constexpr const char* kSteps = "steps";
constexpr const char* kDecaySteps = "optimizer.decay_steps";

bool is_path(const std::string& key) { return key == "data.path" || key == "from.path"; }

// Parts of the file that contradictions are told of with their lines.
struct Places {
  base::Table batch, objective, parameters;
};

Places places_of(base::Table* root) {
  base::Table sweep = root->table("sweep");
  return {root->table("batch"), sweep.table("objective"), sweep.table("parameters")};
}

// What the run must have for the sweep to judge it by.
void check_objective(const SweepFile& file, const base::Table& place) {
  const SweepSettings& settings = file.sweep.settings;
  const std::string& metric = trainer::contract::metric_of(file.run);
  switch (settings.objective) {
    case ObjectiveKind::TimeToAccuracy:
      if (file.run.target) return;
      place.fail("kind", "time_to_accuracy needs something to reach; add a target to the run file");
    case ObjectiveKind::Goodput:
      if (file.run.statistics_every > 0) return;
      place.fail("kind", "goodput needs the noise of the gradient; set statistics.every above 0");
    case ObjectiveKind::Metric: {
      const bool higher = runs::better_of(metric) == runs::Better::Higher;
      if ((settings.better == runs::Better::Higher) == higher) return;
      place.fail("direction", metric + (higher ? " is better the higher it is; use maximize"
                                               : " is better the lower it is; use minimize"));
    }
  }
}

// Keys that the sweep sets itself, from its budget, those that say what trials are judged by, and
// those by which a step would be worth another number of samples within a trial.
void check_parameters(const SweepFile& file, const Places& places) {
  if (trainer::contract::grows(file.run)) {
    places.batch.fail(
        "growth",
        "makes steps of other sizes, and a sweep's budget counts steps or samples of one; leave "
        "it out");
  }
  for (const SweepParameter& each : file.sweep.space.parameters()) {
    const auto refuse = [&](const char* why) { places.parameters.fail(each.key, why); };
    if (each.key == "batch.growth" || each.key == "batch.max_size") {
      refuse(
          "makes steps of other sizes, and a sweep's budget counts steps or samples of one; "
          "remove it");
    }
    if (each.key == "task" || each.key.rfind("target.", 0) == 0) {
      refuse("trials are judged by it, so all need the same; set it in the run file");
    }
    if (each.key == kSteps && file.sweep.settings.max_budget > 0) {
      refuse("how far a trial trains is the sweep's budget; remove one of the two");
    }
    if (is_path(each.key) && each.kind != ParameterKind::Choice) {
      refuse("is a path, which no range has; use kind choice, with values");
    }
  }
}

Json value_json(const SweepValue& value) {
  return std::visit([](const auto& each) { return Json(each); }, value);
}

Json list_json(const std::vector<SweepValue>& values) {
  Json json = Json::array();
  for (const SweepValue& value : values) json.push_back(value_json(value));
  return json;
}

Json parameter_json(const SweepParameter& parameter) {
  Json json{{"kind", kind_names().at(static_cast<std::size_t>(parameter.kind))}};
  if (parameter.kind == ParameterKind::Choice) {
    json["values"] = list_json(parameter.choices);
  } else if (parameter.kind == ParameterKind::Integer) {
    json["low"] = static_cast<std::int64_t>(parameter.low);
    json["high"] = static_cast<std::int64_t>(parameter.high);
    json["log"] = parameter.logarithmic;
  } else {
    json["low"] = parameter.low;
    json["high"] = parameter.high;
  }
  if (parameter.points > 0) json["points"] = parameter.points;
  for (const SweepCondition& each : parameter.when) json["when"][each.key] = list_json(each.values);
  return json;
}

Json budget_json(const SweepSettings& settings) {
  Json json{{"unit", settings.unit == BudgetUnit::Steps ? "steps" : "samples"}};
  const bool asha = settings.method == SweepMethod::Asha;
  if (asha) json["min"] = settings.min_budget;
  if (settings.max_budget > 0) json["max"] = settings.max_budget;
  if (asha) json["factor"] = settings.factor;
  return json;
}

// Puts `value` under "a.b" of nested mappings.
void put(Json* json, const std::string& key, Json value) {
  Json* at = json;
  for (const std::string& part : base::split(key, '.')) at = &(*at)[part];
  *at = std::move(value);
}

std::string words_of(const StartTrial& trial) {
  std::vector<std::string> parts;
  for (const auto& [key, value] : trial.values) parts.push_back(key + " " + as_text(value));
  return "trial " + std::to_string(trial.number) + " (" + base::join(parts, ", ") + ")";
}

std::string name_of_trial(const std::string& name, int number) {
  const std::string end = "-t" + std::to_string(number);
  return name.substr(0, kLongestName - end.size()) + end;
}

// So many steps of the trial's batch as make `steps` of the common one.
std::int64_t same_samples(std::int64_t steps, int common_batch, int batch) {
  const double exact = static_cast<double>(steps) * common_batch / batch;
  return std::max<std::int64_t>(1, std::llround(exact));
}

}  // namespace

SweepFile parse_sweep_file(std::string_view text, const std::string& source) {
  static const std::vector<std::string> keys = run_file_keys();
  SweepFile file;
  std::optional<Places> places;
  file.run = trainer::contract::parse_run_config(text, source, [&](base::Table& root) {
    file.sweep = read_sweep(root, keys);
    places = places_of(&root);
  });
  check_objective(file, places->objective);
  check_parameters(file, *places);
  return file;
}

void change_paths(
    Sweep* sweep,
    const std::function<std::string(const std::string& key, const std::string& path)>& change) {
  std::vector<SweepParameter> parameters = sweep->space.parameters();
  const auto change_all = [&](const std::string& key, std::vector<SweepValue>* values) {
    if (!is_path(key)) return;
    for (SweepValue& each : *values) each = value_of(change(key, as_text(each)));
  };
  for (SweepParameter& parameter : parameters) {
    change_all(parameter.key, &parameter.choices);
    for (SweepCondition& each : parameter.when) change_all(each.key, &each.values);
  }
  sweep->space = Space(std::move(parameters));
}

Json values_json(const SweepValues& values) {
  Json json = Json::object();
  for (const auto& [key, value] : values) json[key] = value_json(value);
  return json;
}

SweepValues values_from(const Json& json) {
  SweepValues values;
  for (const auto& [key, value] : json.items()) {
    if (value.is_boolean()) {
      values[key] = value.get<bool>();
    } else if (value.is_number_integer()) {
      values[key] = value.get<std::int64_t>();
    } else if (value.is_number()) {
      values[key] = value.get<double>();
    } else if (value.is_string()) {
      values[key] = value.get<std::string>();
    } else {
      throw base::Error(base::Code::Operator,
                        "the value of " + base::printable(key) + " is neither number nor word");
    }
  }
  return values;
}

Json sweep_json(const Sweep& sweep) {
  const SweepSettings& settings = sweep.settings;
  Json json{{"method", method_names().at(static_cast<std::size_t>(settings.method))},
            {"trials", settings.trials},
            {"concurrency", settings.concurrency},
            {"seed", settings.seed}};
  json["objective"] = {
      {"kind", objective_names().at(static_cast<std::size_t>(settings.objective))},
      {"direction", settings.better == runs::Better::Higher ? "maximize" : "minimize"}};
  json["budget"] = budget_json(settings);
  json["parameters"] = Json::object();
  for (const SweepParameter& each : sweep.space.parameters()) {
    json["parameters"][each.key] = parameter_json(each);
  }
  return json;
}

std::string to_json(const SweepFile& file) {
  auto json = base::parse_json<Json>(trainer::contract::to_json(file.run));
  json["sweep"] = sweep_json(file.sweep);
  return base::json_text(json, 2) + "\n";
}

std::int64_t steps_of(const RunConfig& run, BudgetUnit unit, std::int64_t budget) {
  if (budget == 0) return run.steps;
  if (unit == BudgetUnit::Steps) return budget;
  const std::int64_t batch = run.batch_size;
  return std::max<std::int64_t>(1, (budget + batch - 1) / batch);
}

RunConfig trial_config(const SweepFile& file, const StartTrial& trial) {
  const SweepSettings& settings = file.sweep.settings;
  auto json = base::parse_json<Json>(trainer::contract::to_json(file.run));
  for (const auto& [key, value] : trial.values) put(&json, key, value_json(value));
  const auto number = [&](const char* key, std::int64_t common) {
    const auto found = trial.values.find(key);
    const auto value = found == trial.values.end() ? std::nullopt : number_in(found->second);
    return value ? static_cast<std::int64_t>(*value) : common;
  };
  RunConfig sized = file.run;
  sized.batch_size =
      static_cast<int>(std::clamp<std::int64_t>(number(kBatchSize, sized.batch_size), 1, 1 << 30));
  if (trial.budget > 0) {
    json[kSteps] = steps_of(sized, settings.unit, trial.budget);
    const bool follows = number(kDecaySteps, sized.optimizer.decay_steps) == 0;
    if (follows) put(&json, kDecaySteps, steps_of(sized, settings.unit, settings.max_budget));
  }
  if (settings.unit == BudgetUnit::Samples && sized.batch_size != file.run.batch_size) {
    for (const char* const key : {"evaluate.every", "checkpoint.every"}) {
      if (trial.values.count(key) > 0) continue;
      const std::int64_t common = std::string_view(key) == "evaluate.every"
                                      ? file.run.evaluate_every
                                      : file.run.checkpoint_every;
      put(&json, key, same_samples(common, file.run.batch_size, sized.batch_size));
    }
  }
  json["name"] = name_of_trial(file.run.name, trial.number);
  const std::string words = words_of(trial);
  try {
    return trainer::contract::parse_run_config(base::json_text(json), words);
  } catch (const base::Error& error) {  // the line is of no file
    std::string why = error.what();
    const std::string line = words + ":1: ";
    if (why.rfind(line, 0) == 0) why = words + ": " + why.substr(line.size());
    throw base::Error(error.code(), why, error.key());
  }
}

void check_trials(const SweepFile& file, int most) {
  const SweepSettings& settings = file.sweep.settings;
  const std::int64_t budget = rung_budgets(settings).front();
  for (int number = 1; number <= std::min(settings.trials, most); ++number) {
    StartTrial trial{number, {}, budget};
    if (settings.method == SweepMethod::Grid) {
      auto point = grid_point(file.sweep.space, static_cast<std::size_t>(number - 1));
      if (!point) return;
      trial.values = std::move(*point);
    } else {
      trial.values = random_values(file.sweep.space, settings.seed, number);
    }
    (void)trial_config(file, trial);
  }
}

}  // namespace regatta::orchestrator::sweeps
