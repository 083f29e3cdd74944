// The routes below /runs/{id}/checkpoints (docs/api.md).
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
#include "orchestrator/checkpoints/checkpoint_tools.h"
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

  // The routes; name: of a checkpoint, its step, or "latest". Thread-safe. Errors are thrown as
  // base::Error, but for 400 and 413.
  [[nodiscard]] Response show(const runs::Run& run, const std::string& name) const;
  [[nodiscard]] Response verify(const runs::Run& run, const std::string& name) const;
  [[nodiscard]] Response pin(const Request& request, const runs::Run& run,
                             const std::string& name) const;
  [[nodiscard]] Response unpin(const runs::Run& run, const std::string& name) const;
  [[nodiscard]] Response collect(const runs::Run& run, checkpoints::CheckpointTools::Gc mode) const;
  [[nodiscard]] Response show_export(const runs::Run& run, const std::string& name) const;
  [[nodiscard]] Response begin_export(const Request& request, const runs::Run& run,
                                      const std::string& name) const;

  // Files as they are (download.h); `file` is one of show()'s or show_export()'s.
  [[nodiscard]] Response send_file(const Request& request, const runs::Run& run,
                                   const std::string& name, const std::string& file) const;
  [[nodiscard]] Response send_archive(const Request& request, const runs::Run& run,
                                      const std::string& name) const;
  [[nodiscard]] Response send_export_file(const Request& request, const runs::Run& run,
                                          const std::string& name, const std::string& file) const;
  [[nodiscard]] Response send_export_archive(const Request& request, const runs::Run& run,
                                             const std::string& name) const;
  [[nodiscard]] Response remove_export(const runs::Run& run, const std::string& name) const;

  // `rows` of the journal (checkpoints_json), each with what the directory says of it, and what
  // only the directory knows. A directory that cannot be read leaves the rows as they are, with the
  // reason in "trouble".
  [[nodiscard]] nlohmann::ordered_json list(const runs::Run& run,
                                            nlohmann::ordered_json rows) const;

 private:
  // What `work` answers of the run's directory; Code::Retry after so many seconds.
  template <typename Work>
  [[nodiscard]] Response in_files(const runs::Run& run, double seconds, Work work) const;

  base::FileSystem& files_;
  base::Clock& clock_;
  std::uint64_t most_verified_bytes_;
  // One request at a time reads a whole checkpoint. Shared with works that hang.
  std::shared_ptr<std::mutex> reading_ = std::make_shared<std::mutex>();
  std::shared_ptr<checkpoints::CheckpointExports> exports_;  // shared with works that hang
  files::SharedFiles* shared_;
};

// Of what list() answers, with an ETag that no age has a part in.
[[nodiscard]] Response checkpoint_list(const nlohmann::ordered_json& listed);

}  // namespace regatta::orchestrator::api
