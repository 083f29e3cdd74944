// Plays sweeps and prints them as JSON, one a line, for sweeps_test.py: settings, parameters, and
// for each time that actions were asked for what had happened since, and the actions.
#include <cmath>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <variant>

#include "orchestrator/sweeps/grid.h"
#include "tests/orchestrator/sweeps/play.h"

namespace regatta::orchestrator::sweeps {
namespace {

using Json = nlohmann::ordered_json;

Json json_of(const SweepValue& value) {
  return std::visit([](const auto& each) { return Json(each); }, value);
}

Json json_of(const SweepValues& values) {
  Json json = Json::object();
  for (const auto& [key, value] : values) json[key] = json_of(value);
  return json;
}

Json json_of(const std::vector<SweepValue>& values) {
  Json json = Json::array();
  for (const SweepValue& value : values) json.push_back(json_of(value));
  return json;
}

Json json_of(const SweepParameter& parameter) {
  constexpr const char* kKinds[] = {"uniform", "log_uniform", "integer", "choice"};
  Json json{
      {"key", parameter.key},         {"kind", kKinds[static_cast<std::size_t>(parameter.kind)]},
      {"low", parameter.low},         {"high", parameter.high},
      {"log", parameter.logarithmic}, {"values", json_of(parameter.choices)},
      {"points", parameter.points},   {"when", Json::object()}};
  for (const SweepCondition& each : parameter.when) json["when"][each.key] = json_of(each.values);
  return json;
}

Json json_of(const SweepAction& action) {
  if (const auto* const start = std::get_if<StartTrial>(&action)) {
    return {{"start", start->number}, {"values", json_of(start->values)}, {"goal", start->budget}};
  }
  if (const auto* const on = std::get_if<ContinueTrial>(&action)) {
    return {{"continue", on->number}, {"goal", on->budget}};
  }
  const StopTrial& stop = std::get<StopTrial>(action);
  return {{stop.checkpoints == AfterStop::Keep ? "pause" : "finish", stop.number}};
}

// Every new report and end since `before`. What is not finite is null.
Json happened(const SweepHistory& before, const SweepHistory& now) {
  Json all = Json::array();
  for (std::size_t i = 0; i < now.trials.size(); ++i) {
    const SweepTrial& old = before.trials.at(i);
    const SweepTrial& trial = now.trials[i];
    for (std::size_t j = old.reports.size(); j < trial.reports.size(); ++j) {
      const double objective = trial.reports[j].objective;
      all.push_back({{"report", trial.number},
                     {"budget", trial.reports[j].budget},
                     {"objective", std::isfinite(objective) ? Json(objective) : Json()}});
    }
    if (old.state == trial.state) continue;
    all.push_back({{trial.state == TrialState::Failed ? "failed" : "ended", trial.number}});
  }
  return all;
}

struct Story {
  SweepMethod method;
  int trials, concurrency;
  double broken, diverged, early;
  runs::Better better = runs::Better::Lower;
};

const Story kStories[] = {
    {SweepMethod::Grid, 0, 5, 0, 0, 0},
    {SweepMethod::Random, 50, 3, 0, 0, 0},
    {SweepMethod::Asha, 81, 1, 0, 0, 0},
    {SweepMethod::Asha, 100, 4, 0, 0, 0, runs::Better::Higher},
    {SweepMethod::Asha, 100, 4, 0.15, 0.1, 0.1},
    {SweepMethod::Asha, 60, 9, 0.4, 0.3, 0.1, runs::Better::Higher},
    {SweepMethod::Tpe, 90, 1, 0, 0, 0},
    {SweepMethod::Tpe, 120, 4, 0.1, 0.1, 0.1, runs::Better::Higher},
};

Sweep sweep_of(const Story& story, std::uint64_t seed) {
  Sweep sweep;
  sweep.space = mixed_space();
  SweepSettings& settings = sweep.settings;
  settings.method = story.method;
  settings.concurrency = story.concurrency;
  settings.seed = seed;
  settings.better = story.better;
  settings.min_budget = 10;
  settings.max_budget = 270;
  settings.factor = 3;
  const bool grid = story.method == SweepMethod::Grid;
  settings.trials = grid ? static_cast<int>(grid_size(sweep.space, 10'000)) : story.trials;
  return sweep;
}

World world_of(const Story& story, std::uint32_t seed) {
  World world;
  const auto happens = [seed](double share, std::uint32_t what) {
    return [=](int number, std::int64_t goal) {
      return chance(static_cast<std::uint32_t>(number * 1000 + goal), seed * 10 + what) < share;
    };
  };
  world.breaks = happens(story.broken, 1);
  world.ends = happens(story.early, 2);
  const auto diverges = happens(story.diverged, 3);
  world.objective = [=](const SweepTrial& trial, std::int64_t budget) {
    if (diverges(trial.number, budget)) return std::nan("");
    const double rate = std::log10(number_of(trial, "rate")) + 3;
    const double decay = number_of(trial, "decay");
    const double noise = chance(static_cast<std::uint32_t>(trial.number), seed * 10 + 4);
    const bool known = trial.values.count("beta") != 0;
    return rate * rate + decay * decay - (known ? number_of(trial, "beta") : 0) + noise +
           10 / static_cast<double>(budget);
  };
  world.pace = [seed](int number) {
    return 0.5 + chance(static_cast<std::uint32_t>(number), seed * 10 + 5);
  };
  return world;
}

void print(const Story& story, std::uint32_t seed) {
  constexpr const char* kMethods[] = {"grid", "random", "asha", "tpe"};
  const Sweep sweep = sweep_of(story, (std::uint64_t{seed} << 33U) + 5);
  const SweepSettings& settings = sweep.settings;
  Json json{{"method", kMethods[static_cast<std::size_t>(settings.method)]},
            {"trials", settings.trials},
            {"concurrency", settings.concurrency},
            {"seed", settings.seed},
            {"maximize", settings.better == runs::Better::Higher},
            {"min", settings.min_budget},
            {"max", settings.max_budget},
            {"factor", settings.factor},
            {"trouble", story.broken > 0},
            {"parameters", Json::array()},
            {"asked", Json::array()}};
  for (const SweepParameter& each : sweep.space.parameters()) {
    json["parameters"].push_back(json_of(each));
  }
  SweepHistory expected;
  const Played played = play(sweep, world_of(story, seed), [&](const auto& now, const auto& next) {
    Json ask{
        {"happened", happened(expected, now)}, {"actions", Json::array()}, {"done", next.done}};
    expected = now;
    for (const SweepAction& action : next.actions) {
      ask["actions"].push_back(json_of(action));
      carry_out(action, &expected);
    }
    json["asked"].push_back(std::move(ask));
  });
  json["ranking"] = Json::array();
  for (const RankedTrial& each : ranking(settings, played.history)) {
    json["ranking"].push_back(each.number);
  }
  std::cout << json.dump() << "\n";
}

}  // namespace
}  // namespace regatta::orchestrator::sweeps

int main() {
  using namespace regatta::orchestrator::sweeps;
  for (const Story& story : kStories) {
    for (std::uint32_t seed = 1; seed <= 3; ++seed) print(story, seed);
  }
  return 0;
}
