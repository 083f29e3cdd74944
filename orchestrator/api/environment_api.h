// What an attempt was built of and ran on: its environment.json (docs/formats/environment.md).
#pragma once

#include <cstdint>
#include <optional>

#include "base/file_system.h"
#include "orchestrator/api/http.h"
#include "orchestrator/files/shared_files.h"
#include "orchestrator/runs/run.h"

namespace regatta::orchestrator::api {

// The file as it is, of this attempt or else of the newest. Throws base::Error: Code::NotFound for
// no such attempt, or one without the file or with one of format 1; else as parse_environment().
// shared: null: the file is read in the caller's thread.
[[nodiscard]] Response answer_environment(base::FileSystem& files, files::SharedFiles* shared,
                                          const runs::Run& run,
                                          std::optional<std::int64_t> attempt);

}  // namespace regatta::orchestrator::api
