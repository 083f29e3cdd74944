// POST /runs?dry_run=true: what would be submitted.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "orchestrator/control/preview.h"

namespace regatta::orchestrator::api {

// Without values of slurm.environment. scheduler: its name.
[[nodiscard]] nlohmann::ordered_json preview_json(const control::Preview& preview,
                                                  const std::string& scheduler);

}  // namespace regatta::orchestrator::api
