// What a run directory holds, its removal, and what of it is kept when a run is archived. Nothing
// here follows a link.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/file_system.h"
#include "checkpoint/retention.h"

namespace regatta::orchestrator::control {

// Bytes of regular files, as long as they are (not what they take on the disk).
struct DirectoryUse {
  std::uint64_t checkpoints = 0, exports = 0;
  std::uint64_t logs = 0;     // of launches and jobs
  std::uint64_t journal = 0;  // of all attempts
  std::uint64_t other = 0;
  std::uint64_t files = 0;  // how many

  [[nodiscard]] std::uint64_t bytes() const {
    return checkpoints + exports + logs + journal + other;
  }
};

struct RunDirectoryLook {
  bool exists = false;
  DirectoryUse use;
  std::vector<std::string> pinned, read;  // checkpoints, and those that somebody is reading
};
// Code::Conflict where the directory is a symbolic link.
[[nodiscard]] RunDirectoryLook look_at_directory(base::FileSystem& files,
                                                 const base::Path& directory, double utc_seconds);

// RUNS/ID → RUNS/.removed-ID-<random digits>, which is never taken for a run; its new path.
base::Path move_run_away(base::FileSystem& files, const base::Path& directory);
// The id in such a name.
[[nodiscard]] std::optional<std::string> id_of_removed(const std::string& name);
// Whatever somebody else, who removes it too, is faster with. Code::Operator for what cannot be
// removed; the rest is gone then.
void remove_moved(base::FileSystem& files, const base::Path& path);

struct ArchivedFiles {
  struct Checkpoint {
    std::string name;
    std::int64_t step = 0;
    std::uint64_t bytes = 0;
    std::vector<std::string> reasons;
  };
  std::vector<Checkpoint> kept, removed;
  std::uint64_t exports = 0;  // bytes of exports that are removed
};
// Keeps the newest checkpoint, the best by `policy`, and pinned ones. Mode::Check: reads the newest
// before any goes, where it has at most `most_read` bytes; where it has more, the one before it
// stays, too. Mode::Preview: reads the same, and removes nothing.
ArchivedFiles archive_files(base::FileSystem& files, const base::Path& directory,
                            checkpoint::RetentionPolicy policy,
                            checkpoint::RetentionRound::Mode mode, std::uint64_t most_read,
                            double utc_seconds);

}  // namespace regatta::orchestrator::control
