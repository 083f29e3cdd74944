// One controller per runs directory, wherever it runs. On a file system that several machines see,
// flock(2) may lock out nobody elsewhere (NFS 3 without lockd, Lustre with localflock, FUSE), so
// the lock file is also a lease: it names its holder, comes to its name by link(2), which is atomic
// over NFS, and its holder counts a heartbeat in it. Who finds one there takes over only from a
// dead process of this machine, or after watching the heartbeat stand still for a minute by the own
// clock; clocks of two machines are never compared.
//
// Names: `.controller.lock` is the lease, `.controller.lock.<id>` one on its way there or away.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>

#include "base/file_system.h"
#include "base/unique_fd.h"
#include "orchestrator/files/directory_lock.h"
#include "orchestrator/files/lease_record.h"

namespace regatta::orchestrator::files {

struct LeaseOptions {
  std::string store{};  // the controller's, for people who find the directory in use
  double heartbeat_seconds = 5;
  // Without a confirmed heartbeat for so long, the holder no longer acts: shorter than the next.
  double trust_seconds = 40;
  double watch_seconds = 60;  // how long the heartbeat of another machine must stand still
  double settle_seconds = 2;  // after a take-over from another machine, before it counts
  // Replaced by tests.
  HostIdentity host = this_host();
  std::optional<bool> local_file_system{};
  LockCalls calls{};
};

// Thread-safe.
class RunsDirectoryLease {
 public:
  // `directory` is there. Returns with the lease; at once unless it was left by another machine.
  // Code::Conflict when another controller has it; Code::Operator for every file system without
  // locks or atomic names, and when TERM or INT comes meanwhile.
  RunsDirectoryLease(const base::Path& directory, const LeaseOptions& options);
  // Releases it: the next controller starts at once, on any machine.
  ~RunsDirectoryLease();
  RunsDirectoryLease(const RunsDirectoryLease&) = delete;
  RunsDirectoryLease& operator=(const RunsDirectoryLease&) = delete;

  // Whether this controller may act on the directory now. False for a while when the file system
  // does not answer, and for good once loss() says why.
  [[nodiscard]] bool held() const;
  // Why the lease is another's, or nobody's, as a sentence; "" while it is not lost.
  [[nodiscard]] std::string loss() const;

 private:
  struct Look {
    std::string text;
    std::int64_t changed_ns = 0;  // by the file system's clock: compared with itself only
    bool operator==(const Look&) const = default;
  };

  bool try_once();
  bool make();
  bool watch_stands_still(const Look& first);
  bool take_over(base::UniqueFd fd, const std::string& text, bool settle);
  bool publish(base::UniqueFd fd, const base::Path& from, bool settle);
  bool publish_without_links(const base::Path& from);
  bool settled(bool settle) const;
  void write(const base::UniqueFd& fd, const std::string& text, std::size_t offset) const;
  // Read anew by its name; nothing when it is not there.
  [[nodiscard]] std::optional<Look> look(const base::Path& path) const;
  [[nodiscard]] bool is_mine(const std::optional<Look>& seen) const;
  [[noreturn]] void refuse(const std::optional<LeaseRecord>& holder, const std::string& why) const;
  void remove_leftovers() const;
  void beat_until(const std::stop_token& stop);
  void beat();
  void lose(const std::optional<Look>& seen);

  base::Path directory_, path_;
  LeaseOptions options_;
  bool local_;
  LeaseRecord record_;
  int busy_ = 0;  // looks at a lock that somebody has whose process is dead
  base::UniqueFd fd_;
  std::uint64_t beats_ = 0;
  std::atomic<double> confirmed_ = 0;
  mutable std::mutex mutex_;  // guards loss_
  std::string loss_;
  std::condition_variable_any wake_;
  std::mutex wake_mutex_;
  std::jthread thread_;
};

}  // namespace regatta::orchestrator::files
