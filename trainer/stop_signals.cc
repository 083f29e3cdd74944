#include "trainer/stop_signals.h"

#include <csignal>
#include <initializer_list>

namespace regatta::trainer {
namespace {

// A signal handler can reach nothing but such variables.
volatile std::sig_atomic_t stop_requested = 0;
volatile std::sig_atomic_t checkpoint_requested = 0;

void on_signal(int signal) {
  if (signal == SIGUSR2) {
    checkpoint_requested = 1;
  } else {
    stop_requested = 1;
  }
}

}  // namespace

void catch_stop_signals() {
  struct sigaction action {};
  action.sa_handler = on_signal;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  for (const int signal : {SIGTERM, SIGINT, SIGUSR2}) sigaction(signal, &action, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
}

Requests take_requests() {
  const Requests requests{stop_requested != 0, checkpoint_requested != 0};
  checkpoint_requested = 0;
  return requests;
}

}  // namespace regatta::trainer
