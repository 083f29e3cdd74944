#include "orchestrator/cli/experiment_runs.h"

#include <chrono>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/error.h"
#include "base/shell_words.h"
#include "base/text.h"
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

}  // namespace

void check_experiment_id(const std::string& id, const std::string& name) {
  if (experiments::is_experiment_id(id)) return;
  throw UsageError(name + " is '" + base::printable(id) + "'; use 1 to 32 of A-Z a-z 0-9 . _ -");
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

int run_in_turn(const Client& client, const ExperimentPlan& plan) {
  const std::vector<PlannedRun> planned = planned_runs(plan.experiment);
  Turns turns;
  turns.of = "of experiment " + plan.id;
  turns.go_on = "`" + base::shown_command("regatta experiment parallel", plan.file) + " --id " +
                plan.id + "` goes on with the others, `regatta experiment show " + plan.id +
                "` shows those that are over";
  for (std::size_t place = 0; place < planned.size(); ++place) {
    const PlannedRun& each = planned[place];
    const auto& layout = plan.experiment.layouts[each.layout];
    turns.runs.push_back(
        {name_of(plan.experiment, each), experiments::config_of(plan.experiment, each),
         experiments::tags_of({plan.id, static_cast<int>(each.layout) + 1, layout.name,
                               static_cast<int>(place) + 1, static_cast<int>(planned.size())}),
         experiments::experiment_tag(plan.id) + "-" + layout.name + "-s" +
             std::to_string(each.seed)});
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
