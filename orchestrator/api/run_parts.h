// Attempts and evaluations of a run, as resources of their own.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>

#include "orchestrator/runs/run.h"
#include "orchestrator/store/store_reads.h"

namespace regatta::orchestrator::api {

// {"launches": […], "attempts": […]}, oldest first. An attempt's `launch` is the newest that knew
// only attempts before it.
[[nodiscard]] nlohmann::ordered_json attempts_json(store::StoreReads& store, const runs::Run& run);
// {"evaluations": […], "cursor", "more"}: the first `limit` after `cursor`.
[[nodiscard]] nlohmann::ordered_json evaluations_json(store::StoreReads& store,
                                                      const runs::Run& run, std::int64_t cursor,
                                                      int limit);

}  // namespace regatta::orchestrator::api
