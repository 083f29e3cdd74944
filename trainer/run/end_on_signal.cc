#include "trainer/run/end_on_signal.h"

#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include <utility>

namespace regatta::trainer::run {
namespace {

constexpr timespec kSignalLook = {0, 50'000'000};  // how long its end may take

}  // namespace

EndOnSignal::EndOnSignal(std::function<void()> clean) : clean_(std::move(clean)) {
  sigemptyset(&signals_);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction action {};
    sigaction(number, nullptr, &action);
    if (action.sa_handler != SIG_IGN) sigaddset(&signals_, number);
  }
  pthread_sigmask(SIG_BLOCK, &signals_, &before_);
  thread_ = std::thread([this] { serve(); });
}

EndOnSignal::~EndOnSignal() {
  over_ = true;
  thread_.join();
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

void EndOnSignal::pass() const {
  while (ending_) ::pause();
}

void EndOnSignal::serve() {
  while (!over_) {
    const int number = sigtimedwait(&signals_, nullptr, &kSignalLook);
    if (number <= 0) continue;
    ending_ = true;
    clean_();
    signal(number, SIG_DFL);
    sigset_t own;
    sigemptyset(&own);
    sigaddset(&own, number);
    pthread_sigmask(SIG_UNBLOCK, &own, nullptr);
    ::kill(::getpid(), number);
    for (;;) ::pause();
  }
}

}  // namespace regatta::trainer::run
