// What a verification found in a checkpoint, kept beside it: its manifest says that it is whole,
// and whoever lists it does not read all of it again. Layout: docs/formats/checkpoint.md.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/file_system.h"
#include "checkpoint/store.h"

namespace regatta::checkpoint {

// What the store lists, newest first; what was found to be damaged is, and keeps its manifest.
[[nodiscard]] std::vector<Entry> list_with_found_damage(base::FileSystem& files,
                                                        const base::Path& checkpoints);

// By checkpoint, why it is damaged, in one line. What was noted of another manifest, or of a
// checkpoint that is not there any more, is left out. What the file system throws passes through.
[[nodiscard]] std::map<std::string, std::string> read_found_damage(base::FileSystem& files,
                                                                   const base::Path& checkpoints);

// damage: what CheckpointStore::verify() returned; nothing takes back what was noted before. Throws
// where it cannot be written, and Code::User for a name that is not a checkpoint's.
void note_found_damage(base::FileSystem& files, const base::Path& checkpoints,
                       const std::string& name, const std::optional<std::string>& damage,
                       double utc_seconds);

}  // namespace regatta::checkpoint
