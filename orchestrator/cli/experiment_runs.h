// An experiment's runs at a controller: what they came to, and how each is begun in its turn.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "orchestrator/cli/client.h"
#include "orchestrator/experiments/parallel_experiment.h"
#include "orchestrator/experiments/run_figures.h"

namespace regatta::orchestrator::cli {

// Those that carry its tag, with the figures of those that succeeded. Nothing else is known of an
// experiment, so that it can be shown from anywhere and at any time.
[[nodiscard]] std::vector<experiments::ExperimentRun> experiment_runs(const Client& client,
                                                                      const std::string& id);

struct ExperimentPlan {
  experiments::ParallelExperiment experiment;  // with absolute paths
  std::string id;
  std::string file;  // as it was named, for what to type next
};

// Submits each run when the one before is over, however that ended, and returns when all are over:
// 0, or 1 where one did not succeed, or kInterrupted after Ctrl-C, which leaves the run that is
// under way. A run's idempotency key is made of the id, its layout and its seed: whoever calls this
// again with the same id goes on where it was, and makes no run twice. Says on stderr what happens.
// Outlasts a controller that restarts.
[[nodiscard]] int run_in_turn(const Client& client, const ExperimentPlan& plan);

// What each layout's run would be, of the first seed: [{"layout", "preview": as POST
// /runs?dry_run=true answers}…]. Code::User and so on where one cannot be.
[[nodiscard]] nlohmann::ordered_json layout_previews(const Client& client,
                                                     const ExperimentPlan& plan);

}  // namespace regatta::orchestrator::cli
