// Following a run, for `regatta watch` and `regatta submit --wait`.
#pragma once

#include <string>

#include "orchestrator/cli/client_options.h"

namespace regatta::orchestrator::cli {

// What is returned when the run has ended: 0, or its own exit code (100: it failed without one).
enum class WatchResult { Zero, RunExitCode };

// Shows the run's progress until it ends. Ctrl-C detaches (130): the run goes on.
int watch_run(ClientOptions options, const std::string& run, WatchResult result);

}  // namespace regatta::orchestrator::cli
