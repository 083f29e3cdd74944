// From which step on a run learns differently than another (orchestrator/compare), from what lies
// in their directories. No step is replayed here.
#pragma once

#include "base/file_system.h"
#include "orchestrator/api/http.h"
#include "orchestrator/files/shared_files.h"
#include "orchestrator/runs/run.h"

namespace regatta::orchestrator::api {

// Of all attempts, of whose journals the first kMostLearningBytes together count. Throws
// base::Error: Code::NotFound where a run has no step yet. shared: null: files are read in the
// caller's thread.
inline constexpr std::uint64_t kMostLearningBytes = std::uint64_t{16} << 20U;
[[nodiscard]] Response answer_learning(base::FileSystem& files, files::SharedFiles* shared,
                                       const runs::Run& run, const runs::Run& against);

}  // namespace regatta::orchestrator::api
