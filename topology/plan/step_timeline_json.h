// The timeline in plan.json; docs/formats/topology.md has its keys.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "base/document.h"
#include "topology/plan/step_timeline.h"

namespace regatta::topology::plan {

[[nodiscard]] nlohmann::ordered_json json_of(const StepTimeline& timeline);

// Reads all of `table`. Throws Code::User for figures that are negative or not finite.
[[nodiscard]] StepTimeline read_timeline(base::Table& table);

}  // namespace regatta::topology::plan
