// The samples of a step, and its dropout, as a probe tells them.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "trainer/contract/run_config.h"
#include "trainer/probe/replay.h"

namespace regatta::trainer::probe {

// The parts `samples`, `tokens`, `masks` and `dropout`, in this order.
[[nodiscard]] std::vector<nlohmann::ordered_json> sample_parts(
    const std::vector<ReplayedSample>& samples, const contract::RunConfig& config,
    std::int64_t step);

}  // namespace regatta::trainer::probe
