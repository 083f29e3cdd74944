#include "orchestrator/files/work_lane.h"

namespace regatta::orchestrator::files {

WorkLane::WorkLane(Size size) : most_(size.queue) {
  for (int i = 0; i < size.threads; ++i) {
    threads_.emplace_back([this](const std::stop_token& stop) { run(stop); });
  }
}

WorkLane::~WorkLane() {
  for (std::jthread& thread : threads_) thread.request_stop();
  threads_.clear();
}

bool WorkLane::offer(std::function<void()> work) {
  {
    const std::lock_guard lock(mutex_);
    if (waiting_.size() >= most_) return false;
    waiting_.push_back(std::move(work));
  }
  changed_.notify_one();
  return true;
}

void WorkLane::run(const std::stop_token& stop) {
  for (;;) {
    std::function<void()> work;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, stop, [this] { return !waiting_.empty(); });
      if (stop.stop_requested()) return;
      work = std::move(waiting_.front());
      waiting_.pop_front();
    }
    work();
  }
}

}  // namespace regatta::orchestrator::files
