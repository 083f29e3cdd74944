// A checkpoint that another run goes on from.
#pragma once

#include "base/file_system.h"
#include "checkpoint/manifest.h"

namespace regatta::checkpoint {

// Copies the checkpoint in the directory `from`, of this manifest, to the directory `to`, which
// does not exist: its files, each compared with its digest on the way, then the manifest; all
// synced but the name of `to` itself. Code::User where a file is not what the manifest says.
// What is copied before an error stays.
void copy_checkpoint(base::FileSystem& files, const base::Path& from, const Manifest& manifest,
                     const base::Path& to);

// That a copy may take, from and to a slow file server: a minute, and what 20 MB/s need.
[[nodiscard]] double copy_seconds(const Manifest& manifest);

}  // namespace regatta::checkpoint
