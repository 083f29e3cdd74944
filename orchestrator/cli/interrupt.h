// Ctrl-C between two looks at something that is watched.
#pragma once

#include <signal.h>

namespace regatta::orchestrator::cli {

constexpr int kInterrupted = 130;  // exit code

// SIGINT is blocked while it lives, and taken by wait(), so it arrives nowhere else.
class Interrupt {
 public:
  Interrupt();
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  // True when Ctrl-C came within `seconds`.
  [[nodiscard]] bool wait(double seconds) const;

 private:
  sigset_t signals_{};
  sigset_t before_{};
};

}  // namespace regatta::orchestrator::cli
