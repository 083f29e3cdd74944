#include "tests/trainer/nccl/emulated_streams.h"

#include <utility>

namespace regatta::tests {

void Moment::happen() {
  const std::scoped_lock lock(mutex);
  at = std::chrono::steady_clock::now();
  is_done = true;
  changed.notify_all();
}

void Moment::wait() {
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return is_done; });
}

EmulatedStream::EmulatedStream() : thread_([this] { serve(); }) {}

EmulatedStream::~EmulatedStream() {
  {
    const std::scoped_lock lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void EmulatedStream::enqueue(std::function<void()> work) {
  const std::scoped_lock lock(mutex_);
  work_.push_back(std::move(work));
  changed_.notify_all();
}

void EmulatedStream::record(EmulatedEvent* event) {
  auto moment = std::make_shared<Moment>();
  {
    const std::scoped_lock lock(event->mutex);
    event->last = moment;
  }
  enqueue([moment] { moment->happen(); });
}

// For the recording that is the last one now.
void EmulatedStream::wait(EmulatedEvent* event) {
  const std::scoped_lock lock(event->mutex);
  if (event->last != nullptr) enqueue([moment = event->last] { moment->wait(); });
}

void EmulatedStream::synchronize() {
  EmulatedEvent event;
  record(&event);
  event.last->wait();
}

void EmulatedStream::serve() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return ends_ || !work_.empty(); });
    if (work_.empty()) return;
    const std::function<void()> work = std::move(work_.front());
    work_.pop_front();
    lock.unlock();
    work();
    lock.lock();
  }
}

}  // namespace regatta::tests
