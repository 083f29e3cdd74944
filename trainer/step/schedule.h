#pragma once

#include <cstdint>
#include <vector>

#include "trainer/contract/run_config.h"

namespace regatta::trainer::step {

// Learning rate of optimizer step `step` (1 is the first) of a run of `steps`. Warm-up grows
// linearly from 0 and ends at `warmup_steps` w with the full rate; after it, until decay_steps d
// (0: the run's steps), Linear falls to end_learning_rate in a straight line, Polynomial as (1 −
// progress)^power, Constant stays. As in transformers' get_linear_schedule_with_warmup, progress is
// (step − 1 − w)/(d − w): step d, the last one of the decay, still has 1/(d − w) of the fall before
// it, and end_learning_rate is for the steps after it. So no step is taken at rate 0; the warm-up
// is a step ahead of transformers', whose first step has rate 0. (google-research/bert,
// optimization.py: without warm-up the same with power 1; with it, the decay starts at step 1.)
// Of a batch that grows, `step` lies between two: one more than the steps of the first batch that
// those before it are worth.
[[nodiscard]] double learning_rate(const contract::OptimizerConfig& config, std::int64_t steps,
                                   double step);

// By what a step's learning rate is multiplied for each tensor of the table: 0 for those that are
// frozen, 1 for the head, pooler included, layer_decay for the last layer, its square for the one
// below, … (FineTuningConfig).
[[nodiscard]] std::vector<float> learning_rate_factors(const contract::TensorTable& table,
                                                       const contract::ModelShape& shape,
                                                       const contract::FineTuningConfig& config);

}  // namespace regatta::trainer::step
