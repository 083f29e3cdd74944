#include "trainer/samples/batch_prefetcher.h"

#include <condition_variable>
#include <deque>
#include <future>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "base/error.h"

namespace regatta::trainer::samples {
namespace {

template <typename T>
std::int64_t bytes_of(const std::vector<T>& all) {
  return static_cast<std::int64_t>(all.size() * sizeof(T));
}

std::int64_t bytes_of(const PackedBatch& batch) {
  return bytes_of(batch.ids) + bytes_of(batch.types) + bytes_of(batch.positions) +
         bytes_of(batch.ordinals) + bytes_of(batch.sorted) + bytes_of(batch.masked_rows) +
         bytes_of(batch.masked_labels) + bytes_of(batch.cumulative) + bytes_of(batch.first_rows) +
         bytes_of(batch.sample_labels) + bytes_of(batch.answers) + bytes_of(batch.values);
}

}  // namespace

std::int64_t bytes_of(const StepBatches& step) {
  std::int64_t bytes = 0;
  for (const auto* batches : {&step.batches, &step.half}) {
    for (const PackedBatch& batch : *batches) bytes += bytes_of(batch);
  }
  return bytes;
}

struct BatchPrefetcher::State {
  struct Made {
    StepBatches step;
    double seconds = 0;
  };
  // A step that is to be made.
  struct Order {
    StepPlace place;
    std::promise<Made> result;
  };
  struct Ahead {
    StepPlace place;
    std::future<Made> result;
  };

  State(const base::Clock& time, Begin how) : clock(time), begin(std::move(how)) {}

  const base::Clock& clock;
  Begin begin;
  std::deque<Ahead> ahead;  // of the thread that takes; in the order of steps

  std::mutex mutex;  // of the following
  std::condition_variable changed;
  std::deque<Order> orders;   // that nobody has begun
  bool is_beginning = false;  // one of them
  int workers = 0;            // those from this number on end
  bool is_over = false;       // they end when there is nothing left to make
  std::vector<std::jthread> threads;

  // The first order, when it is somebody's turn; nothing: this worker ends.
  std::optional<Order> next_order(int number) {
    std::unique_lock<std::mutex> lock(mutex);
    const auto ends = [&] { return number >= workers || (is_over && orders.empty()); };
    changed.wait(lock, [&] { return ends() || (!orders.empty() && !is_beginning); });
    if (ends()) return std::nullopt;
    std::optional<Order> order(std::move(orders.front()));
    orders.pop_front();
    is_beginning = true;
    return order;
  }
  void end_turn() {
    {
      const std::lock_guard<std::mutex> lock(mutex);
      is_beginning = false;
    }
    changed.notify_all();
  }

  Make begun(const StepPlace& place) {
    try {
      Make rest = begin(place);
      end_turn();
      return rest;
    } catch (...) {
      end_turn();
      throw;
    }
  }

  void work(int number) {
    while (std::optional<Order> order = next_order(number)) {
      const double mark = clock.monotonic_seconds();
      try {
        const Make rest = begun(order->place);
        Made made{rest(), 0};
        made.seconds = clock.monotonic_seconds() - mark;
        order->result.set_value(std::move(made));
      } catch (...) {
        order->result.set_exception(std::current_exception());
      }
    }
  }

  void order(const StepPlace& place) {
    Order order{place, {}};
    ahead.push_back({place, order.result.get_future()});
    {
      const std::lock_guard<std::mutex> lock(mutex);
      orders.push_back(std::move(order));
    }
    changed.notify_all();
  }

  void end_workers(int left) {
    {
      const std::lock_guard<std::mutex> lock(mutex);
      workers = left;
    }
    changed.notify_all();
    while (static_cast<int>(threads.size()) > left) threads.pop_back();  // joins
  }
};

BatchPrefetcher::BatchPrefetcher(const base::Clock& clock, Begin begin)
    : state_(std::make_unique<State>(clock, std::move(begin))) {
  set_workers(1);
}

BatchPrefetcher::~BatchPrefetcher() {
  {
    const std::lock_guard<std::mutex> lock(state_->mutex);
    state_->is_over = true;
  }
  state_->changed.notify_all();
  state_->threads.clear();
}

void BatchPrefetcher::set_workers(int workers) {
  base::check(workers >= 1, "somebody makes the samples");
  State& state = *state_;
  if (workers < std::ssize(state.threads)) return state.end_workers(workers);
  {
    const std::lock_guard<std::mutex> lock(state.mutex);
    state.workers = workers;
  }
  while (std::ssize(state.threads) < workers) {
    const int number = static_cast<int>(state.threads.size());
    state.threads.emplace_back([&state, number] { state.work(number); });
  }
}

BatchPrefetcher::Taken BatchPrefetcher::take(const StepPlace& place,
                                             const std::vector<StepPlace>& next) {
  State& state = *state_;
  Taken taken;
  const bool is_ahead = !state.ahead.empty() && state.ahead.front().place == place;
  if (!is_ahead) {
    forget();
    state.order(place);
  }
  std::future<State::Made> result = std::move(state.ahead.front().result);
  state.ahead.pop_front();
  taken.stalled = is_ahead && result.wait_for(std::chrono::seconds(0)) != std::future_status::ready;
  const double mark = state.clock.monotonic_seconds();
  State::Made made = result.get();
  if (taken.stalled) taken.waited_seconds = state.clock.monotonic_seconds() - mark;
  taken.step = std::move(made.step);
  taken.making_seconds = made.seconds;
  // Those that are ahead of other samples than `next` says are forgotten when they are asked for.
  for (std::size_t i = state.ahead.size(); i < next.size(); ++i) state.order(next[i]);
  return taken;
}

void BatchPrefetcher::forget() {
  for (State::Ahead& each : state_->ahead) each.result.wait();
  state_->ahead.clear();
}

}  // namespace regatta::trainer::samples
