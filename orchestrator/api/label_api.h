// POST /runs/{id}/labels, and the tags of a submission (docs/api.md).
#pragma once

#include <string>

#include "orchestrator/runs/labels.h"

namespace regatta::orchestrator::api {

// {"tags": […]} or {"add_tags": […], "remove_tags": […]}, and {"note": "…"|null}. Code::User for
// anything else.
[[nodiscard]] runs::LabelChange parse_labels(const std::string& body);

}  // namespace regatta::orchestrator::api
