// Freezes what a job will run: a folder of its own in STORE/jobs with the tree as it is now, so
// that what is edited while the job waits changes nothing (README.md says where it lies, and what
// is in it).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/file_system.h"
#include "orchestrator/frozen/frozen_job.h"

namespace regatta::orchestrator::frozen {

struct FreezeRequest {
  base::Path store;                   // made when absent
  base::Path directory;               // where sbatch is called: absolute, no link in it
  std::optional<std::string> commit;  // none: the files as they are
  std::optional<base::Path> script;   // absolute
  std::vector<std::string> command;   // sbatch's words
  std::uint64_t most_bytes = std::uint64_t{1} << 30U;
  std::size_t most_files = 100'000;
};

struct Frozen {
  FrozenJob job;
  base::Path folder;                  // STORE/jobs/NAME
  base::Path directory;               // in its tree, where `request.directory` was
  std::vector<std::string> left_out;  // pipes, sockets and devices
};

// Nothing of a job's folder is at its name before all of it is there. Code::User: too large (with
// what is large in it), the folder is one that git ignores, no such commit; Code::Operator: git or
// a disk fails; Code::Retry: a file is being written.
[[nodiscard]] Frozen freeze(const FreezeRequest& request);

// The link of a frozen tree that stands for one with `target` at `path` of `root`: what it leads to
// within the tree stays within, what lies outside stays where it is. Pure.
[[nodiscard]] std::string frozen_target(const base::Path& root, const std::string& path,
                                        const std::string& target);

// Notes the job's id beside its tree; the newest of a folder counts.
void keep_job_id(const base::Path& folder, const std::string& id);

// Removes the folder of a submission that was refused.
void discard(const base::Path& folder);

// The newest folder of the job with that id, or the one of that name; nothing when there is none.
[[nodiscard]] std::optional<base::Path> find_frozen(const base::Path& store,
                                                    const std::string& id_or_name);

}  // namespace regatta::orchestrator::frozen
