// `regatta sbatch`: sbatch itself, with what a user of sbatch has to think of themselves.
#pragma once

#include <string>
#include <vector>

#include "orchestrator/cli/commands.h"

namespace regatta::orchestrator::cli {

// arguments: those after "sbatch", which go to sbatch as they are. What sbatch writes is written,
// and its exit code returned (or its signal taken), so that programs which call sbatch can call
// this. On stderr, beside: what in the script does not do what it looks like, what was added
// (slurm/sbatch_additions.h), and what a refusal means. A submission whose answer was lost is
// looked up by its comment, never repeated; a job that is found is told as sbatch tells it, with
// exit code 0. Code::Operator when there is no sbatch in PATH.
int sbatch(const std::vector<std::string>& arguments, const site::ProgramEnvironment& environment);

}  // namespace regatta::orchestrator::cli
