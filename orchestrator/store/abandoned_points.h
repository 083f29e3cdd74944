// Which points of a run are of a branch that was given up: their steps were trained again, after a
// resume from an earlier checkpoint or a rollback. They stay in the store.
#pragma once

#include <vector>

#include "orchestrator/runs/run.h"
#include "orchestrator/store/store_reads.h"

namespace regatta::orchestrator::store {

// Of each row whether its step was trained again since, as far as the store knows. `attempts`: all
// of the run's, as the store has them. Reads the blocks of the oldest row's attempt and of later
// ones.
[[nodiscard]] std::vector<bool> abandoned(StoreReads& store,
                                          const std::vector<runs::Attempt>& attempts,
                                          const std::vector<StepRow>& rows);
// Of each evaluation whether steps up to it were trained again since: a later one of its attempt is
// of no later step, or a later attempt began before it. One at the very step at which the attempt
// before ended trains nothing again. `rows`: of the run, as the store has them, without a gap.
[[nodiscard]] std::vector<bool> abandoned(StoreReads& store, const runs::Run& run,
                                          const std::vector<runs::Attempt>& attempts,
                                          const std::vector<EvaluationRow>& rows);

}  // namespace regatta::orchestrator::store
