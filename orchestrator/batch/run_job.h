// What a launch of a run asks of Slurm: what its run file says, and the plan beside it.
#pragma once

#include <optional>

#include "base/file_system.h"
#include "orchestrator/batch/batch_script.h"
#include "topology/plan/plan.h"
#include "trainer/contract/run_config.h"

namespace regatta::orchestrator::batch {

// plan.json of the run directory; nothing where there is none, or where it is for another number of
// ranks (logged). Code::User names what is wrong with one.
[[nodiscard]] std::optional<topology::plan::Plan> plan_of_run(base::FileSystem& files,
                                                              const base::Path& run_directory,
                                                              int ranks);

// `launch` has what is this launch's own: token, directories, trainer, nodes to avoid.
[[nodiscard]] SlurmJob job_of_run(SlurmJob launch, const trainer::contract::RunConfig& config,
                                  const std::optional<topology::plan::Plan>& plan);

}  // namespace regatta::orchestrator::batch
