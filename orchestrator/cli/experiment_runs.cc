#include "orchestrator/cli/experiment_runs.h"

#include <functional>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "base/shell_words.h"
#include "base/text.h"
#include "orchestrator/cli/interrupt.h"
#include "orchestrator/plan/run_plan.h"
#include "orchestrator/text/terminal.h"

namespace regatta::orchestrator::cli {
namespace {

using Json = nlohmann::ordered_json;
using experiments::ParallelExperiment;
using experiments::PlannedRun;

constexpr double kTurnSeconds = 0.5;
constexpr double kRetrySeconds = 1;  // between two tries
constexpr int kRunsAtOnce = 1000;    // runs
constexpr int kRowsAtOnce = 10'000;  // of a history

Json history_of(const Client& client, const std::string& path, bool* is_thinned) {
  Json rows = Json::array();
  std::string since = "0";
  for (bool more = true; more;) {
    const Json part =
        client.get(path + "/history?limit=" + std::to_string(kRowsAtOnce) + "&since=" + since);
    for (const Json& row : part.at("rows")) rows.push_back(row);
    since = std::to_string(part.at("cursor").get<std::int64_t>());
    more = part.value("more", false);
    *is_thinned = *is_thinned || part.value("resolution_seconds", 0) > 0;
  }
  return rows;
}

std::string name_of(const ParallelExperiment& experiment, const PlannedRun& planned) {
  return experiment.layouts[planned.layout].name + ", seed " + std::to_string(planned.seed);
}

// Runs one after the other.
class Turns {
 public:
  Turns(const Client& client, const ExperimentPlan& plan)
      : client_(client), plan_(plan), planned_(planned_runs(plan.experiment)) {}

  int run() {
    for (; place_ < planned_.size(); ++place_) {
      const auto submitted = patiently([&] { return submit(); });
      if (!submitted) return detached("");
      const std::string id = submitted->value("id", "");
      for (const Json& warning : submitted->value("warnings", Json::array())) {
        std::cerr << "regatta: warning: " << base::printable(warning.get<std::string>()) << "\n";
      }
      say(id + (text::is_over(*submitted) ? " is over already" : ""));
      const auto run = over(*submitted);
      if (!run) return detached(id);
      if (run->value("state", "") == "succeeded") continue;
      good_ = false;
      const std::string error = text::text_of(*run, "error");
      say(id + " " + run->value("state", "") + (error.empty() ? "" : ": " + error));
    }
    return good_ ? 0 : 1;
  }

 private:
  Json submit() const {
    const PlannedRun& planned = planned_[place_];
    const auto& layout = plan_.experiment.layouts[planned.layout];
    const std::vector<std::string> tags =
        experiments::tags_of({plan_.id, static_cast<int>(planned.layout) + 1, layout.name,
                              static_cast<int>(place_) + 1, static_cast<int>(planned_.size())});
    const plan::SubmittedRun asked{experiments::config_of(plan_.experiment, planned), {}};
    try {
      return client_.post(
          "/runs?tags=" + encoded(base::join(tags, ",")), plan::submitted_body(asked),
          {{"Idempotency-Key", experiments::experiment_tag(plan_.id) + "-" + layout.name + "-s" +
                                   std::to_string(planned.seed)}});
    } catch (const base::Error& error) {
      if (error.code() != base::Code::Conflict) throw;
      throw base::Error(base::Code::Conflict,
                        "the run of " + name_of(plan_.experiment, planned) + " of experiment " +
                            plan_.id + " was made of another file; go on with that one, or give " +
                            "another --id");
    }
  }
  // As it ended; nothing after Ctrl-C.
  std::optional<Json> over(Json run) {
    const std::string path = "/runs/" + path_part(run.value("id", ""));
    while (!text::is_over(run)) {
      if (interrupt_.wait(kTurnSeconds)) return std::nullopt;
      auto next = patiently([&] { return client_.get(path); });
      if (!next) return std::nullopt;
      run = std::move(*next);
    }
    return run;
  }
  // Until the controller answers; nothing after Ctrl-C.
  std::optional<Json> patiently(const std::function<Json()>& ask) const {
    for (bool told = false;; told = true) {
      try {
        return ask();
      } catch (const base::Error& error) {
        if (error.code() != base::Code::Retry) throw;
        if (!told) std::cerr << "regatta: " << base::printable(error.what()) << "; tries again\n";
      }
      if (interrupt_.wait(kRetrySeconds)) return std::nullopt;
    }
  }
  void say(const std::string& what) const {
    std::cerr << "run " << place_ + 1 << " of " << planned_.size() << " ("
              << name_of(plan_.experiment, planned_[place_]) << "): " << base::printable(what)
              << "\n";
  }
  [[nodiscard]] int detached(const std::string& run) const {
    std::cerr << "detached" << (run.empty() ? "" : "; " + base::printable(run) + " goes on")
              << "; `" << base::shown_command("regatta experiment parallel", plan_.file) << " --id "
              << plan_.id << "` goes on with the others, `regatta experiment show " << plan_.id
              << "` shows those that are over\n";
    return kInterrupted;
  }

  const Client& client_;
  const ExperimentPlan& plan_;
  const Interrupt interrupt_;
  const std::vector<PlannedRun> planned_;
  std::size_t place_ = 0;
  bool good_ = true;
};

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
      const std::string path = "/runs/" + path_part(row.value("id", ""));
      auto& run = runs.emplace_back(experiments::experiment_run(client.get(path)));
      if (!run.succeeded()) continue;
      experiments::take_history(history_of(client, path, &run.is_thinned), &run);
      experiments::take_attempts(client.get(path + "/attempts"), &run);
    }
    before = text::text_of(page, "next");
  } while (!before.empty());
  return runs;
}

int run_in_turn(const Client& client, const ExperimentPlan& plan) {
  return Turns(client, plan).run();
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
