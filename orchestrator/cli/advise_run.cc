#include "orchestrator/cli/advise_run.h"

#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "base/wording.h"
#include "orchestrator/cli/interrupt.h"
#include "orchestrator/cli/runs_in_turn.h"
#include "orchestrator/text/terminal.h"

namespace regatta::orchestrator::cli {
namespace {

using Json = nlohmann::ordered_json;
using advise::Noise;
using trainer::contract::RunConfig;

constexpr int kLookEvery = 2;  // steps

std::optional<double> number_of(const Json& json, const char* key) {
  const auto found = json.find(key);
  if (found == json.end() || !found->is_number()) return std::nullopt;
  return found->get<double>();
}

bool is_counted(const Json& row, const char* type) {
  return text::text_of(row, "type") == type && !row.value("abandoned", false);
}

int batch_of(const Json& run) { return run.at("config").at("batch").value("size", 0); }

// Samples that counted until this step: as the steps tell them, if all of them are there.
double samples_until(const Json& history, std::int64_t step, int batch) {
  double samples = 0;
  std::int64_t steps = 0;
  for (const Json& row : history) {
    if (!is_counted(row, "step") || row.value("step", std::int64_t{0}) > step) continue;
    samples += number_of(row, "samples").value_or(0);
    ++steps;
  }
  return steps == step ? samples : static_cast<double>(step) * batch;
}

// What the run file's target comes to in this run; nothing where it has another metric.
std::optional<double> target_value(const RunConfig& config, const Json& run) {
  if (!config.target || text::text_of(run, "metric") != trainer::contract::metric_of(config)) {
    return std::nullopt;
  }
  if (config.target->value) return config.target->value;
  const auto baseline = number_of(run, "baseline");
  if (!baseline || !config.target->times_baseline) return std::nullopt;
  return *config.target->times_baseline * *baseline;
}

// The first evaluation that met it. The run's own target may have been another, or changed.
std::optional<std::int64_t> step_of_target(const Json& history, const RunConfig& config,
                                           double target) {
  const bool loss = trainer::contract::is_loss(trainer::contract::judged_by(config));
  for (const Json& row : history) {
    const auto value = number_of(row, "value");
    if (!is_counted(row, "evaluation") || !value) continue;
    if (loss ? *value <= target : *value >= target) return row.value("step", std::int64_t{0});
  }
  return std::nullopt;
}

// Keys by which a run learns otherwise, so that its noise scale and samples may be others.
std::vector<std::string> differences_of(const Json& ours, const Json& theirs) {
  static constexpr const char* kKeys[] = {"data", "optimizer",      "clip", "fine_tuning",
                                          "from", "shuffle_labels", "dtype"};
  std::vector<std::string> keys;
  for (const char* const key : kKeys) {
    if (ours.value(key, Json()) != theirs.value(key, Json())) keys.emplace_back(key);
  }
  return keys;
}

// Why the run file's reader refuses it; nothing: it does not.
std::optional<std::string> refusal_of(const RunConfig& config) {
  try {
    (void)trainer::contract::parse_run_config(trainer::contract::to_json(config), "run file");
    return std::nullopt;
  } catch (const base::Error& error) {
    const std::string text = error.what();  // "run file:67: key: why": of a line nobody has
    const std::size_t key = text.find(": ");
    return key == std::string::npos ? text : text.substr(key + 2);
  }
}

// The same interval in samples is worth less where the scale is small.
double relative_width(const Noise& noise) {
  return noise.high && noise.low > 0 ? *noise.high / noise.low : 1e300;
}

std::string call_of(int ranks, int batch) {
  return base::plural(ranks, "rank") + ", batch " + std::to_string(batch);
}

}  // namespace

std::optional<Noise> noise_of(const Json& run) {
  const auto scale = number_of(run, "noise_scale"), low = number_of(run, "noise_scale_low");
  if (!scale || !low || !(*scale > 0)) return std::nullopt;
  return Noise{*scale, std::clamp(*low, 0.0, *scale), number_of(run, "noise_scale_high")};
}

EarlierRun earlier_run(const Client& client, const std::string& name, const RunConfig& config) {
  const Json run = client.get("/runs/" + path_part(name));
  const Json ours = base::parse_json<Json>(trainer::contract::to_json(config));
  const Json& theirs = run.at("config");
  EarlierRun earlier;
  earlier.id = run.value("id", "");
  const auto part = [](const Json& json, const char* key) { return json.value(key, Json()); };
  Json model = part(ours, "model"), trained = part(theirs, "model");
  for (Json* const each : {&model, &trained})
    each->erase("vocabulary");  // often left to the dataset
  if (model != trained || part(ours, "task") != part(theirs, "task")) {
    throw base::Error(base::Code::User,
                      earlier.id +
                          " trained another model or task than the run file's, so its "
                          "noise scale says nothing here; name another run, or give "
                          "--noise-scale");
  }
  earlier.noise = noise_of(run);
  if (!earlier.noise) {
    const auto low = number_of(run, "noise_scale_low");
    earlier.why_no_noise =
        earlier.id + (low ? " tells only that its noise scale is above " +
                                base::short_number(*low, 3) + " samples; let it train longer"
                          : " tells no noise scale; statistics.every has to be above 0, and ten "
                            "looks at the gradient to be done");
  }
  earlier.differences = differences_of(ours, theirs);
  if (!config.target) {
    earlier.why_no_target = "the run file has no target";
    return earlier;
  }
  const auto wanted = target_value(config, run);
  if (!wanted) {
    earlier.why_no_target = earlier.id + " is judged by another metric";
    return earlier;
  }
  if (part(ours, "shuffle_labels") != part(theirs, "shuffle_labels") ||
      part(part(ours, "data"), "max_length") != part(part(theirs, "data"), "max_length")) {
    earlier.why_no_target =
        earlier.id + " trained on other samples (data.max_length, shuffle_labels)";
    return earlier;
  }
  if (theirs.at("batch").value("growth", "none") != "none") {
    earlier.why_no_target = earlier.id + " had a batch that grew";
    return earlier;
  }
  bool is_thinned = false;
  const Json history = whole_history(client, earlier.id, &is_thinned);
  if (const auto step = step_of_target(history, config, *wanted); step && *step > 0) {
    earlier.target = advise::Target{samples_until(history, *step, batch_of(run)), batch_of(run)};
  } else {
    earlier.why_no_target =
        earlier.id + (step ? " met the target untrained" : " has not met the target");
  }
  return earlier;
}

RunConfig probe_config(const ProbePlan& plan, int ranks, int batch) {
  RunConfig config = plan.file;
  config.name = plan.file.name + "-probe-" + std::to_string(ranks) + "x" + std::to_string(batch);
  if (ranks != config.ranks) {
    config.parallel.data = 0;
    if (config.ranks_per_node > 0 && ranks % config.ranks_per_node != 0) config.ranks_per_node = 0;
  }
  config.ranks = ranks;
  config.batch_size = batch;
  if (config.optimizer.decay_steps == 0) config.optimizer.decay_steps = plan.file.steps;
  config.steps = config.evaluate_every = config.checkpoint_every = plan.steps;
  config.keep_last = 1;
  config.keep_best = 0;
  config.keep_every = 0;
  config.target.reset();
  config.statistics_every = kLookEvery;
  config.mllog.reset();
  return config;
}

advise::MeasuredStep measured_step(const Json& run, const Json& history) {
  const Json& config = run.at("config");
  advise::MeasuredStep measured;
  measured.ranks = config.value("ranks", 1);
  measured.batch = batch_of(run);
  measured.nodes = std::max(1, config.value("slurm", Json::object()).value("max_nodes", 1));
  std::vector<double> seconds;
  double last_step = 0;
  for (const Json& row : history) {
    if (is_counted(row, "evaluation")) {
      measured.evaluation_seconds =
          std::max(0.0, number_of(row, "at_seconds").value_or(0) - last_step);
    }
    if (!is_counted(row, "step")) continue;
    last_step = number_of(row, "at_seconds").value_or(0);
    // Steps that look at the noise take longer.
    if (row.value("step", std::int64_t{0}) % kLookEvery == 0) continue;
    if (const auto took = number_of(row, "step_seconds")) seconds.push_back(*took);
  }
  measured.seconds = advise::typical_step(std::move(seconds));
  return measured;
}

Probed probe(const Client& client, const ProbePlan& plan) {
  Probed probed;
  Turns turns;
  turns.of = "of probe " + plan.id;
  turns.go_on = plan.go_on;
  turns.first_decides = true;
  for (const int ranks : plan.ranks) {
    for (const int batch : plan.batches) {
      const RunConfig config = probe_config(plan, ranks, batch);
      std::optional<std::string> refusal = refusal_of(config);
      if (batch < ranks) refusal = "there are fewer samples than ranks";
      if (refusal) {
        probed.left_out.push_back(call_of(ranks, batch) + " is left out: " + *refusal);
        continue;
      }
      turns.runs.push_back(
          {call_of(ranks, batch),
           config,
           {"probe-" + plan.id},
           "probe-" + plan.id + "-" + std::to_string(ranks) + "x" + std::to_string(batch)});
    }
  }
  if (turns.runs.empty()) {
    throw base::Error(base::Code::User, "there is nothing to probe: " + probed.left_out.front());
  }
  (void)client.get("/version");  // so that nobody waits for a controller that is not there
  std::cerr << "probe " << plan.id << ": " << base::plural(turns.runs.size(), "run")
            << ", each when the one before is over\n";
  const TurnsEnd end = run_in_turn(client, turns);
  probed.code = end.code;
  if (end.code == kInterrupted) return probed;
  for (const std::string& id : end.ids) {
    const Json run = client.get("/runs/" + path_part(id));
    if (run.value("state", "") != "succeeded") continue;
    bool is_thinned = false;
    probed.steps.push_back(measured_step(run, whole_history(client, id, &is_thinned)));
    const auto noise = noise_of(run);
    if (noise && (!probed.noise || relative_width(*noise) < relative_width(*probed.noise))) {
      probed.noise = noise;
    }
  }
  if (probed.steps.empty()) {
    throw base::Error(base::Code::User, "no probe succeeded; mend what `regatta show " +
                                            end.ids.front() +
                                            "` tells, and begin anew with another --id");
  }
  return probed;
}

}  // namespace regatta::orchestrator::cli
