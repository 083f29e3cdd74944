// When which question may be put to Slurm: pure scheduling, with time as a parameter. slurmctld
// serves everybody, so there is a budget of calls, a longer pause the slower they are, and one at a
// time.
#pragma once

#include <array>
#include <cstddef>
#include <deque>
#include <optional>

#include "orchestrator/runs/scheduler.h"

namespace regatta::orchestrator::slurm {

// What is collected regularly.
enum class PollKind { Jobs, Accounting, Nodes, Cluster, Reservations };
inline constexpr std::size_t kPollKinds = 5;

struct PollPace {
  double calls_per_minute = 6;
  // Seconds between two calls of a kind: jobs, accounting, nodes, configuration, reservations.
  // Infinite in both paces: only when hurried.
  std::array<double, kPollKinds> intervals = {30, 600, 60, 1800, 600};
};

struct PollLimits {
  PollPace idle = {};
  PollPace busy = {12, {15, 300, 30, 600, 300}};  // while runs are open
  // A kind takes at most this share of the time: a call of 3 s is repeated after 60 s at the
  // earliest. Of calls that were answered: how long one waits in vain says nothing of what an
  // answer costs.
  double share = 0.05;
  double longest_interval = 300;  // to which slowness and failures stretch an interval
  // Between two questions, of whatever kind, while Slurm answers none. One that nobody answers
  // costs slurmctld a connection at most, and the first answer must not come minutes late.
  double silent_interval = 30;
  double first_backoff = 15;  // after Slurm said that it is asked too often; doubles
  double longest_backoff = 600;
};

enum class PollOutcome {
  Good,
  Failed,       // no answer, or none that can be read: the kind's pause doubles, unless all fail
  RateLimited,  // everything pauses
};

// All times are monotonic seconds that never run backwards. One owner; no threads.
class PollBudget {
 public:
  explicit PollBudget(const PollLimits& limits);

  void set_busy(bool busy) { busy_ = busy; }

  // A kind that nobody wants is not asked for at all, hurried or not. At first all are wanted; one
  // that is wanted again is due at once and has waited for nothing.
  void set_wanted(PollKind kind, bool wanted, double now);

  // Asks for a kind as soon as the budget allows, for instance after an ambiguous submission.
  void hurry(PollKind kind, double now);
  // Somebody reads what is known of a kind: the same, but within the kind's share, since people and
  // programs may look often.
  void look(PollKind kind, double now);
  // Slurm has answered, be it another command than those of next(): if it had been silent, what is
  // known is old, and everything is asked for at once.
  void answered(double now);

  // The kind to ask for now; nothing while a call is under way, while nothing is due, or while the
  // budget is used up. Of several, the one that waits longest in proportion to its interval, so
  // that none is ever starved.
  [[nodiscard]] std::optional<PollKind> next(double now) const;

  void started(PollKind kind, double now);
  // Of the call that was started; `now` − start is its duration.
  void finished(PollOutcome outcome, double now);

  // The pause between two calls of the kind, after slowness and failures.
  [[nodiscard]] double interval(PollKind kind) const;
  // Seconds between any two calls.
  [[nodiscard]] double gap() const;
  // call_seconds: of the slowest kind.
  [[nodiscard]] runs::Asking use(double now) const;

 private:
  struct Kind {
    bool wanted = true;
    double due = 0;
    double duration = 0;  // of its answered calls, a running mean
    double ended = 0;     // its last call
    int failures = 0;     // in a row
    bool again = false;   // hurried while it was asked for: that answer may be too old
  };
  [[nodiscard]] const PollPace& pace() const { return busy_ ? limits_.busy : limits_.idle; }
  // One kind alone may fail for reasons of its own; accounting is another daemon's.
  [[nodiscard]] bool is_silent() const { return failed_in_a_row_ >= 2; }
  void pace_silence(Kind* asked, double now);

  PollLimits limits_;
  bool busy_ = false;
  std::array<Kind, kPollKinds> kinds_ = {};
  std::optional<PollKind> in_flight_;
  std::optional<double> last_start_;
  std::deque<double> starts_;  // of the minute before the newest
  int failed_in_a_row_ = 0;    // questions to slurmctld
  double closed_until_ = 0;    // after a rate limit
  bool was_limited_ = false;
  double backoff_ = 0;
};

}  // namespace regatta::orchestrator::slurm
