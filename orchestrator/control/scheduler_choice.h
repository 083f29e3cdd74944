// Who is to run attempts: `regatta serve --scheduler`.
#pragma once

#include <optional>
#include <string>

#include "orchestrator/control/slurm_scheduler.h"
#include "orchestrator/slurm/slurm_commands.h"

namespace regatta::orchestrator::control {

struct SchedulerChoice {
  enum class Kind { Processes, Slurm };
  Kind kind = Kind::Processes;
  std::optional<SlurmCluster> cluster;  // nothing: Slurm has not answered so far
  std::string why;                      // for the log; may be empty
  bool surprising = false;              // `why` is a warning
};

// option: "auto", "local" or "slurm_cli". `auto` is Slurm where its commands are found and have a
// configuration, whether slurmctld answers now or not, and where the store has runs that belong to
// Slurm (`has_slurm_runs`). May take as long as the deadline of a query. Code::Operator where
// "slurm_cli" cannot be.
[[nodiscard]] SchedulerChoice choose_scheduler(const std::string& option, bool has_slurm_runs,
                                               const slurm::SlurmCommands& commands);

}  // namespace regatta::orchestrator::control
