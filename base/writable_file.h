// The files that FileSystem::open() hands out, over an open descriptor.
#pragma once

#include <memory>

#include "base/file_system.h"
#include "base/unique_fd.h"

namespace regatta::base {

// `path` is for messages.
[[nodiscard]] std::unique_ptr<WritableFile> writable_file(UniqueFd fd, const Path& path);
// One that bypasses the page cache where the file system can (FileSystem::Open::CreateNewDirect).
[[nodiscard]] std::unique_ptr<WritableFile> direct_file(UniqueFd fd, const Path& path);

}  // namespace regatta::base
