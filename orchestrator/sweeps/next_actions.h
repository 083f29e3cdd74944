// The one function of a sweep: from what was reached to what is to be done.
#pragma once

#include <cstdint>
#include <variant>
#include <vector>

#include "orchestrator/sweeps/history.h"

namespace regatta::orchestrator::sweeps {

// A new run with these values, until it has trained `budget` (0: what its run file says).
struct StartTrial {
  int number = 0;
  SweepValues values;
  std::int64_t budget = 0;
};
// On from where it stopped, until it has trained `budget` in all.
struct ContinueTrial {
  int number = 0;
  std::int64_t budget = 0;
};
// Keep: it is paused, and may go on from its checkpoints. Release: it is finished; those that only
// a promotion would need may go.
enum class AfterStop { Keep, Release };
// It trains no more, or does not go on.
struct StopTrial {
  int number = 0;
  AfterStop checkpoints = AfterStop::Release;
};
using SweepAction = std::variant<StartTrial, ContinueTrial, StopTrial>;

struct NextActions {
  std::vector<SweepAction> actions;  // in this order; none and not done: wait for reports
  bool done = false;                 // after these actions no trial runs, and none will
};

// What to do now. Pure and deterministic; each action is decided from the history that the ones
// before it leave, so after carry_out() of some of them it gives the others. The sweep is as
// read_sweep() gives it (the program ends if trials or concurrency are below 1).
[[nodiscard]] NextActions next_actions(const Sweep& sweep, const SweepHistory& history);

// The history once `action` is carried out. The trial of a stop or continuation must be there, that
// of a start must not (the program ends).
void carry_out(const SweepAction& action, SweepHistory* history);

}  // namespace regatta::orchestrator::sweeps
