#include "orchestrator/slurm/poll_budget.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace regatta::orchestrator::slurm {
namespace {

constexpr int kMostDoublings = 16;
constexpr double kMinute = 60;

std::size_t index(PollKind kind) { return static_cast<std::size_t>(kind); }

}  // namespace

PollBudget::PollBudget(const PollLimits& limits) : limits_(limits) {
  for (const PollPace& pace : {limits.idle, limits.busy}) {
    base::check(pace.calls_per_minute > 0, "a poller may call at all");
    for (const double seconds : pace.intervals) base::check(seconds > 0, "an interval is a time");
  }
  for (std::size_t i = 0; i < kPollKinds; ++i) {
    const double shortest = std::min(limits.idle.intervals[i], limits.busy.intervals[i]);
    if (std::isinf(shortest)) kinds_[i].due = shortest;
  }
  base::check(limits.share > 0 && limits.share <= 1, "a share is above 0 and at most 1");
  base::check(limits.first_backoff > 0, "a pause is a time");
}

// A minute may begin and end with a call.
double PollBudget::gap() const { return 60 / std::max(1.0, pace().calls_per_minute - 1); }

double PollBudget::interval(PollKind kind) const {
  const Kind& state = kinds_[index(kind)];
  const double base = pace().intervals[index(kind)];
  double stretched = std::max(base, state.duration / limits_.share);
  stretched = std::ldexp(stretched, std::min(state.failures, kMostDoublings));
  return std::min(stretched, std::max(base, limits_.longest_interval));
}

void PollBudget::set_wanted(PollKind kind, bool wanted, double now) {
  Kind& state = kinds_[index(kind)];
  if (wanted && !state.wanted) state.due = std::max(state.due, now);
  state.wanted = wanted;
}

void PollBudget::hurry(PollKind kind, double now) {
  Kind& state = kinds_[index(kind)];
  state.due = std::min(state.due, now);
  state.again = state.again || in_flight_ == kind;
}

void PollBudget::look(PollKind kind, double now) {
  Kind& state = kinds_[index(kind)];
  state.due = std::min(state.due, std::max(now, state.ended + state.duration / limits_.share));
}

void PollBudget::answered(double now) {
  const bool was_silent = is_silent();
  failed_in_a_row_ = 0;
  for (Kind& state : kinds_) {
    if (!was_silent || std::isinf(state.due)) continue;  // or nobody is in a hurry for it
    state.failures = 0;
    state.due = std::min(state.due, now);
  }
}

std::optional<PollKind> PollBudget::next(double now) const {
  if (in_flight_ || now < closed_until_) return std::nullopt;
  if (last_start_ && now - *last_start_ < gap()) return std::nullopt;
  std::optional<PollKind> best;
  double most = 0;
  for (std::size_t i = 0; i < kPollKinds; ++i) {
    const auto kind = static_cast<PollKind>(i);
    if (!kinds_[i].wanted || kinds_[i].due > now) continue;
    // A kind without an interval is asked for only when something waits for it: as for jobs.
    const double pause = interval(kind);
    const double lateness =
        (now - kinds_[i].due) / (std::isinf(pause) ? interval(PollKind::Jobs) : pause);
    if (best && lateness <= most) continue;
    best = kind;
    most = lateness;
  }
  return best;
}

void PollBudget::started(PollKind kind, double now) {
  base::check(!in_flight_, "one call at a time");
  in_flight_ = kind;
  last_start_ = now;
  starts_.push_back(now);
  while (starts_.front() < now - kMinute) starts_.pop_front();
}

runs::Asking PollBudget::use(double now) const {
  runs::Asking use;
  use.calls = static_cast<int>(std::count_if(
      starts_.begin(), starts_.end(), [now](double start) { return start >= now - kMinute; }));
  use.most_calls = pace().calls_per_minute;
  for (const Kind& kind : kinds_) use.call_seconds = std::max(use.call_seconds, kind.duration);
  use.paused_seconds = std::max(0.0, closed_until_ - now);
  return use;
}

void PollBudget::finished(PollOutcome outcome, double now) {
  base::check(in_flight_.has_value(), "a call that ends was started");
  Kind& state = kinds_[index(*in_flight_)];
  const bool failed = outcome == PollOutcome::Failed;
  const double seconds = std::max(0.0, now - *last_start_);
  // One that waited until a stopped slurmctld went on is no slow Slurm, so slowness and recovery
  // both count over some calls.
  if (!failed && !is_silent()) {
    const double most = std::max(2 * state.duration, limits_.silent_interval * limits_.share);
    state.duration =
        seconds > state.duration ? std::min(seconds, most) : 0.5 * (state.duration + seconds);
  }
  state.ended = now;
  state.failures = failed ? state.failures + 1 : 0;
  if (*in_flight_ != PollKind::Accounting) {
    if (failed) {
      ++failed_in_a_row_;
    } else {
      answered(now);
    }
  }
  if (outcome == PollOutcome::RateLimited) {
    backoff_ = was_limited_ ? std::min(2 * backoff_, limits_.longest_backoff)
                            : std::max(limits_.first_backoff, backoff_ / 2);
    closed_until_ = now + backoff_;
  }
  // backoff_ stays after a good call: the next limit begins at half of it, so that a site that
  // limits tightly is not tried from the shortest pause again and again.
  was_limited_ = outcome == PollOutcome::RateLimited;
  state.due = state.again && !failed ? now : now + interval(*in_flight_);
  state.again = false;
  if (failed && is_silent() && *in_flight_ != PollKind::Accounting) pace_silence(&state, now);
  in_flight_.reset();
}

// The next question comes at its time, whoever's it is, and this kind's own after the others'.
void PollBudget::pace_silence(Kind* asked, double now) {
  const double next = std::max(now, *last_start_ + limits_.silent_interval);
  for (const PollKind kind :
       {PollKind::Jobs, PollKind::Nodes, PollKind::Cluster, PollKind::Reservations}) {
    kinds_[index(kind)].due = std::max(kinds_[index(kind)].due, next);
  }
  asked->due = next + gap();
}

}  // namespace regatta::orchestrator::slurm
