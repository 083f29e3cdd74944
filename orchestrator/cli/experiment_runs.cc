#include "orchestrator/cli/experiment_runs.h"

#include <chrono>
#include <nlohmann/json.hpp>
#include <set>

#include "base/clock.h"
#include "base/error.h"
#include "base/shell_words.h"
#include "base/text.h"
#include "orchestrator/cli/input.h"
#include "orchestrator/cli/runs_in_turn.h"
#include "orchestrator/cli/usage_error.h"
#include "orchestrator/plan/run_plan.h"

namespace regatta::orchestrator::cli {
namespace {

using Json = nlohmann::ordered_json;
using experiments::ParallelExperiment;
using experiments::PlannedRun;

constexpr double kRetrySeconds = 1;  // between two tries
constexpr int kMostTries = 600;      // while a controller reads histories

std::string name_of(const ParallelExperiment& experiment, const PlannedRun& planned) {
  return experiment.layouts[planned.layout].name + ", seed " + std::to_string(planned.seed);
}

std::string key_of(const std::string& id, const std::string& layout, std::uint64_t seed) {
  return experiments::experiment_tag(id) + "-" + layout + "-s" + std::to_string(seed);
}

experiments::Layout read_layout(const Json& row) {
  experiments::Layout layout;
  layout.name = row.value("name", "");
  layout.data = row.value("data", 1);
  layout.pipeline = row.value("pipeline", 1);
  const auto& orders = trainer::contract::pipeline_order_names();
  if (row.value("schedule", Json()) == orders.back()) {
    layout.schedule = trainer::contract::PipelineOrder::GPipe;
  }
  return layout;
}

}  // namespace

void check_experiment_id(const std::string& id, const std::string& name) {
  if (experiments::is_experiment_id(id)) return;
  throw UsageError(name + " is '" + base::printable(id) +
                   "'; use 1 to 32 of A-Z a-z 0-9 . _ -, not dots alone");
}

std::function<void(const std::string&)> checked_id(std::string* id) {
  return [id](const std::string& given) {
    check_experiment_id(given, "--id");
    *id = given;
  };
}

Json experiment_table(const Client& client, const std::string& id) {
  for (int tries = 1;; ++tries) {
    try {
      return client.get("/experiments/" + path_part(id));
    } catch (const base::Error& error) {
      if (error.code() != base::Code::Retry || tries == kMostTries) throw;
    }
    (void)client.get("/version");  // throws where it is the controller that does not answer
    base::system_clock().sleep(std::chrono::duration<double>(kRetrySeconds));
  }
}

void take_earlier(const Client& client, ExperimentPlan* plan) {
  Json table;
  try {
    table = experiment_table(client, plan->id);
  } catch (const base::Error& error) {
    if (error.code() != base::Code::NotFound) throw;
    return;  // it begins under this name
  }
  experiments::EarlierRuns earlier;
  for (const Json& row : table.at("layouts")) earlier.layouts.push_back(read_layout(row));
  std::set<std::uint64_t> seeds;
  for (const Json& run : table.at("runs")) {
    const auto seed = run.at("seed").get<std::uint64_t>();
    seeds.insert(seed);
    plan->earlier[key_of(plan->id, run.value("layout", ""), seed)] = run.value("id", "");
  }
  earlier.seeds.assign(seeds.begin(), seeds.end());
  const auto why = experiments::refuse_earlier(plan->experiment, earlier);
  if (!why) return;
  throw base::Error(base::Code::Conflict, "experiment " + plan->id +
                                              " was made of another file than " +
                                              base::printable(input_name(plan->file)) + ": " +
                                              *why + "; go on with that one, or give another --id");
}

int run_in_turn(const Client& client, const ExperimentPlan& plan) {
  const std::vector<PlannedRun> planned = planned_runs(plan.experiment);
  Turns turns;
  turns.of = "of experiment " + plan.id;
  turns.go_on = "`" +
                base::shown_command("regatta experiment parallel --id " + plan.id, plan.file) +
                "` goes on with the others, `regatta experiment show " + plan.id +
                "` shows those that are over";
  for (std::size_t place = 0; place < planned.size(); ++place) {
    const PlannedRun& each = planned[place];
    const auto& layout = plan.experiment.layouts[each.layout];
    const std::string key = key_of(plan.id, layout.name, each.seed);
    const auto there = plan.earlier.find(key);
    turns.runs.push_back(
        {name_of(plan.experiment, each), experiments::config_of(plan.experiment, each),
         experiments::tags_of({plan.id, static_cast<int>(each.layout) + 1, layout.name,
                               static_cast<int>(place) + 1, static_cast<int>(planned.size())}),
         key, there == plan.earlier.end() ? "" : there->second});
  }
  return run_in_turn(client, turns).code;
}

Json layout_previews(const Client& client, const ExperimentPlan& plan) {
  Json previews = Json::array();
  for (std::size_t i = 0; i < plan.experiment.layouts.size(); ++i) {
    const plan::SubmittedRun asked{
        experiments::config_of(plan.experiment, {i, plan.experiment.seeds.front()}), {}};
    previews.push_back(
        {{"layout", plan.experiment.layouts[i].name},
         {"preview", client.post("/runs?dry_run=true", plan::submitted_body(asked), {})}});
  }
  return previews;
}

}  // namespace regatta::orchestrator::cli
