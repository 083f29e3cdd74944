// What lies below a directory: one machine's disk, or something that other machines see as well.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/file_system.h"

namespace regatta::orchestrator::files {

struct MountedFileSystem {
  std::uint64_t type = 0;  // statfs's f_type
  std::string name;        // as /proc/self/mountinfo has it ("nfs4", "fuse.sshfs"); "" when unknown
};

// Of the file system that `directory` (it is there) lies on.
[[nodiscard]] MountedFileSystem file_system_of(const base::Path& directory);
// Field 9 of the last line of /proc/self/mountinfo for the device "major:minor"; "" without one.
[[nodiscard]] std::string mount_name(std::string_view mountinfo, std::string_view device);

// The name for people of a file system that several machines may see; nothing for any other. FUSE
// is one, unless it is a local disk (fuseblk, as of ntfs-3g).
[[nodiscard]] std::optional<std::string> network_file_system_name(
    const MountedFileSystem& file_system);
// Whether it is known to be seen by this machine alone, so that flock(2) excludes whoever uses it.
// What is neither this nor a network file system is unknown, and not to be relied on.
[[nodiscard]] bool is_local_file_system(const MountedFileSystem& file_system);

// Throws Code::Operator when `directory` lies on a network file system, where SQLite's locks and
// WAL are not safe; `what` names the thing and the option that moves it.
void refuse_network_file_system(const base::Path& directory, const std::string& what);

}  // namespace regatta::orchestrator::files
