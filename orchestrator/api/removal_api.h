// DELETE /runs/{id} and POST /runs/{id}/archive (docs/api.md).
#pragma once

#include <string>

#include "orchestrator/api/http.h"
#include "orchestrator/control/controller.h"

namespace regatta::orchestrator::api {

// Errors are thrown as base::Error, but for a query that is not true or false: 400.
[[nodiscard]] Response remove_run(control::Controller& controller, const Request& request,
                                  const std::string& run);
[[nodiscard]] Response archive_run(control::Controller& controller, const Request& request,
                                   const std::string& run);

}  // namespace regatta::orchestrator::api
