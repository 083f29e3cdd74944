// EMULATED: streams and events of emulated_nccl.h.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

namespace regatta::tests {

// One recording of an event.
struct Moment {
  std::mutex mutex;
  std::condition_variable changed;
  bool is_done = false;
  std::chrono::steady_clock::time_point at;

  void happen();
  void wait();
};

struct EmulatedEvent {
  std::mutex mutex;
  std::shared_ptr<Moment> last;  // null: never recorded, which counts as done
};

class EmulatedStream {
 public:
  EmulatedStream();
  ~EmulatedStream();  // runs what it has first
  EmulatedStream(const EmulatedStream&) = delete;
  EmulatedStream& operator=(const EmulatedStream&) = delete;

  void enqueue(std::function<void()> work);
  void record(EmulatedEvent* event);
  void wait(EmulatedEvent* event);
  void synchronize();

 private:
  void serve();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> work_;
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace regatta::tests
