// What of a run's file may change once the run exists.
#pragma once

#include <vector>

#include "trainer/contract/run_config.h"
#include "trainer/contract/run_difference.h"

namespace regatta::trainer::contract {

// Those of differences(before, after) that make another run. Not among them: how long it trains,
// its target (but not the metric that it is judged by), how often it is evaluated and saved, and
// which checkpoints it keeps.
[[nodiscard]] std::vector<KeyDifference> fixed_differences(const RunConfig& before,
                                                           const RunConfig& after);

}  // namespace regatta::trainer::contract
