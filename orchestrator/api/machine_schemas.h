// The part of schemas() that is about machines, and plans for them.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace regatta::orchestrator::api::forms {

void add_machines(nlohmann::ordered_json* all);

}  // namespace regatta::orchestrator::api::forms
