// The run file's section `guard`: what looks after the numbers of a run (trainer/numerics).
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>

namespace regatta::base {
class Table;
}

namespace regatta::trainer::contract {

struct RunConfig;

// Of a rank whose gradients are wrong. Stop: the attempt ends, to be started again from its last
// checkpoint. Warn: the step is computed again, and training goes on.
enum class OnCorruption { Stop, Warn };

struct GuardConfig {
  bool alarms = true;  // of the gradient's norm and of updates that are far from the run's own
  // One step of each so many is computed twice, which costs as much as a step; 0: none.
  std::int64_t replay_every = 200;
  OnCorruption on_corruption = OnCorruption::Stop;
  friend bool operator==(const GuardConfig&, const GuardConfig&) = default;
};

void read_guard(base::Table& root, GuardConfig* guard);
[[nodiscard]] nlohmann::ordered_json guard_json(const GuardConfig& guard);

// guard.replay_every, and why it is not kept: null where it is. Not with pipeline stages, whose
// ranks have no gradients to compare, nor where equal bits are not promised.
[[nodiscard]] const char* why_no_replays(const RunConfig& config);
[[nodiscard]] std::int64_t replay_every(const RunConfig& config);

}  // namespace regatta::trainer::contract
