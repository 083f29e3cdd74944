// Whether somebody else could have put a file where it lies.
#pragma once

#include "base/file_system.h"

namespace regatta::orchestrator::files {

// True when the regular file or directory behind `path` and every directory above it, links
// followed, belong to this user or to root, and nobody else may write to them. A directory above
// it may have the sticky bit instead: /tmp. False for anything that cannot be looked at.
[[nodiscard]] bool is_trusted_path(const base::Path& path);

}  // namespace regatta::orchestrator::files
