// Room on the disk for the one write that must succeed when the disk is full.
#pragma once

#include <optional>

#include "base/file_system.h"

namespace regatta::orchestrator::files {

// Not thread-safe.
class DiskReserve {
 public:
  static constexpr std::int64_t kBytes = 4 << 20;
  static constexpr double kRetrySeconds = 10;

  // Takes the room, in the file `path`, if it is there; else as after release().
  explicit DiskReserve(base::Path path);

  [[nodiscard]] bool held() const { return held_; }
  // Gives the room back; false when there was none.
  bool release();
  // Takes it again where as much is left beside it; looks at most once in kRetrySeconds.
  void restore(double monotonic_seconds);

 private:
  [[nodiscard]] bool take();

  base::Path path_;
  bool held_ = false;
  std::optional<double> tried_;
};

}  // namespace regatta::orchestrator::files
