#pragma once

#include <signal.h>

#include <atomic>
#include <functional>
#include <thread>

namespace regatta::trainer::run {

// While it lives, INT, TERM and HUP (those that the process does not ignore) call `clean` on a
// thread of their own, and then end the process as they would have without. Made before any other
// thread is, which would take the signals. `clean` throws nothing, and must bear that the other
// threads go on meanwhile.
class EndOnSignal {
 public:
  explicit EndOnSignal(std::function<void()> clean);
  ~EndOnSignal();
  EndOnSignal(const EndOnSignal&) = delete;
  EndOnSignal& operator=(const EndOnSignal&) = delete;

  // Once a signal came, it never returns: what fails then fails for that.
  void pass() const;

 private:
  void serve();

  std::function<void()> clean_;
  sigset_t signals_{}, before_{};
  std::atomic<bool> over_{false}, ending_{false};
  std::thread thread_;
};

}  // namespace regatta::trainer::run
