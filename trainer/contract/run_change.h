// What of a run's file may change once the run exists.
#pragma once

#include <vector>

#include "base/file_system.h"
#include "trainer/contract/run_config.h"
#include "trainer/contract/run_difference.h"
#include "trainer/contract/run_directory.h"

namespace regatta::trainer::contract {

// Those of differences(before, after) that make another run. Not among them: how long it trains,
// its target (but not the metric that it is judged by), how often it is evaluated and saved, and
// which checkpoints it keeps.
[[nodiscard]] std::vector<KeyDifference> fixed_differences(const RunConfig& before,
                                                           const RunConfig& after);

// Whether nothing depends on the run's file so far, so that it may become another: there is no
// checkpoint, and each attempt, if there was any, wrote down its end and not one step or figure.
[[nodiscard]] bool is_untrained(base::FileSystem& files, const RunDirectory& directory);

}  // namespace regatta::trainer::contract
