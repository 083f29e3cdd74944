// Warnings about options and commands of a user's script that do not do what they seem to do. Pure.
// sbatch_script.h warns of lines that sbatch reads otherwise than they look. Each rule was tried
// with Slurm 22.05 (tests/slurm/sbatch_test.py) and is described in docs/slurm.md under its id.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "orchestrator/sbatch/sbatch_options.h"
#include "orchestrator/sbatch/sbatch_script.h"
#include "orchestrator/slurm/slurm_values.h"

namespace regatta::orchestrator::sbatch {

// options: those that count (options_that_count), of one job, not of a heterogeneous one.

// "--time=1:00", which is one minute.
[[nodiscard]] std::optional<SbatchFinding> time_finding(const std::vector<GivenOption>& options);

// Options about GPUs that Slurm refuses together, or of which it drops one. At most one finding:
// what follows from a wrong option is no second mistake.
[[nodiscard]] std::optional<SbatchFinding> gpu_finding(const std::vector<GivenOption>& options);

// The first srun that takes the job's tasks but not its --cpus-per-task. None where the script or
// the environment (which the job inherits) sets SRUN_CPUS_PER_TASK, where srun has options of its
// own for tasks, CPUs or binding, or options out of a variable, and with one task for each node,
// which has all CPUs anyway.
[[nodiscard]] std::optional<SbatchFinding> step_cpus_finding(
    const SbatchScript& script, const std::vector<GivenOption>& options,
    const std::map<std::string, std::string>& environment);
// The first srun that asks for GPUs in a way that the job's own option makes lose them: refused, or
// its tasks see none. An srun without such an option sees all GPUs of its job.
[[nodiscard]] std::optional<SbatchFinding> step_gpus_finding(
    const SbatchScript& script, const std::vector<GivenOption>& options);
// Releases in which srun does not take --cpus-per-task from its job: 22.05 and 23.02.
[[nodiscard]] bool srun_forgets_cpus(const slurm::SlurmVersion& version);

// What to do about a script that slurmctld refused, if its size may be why; else empty.
[[nodiscard]] std::string size_hint(const std::string& refusal, std::size_t script_bytes);

}  // namespace regatta::orchestrator::sbatch
