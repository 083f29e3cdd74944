// What a run is to reach, and whether an evaluation does.
#pragma once

#include <optional>

#include "trainer/contract/journal.h"
#include "trainer/contract/run_config.h"

namespace regatta::trainer::run {

// baseline: of the best constant guess, where that has one. Nothing without a target. Code::User
// for a multiple of the baseline that no run reaches, or that all do.
[[nodiscard]] std::optional<double> target_value(const contract::RunConfig& config,
                                                 const std::optional<double>& baseline);

[[nodiscard]] bool meets(const contract::RunConfig& config, const std::optional<double>& target,
                         const contract::EvalRecord& record);

}  // namespace regatta::trainer::run
