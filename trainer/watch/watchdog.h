// Watches that every rank moves on. Each rank beats (step, phase) into a thread of its own, which
// tells rank 0 twice a second over a TCP connection that training does not use; rank 0 answers.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "trainer/contract/journal.h"
#include "trainer/ranks/host_collectives.h"

namespace regatta::trainer::watch {

enum class Phase { Loading, Data, Forward, Backward, Reduce, Optimizer, Evaluating, Checkpointing };
[[nodiscard]] const char* name_of(Phase phase);

// What may be waited for, in each phase: at least `least_seconds`, else kLearned times the longest
// this rank has seen of the phase; Loading and everything before a phase has been seen twice may
// take kUnknownSeconds.
class PhaseLimits {
 public:
  explicit PhaseLimits(double least_seconds);
  void observe(Phase phase, double seconds);
  [[nodiscard]] double limit(Phase phase) const;
  static constexpr double kLearned = 5;
  static constexpr double kUnknownSeconds = 1800;

 private:
  double least_seconds_;
  struct Seen {
    int times = 0;
    double longest = 0;
  };
  std::vector<Seen> seen_;
};

// Why a watchdog gives up.
struct Trip {
  std::string why;  // one line
  int rank = 0;     // that is to blame
  Phase phase = Phase::Loading;
  double seconds = 0;  // that it was not heard of, or has been in the phase
  bool hangs = false;  // it stands still, as far as can be seen; else it is gone
};

struct WatchdogOptions {
  double least_seconds = 20;
  double beat_seconds = 0.5;
  // A rank that is not heard of for so long is lost, whatever its phase: stopped, or its machine
  // gone.
  double silence_seconds = 12;
  // Where rank 0 listens; empty: the host's own name, or loopback when all ranks are on one host.
  std::string address;
};

class Watchdog {
 public:
  // Collective. `trip` is called once at most, on the watchdog's thread, with who stood still where
  // and for how long; it is expected to end the process (exit code 22). On
  // rank 0 `report` is called once a second with the rank that is furthest behind. With one rank
  // there is no connection, and the rank watches itself.
  Watchdog(ranks::HostCollectives& host, const base::Clock& clock, const WatchdogOptions& options,
           std::function<void(const Trip&)> trip,
           std::function<void(const contract::HeartbeatRecord&)> report);
  // Ends the watch: no trip after this has begun. Ranks may end in any order.
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  // Cheap enough for every phase of every step; from the training thread.
  void beat(std::int64_t step, Phase phase);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace regatta::trainer::watch
