// Whether the disk of the store takes what is written.
#pragma once

#include <mutex>
#include <optional>
#include <string>

#include "base/clock.h"

namespace regatta::orchestrator::store {

// Thread-safe.
class DiskTrouble {
 public:
  // What failed is tried again within that time.
  static constexpr double kSeconds = 30;

  explicit DiskTrouble(base::Clock& clock) : clock_(clock) {}

  void note(const std::string& why) {
    const std::lock_guard lock(mutex_);
    why_ = why;
    noted_ = clock_.monotonic_seconds();
  }
  // The newest, in one line, while it is less than kSeconds ago.
  [[nodiscard]] std::optional<std::string> text() const {
    const std::lock_guard lock(mutex_);
    if (why_.empty() || clock_.monotonic_seconds() - noted_ > kSeconds) return std::nullopt;
    return "the controller cannot write its store: " + why_;
  }

 private:
  base::Clock& clock_;
  mutable std::mutex mutex_;
  std::string why_;
  double noted_ = 0;
};

}  // namespace regatta::orchestrator::store
