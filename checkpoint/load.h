// Reading the files of a checkpoint from front to back: digests on the way, tensors to their place.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/file_system.h"
#include "checkpoint/manifest.h"
#include "checkpoint/store.h"

namespace regatta::checkpoint {

// Reads all of a file; what is wrong with it, naming `name`, or nothing when size and digest are
// the expected ones. What the file system throws passes through.
[[nodiscard]] std::optional<std::string> file_damage(base::FileSystem& files,
                                                     const base::Path& path,
                                                     const std::string& name,
                                                     const ManifestFile& expected);

// Reads every file that the manifest names once, two at a time when they are large, and puts the
// tensors where `model` and `optimizer` say. Returns those that may be absent and are. Code::User,
// naming file or tensor, for damage and for tensors that do not fit their places exactly; what the
// file system throws passes through.
[[nodiscard]] std::vector<std::string> load_files(base::FileSystem& files,
                                                  const base::Path& directory,
                                                  const Manifest& manifest,
                                                  const std::vector<TensorPlace>& model,
                                                  const std::vector<TensorPlace>& optimizer);

}  // namespace regatta::checkpoint
