#include "trainer/nccl/done_times.h"

#include <algorithm>
#include <iterator>
#include <thread>
#include <utility>

#include "base/error.h"

namespace regatta::trainer::nccl {
namespace {

// A GPU that starts may take a while for its first event.
constexpr double kFirstGap = 10;

}  // namespace

DoneTimes::DoneTimes(const Table& table, const base::Clock& clock)
    : table_(table), clock_(clock), stream_(table), done_(static_cast<std::size_t>(kKept)) {
  if (!compare(kFirstGap)) {
    throw base::Error(base::Code::Retry,
                      "the GPU did nothing for 10 s; it may be faulty: resume on another node");
  }
}

void DoneTimes::record(ranks::Pending number, NativeStream stream) {
  resolve_done();
  if (clock_.monotonic_seconds() - last_try_ > kComparisonSeconds) compare(kLongestGap);
  TableEvent event = take_event();
  table_.event_record(event.get(), stream);
  const auto since = std::prev(comparisons_.end());
  ++since->users;
  marks_.emplace(number, Mark{std::move(event), since});
}

void DoneTimes::wait(NativeStream stream, ranks::Pending number) {
  const auto mark = marks_.find(number);
  if (mark != marks_.end()) table_.stream_wait_event(stream, mark->second.event.get());
}

double DoneTimes::at(ranks::Pending number) {
  const auto mark = marks_.find(number);
  if (mark != marks_.end()) {
    base::check(table_.event_is_done(mark->second.event.get()),
                "a collective's time is asked for when it is over");
    resolve(mark);
  }
  const Done& done = done_[static_cast<std::size_t>(number % kKept)];
  base::check(done.number == number, "a collective's time is kept for the last 4096");
  return done.seconds;
}

TableEvent DoneTimes::take_event() {
  if (idle_.empty()) return TableEvent(table_);
  TableEvent event = std::move(idle_.back());
  idle_.pop_back();
  return event;
}

bool DoneTimes::compare(double longest_gap) {
  last_try_ = clock_.monotonic_seconds();
  double best = longest_gap;
  bool found = false;
  for (int tries = 0; tries < kTries && (!found || best > kGoodGap); ++tries) {
    TableEvent event = take_event();
    const double before = clock_.monotonic_seconds();
    table_.event_record(event.get(), stream_.get());
    double after = before;
    bool done = false;
    while (!done && after - before <= longest_gap) {
      done = table_.event_is_done(event.get());
      after = clock_.monotonic_seconds();
      if (!done) std::this_thread::yield();
    }
    // One that is not done yet may be recorded anew: events know their last place only.
    if (!done || after - before > best) {
      idle_.push_back(std::move(event));
      if (!done) break;
      continue;
    }
    best = after - before;
    if (found) {
      std::swap(comparisons_.back().event, event);
      idle_.push_back(std::move(event));
      comparisons_.back().seconds = before + best / 2;
    } else {
      comparisons_.push_back({std::move(event), before + best / 2, 0});
    }
    found = true;
  }
  return found;
}

// Mostly in the order of their numbers: those after one that is under way are looked at later.
void DoneTimes::resolve_done() {
  while (!marks_.empty() && table_.event_is_done(marks_.begin()->second.event.get())) {
    resolve(marks_.begin());
  }
  for (auto it = comparisons_.begin(); it != std::prev(comparisons_.end());) {
    if (it->users > 0) {
      ++it;
      continue;
    }
    idle_.push_back(std::move(it->event));
    it = comparisons_.erase(it);
  }
}

void DoneTimes::resolve(Marks::iterator mark) {
  Comparison& since = *mark->second.since;
  const double elapsed = table_.event_elapsed_seconds(since.event.get(), mark->second.event.get());
  done_[static_cast<std::size_t>(mark->first % kKept)] = {mark->first, since.seconds + elapsed};
  --since.users;
  idle_.push_back(std::move(mark->second.event));
  marks_.erase(mark);
}

}  // namespace regatta::trainer::nccl
