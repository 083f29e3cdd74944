// The part of schemas() that is about experiments.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace regatta::orchestrator::api::forms {

void add_experiments(nlohmann::ordered_json* all);

}  // namespace regatta::orchestrator::api::forms
