// The part of schemas() that is about sweeps.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace regatta::orchestrator::api::forms {

// After RunFile is there.
void add_sweeps(nlohmann::ordered_json* all);

}  // namespace regatta::orchestrator::api::forms
