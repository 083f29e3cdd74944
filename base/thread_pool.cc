#include "base/thread_pool.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "base/error.h"

namespace regatta::base {
namespace {

using Body = std::function<void(std::int64_t, std::int64_t)>;

// Loops follow one another within microseconds during training, so a worker looks this often before
// it sleeps: about 20 microseconds.
constexpr int kSpins = 2000;

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

struct ThreadPool::State {
  std::atomic<std::uint32_t> generation{0};  // odd bits are not special; every loop adds one
  std::atomic<bool> stop{false};
  std::atomic<int> running{0};
  std::atomic<std::int64_t> next{0};
  std::int64_t count = 0;
  std::int64_t grain = 1;
  const Body* body = nullptr;
  std::mutex failure_mutex;
  std::exception_ptr failure;
  std::vector<std::jthread> workers;

  void work() {
    for (;;) {
      const std::int64_t begin = next.fetch_add(grain, std::memory_order_relaxed);
      if (begin >= count) return;
      try {
        (*body)(begin, begin + grain < count ? begin + grain : count);
      } catch (...) {
        const std::lock_guard lock(failure_mutex);
        if (!failure) failure = std::current_exception();
      }
    }
  }

  void serve() {
    std::uint32_t seen = 0;
    for (;;) {
      for (int spin = 0; spin < kSpins && generation.load(std::memory_order_acquire) == seen;
           ++spin) {
        pause();
      }
      generation.wait(seen, std::memory_order_acquire);
      seen = generation.load(std::memory_order_acquire);
      if (stop.load()) return;
      work();
      if (running.fetch_sub(1, std::memory_order_acq_rel) == 1) running.notify_one();
    }
  }
};

int usable_cores() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  if (::sched_getaffinity(0, sizeof cores, &cores) != 0) return 1;
  return std::max(1, CPU_COUNT(&cores));
}

ThreadPool::ThreadPool(int threads) : threads_(threads), state_(std::make_unique<State>()) {
  check(threads >= 1, "a thread pool has at least one thread");
  for (int i = 1; i < threads; ++i) {
    state_->workers.emplace_back([state = state_.get()] { state->serve(); });
  }
}

ThreadPool::~ThreadPool() {
  state_->stop = true;
  state_->generation.fetch_add(1, std::memory_order_release);
  state_->generation.notify_all();
}

void ThreadPool::parallel_for(std::int64_t count, std::int64_t grain, const Body& body) {
  check(grain >= 1, "the ranges of a loop hold something");
  if (count <= 0) return;
  State& state = *state_;
  if (threads_ == 1 || count <= grain) {
    for (std::int64_t begin = 0; begin < count; begin += grain) {
      body(begin, begin + grain < count ? begin + grain : count);
    }
    return;
  }
  state.count = count;
  state.grain = grain;
  state.body = &body;
  state.failure = nullptr;
  state.next.store(0, std::memory_order_relaxed);
  state.running.store(threads_ - 1, std::memory_order_relaxed);
  state.generation.fetch_add(1, std::memory_order_release);
  state.generation.notify_all();
  state.work();
  for (int spin = 0; spin < kSpins && state.running.load(std::memory_order_acquire) != 0; ++spin) {
    pause();
  }
  for (int left = state.running.load(std::memory_order_acquire); left != 0;
       left = state.running.load(std::memory_order_acquire)) {
    state.running.wait(left, std::memory_order_acquire);
  }
  if (state.failure) std::rethrow_exception(state.failure);
}

}  // namespace regatta::base
