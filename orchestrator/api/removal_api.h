// DELETE /runs/{id} and POST /runs/{id}/archive (README.md).
#pragma once

#include <string>

#include "orchestrator/control/controller.h"
#include "orchestrator/api/http.h"

namespace regatta::orchestrator {

// Errors are thrown as base::Error, but for a query that is not true or false: 400.
[[nodiscard]] Response remove_run(Controller& controller, const Request& request,
                                  const std::string& run);
[[nodiscard]] Response archive_run(Controller& controller, const Request& request,
                                   const std::string& run);

}  // namespace regatta::orchestrator
