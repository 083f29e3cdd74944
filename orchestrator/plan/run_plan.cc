#include "orchestrator/plan/run_plan.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/digest.h"
#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "base/text.h"
#include "orchestrator/plan/dataset_facts.h"
#include "orchestrator/plan/start_facts.h"

namespace regatta::orchestrator::plan {
namespace {

using Json = nlohmann::ordered_json;
using trainer::contract::RunConfig;

constexpr const char* kRunFile = "run file";
constexpr int kSubmittedDepth = 32;  // as base::Table has it, which says so of what is deeper

}  // namespace

std::string SubmittedRun::digest() const {
  return base::digest_of(trainer::contract::to_json(config) +
                         (plan ? topology::plan::to_json(*plan) : ""));
}

SubmittedRun parse_submitted(const std::string& body) {
  SubmittedRun run;
  Json json = base::json_depth_at_most(body, kSubmittedDepth) ? base::parse_json<Json>(body)
                                                              : Json(Json::value_t::discarded);
  const bool has_plan = json.is_object() && json.contains("plan");
  std::string plan;
  if (has_plan) {
    plan = base::json_text(json["plan"]);
    json.erase("plan");
  }
  run.config =
      trainer::contract::parse_run_config(has_plan ? base::json_text(json) : body, kRunFile);
  const std::vector<std::string> paths = trainer::contract::data_paths(run.config.data);
  for (std::size_t i = 0; i < paths.size(); ++i) {
    if (base::Path(paths[i]).is_absolute()) continue;
    const std::string key = trainer::contract::data_path_key(run.config.data, i);
    throw base::Error(base::Code::User,
                      std::string(kRunFile) + ": " + key + ": '" + base::printable(paths[i]) +
                          "' is not absolute; the controller cannot know what it is relative to",
                      key);
  }
  settle_short_start(&run.config);
  if (!has_plan) return run;
  try {
    run.plan = topology::plan::parse_plan(plan, "plan", std::nullopt);
  } catch (const base::Error& error) {  // whose key is the plan's own
    throw base::Error(error.code(), error.what(),
                      error.key().empty() ? "plan" : "plan." + error.key());
  }
  if (run.plan->ranks != run.config.ranks) {
    throw base::Error(base::Code::User,
                      "plan: it is for " + std::to_string(run.plan->ranks) +
                          " ranks and the run has " + std::to_string(run.config.ranks) +
                          "; plan again",
                      "plan.ranks");
  }
  return run;
}

std::string submitted_body(const SubmittedRun& run) {
  if (!run.plan) return trainer::contract::to_json(run.config);
  Json json = base::parse_json<Json>(trainer::contract::to_json(run.config));
  json["plan"] = base::parse_json<Json>(topology::plan::to_json(*run.plan));
  return base::json_text(json);
}

std::string with_slurm_changes(const std::string& config, const std::string& changes) {
  constexpr int kSlurmDepth = 8;
  if (changes.empty()) return config;
  const Json asked = base::json_depth_at_most(changes, kSlurmDepth)
                         ? base::parse_json<Json>(changes)
                         : Json(Json::value_t::discarded);
  if (!asked.is_object() || asked.size() > 1 ||
      (!asked.empty() && !(asked.contains("slurm") && asked["slurm"].is_object()))) {
    throw base::Error(base::Code::User,
                      "only the section slurm of a run file can change when a run is resumed; send "
                      "{\"slurm\": {KEY: VALUE}}, or nothing");
  }
  Json json = base::parse_json<Json>(config);
  json.merge_patch(asked);
  return trainer::contract::to_json(
      trainer::contract::parse_run_config(base::json_text(json), "the resumed run"));
}

std::string changed_keys(const std::string& before, const std::string& after) {
  std::vector<std::string> keys;
  for (const Json& change :
       Json::diff(base::parse_json<Json>(before), base::parse_json<Json>(after))) {
    std::string key = change.at("path").get<std::string>().substr(1);
    std::replace(key.begin(), key.end(), '/', '.');
    keys.push_back(std::move(key));
  }
  return base::join(keys, ", ");
}

std::map<std::string, std::string> plan_files(const topology::plan::Plan& plan) {
  std::map<std::string, std::string> files = {{"plan.json", topology::plan::to_json(plan)}};
  if (!plan.tuner.ranges.empty()) files["plan.tuner"] = topology::plan::to_tuner_file(plan.tuner);
  return files;
}

std::optional<topology::plan::Plan> RunPlanner::plan(const RunConfig& config) const {
  if (config.ranks < 2 || config.device == trainer::contract::DeviceKind::Cpu ||
      config.buckets.by != trainer::contract::BucketPolicy::Plan) {
    return std::nullopt;
  }
  try {
    PlanRequest request;
    request.config = config;
    request.machines = machines_;
    request.measured = measured_;
    request.stored =
        topology::plan::list_stored_plans(files_, runs_ / topology::plan::kPlansFolder);
    // All datasets have the same vocabulary.
    complete_shape(dataset_facts(files_, trainer::contract::data_paths(config.data).front()),
                   &request.config.model);
    return plan_run(request).plan;
  } catch (const base::Error& error) {
    base::log(base::LogLevel::Warning,
              "no plan for run " + base::printable(config.name) +
                  ", which trains with the default gradient buckets: " + error.what());
    return std::nullopt;
  }
}

}  // namespace regatta::orchestrator::plan
