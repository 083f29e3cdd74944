// Which device a path lies on, as the kernel lists its mounts: unlike stat(2), asking never touches
// the file system, which may be hung.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/file_system.h"

namespace regatta::orchestrator::files {

using DeviceId = std::uint64_t;  // as in stat's st_dev

class MountTable {
 public:
  // text: /proc/self/mountinfo. What does not parse is left out.
  explicit MountTable(const std::string& text);

  // By the longest mount point above `path`, which is absolute and normal; links in it are not
  // followed. 0 where there is none.
  [[nodiscard]] DeviceId device_of(const base::Path& path) const;

 private:
  struct Mount {
    std::string point;  // without a slash at its end; empty: "/"
    DeviceId device = 0;
  };
  std::vector<Mount> mounts_;  // a later one hides an earlier one of the same point
};

}  // namespace regatta::orchestrator::files
