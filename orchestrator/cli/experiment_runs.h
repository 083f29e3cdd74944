// An experiment at a controller: the table of its runs, and how each is begun in its turn.
#pragma once

#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "orchestrator/cli/client.h"
#include "orchestrator/experiments/parallel_experiment.h"

namespace regatta::orchestrator::cli {

// Throws UsageError where it can name no experiment; `name` is what is called "--id" or "the id".
void check_experiment_id(const std::string& id, const std::string& name);
// What an option --id writes to, checked: none given leaves it empty, an empty one is refused.
[[nodiscard]] std::function<void(const std::string&)> checked_id(std::string* id);

// GET /experiments/{id}, as often as a controller that has much to read needs. Code::NotFound where
// no run has its tag.
[[nodiscard]] nlohmann::ordered_json experiment_table(const Client& client, const std::string& id);

struct ExperimentPlan {
  experiments::ParallelExperiment experiment;  // with absolute paths
  std::string id;
  std::string file;                                 // as it was named, for what to type next
  std::map<std::string, std::string> earlier = {};  // ids of runs that are there, by their keys
};

// Fills plan->earlier with what the controller has of the experiment, which may be nothing.
// Code::Conflict, saying in what they differ, where these are runs that the file does not make.
void take_earlier(const Client& client, ExperimentPlan* plan);

// Submits each run when the one before is over, however that ended, and returns when all are over:
// 0, or 1 where one did not succeed, or kInterrupted after Ctrl-C, which leaves the run that is
// under way. A run's idempotency key is made of the id, its layout and its seed: whoever calls this
// again with the same id goes on where it was, and makes no run twice; of those that are there
// already (earlier) all are compared with the file before the first of the others begins. Says on
// stderr what happens. Outlasts a controller that restarts.
[[nodiscard]] int run_in_turn(const Client& client, const ExperimentPlan& plan);

// What each layout's run would be, of the first seed: [{"layout", "preview": as POST
// /runs?dry_run=true answers}…]. Code::User and so on where one cannot be.
[[nodiscard]] nlohmann::ordered_json layout_previews(const Client& client,
                                                     const ExperimentPlan& plan);

}  // namespace regatta::orchestrator::cli
