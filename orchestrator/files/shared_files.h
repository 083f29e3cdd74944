// Work on shared file systems, which may hang for ever (a dead NFS server, a Lustre target that
// fails over: the thread sits in the kernel and cannot be ended). Nobody waits here longer than he
// said, and what hangs costs the runs that lie on it and nothing else.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include "base/file_system.h"
#include "orchestrator/files/mount_table.h"

namespace regatta::orchestrator::files {

struct SharedFilesLimits {
  std::size_t workers = 8;          // threads that are not stuck
  std::size_t most_stuck = 32;      // threads beyond these, in place of such as are stuck
  std::size_t per_device = 4;       // works at once on one file system
  std::size_t most_waiting = 8192;  // works that no thread has taken yet
  double stuck_seconds = 2;         // a work unanswered for so long is stuck
  double probe_seconds = 5;         // between two tries of a file system that hangs
};

// Each work is of one directory (a run's). A directory with stuck work gets no second thread. When
// two works are stuck on one file system, and none that began after them was answered, its breaker
// opens: one probe at a time, every few seconds, until one is answered. So a hung mount costs
// per_device + 1 threads however many runs lie on it. Thread-safe.
//
// A work may outlive everything: a stuck thread cannot be joined, so it is detached, and goes on
// when its file system answers, perhaps after this object has gone. So a work holds what it touches
// by value or by shared_ptr, and what it takes with it is dropped when it ends too late.
class SharedFiles {
 public:
  using DeviceOf = std::function<DeviceId(const base::Path& directory)>;

  // device_of: for tests; by default /proc/self/mountinfo and, once known, what stat says.
  explicit SharedFiles(SharedFilesLimits limits = {}, DeviceOf device_of = {});
  // Drops what has not begun. Waits for what has, stuck_seconds at most, and not for what is stuck.
  ~SharedFiles();
  SharedFiles(const SharedFiles&) = delete;
  SharedFiles& operator=(const SharedFiles&) = delete;

  // What `work` returns or throws. Code::Retry where it has not ended after `seconds`, and at once
  // where the directory or its file system is known to hang.
  template <typename Work>
  std::invoke_result_t<Work> call(const base::Path& directory, double seconds, Work work) {
    using Result = std::invoke_result_t<Work>;
    if constexpr (std::is_void_v<Result>) {
      wait_for(directory, seconds, std::move(work));
    } else {
      // Shared with the work: after the deadline it alone has it.
      const auto result = std::make_shared<std::optional<Result>>();
      wait_for(directory, seconds,
               [result, work = std::move(work)]() mutable { result->emplace(work()); });
      return std::move(**result);
    }
  }

  // Has a thread do it some time. False, and nothing happens, when another one that was started for
  // this directory is under way, when the directory or its file system hangs, or when too much
  // waits. A base::Error of the work is logged; others end the program.
  [[nodiscard]] bool start(const base::Path& directory, std::function<void()> work);

  // For how long the directory's oldest work has been unanswered, seconds; nothing where there is
  // none.
  [[nodiscard]] std::optional<double> stuck_for(const base::Path& directory) const;

  // Threads now.
  [[nodiscard]] std::size_t threads() const;

 private:
  class State;
  void wait_for(const base::Path& directory, double seconds, std::function<void()> work);

  std::shared_ptr<State> state_;  // shared with its threads, see above
};

// shared.call(), or, without one, the work at once.
template <typename Work>
std::invoke_result_t<Work> call_if(SharedFiles* shared, const base::Path& directory, double seconds,
                                   Work work) {
  if (shared == nullptr) return work();
  return shared->call(directory, seconds, std::move(work));
}

}  // namespace regatta::orchestrator::files
