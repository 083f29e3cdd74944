// The routes below /runs/{id}/checkpoints (README.md).
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/file_system.h"
#include "orchestrator/api/http.h"
#include "orchestrator/checkpoints/checkpoint_exports.h"
#include "orchestrator/runs/run.h"

namespace regatta::orchestrator::files {
class SharedFiles;
}

namespace regatta::orchestrator::api {

// What a request may have read from disk, bytes; above it 413 names the command that has no limit.
constexpr std::uint64_t kMostVerifiedBytes = 256'000'000;

struct CheckpointApiOptions {
  checkpoints::ExportSettings exports;
  std::uint64_t most_verified_bytes = kMostVerifiedBytes;
};

class CheckpointApi {
 public:
  // shared: where files are touched; nothing: by the caller's thread. What outlives its deadline
  // there uses files and clock, which outlive everything.
  CheckpointApi(base::FileSystem& files, base::Clock& clock, CheckpointApiOptions options = {},
                files::SharedFiles* shared = nullptr)
      : files_(files),
        clock_(clock),
        most_verified_bytes_(options.most_verified_bytes),
        exports_(
            std::make_shared<checkpoints::CheckpointExports>(files, std::move(options.exports))),
        shared_(shared) {}

  // parts: of the path after "checkpoints/". Thread-safe. Errors are thrown as base::Error, but for
  // 400, 404 of addresses, 405 and 413.
  [[nodiscard]] Response handle(const Request& request, const runs::Run& run,
                                const std::vector<std::string>& parts);

  // `rows` of the journal (checkpoints_json), each with what the directory says of it, and what
  // only the directory knows. A directory that cannot be read leaves the rows as they are, with the
  // reason in "trouble".
  [[nodiscard]] nlohmann::ordered_json list(const runs::Run& run,
                                            nlohmann::ordered_json rows) const;

 private:
  base::FileSystem& files_;
  base::Clock& clock_;
  std::uint64_t most_verified_bytes_;
  // One request at a time reads a whole checkpoint. Shared with works that hang.
  std::shared_ptr<std::mutex> reading_ = std::make_shared<std::mutex>();
  std::shared_ptr<checkpoints::CheckpointExports> exports_;  // shared with works that hang
  files::SharedFiles* shared_;
};

}  // namespace regatta::orchestrator::api
