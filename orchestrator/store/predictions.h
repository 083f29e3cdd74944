// The prediction of a run's crossing (runs/crossing.h) from what the store has: its evaluations,
// and those of finished runs of its kind.
#pragma once

#include <vector>

#include "orchestrator/runs/crossing.h"
#include "orchestrator/store/store_reads.h"

namespace regatta::orchestrator::store {

// The newest finished runs of the run's kind that had ended when it was submitted, judged by its
// target: at most kMostPastRuns. None for a fork, and no forks: their time to accuracy is of a part
// of the curve. The same whenever it is asked for.
[[nodiscard]] std::vector<runs::PastRun> past_runs(StoreReads& store, const runs::Run& run);
inline constexpr int kMostPastRuns = 10;

}  // namespace regatta::orchestrator::store
