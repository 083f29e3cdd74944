#include "orchestrator/files/disk_reserve.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/log.h"
#include "base/unique_fd.h"

namespace regatta::orchestrator::files {

DiskReserve::DiskReserve(base::Path path) : path_(std::move(path)) { held_ = take(); }

bool DiskReserve::take() {
  const base::UniqueFd fd(::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd.valid()) return false;
  // Allocated, not only long: a file with holes keeps no room.
  const int error = ::posix_fallocate(fd.get(), 0, kBytes);
  if (error == 0) return true;
  ::unlink(path_.c_str());
  base::log(base::LogLevel::Warning, "no room for the reserve of a full disk, " + path_.string() +
                                         ": " + std::strerror(error) + "; free some space");
  return false;
}

bool DiskReserve::release() {
  if (!held_) return false;
  held_ = false;
  tried_.reset();
  return ::unlink(path_.c_str()) == 0;
}

void DiskReserve::restore(double monotonic_seconds) {
  if (held_) return;
  if (!tried_) tried_ = monotonic_seconds;  // who released it needs the room now
  if (monotonic_seconds - *tried_ < kRetrySeconds) return;
  tried_ = monotonic_seconds;
  struct statvfs status {};
  if (::statvfs(path_.parent_path().c_str(), &status) != 0) return;
  const auto room = static_cast<std::uint64_t>(status.f_bavail) * status.f_frsize;
  if (room >= std::uint64_t{2} * kBytes) held_ = take();
}

}  // namespace regatta::orchestrator::files
