#include "tests/trainer/device/deferred_queue.h"

#include <algorithm>

#include "base/error.h"

namespace regatta::tests {
namespace {

using trainer::device::Event;
using trainer::device::Stream;
using trainer::device::View;

void merge(std::vector<std::int64_t>* into, const std::vector<std::int64_t>& from) {
  if (into->size() < from.size()) into->resize(from.size(), 0);
  for (std::size_t i = 0; i < from.size(); ++i) (*into)[i] = std::max((*into)[i], from[i]);
}

bool overlap(const View& a, const View& b) {
  const char* a_begin = static_cast<const char*>(a.data);
  const char* b_begin = static_cast<const char*>(b.data);
  return a.size > 0 && b.size > 0 && a_begin < b_begin + b.bytes() && b_begin < a_begin + a.bytes();
}

bool any_overlap(const std::vector<View>& views, const View& view) {
  return std::any_of(views.begin(), views.end(),
                     [&](const View& other) { return overlap(other, view); });
}
bool reads(const Touched& touched, const View& view) {
  return any_overlap(touched.read, view) || any_overlap(touched.updated, view);
}
bool touches(const Touched& touched, const View& view) {
  return reads(touched, view) || any_overlap(touched.overwritten, view);
}
bool clash(const Touched& a, const Touched& b) {
  const auto written_is_touched = [](const Touched& writer, const Touched& other) {
    const auto hit = [&](const View& view) { return touches(other, view); };
    return std::any_of(writer.updated.begin(), writer.updated.end(), hit) ||
           std::any_of(writer.overwritten.begin(), writer.overwritten.end(), hit);
  };
  return written_is_touched(a, b) || written_is_touched(b, a);
}

}  // namespace

Stream DeferredQueue::make_stream() {
  streams_.emplace_back();
  return static_cast<Stream>(streams_.size()) - 1;
}

DeferredQueue::StreamState& DeferredQueue::stream_at(Stream stream) {
  base::check(stream >= 0 && static_cast<std::size_t>(stream) < streams_.size(),
              "a stream comes from make_stream");
  return streams_[static_cast<std::size_t>(stream)];
}

DeferredQueue::EventState& DeferredQueue::event_at(Event event) {
  base::check(event >= 1 && static_cast<std::size_t>(event) <= events_.size(),
              "an event is recorded before it is waited for");
  return events_[static_cast<std::size_t>(event) - 1];
}

void DeferredQueue::push(Stream stream, Item item) {
  StreamState& state = stream_at(stream);
  merge(&state.clock, host_clock_);  // the host enqueues, so all it waited for came before
  state.clock.resize(std::max(state.clock.size(), streams_.size()), 0);
  item.stream = stream;
  item.index = ++state.count;
  state.clock[static_cast<std::size_t>(stream)] = item.index;
  refuse_races(item, state.clock);
  items_.push_back(std::move(item));
  state.queue.push_back(std::prev(items_.end()));
}

void DeferredQueue::refuse_races(const Item& item, const Clock& clock) const {
  for (const Item& other : items_) {
    if (other.stream == item.stream) continue;
    if (clock[static_cast<std::size_t>(other.stream)] >= other.index) continue;
    if (!clash(item.touched, other.touched)) continue;
    throw base::Error(base::Code::Developer,
                      item.name + " on stream " + std::to_string(item.stream) + " and " +
                          other.name + " on stream " + std::to_string(other.stream) +
                          " touch the same memory; order them by an event");
  }
}

void DeferredQueue::enqueue(Stream stream, const std::string& name, Touched touched,
                            std::function<void()> work) {
  std::vector<View> poisoned;
  for (const View& view : touched.overwritten) {
    if (!reads(touched, view) && !is_pending(view)) poisoned.push_back(view);
  }
  Item item;
  item.name = name;
  item.touched = std::move(touched);
  item.work = std::move(work);
  push(stream, std::move(item));
  for (const View& view : poisoned) {
    auto* bytes = static_cast<unsigned char*>(view.data);
    std::fill(bytes, bytes + view.bytes(), static_cast<unsigned char>(0xFF));
  }
}

Event DeferredQueue::record(Stream stream) {
  events_.emplace_back();
  Item item;
  item.name = "record";
  item.records = static_cast<Event>(events_.size());
  push(stream, std::move(item));
  events_.back().stream = stream;
  events_.back().clock = stream_at(stream).clock;
  return static_cast<Event>(events_.size());
}

void DeferredQueue::wait(Stream stream, Event event) {
  merge(&stream_at(stream).clock, event_at(event).clock);
  Item item;
  item.name = "wait";
  item.waits_for = event;
  push(stream, std::move(item));
}

bool DeferredQueue::is_pending(const View& view) const {
  return std::any_of(items_.begin(), items_.end(),
                     [&](const Item& item) { return !item.done && touches(item.touched, view); });
}

bool DeferredQueue::can_run(const StreamState& stream) const {
  if (stream.queue.empty()) return false;
  const Event event = stream.queue.front()->waits_for;
  return event == 0 || events_[static_cast<std::size_t>(event) - 1].done;
}

void DeferredQueue::run_front(StreamState& stream) {
  Item& item = *stream.queue.front();
  stream.queue.pop_front();
  item.done = true;
  if (item.records != 0) event_at(item.records).done = true;
  if (item.work) item.work();
}

void DeferredQueue::run_random_one() {
  std::vector<StreamState*> ready;
  for (StreamState& stream : streams_) {
    if (can_run(stream)) ready.push_back(&stream);
  }
  base::check(!ready.empty(), "an event that was recorded can be reached");
  run_front(*ready[random_.below(static_cast<std::uint32_t>(ready.size()))]);
}

void DeferredQueue::run_only_what_leads_to(Event event) {
  StreamState& stream = stream_at(event_at(event).stream);
  while (!event_at(event).done) {
    if (!can_run(stream)) run_only_what_leads_to(stream.queue.front()->waits_for);
    run_front(stream);
  }
}

void DeferredQueue::wait_host(Event event) {
  while (!event_at(event).done) {
    if (in_random_order_) {
      run_random_one();
    } else {
      run_only_what_leads_to(event);
    }
  }
  merge(&host_clock_, event_at(event).clock);
  forget_what_the_host_waited_for();
}

void DeferredQueue::run_all() {
  const auto has_work = [](const StreamState& stream) { return !stream.queue.empty(); };
  while (std::any_of(streams_.begin(), streams_.end(), has_work)) {
    if (in_random_order_) {
      run_random_one();
      continue;
    }
    const auto youngest = std::find_if(streams_.rbegin(), streams_.rend(),
                                       [&](const StreamState& s) { return can_run(s); });
    base::check(youngest != streams_.rend(), "some stream can always go on");
    run_front(*youngest);
  }
  for (const StreamState& stream : streams_) merge(&host_clock_, stream.clock);
  forget_what_the_host_waited_for();
}

void DeferredQueue::forget_what_the_host_waited_for() {
  host_clock_.resize(std::max(host_clock_.size(), streams_.size()), 0);
  items_.remove_if([&](const Item& item) {
    return item.done && item.index <= host_clock_[static_cast<std::size_t>(item.stream)];
  });
}

}  // namespace regatta::tests
