#include "orchestrator/files/name_locks.h"

#include <algorithm>
#include <chrono>

#include "base/error.h"
#include "base/text.h"

namespace regatta::orchestrator::files {

bool NameLocks::are_free(const std::vector<std::string>& names) const {
  return std::none_of(names.begin(), names.end(),
                      [this](const std::string& name) { return taken_.count(name) > 0; });
}

std::optional<NameLocks::Held> NameLocks::try_take(std::vector<std::string> names, double seconds) {
  std::unique_lock lock(mutex_);
  if (!released_.wait_for(lock, std::chrono::duration<double>(seconds),
                          [&] { return are_free(names); })) {
    return std::nullopt;
  }
  taken_.insert(names.begin(), names.end());
  return Held(*this, std::move(names));
}

NameLocks::Held NameLocks::take(std::vector<std::string> names, double seconds) {
  if (auto held = try_take(std::move(names), seconds)) return std::move(*held);
  throw base::Error(base::Code::Retry, "another request about the same run has not ended after " +
                                           base::human_seconds(seconds) +
                                           "; its file system may hang; try again");
}

void NameLocks::release(const std::vector<std::string>& names) {
  {
    const std::scoped_lock lock(mutex_);
    for (const std::string& name : names) taken_.erase(name);
  }
  released_.notify_all();
}

}  // namespace regatta::orchestrator::files
