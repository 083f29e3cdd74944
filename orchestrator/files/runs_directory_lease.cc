#include "orchestrator/files/runs_directory_lease.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <thread>

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "orchestrator/files/network_file_system.h"

namespace regatta::orchestrator::files {
namespace {

constexpr const char* kName = ".controller.lock";
constexpr int kMostRounds = 20;  // each ends because somebody else changed the file
constexpr int kMostBusy = 10;    // a killed process gives up its lock a moment later
constexpr double kBusySeconds = 0.2;
constexpr double kMostLookSeconds = 2;  // between two looks at a heartbeat
constexpr double kRecheckSeconds = 1;   // a lease that is gone may be put back (take_over)

// Time that the machine slept counts: others have watched meanwhile.
double now_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_BOOTTIME, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// `serve` has these blocked, and takes them once it has started.
void refuse_when_told_to_end() {
  sigset_t pending;
  if (::sigpending(&pending) != 0) return;
  if (::sigismember(&pending, SIGTERM) != 1 && ::sigismember(&pending, SIGINT) != 1) return;
  throw base::Error(base::Code::Operator, "ended while it waited for the runs directory");
}

void pause(double seconds) {
  refuse_when_told_to_end();
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

bool has_no_links(int reason) {
  return reason == EPERM || reason == ENOTSUP || reason == ENOSYS || reason == EMLINK ||
         reason == EINVAL;
}

}  // namespace

RunsDirectoryLease::RunsDirectoryLease(const base::Path& directory, const LeaseOptions& options)
    : directory_(directory),
      path_(directory / kName),
      options_(options),
      local_(options.local_file_system ? *options.local_file_system
                                       : is_local_file_system(file_system_of(directory))),
      record_(own_record(options.host, options.store)) {
  int rounds = 0;
  while (!try_once()) {
    if (++rounds < kMostRounds) continue;
    throw base::Error(base::Code::Operator, "the lock file " + base::printable(path_.string()) +
                                                " changes hands all the time; find out who "
                                                "starts controllers on this runs directory");
  }
  confirmed_ = now_seconds();
  thread_ = std::jthread([this](const std::stop_token& stop) { beat_until(stop); });
}

RunsDirectoryLease::~RunsDirectoryLease() {
  thread_.request_stop();
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
  try {
    if (!loss().empty() || !is_mine(look(path_))) return;
    record_.released = true;
    write(fd_, lease_text(record_, beats_), 0);
  } catch (const base::Error&) {  // the next one finds a dead process, or a heartbeat that stands
  }
}

bool RunsDirectoryLease::try_once() {
  base::UniqueFd fd;
  try {
    fd = open_lock_file(path_, 0);
  } catch (const base::Error& error) {
    if (error.code() != base::Code::NotFound) throw;
    return make();
  }
  const bool free = try_flock(fd, path_, options_.calls);
  const std::optional<Look> seen = look(path_);
  if (!seen) return false;
  const std::optional<LeaseRecord> holder = parse_lease(seen->text);
  HolderState state = judge_holder(holder, options_.host, local_);
  if (!free) {
    if (state != HolderState::Gone || ++busy_ > kMostBusy) refuse(holder, "it has its lock");
    pause(kBusySeconds);
    return false;
  }
  if (local_ && !names_same_file(path_, fd)) return false;
  if (state == HolderState::Alive) refuse(holder, "that process lives");
  const bool elsewhere = state == HolderState::Unknown;
  if (elsewhere) {
    base::log(base::LogLevel::Warning,
              "the runs directory " + directory_.string() + " was left by " + holder_text(holder) +
                  "; watching its heartbeat for " + base::human_seconds(options_.watch_seconds));
    if (!watch_stands_still(*seen)) return false;
  }
  if (!take_over(std::move(fd), seen->text, elsewhere)) return false;
  if (elsewhere) {
    base::log(base::LogLevel::Warning,
              "took over the runs directory from " + holder_text(holder) +
                  ", whose heartbeat stood still; if that controller still lives, it ends itself");
  }
  return true;
}

bool RunsDirectoryLease::watch_stands_still(const Look& first) {
  const double until = now_seconds() + options_.watch_seconds;
  while (now_seconds() < until) {
    pause(std::min(kMostLookSeconds, options_.watch_seconds / 10));
    const std::optional<Look> seen = look(path_);
    if (!seen) return false;
    if (*seen == first) continue;
    const auto now = parse_lease(seen->text);
    const auto before = parse_lease(first.text);
    if (!now || !before || now->released || now->id != before->id) return false;
    refuse(now, "its heartbeat goes on");
  }
  return true;
}

bool RunsDirectoryLease::make() {
  const base::Path own = path_.string() + "." + record_.id;
  base::UniqueFd fd = open_lock_file(own, O_CREAT | O_EXCL);
  try {
    write(fd, lease_text(record_, beats_), 0);
    if (!try_flock(fd, own, options_.calls)) {
      throw base::Error(base::Code::Operator,
                        "the new lock file " + own.string() + " is locked by somebody else");
    }
  } catch (...) {
    ::unlink(own.c_str());
    throw;
  }
  return publish(std::move(fd), own, false);
}

// Moves the lease aside, which one of several can do, and gives its file another holder. What was
// moved may be a newer lease than the one that was judged: that one is put back.
bool RunsDirectoryLease::take_over(base::UniqueFd fd, const std::string& text, bool settle) {
  const base::Path own = path_.string() + "." + record_.id;
  const std::optional<Look> before = look(path_);
  if (!before || before->text != text) return false;
  if (::rename(path_.c_str(), own.c_str()) != 0) {
    if (errno == ENOENT) return false;
    base::throw_errno(errno, "cannot take the lock file " + path_.string());
  }
  const std::optional<Look> moved = look(own);
  try {
    if (moved && moved->text == text) {
      if (::ftruncate(fd.get(), kLeaseBytes) != 0) {
        base::throw_errno(errno, "cannot write the lock file " + path_.string());
      }
      write(fd, lease_text(record_, beats_), 0);
      return publish(std::move(fd), own, settle);
    }
  } catch (const base::Error&) {
    if (::link(own.c_str(), path_.c_str()) == 0) ::unlink(own.c_str());
    throw;
  }
  (void)::link(own.c_str(), path_.c_str());
  ::unlink(own.c_str());
  return false;
}

bool RunsDirectoryLease::publish(base::UniqueFd fd, const base::Path& from, bool settle) {
  const int reason = ::link(from.c_str(), path_.c_str()) == 0 ? 0 : errno;
  if (has_no_links(reason)) return publish_without_links(from);
  // Over NFS a link may be made and its answer lost.
  const bool mine = reason == 0 || is_mine(look(path_));
  ::unlink(from.c_str());
  if (!mine && reason != EEXIST && reason != ENOENT) {
    base::throw_errno(reason, "cannot make the lock file " + path_.string());
  }
  if (!mine || !settled(settle)) return false;
  fd_ = std::move(fd);
  base::posix_file_system().sync_directory(directory_);
  return true;
}

bool RunsDirectoryLease::publish_without_links(const base::Path& from) {
  ::unlink(from.c_str());
  base::UniqueFd fd;
  try {
    fd = open_lock_file(path_, O_CREAT | O_EXCL);
  } catch (const base::Error& error) {
    if (error.code() != base::Code::Conflict) throw;
    return false;
  }
  write(fd, lease_text(record_, beats_), 0);
  if (!try_flock(fd, path_, options_.calls) || !settled(true)) return false;
  fd_ = std::move(fd);
  return true;
}

bool RunsDirectoryLease::settled(bool settle) const {
  if (!settle) return true;
  pause(options_.settle_seconds);
  return is_mine(look(path_));
}

void RunsDirectoryLease::write(const base::UniqueFd& fd, const std::string& text,
                               std::size_t offset) const {
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t wrote = ::pwrite(fd.get(), text.data() + done, text.size() - done,
                                   static_cast<off_t>(offset + done));
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) {
      base::throw_errno(wrote < 0 ? errno : EIO, "cannot write the lock file " + path_.string());
    }
    done += static_cast<std::size_t>(wrote);
  }
  if (::fsync(fd.get()) != 0) {
    base::throw_errno(errno, "cannot sync the lock file " + path_.string());
  }
}

std::optional<RunsDirectoryLease::Look> RunsDirectoryLease::look(const base::Path& path) const {
  const base::UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!fd.valid()) {
    if (errno == ENOENT) return std::nullopt;
    base::throw_errno(errno, "cannot open the lock file " + base::printable(path.string()));
  }
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0 || !S_ISREG(status.st_mode)) {
    throw base::Error(base::Code::Operator,
                      "the lock file " + base::printable(path.string()) + " is not a regular file");
  }
  Look seen;
  seen.text.resize(kLeaseBytes + 1);
  std::size_t done = 0;
  while (done < seen.text.size()) {
    const ssize_t got = ::pread(fd.get(), seen.text.data() + done, seen.text.size() - done,
                                static_cast<off_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) base::throw_errno(errno, "cannot read the lock file " + path.string());
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  seen.text.resize(done);
  seen.changed_ns = std::int64_t{status.st_mtim.tv_sec} * 1000000000 + status.st_mtim.tv_nsec;
  return seen;
}

bool RunsDirectoryLease::is_mine(const std::optional<Look>& seen) const {
  const auto holder = seen ? parse_lease(seen->text) : std::nullopt;
  return holder && holder->id == record_.id;
}

void RunsDirectoryLease::refuse(const std::optional<LeaseRecord>& holder,
                                const std::string& why) const {
  throw base::Error(base::Code::Conflict,
                    "the runs directory " + base::printable(directory_.string()) +
                        " is in use by another controller: " + holder_text(holder) + " (" + why +
                        "); stop that one or name another directory with --runs");
}

// Of controllers that died between two names of a lease. Whoever is at it right now tries again.
void RunsDirectoryLease::remove_leftovers() const {
  try {
    for (const std::string& name : base::posix_file_system().list(directory_)) {
      if (name.rfind(std::string(kName) + ".", 0) == 0) {
        base::posix_file_system().remove_file(directory_ / name);
      }
    }
  } catch (const base::Error&) {  // the next controller tries again
  }
}

void RunsDirectoryLease::beat_until(const std::stop_token& stop) {
  remove_leftovers();
  for (;;) {
    std::unique_lock lock(wake_mutex_);
    (void)wake_.wait_for(lock, stop, std::chrono::duration<double>(options_.heartbeat_seconds),
                         [] { return false; });
    if (stop.stop_requested()) return;
    lock.unlock();
    beat();
    if (!loss().empty()) return;
  }
}

void RunsDirectoryLease::beat() {
  bool shown = true;
  try {
    write(fd_, beat_text(++beats_), kBeatOffset);
  } catch (const base::Error&) {
    shown = ::futimens(fd_.get(), nullptr) == 0;  // a full disk that copies on write
  }
  try {
    std::optional<Look> seen = look(path_);
    if (!is_mine(seen)) {
      std::this_thread::sleep_for(
          std::chrono::duration<double>(std::min(kRecheckSeconds, options_.heartbeat_seconds)));
      seen = look(path_);
    }
    if (!is_mine(seen)) return lose(seen);
    // Where flock excludes everybody, nobody waits for the heartbeat.
    if (shown || local_) confirmed_ = now_seconds();
  } catch (const base::Error&) {  // the file system does not answer: confirmed_ grows old
  }
}

void RunsDirectoryLease::lose(const std::optional<Look>& seen) {
  const std::string directory = "the runs directory " + base::printable(directory_.string());
  const std::scoped_lock lock(mutex_);
  if (!seen) {
    loss_ = directory + " has lost its lock file " + base::printable(path_.string()) +
            ", so another controller could start there: this one ends; start it again";
    return;
  }
  loss_ = directory + " was taken over by " + holder_text(parse_lease(seen->text)) +
          ": this controller ends; it was paused, or cut off from the directory, for a minute";
}

bool RunsDirectoryLease::held() const {
  return loss().empty() && now_seconds() - confirmed_ < options_.trust_seconds;
}

std::string RunsDirectoryLease::loss() const {
  const std::scoped_lock lock(mutex_);
  return loss_;
}

}  // namespace regatta::orchestrator::files
