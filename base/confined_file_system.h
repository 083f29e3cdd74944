// A file system for directories whose contents others write (run directories: trainers and users).
// Below the root no link that somebody left there leads anywhere else.
#pragma once

#include <atomic>
#include <vector>

#include "base/descriptor_file_system.h"

namespace regatta::base {

// A path ROOT/FIRST/… : ROOT and FIRST may be symbolic links (a user may keep a run on another
// disk); what is beneath FIRST is reached from an open descriptor of it, and a link on the way or
// at the end is refused with Code::Operator, never followed. So is "..". Removing, renaming and
// exists() act on a link itself. Paths that do not lie beneath ROOT, as they are written, are
// posix_file_system()'s. Thread-safe.
class ConfinedFileSystem final : public DescriptorFileSystem {
 public:
  // openat2(2) walks a path in one call; kernels before 5.6 and some containers have none.
  enum class Openat2 { WhereAvailable, Never };

  // root: absolute.
  explicit ConfinedFileSystem(const Path& root, Openat2 openat2 = Openat2::WhereAvailable);

 private:
  [[nodiscard]] Place resolve(const Path& path) const override;
  // The directory run/parts[0]/parts[1]/….
  [[nodiscard]] UniqueFd walk(UniqueFd run, const std::vector<std::string>& parts,
                              const Path& shown) const;

  std::string prefix_;                     // "ROOT/"
  mutable std::atomic<bool> has_openat2_;  // until the kernel says otherwise
};

}  // namespace regatta::base
