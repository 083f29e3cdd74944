#pragma once

#include <cstdint>
#include <functional>
#include <memory>

namespace regatta::base {

// How many cores this process may run on (its CPU affinity); at least 1.
[[nodiscard]] int usable_cores();

// A fixed set of threads for data-parallel loops. The caller works too, so `threads` = 1 starts
// none. One loop at a time; loops do not nest.
class ThreadPool {
 public:
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  [[nodiscard]] int threads() const { return threads_; }

  // Calls body(begin, end) on disjoint ranges that cover [0, count), each at most `grain` long and
  // starting at a multiple of `grain`, so that the ranges do not depend on the number of threads.
  // Returns when all are done; rethrows the first exception.
  void parallel_for(std::int64_t count, std::int64_t grain,
                    const std::function<void(std::int64_t begin, std::int64_t end)>& body);

 private:
  struct State;
  int threads_;
  std::unique_ptr<State> state_;
};

}  // namespace regatta::base
