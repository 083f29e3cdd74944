#pragma once

#include <cstdint>

#include "trainer/contract/run_config.h"

namespace regatta::trainer {

// Learning rate of optimizer step `step` (1 is the first) of a run of `steps`. Warm-up grows
// linearly from 0 and ends at `warmup_steps` with the full rate; after it, until decay_steps (0:
// the run's steps), Linear falls to end_learning_rate in a straight line, Polynomial as (1 −
// progress)^power (google-research/bert, optimization.py: power 1 from the first step; here the
// decay starts where the warm-up ends), Constant stays.
[[nodiscard]] double learning_rate(const OptimizerConfig& config, std::int64_t steps,
                                   std::int64_t step);

}  // namespace regatta::trainer
