// The routes below /runs/{id}/checkpoints (README.md).
#pragma once

#include <cstdint>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/file_system.h"
#include "orchestrator/checkpoint_exports.h"
#include "orchestrator/http.h"
#include "orchestrator/run.h"

namespace regatta::orchestrator {

class CheckpointTools;

// What a request may have read from disk, bytes; above it 413 names the command that has no limit.
constexpr std::uint64_t kMostVerifiedBytes = 256'000'000;

struct CheckpointApiOptions {
  ExportSettings exports;
  std::uint64_t most_verified_bytes = kMostVerifiedBytes;
};

class CheckpointApi {
 public:
  CheckpointApi(base::FileSystem& files, base::Clock& clock, CheckpointApiOptions options = {})
      : files_(files),
        clock_(clock),
        most_verified_bytes_(options.most_verified_bytes),
        exports_(files, std::move(options.exports)) {}

  // parts: of the path after "checkpoints/". Thread-safe. Errors are thrown as base::Error, but for
  // 400, 404 of addresses, 405 and 413.
  [[nodiscard]] Response handle(const Request& request, const Run& run,
                                const std::vector<std::string>& parts);

  // `rows` of the journal (checkpoints_json), each with what the directory says of it, and what
  // only the directory knows. A directory that cannot be read leaves the rows as they are, with the
  // reason in "trouble".
  [[nodiscard]] nlohmann::ordered_json list(const Run& run, nlohmann::ordered_json rows) const;

 private:
  [[nodiscard]] Response handle_export(const Request& request, const CheckpointTools& tools,
                                       const std::string& checkpoint);

  base::FileSystem& files_;
  base::Clock& clock_;
  std::uint64_t most_verified_bytes_;
  std::mutex reading_;  // one request at a time reads a whole checkpoint
  CheckpointExports exports_;
};

}  // namespace regatta::orchestrator
