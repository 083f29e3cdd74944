// The logs of a run: their list, parts of one, and searches (docs/api.md).
#pragma once

#include <vector>

#include "base/clock.h"
#include "base/file_system.h"
#include "orchestrator/api/routes.h"
#include "orchestrator/files/shared_files.h"
#include "orchestrator/runs/run.h"

namespace regatta::orchestrator::api {

// For what is read of a run's files; then 503: their file system does not answer.
inline constexpr double kRunFileSeconds = 3;

// Where a run's logs are.
struct LogPlace {
  base::FileSystem* files = nullptr;
  files::SharedFiles* shared = nullptr;
  base::Clock* clock = nullptr;
  base::Path directory;
  std::vector<runs::Launch> launches;
};

// Errors are thrown as base::Error.
[[nodiscard]] Response log_files(const Call& call, const LogPlace& place);
[[nodiscard]] Response log_part(const Call& call, const LogPlace& place);
// All of one, as it is at the moment, with ranges (download.h).
[[nodiscard]] Response log_download(const Call& call, const LogPlace& place);
[[nodiscard]] Response log_search(const Call& call, const LogPlace& place);

}  // namespace regatta::orchestrator::api
