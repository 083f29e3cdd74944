// Whether a coming maintenance keeps a job from starting: its time limit would reach into it. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "orchestrator/slurm/reservations.h"
#include "orchestrator/sbatch/sbatch_options.h"
#include "orchestrator/sbatch/sbatch_script.h"
#include "orchestrator/slurm/slurm_text.h"

namespace regatta::orchestrator {

// Those of maintenance that are still to come; with none nobody need ask for partitions.
[[nodiscard]] std::vector<Reservation> coming_maintenance(const std::vector<Reservation>& all,
                                                          double now);

// The first maintenance that takes every node of each partition that the job may use, and begins
// before a job that starts now would be over. Says which time limit still fits. Nothing where the
// job names a reservation, a later begin, another cluster or a shortest time limit.
[[nodiscard]] std::optional<SbatchFinding> maintenance_finding(
    const std::vector<GivenOption>& options, const std::vector<Reservation>& reservations,
    const std::vector<PartitionRow>& partitions, double now);

}  // namespace regatta::orchestrator
