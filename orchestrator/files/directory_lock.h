// Lock files that fail closed: whatever is not a lock is an error.
#pragma once

#include <sys/file.h>

#include <chrono>
#include <string>

#include "base/file_system.h"
#include "base/unique_fd.h"

namespace regatta::orchestrator::files {

// What tests replace.
struct LockCalls {
  int (*flock)(int fd, int operation) = ::flock;
  // That take_lock() waits for who has it only for a moment, as a backup does.
  std::chrono::milliseconds patience{1000};
};

// Opens the lock file for reading and writing, never through a link and never waiting. With O_CREAT
// in `flags` it is made, mode 0600. Code::NotFound when it is not there, Code::Conflict when O_EXCL
// finds it there, Code::Operator when it is no regular file, belongs to somebody else, or cannot be
// opened.
[[nodiscard]] base::UniqueFd open_lock_file(const base::Path& path, int flags);

// False when another process has it; Code::Operator for any other refusal: a file system without
// locks locks nobody out.
[[nodiscard]] bool try_flock(const base::UniqueFd& fd, const base::Path& path,
                             const LockCalls& calls);

// Takes the lock file `path` for the life of the descriptor, and writes into it who has it;
// Code::Conflict naming `what` and the holder when another process keeps it, Code::Operator for
// every error. For local file systems: see refuse_network_file_system.
[[nodiscard]] base::UniqueFd take_lock(const base::Path& path, const std::string& what,
                                       const LockCalls& calls = {});

// Whether `path` still names the file that `fd` has open.
[[nodiscard]] bool names_same_file(const base::Path& path, const base::UniqueFd& fd);

}  // namespace regatta::orchestrator::files
