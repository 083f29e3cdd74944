// GET /runs/{id}/time_to_accuracy: when which accuracy was reached, when the target will be, how
// earlier predictions of that turned out, and where the time went.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "orchestrator/api/routes.h"
#include "orchestrator/runs/run.h"
#include "orchestrator/store/store_reads.h"

namespace regatta::orchestrator::api {

// 400 for thresholds that are no numbers, or more than kMostThresholds.
[[nodiscard]] Response time_to_accuracy(store::StoreReads& store, const Call& call,
                                        const runs::Run& run, double now_utc);
// {"seconds", "low", "high", "confidence", "model"} on the axis of time to accuracy; null where
// there is none.
[[nodiscard]] nlohmann::ordered_json prediction_json(const runs::Run& run);

inline constexpr std::size_t kMostThresholds = 50;

}  // namespace regatta::orchestrator::api
