// Whether the controller and what it needs work.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/file_system.h"
#include "orchestrator/control/controller.h"
#include "orchestrator/files/shared_files.h"
#include "orchestrator/webhooks/webhooks.h"

namespace regatta::orchestrator::api {

struct HealthCheck {
  std::string name;
  bool good = true;
  std::string detail;  // what is wrong, or what is under way
};

// GET /version. commit: of the program; empty: not known. scheduler: nothing while the controller
// starts.
[[nodiscard]] nlohmann::ordered_json version_json(const std::string& commit,
                                                  const std::optional<std::string>& scheduler,
                                                  const base::Path& runs_directory,
                                                  const control::Adoption& adoption);

// The store's answer to a small question.
[[nodiscard]] HealthCheck check_store(control::Controller& controller);

// {"status": "ok" or "degraded", "checks": [{"name", "good", "detail"}…], "polling"} of the store,
// the scheduler, the runs directory, which is looked into (in `shared`, which may be null), and,
// where there are some, webhooks and what is wrong with sweeps.
[[nodiscard]] nlohmann::ordered_json health_json(control::Controller& controller, double now_utc,
                                                 base::FileSystem& files,
                                                 files::SharedFiles* shared,
                                                 const std::vector<webhooks::Status>& webhooks = {},
                                                 const std::vector<std::string>& sweep_faults = {});

}  // namespace regatta::orchestrator::api
