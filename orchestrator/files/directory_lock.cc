#include "orchestrator/files/directory_lock.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <thread>

#include "base/clock.h"
#include "base/error.h"
#include "base/host.h"
#include "base/text.h"

namespace regatta::orchestrator::files {
namespace {

constexpr int kMostInterruptions = 100;  // a signal each; LOCK_NB itself does not wait
constexpr int kMostReplacements = 10;    // of the file, between opening and locking it
constexpr std::chrono::milliseconds kTryAgain{10};
constexpr const char* kHolder = "process ";
constexpr std::size_t kLongestHolder = 200;

[[noreturn]] void refuse(const base::Path& path, const std::string& why) {
  throw base::Error(base::Code::Operator,
                    "cannot use the lock file " + base::printable(path.string()) + ": " + why);
}

// So that whoever is refused can say by whom. The lock counts, not what is written into its file.
void write_holder(const base::UniqueFd& fd) {
  const std::string text = kHolder + std::to_string(::getpid()) + " on " + base::host_name() +
                           " since " + base::iso8601(base::system_clock().utc_seconds()) + "\n";
  if (::ftruncate(fd.get(), 0) != 0) return;
  (void)!::pwrite(fd.get(), text.data(), text.size(), 0);
}

// ", process 12 on node01 since …"; empty where that is not written there.
std::string holder_of(const base::UniqueFd& fd) {
  std::array<char, kLongestHolder> bytes{};
  const ssize_t count = ::pread(fd.get(), bytes.data(), bytes.size(), 0);
  const std::string text(bytes.data(), count > 0 ? static_cast<std::size_t>(count) : 0);
  if (text.rfind(kHolder, 0) != 0) return "";
  return ", " + base::printable(text.substr(0, text.find('\n')));
}

}  // namespace

base::UniqueFd open_lock_file(const base::Path& path, int flags) {
  // O_NONBLOCK: opening something else, such as a FIFO, does not wait either.
  base::UniqueFd fd(
      ::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | flags, 0600));
  if (!fd.valid()) {
    if (errno == EEXIST) throw base::Error(base::Code::Conflict, path.string() + " exists already");
    if (errno == ELOOP) refuse(path, "it is a symbolic link; remove it");
    base::throw_errno(errno, "cannot open the lock file " + base::printable(path.string()));
  }
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0) refuse(path, std::strerror(errno));
  if (!S_ISREG(status.st_mode)) refuse(path, "it is not a regular file; remove it");
  if (status.st_uid != ::geteuid()) {
    refuse(path, "it belongs to user " + std::to_string(status.st_uid) + ", and this is user " +
                     std::to_string(::geteuid()) +
                     "; start the controller as that user, or name another directory");
  }
  return fd;
}

bool try_flock(const base::UniqueFd& fd, const base::Path& path, const LockCalls& calls) {
  int status = -1;
  for (int i = 0; i < kMostInterruptions; ++i) {
    status = calls.flock(fd.get(), LOCK_EX | LOCK_NB);
    if (status == 0 || errno != EINTR) break;
  }
  if (status == 0) return true;
  const int reason = errno;
  if (reason == EWOULDBLOCK) return false;
  const bool never = reason == ENOLCK || reason == ENOTSUP || reason == ENOSYS || reason == EINVAL;
  refuse(path, std::string("flock: ") + std::strerror(reason) +
                   (never ? "; its file system gives no locks, so mount it with them (Lustre: "
                            "-o flock; NFS 3: without nolock) or name another directory"
                          : "; without its lock the directory is not used"));
}

bool names_same_file(const base::Path& path, const base::UniqueFd& fd) {
  struct stat named {};
  struct stat opened {};
  return ::lstat(path.c_str(), &named) == 0 && ::fstat(fd.get(), &opened) == 0 &&
         named.st_dev == opened.st_dev && named.st_ino == opened.st_ino;
}

base::UniqueFd take_lock(const base::Path& path, const std::string& what, const LockCalls& calls) {
  const auto deadline = std::chrono::steady_clock::now() + calls.patience;
  for (int i = 0; i < kMostReplacements; ++i) {
    base::UniqueFd fd = open_lock_file(path, O_CREAT);
    bool locked = try_flock(fd, path, calls);
    while (!locked && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(kTryAgain);
      locked = try_flock(fd, path, calls);
    }
    if (!locked) {
      throw base::Error(base::Code::Conflict, what + " is in use by another controller" +
                                                  holder_of(fd) + " (" +
                                                  base::printable(path.string()) +
                                                  "); stop that one or name another directory");
    }
    if (!names_same_file(path, fd)) continue;
    write_holder(fd);
    return fd;
  }
  refuse(path, "it is replaced all the time; find out by whom");
}

}  // namespace regatta::orchestrator::files
