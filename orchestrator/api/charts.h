// GET /metrics: series of several runs in buckets.
#pragma once

#include "orchestrator/api/routes.h"
#include "orchestrator/store/store_reads.h"

namespace regatta::orchestrator::api {

// {"x", "runs": [{"id", "steps": chart, "evaluations": chart}…]}. A bucket is rows that follow each
// other in the journal of one attempt, all of them or none on an abandoned branch: steps that were
// trained again. Of each series it has [minimum, maximum, last, count]. 400 for what is too much.
[[nodiscard]] Response charts(store::StoreReads& store, const Call& call);

}  // namespace regatta::orchestrator::api
