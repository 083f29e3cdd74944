// ASHA: asynchronous successive halving (Li et al., A System for Massively Parallel Hyperparameter
// Tuning, MLSys 2020, section 3.2, algorithm 2). Trials stop at rungs of growing budgets; the best
// of each rung go on, whenever a slot is free, without waiting for the others.
#pragma once

#include <optional>

#include "orchestrator/sweeps/history.h"
#include "orchestrator/sweeps/next_actions.h"

namespace regatta::orchestrator::sweeps {

// The promotion that get_job() of algorithm 2 gives to a free worker: from the highest rung down,
// the best trial among the first ⌊n/η⌋ of the rung that was not promoted; nothing where a new trial
// should start. n counts the trials with a result in the rung, failed ones left out; trials whose
// objective is not finite count there, and are not promoted.
[[nodiscard]] std::optional<ContinueTrial> next_promotion(const SweepSettings& settings,
                                                          const SweepHistory& history);

// The first trial by number that has to stop: one at its goal, kept if it may still be promoted;
// or a paused one that may not any more. It may while its rank in its rung, from 0, is below
// ⌊m/η⌋, where m counts the results of the rung and all that may yet arrive there, if none of the
// better ones fails.
[[nodiscard]] std::optional<StopTrial> next_stop(const SweepSettings& settings,
                                                 const SweepHistory& history);

}  // namespace regatta::orchestrator::sweeps
