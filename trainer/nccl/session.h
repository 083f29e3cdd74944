// NCCL's communicators of this rank from the first to the last: made together, watched, and given
// up together.
#pragma once

#include <condition_variable>
#include <functional>
#include <list>
#include <mutex>
#include <optional>
#include <thread>

#include "base/clock.h"
#include "base/error.h"
#include "trainer/nccl/nccl_options.h"
#include "trainer/nccl/nccl_table.h"
#include "trainer/ranks/host_collectives.h"

namespace regatta::trainer::nccl {

// NCCL's communicators of the same ranks.
struct CommSet {
  Comm world = nullptr;  // all of them
  Comm peers = nullptr;  // the same, for sends and receives
  // This rank's node, and the ranks of its place in all nodes; where flat, world and none.
  Comm node = nullptr;
  Comm cross = nullptr;
};

// NCCL takes one call at a time, whatever the thread; the lock for that is held for one look or one
// group of calls, none of which blocks. After a failure all communicators are aborted, and
// everything throws it.
class Session {
 public:
  // Collective. The table, the clock and the options outlive the session.
  Session(const Table& table, ranks::HostCollectives& host, const base::Clock& clock,
          const NcclOptions& options);
  // Collective unless given up; gives up by itself while an exception is under way.
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  [[nodiscard]] const CommSet& all() const { return all_; }
  // Those of a group among the ranks of `of`, which has nothing under way: collective over all of
  // them. The ranks of one color are a group, in the order of `key`; none for kNoColor. Kept to the
  // end.
  [[nodiscard]] CommSet open_group(Comm of, int color, int key);

  // Has `calls` call NCCL, on `comm` alone, and returns when what they call is enqueued on its
  // stream. `what` completes "NCCL failed at …".
  void run(Comm comm, const char* what, const std::function<Result()>& calls);
  // The same for calls that become one launch.
  void run_group(Comm comm, const char* what, const std::function<Result()>& calls);
  void check_alive();
  void give_up() noexcept;

 private:
  [[nodiscard]] Comm join(ranks::HostCollectives& host);
  [[nodiscard]] Comm split(Comm of, const char* what, int color, int key);
  void settle(Comm comm, const char* what, double seconds);
  void watch(const std::stop_token& stop);
  void say_farewell();
  // With the lock held.
  [[nodiscard]] base::Error error_of(Comm comm, const char* what, Result result) const;
  void throw_if_lost() const;
  void lose(const base::Error& why);
  void abort_all() noexcept;
  [[noreturn]] void fail(Comm comm, const char* what, Result result);
  [[noreturn]] void fail(const base::Error& why);
  [[nodiscard]] static bool is_error(Result result) {
    return result != Result::Success && result != Result::InProgress;
  }

  const Table& table_;
  const base::Clock& clock_;
  const NcclOptions& options_;

  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::list<Comm> comms_;      // world first
  std::list<Comm> splitting_;  // where NCCL stores new ones; null until then
  std::optional<base::Error> failure_;
  CommSet all_;
  std::jthread watcher_;  // last: it uses all of the above
};

}  // namespace regatta::trainer::nccl
