#include "trainer/stop_signals.h"

#include <pthread.h>
#include <signal.h>

#include <atomic>
#include <initializer_list>
#include <thread>

namespace regatta::trainer {
namespace {

std::atomic<bool> stop_requested{false};  // signals belong to the process, so these do too
std::atomic<bool> checkpoint_requested{false};

void serve(sigset_t signals) {
  for (;;) {
    int signal = 0;
    if (sigwait(&signals, &signal) != 0) continue;
    if (signal == SIGUSR2) {
      checkpoint_requested = true;
    } else {
      stop_requested = true;
    }
  }
}

}  // namespace

// No handler: a signal frame written on the stack of a thread inside oneDNN 2.6's generated code
// corrupted memory (about one run in twenty, seen as "corrupted size vs. prev_size"). Blocked
// everywhere and awaited by a thread of their own, signals interrupt nothing.
void catch_stop_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGTERM, SIGINT, SIGUSR2}) sigaddset(&signals, signal);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);
  std::thread(serve, signals).detach();  // lives as long as the process
}

Requests take_requests() { return {stop_requested.load(), checkpoint_requested.exchange(false)}; }

}  // namespace regatta::trainer
