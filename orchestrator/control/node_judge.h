// What the end of an attempt or a launch says of its nodes.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/file_system.h"
#include "orchestrator/runs/run.h"
#include "orchestrator/runs/scheduler.h"
#include "orchestrator/slurm/node_suspicion.h"

namespace regatta::orchestrator::control {

// hang.json of an attempt: the trainer's watchdog found a rank that stood still.
struct Hang {
  std::string host;
  std::string why;
};
// Nothing when absent or damaged.
[[nodiscard]] std::optional<Hang> read_hang(base::FileSystem& files,
                                            const base::Path& attempt_directory);

// A rank whose numbers were wrong, as the trainer found.
struct FollowedCorruption {
  int attempt = 0;
  std::string host;  // as the journal names it
  std::string message;
  double utc = 0;
};

// The scheduler's names of the nodes of an attempt: its hosts (by whole name or first label) among
// those of its launch; all of the launch where the journal names none.
[[nodiscard]] std::vector<std::string> nodes_of(const runs::Attempt& attempt,
                                                const runs::Launch& launch);

// Of an attempt that is over. `launch` is its own. Weights are small where nobody is named: the
// attempt may have ended for reasons of its own.
[[nodiscard]] std::vector<slurm::NodeEvent> judge_attempt(const std::string& run,
                                                          const runs::Attempt& attempt,
                                                          const runs::Launch& launch,
                                                          const std::optional<Hang>& hang);

// Of a rank that was found to be wrong: the node of its launch that it ran on, if it is known.
[[nodiscard]] std::optional<slurm::NodeEvent> judge_corruption(const std::string& run,
                                                               const FollowedCorruption& corruption,
                                                               const runs::Launch& launch);

// Of a launch that is over or waits again: the nodes that the scheduler blames.
[[nodiscard]] std::vector<slurm::NodeEvent> judge_report(const std::string& run,
                                                         const runs::ProcessReport& report,
                                                         double utc);

}  // namespace regatta::orchestrator::control
