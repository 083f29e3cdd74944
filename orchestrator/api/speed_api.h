// Why one run is slower than another (orchestrator/compare), from what lies in their directories.
#pragma once

#include "base/file_system.h"
#include "orchestrator/api/http.h"
#include "orchestrator/files/shared_files.h"
#include "orchestrator/runs/run.h"

namespace regatta::orchestrator::api {

// Of the newest attempts that have steps: of a longer journal the last kMostJournalBytes count.
// Throws base::Error: Code::NotFound where a run has no such attempt, Code::User where it has too
// few steps. shared: null: files are read in the caller's thread.
inline constexpr std::uint64_t kMostJournalBytes = std::uint64_t{16} << 20U;
[[nodiscard]] Response answer_speed(base::FileSystem& files, files::SharedFiles* shared,
                                    const runs::Run& run, const runs::Run& against);

}  // namespace regatta::orchestrator::api
