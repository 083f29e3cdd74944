// POST /runs?dry_run=true: what would be submitted.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "orchestrator/control/preview.h"

namespace regatta::orchestrator::api {

[[nodiscard]] nlohmann::ordered_json checks_json(const std::vector<control::PreviewCheck>& checks);
// Without values of slurm.environment. scheduler: its name.
[[nodiscard]] nlohmann::ordered_json preview_json(const control::Preview& preview,
                                                  const std::string& scheduler);

}  // namespace regatta::orchestrator::api
