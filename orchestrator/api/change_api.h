// POST /runs/{id}/extend, change and fork (docs/api.md), and the key of requests that may come
// again.
#pragma once

#include <optional>
#include <string>

#include "orchestrator/api/http.h"
#include "orchestrator/control/controller.h"

namespace regatta::orchestrator::api {

// The header Idempotency-Key.
[[nodiscard]] std::optional<std::string> key_of(const Request& request);

// {"checkpoint": "…", "name": "…", "changes": {…}}, all optional. Code::User for anything else.
[[nodiscard]] control::ForkRequest parse_fork(const std::string& body);

}  // namespace regatta::orchestrator::api
