// What of a frozen tree is no longer so in the place that it was taken from.
#pragma once

#include <string>
#include <vector>

#include "base/file_system.h"
#include "orchestrator/frozen/frozen_job.h"

namespace regatta::orchestrator::frozen {

struct Change {
  enum class Kind { Changed, Gone, New } kind = Kind::Changed;
  std::string path;        // relative to the root; of a script from elsewhere absolute
  base::Path frozen, now;  // the two files; empty where there is none
};

struct Changes {
  std::vector<Change> changes;       // sorted by path
  std::vector<std::string> touched;  // frozen files that are no longer what was frozen, as when the
                                     // job itself changed them
  bool root_is_gone = false;
};

// folder: where `job` was read. As freeze() reads, with its errors.
[[nodiscard]] Changes changes_since(const FrozenJob& job, const base::Path& folder);

}  // namespace regatta::orchestrator::frozen
