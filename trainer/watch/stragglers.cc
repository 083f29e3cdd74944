#include "trainer/watch/stragglers.h"

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <utility>

#include "base/statistics.h"

namespace regatta::trainer::watch {
namespace {

// Of an even number the lower one, so that of two others the slower one does not hide a third.
std::ptrdiff_t middle_of(std::ptrdiff_t count) { return (count - 1) / 2; }

}  // namespace

void Stragglers::add(const contract::RanksRecord& step) {
  const std::size_t ranks = step.tokens.size();
  if (step.compute_seconds.size() != ranks) return;
  if (slow_.size() != ranks) {
    times_.clear();
    slow_.assign(ranks, false);
    span_.assign(ranks, {});
  }
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    span_[rank].tokens += static_cast<double>(step.tokens[rank]);
    span_[rank].seconds += step.compute_seconds[rank];
  }
}

std::vector<Stragglers::Change> Stragglers::judge() {
  const std::size_t ranks = slow_.size();
  if (ranks < 2) return {};
  times_.push_back(times_of_span());
  span_.assign(ranks, {});
  if (std::ssize(times_) > limits_.spans) times_.pop_front();
  if (std::ssize(times_) < limits_.spans) return {};
  std::vector<Change> changes;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    std::vector<double> seen;
    for (const std::vector<double>& times : times_) {
      if (times[rank] > 0) seen.push_back(times[rank]);
    }
    const double times = base::median_or(std::move(seen), 0);
    const bool is_slow = slow_[rank] ? times >= limits_.recovered : times >= limits_.slow;
    if (is_slow == slow_[rank]) continue;
    slow_[rank] = is_slow;
    changes.push_back({static_cast<int>(rank), is_slow, times});
  }
  return changes;
}

// What each rank takes for a token, of the median of the others.
std::vector<double> Stragglers::times_of_span() const {
  std::vector<std::pair<double, std::size_t>> known;  // seconds of a token, and whose
  for (std::size_t rank = 0; rank < span_.size(); ++rank) {
    const Sum& sum = span_[rank];
    if (sum.tokens > 0 && sum.seconds > 0) known.emplace_back(sum.seconds / sum.tokens, rank);
  }
  std::vector<double> times(span_.size());
  if (known.size() < 2) return times;
  std::sort(known.begin(), known.end());
  const std::ptrdiff_t middle = middle_of(std::ssize(known) - 1);
  for (std::ptrdiff_t place = 0; place < std::ssize(known); ++place) {
    const auto& [seconds, rank] = known[static_cast<std::size_t>(place)];
    const std::ptrdiff_t other = middle < place ? middle : middle + 1;  // itself left out
    times[rank] = seconds / known[static_cast<std::size_t>(other)].first;
  }
  return times;
}

std::string describe(const Stragglers::Change& change, const std::string& host) {
  char times[32];
  std::snprintf(times, sizeof times, "%.2f", change.times);
  const std::string who = "rank " + std::to_string(change.rank) + " (" + host + ")";
  if (!change.is_slow) return who + " is no straggler any more: it computes as fast as the others";
  return who + " is a straggler: it computes a token in " + times +
         " times what the other ranks take, and they wait for it in every step";
}

}  // namespace regatta::trainer::watch
