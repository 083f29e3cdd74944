// Following a run, for `regatta watch` and `regatta submit --wait`.
#pragma once

#include <string>

#include "orchestrator/cli/client.h"
#include "orchestrator/cli/output.h"

namespace regatta::orchestrator::cli {

// What is returned when the run has ended: 0, or its own exit code (100: it failed without one).
enum class WatchResult { Zero, RunExitCode };
// What a program reads, which is not for people: the run each time that it has changed, or once, as
// it was at last.
enum class WatchOutput { EveryChange, Once };
struct WatchOptions {
  WatchResult result = WatchResult::Zero;
  WatchOutput output = WatchOutput::EveryChange;
};

// Shows the run's progress until it ends. Ctrl-C detaches (130): the run goes on.
int watch_run(const Client& client, Output output, const std::string& run,
              const WatchOptions& options);

}  // namespace regatta::orchestrator::cli
