// DELETE /runs/{id} and POST /runs/{id}/archive (docs/api.md).
#pragma once

#include <string>

#include "orchestrator/api/http.h"
#include "orchestrator/control/controller.h"

namespace regatta::orchestrator::api {

// Errors are thrown as base::Error.
[[nodiscard]] Response remove_run(control::Controller& controller, const std::string& run,
                                  const control::RemoveOptions& options);
[[nodiscard]] Response archive_run(control::Controller& controller, const std::string& run,
                                   control::DryRun dry_run, const std::string& by,
                                   const std::optional<std::string>& idempotency_key);

}  // namespace regatta::orchestrator::api
