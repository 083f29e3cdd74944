// What a trial's run has reached, as its sweep judges it.
#pragma once

#include <cstdint>

#include "orchestrator/runs/run.h"
#include "orchestrator/store/store_reads.h"
#include "orchestrator/sweeps/settings.h"

namespace regatta::orchestrator::control {

// Of a run that is over, when it has trained `steps`, or as far as it came: the metric that it is
// judged by at the first evaluation from there on; its time to accuracy, or where the target is not
// met the predicted one (runs/crossing.h); or its goodput. Not a number where there is none. Time
// is that of its attempts from their first step on: what passes between two of them, while a trial
// waits to be promoted, is not the trial's.
[[nodiscard]] double objective_of(store::StoreReads& store, const runs::Run& run,
                                  sweeps::ObjectiveKind objective, std::int64_t steps);

}  // namespace regatta::orchestrator::control
