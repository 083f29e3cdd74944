// The order of deferred work: streams, events, and who may touch which memory when.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <string>
#include <vector>

#include "base/philox.h"
#include "trainer/device/device.h"

namespace regatta::tests {

// The memory of one operation. `overwritten` is written in full and its old contents are not read.
struct Touched {
  std::vector<trainer::device::View> read, updated, overwritten;
};

class DeferredQueue {
 public:
  explicit DeferredQueue(std::uint64_t seed) : random_(seed, 0, 0, 0), in_random_order_(seed != 0) {
    make_stream();
  }

  trainer::device::Stream make_stream();
  // Throws Code::Developer on a race (deferred_device.h).
  void enqueue(trainer::device::Stream stream, const std::string& name, Touched touched,
               std::function<void()> work);
  trainer::device::Event record(trainer::device::Stream stream);
  void wait(trainer::device::Stream stream, trainer::device::Event event);
  void wait_host(trainer::device::Event event);
  void run_all();
  // Is work that has not run yet going to touch this memory?
  [[nodiscard]] bool is_pending(const trainer::device::View& view) const;

 private:
  using Clock = std::vector<std::int64_t>;  // per stream: the last operation that is ordered before

  struct Item {
    std::string name;
    trainer::device::Stream stream = 0;
    std::int64_t index = 0;  // in its stream, from 1
    Touched touched;
    std::function<void()> work;
    trainer::device::Event waits_for = 0;  // or 0
    trainer::device::Event records = 0;    // or 0
    bool done = false;
  };
  struct StreamState {
    std::deque<std::list<Item>::iterator> queue;
    Clock clock;
    std::int64_t count = 0;
  };
  struct EventState {
    trainer::device::Stream stream = 0;
    Clock clock;
    bool done = false;
  };

  StreamState& stream_at(trainer::device::Stream stream);
  EventState& event_at(trainer::device::Event event);
  void push(trainer::device::Stream stream, Item item);
  void refuse_races(const Item& item, const Clock& clock) const;
  [[nodiscard]] bool can_run(const StreamState& stream) const;
  void run_front(StreamState& stream);
  void run_random_one();
  void run_only_what_leads_to(trainer::device::Event event);
  void forget_what_the_host_waited_for();

  std::vector<StreamState> streams_;
  std::vector<EventState> events_;
  std::list<Item> items_;  // all that the host has not waited for
  Clock host_clock_;
  base::PhiloxStream random_;
  bool in_random_order_;
};

}  // namespace regatta::tests
