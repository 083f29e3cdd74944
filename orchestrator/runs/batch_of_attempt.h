// Which samples an attempt's steps had, where its batch grows, too.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "orchestrator/runs/run.h"
#include "trainer/contract/journal.h"

namespace regatta::orchestrator::runs {

// As Attempt::batches has them: "400:128" is 128 samples a step from step 400 on.
[[nodiscard]] std::vector<std::string> batch_texts(const trainer::contract::BatchChanges& changes);
// One more, unless it is no later or no larger than those before (of a damaged journal).
void add_batch(const trainer::contract::BatchRecord& change, Attempt* attempt);

// Samples of all of the run's steps up to this one.
[[nodiscard]] std::int64_t samples_after(const Attempt& attempt, std::int64_t step);
// Of one step; 0: not known.
[[nodiscard]] std::int64_t batch_at(const Attempt& attempt, std::int64_t step);

}  // namespace regatta::orchestrator::runs
