// Going back after a divergence: which samples are left out, and to which checkpoint.
//
// A run that diverges at step d goes back to a checkpoint of step c, and its step s takes from then
// on what step s + (d − c) would have taken: nothing that led there comes again, and nothing else
// is left out. What a run has gone back on stands in its checkpoints, so the state that follows one
// depends on nothing else, whichever attempt takes it up.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/store.h"

namespace regatta::trainer::run {

using checkpoint::Rollback;

// Steps whose samples are left out.
[[nodiscard]] std::int64_t skipped_steps(const std::vector<Rollback>& rollbacks);

// The checkpoints that a run has come through which diverges at step `diverged_at` after
// `rollbacks`, the one to go back to first. Those that every `every` steps are due come before
// others, which are there only where a run was interrupted, so that it makes no difference whether
// it was; the newest first, but last of all the one that it has gone back to before and reached no
// other from: its weights may be beyond help.
[[nodiscard]] std::vector<std::string> rollback_targets(
    const std::vector<checkpoint::Entry>& checkpoints, const std::vector<Rollback>& rollbacks,
    std::int64_t diverged_at, std::int64_t every);

}  // namespace regatta::trainer::run
