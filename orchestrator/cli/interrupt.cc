#include "orchestrator/cli/interrupt.h"

#include <ctime>

namespace regatta::orchestrator::cli {

Interrupt::Interrupt() {
  sigemptyset(&signals_);
  sigaddset(&signals_, SIGINT);
  ::pthread_sigmask(SIG_BLOCK, &signals_, &before_);
}

Interrupt::~Interrupt() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

bool Interrupt::wait(double seconds) const {
  timespec time{};
  time.tv_sec = static_cast<time_t>(seconds);
  time.tv_nsec = static_cast<long>((seconds - static_cast<double>(time.tv_sec)) * 1e9);
  return ::sigtimedwait(&signals_, nullptr, &time) == SIGINT;
}

}  // namespace regatta::orchestrator::cli
