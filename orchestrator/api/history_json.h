// GET /runs/{id}/history: every step, evaluation and checkpoint of a run, none left out.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>

#include "orchestrator/runs/run.h"
#include "orchestrator/store/store_reads.h"

namespace regatta::orchestrator::api {

// {"rows": [{"type": "step", "attempt", "at_seconds", …}…], "cursor", "more"}: the first `limit`
// rows after `cursor`, in the order in which the store got them.
[[nodiscard]] nlohmann::ordered_json history_json(store::StoreReads& store, const runs::Run& run,
                                                  std::int64_t cursor, int limit);

}  // namespace regatta::orchestrator::api
