// Following a run, for `regatta watch` and `regatta submit --wait`.
#pragma once

#include <string>

#include "orchestrator/cli/client.h"
#include "orchestrator/cli/output.h"

namespace regatta::orchestrator::cli {

// What is returned when the run has ended: 0, or its own exit code (100: it failed without one).
enum class WatchResult { Zero, RunExitCode };

// Shows the run's progress until it ends. Ctrl-C detaches (130): the run goes on.
int watch_run(const Client& client, Output output, const std::string& run, WatchResult result);

}  // namespace regatta::orchestrator::cli
