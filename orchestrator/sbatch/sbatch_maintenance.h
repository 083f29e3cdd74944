// Whether a coming maintenance keeps a job from starting: its time limit would reach into it. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "orchestrator/sbatch/sbatch_options.h"
#include "orchestrator/sbatch/sbatch_script.h"
#include "orchestrator/slurm/reservations.h"
#include "orchestrator/slurm/slurm_text.h"

namespace regatta::orchestrator::sbatch {

// Those of maintenance that are still to come; with none nobody need ask for partitions.
[[nodiscard]] std::vector<slurm::Reservation> coming_maintenance(
    const std::vector<slurm::Reservation>& all, double now);

// The first maintenance that takes every node of each partition that the job may use, and begins
// before a job that starts now would be over. Says which time limit still fits. Nothing where the
// job names a reservation, a later begin, another cluster or a shortest time limit.
[[nodiscard]] std::optional<SbatchFinding> maintenance_finding(
    const std::vector<GivenOption>& options, const std::vector<slurm::Reservation>& reservations,
    const std::vector<slurm::PartitionRow>& partitions, double now);

}  // namespace regatta::orchestrator::sbatch
