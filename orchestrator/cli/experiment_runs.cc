#include "orchestrator/cli/experiment_runs.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/shell_words.h"
#include "base/text.h"
#include "orchestrator/cli/runs_in_turn.h"
#include "orchestrator/plan/run_plan.h"
#include "orchestrator/text/terminal.h"

namespace regatta::orchestrator::cli {
namespace {

using Json = nlohmann::ordered_json;
using experiments::ParallelExperiment;
using experiments::PlannedRun;

constexpr int kRunsAtOnce = 1000;  // runs

std::string name_of(const ParallelExperiment& experiment, const PlannedRun& planned) {
  return experiment.layouts[planned.layout].name + ", seed " + std::to_string(planned.seed);
}

}  // namespace

std::vector<experiments::ExperimentRun> experiment_runs(const Client& client,
                                                        const std::string& id) {
  std::vector<experiments::ExperimentRun> runs;
  const std::string query = "/runs?archived=all&limit=" + std::to_string(kRunsAtOnce) +
                            "&tag=" + encoded(experiments::experiment_tag(id));
  std::string before;
  do {
    const Json page = client.get(query + (before.empty() ? "" : "&before=" + encoded(before)));
    for (const Json& row : page.at("runs")) {
      const std::string id_of_run = row.value("id", "");
      const std::string path = "/runs/" + path_part(id_of_run);
      auto& run = runs.emplace_back(experiments::experiment_run(client.get(path)));
      if (!run.succeeded()) continue;
      experiments::take_history(whole_history(client, id_of_run, &run.is_thinned), &run);
      experiments::take_attempts(client.get(path + "/attempts"), &run);
    }
    before = text::text_of(page, "next");
  } while (!before.empty());
  return runs;
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
