#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <stop_token>
#include <thread>
#include <vector>

namespace regatta::orchestrator::files {

// Threads that work on one kind of request, so that no other kind keeps it waiting.
class WorkLane {
 public:
  struct Size {
    int threads;
    std::size_t queue;  // how many may wait beside those that are worked on
  };
  explicit WorkLane(Size size);
  // Drops what has not begun and waits for the rest.
  ~WorkLane();
  WorkLane(const WorkLane&) = delete;
  WorkLane& operator=(const WorkLane&) = delete;

  // False when the queue is full. `work` must not throw.
  [[nodiscard]] bool offer(std::function<void()> work);

 private:
  void run(const std::stop_token& stop);

  const std::size_t most_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<std::function<void()>> waiting_;
  std::vector<std::jthread> threads_;
};

}  // namespace regatta::orchestrator::files
