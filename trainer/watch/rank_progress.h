// How far each rank has come, and which one the others wait for: pure functions for the watchdog.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trainer/watch/watchdog.h"

namespace regatta::trainer::watch {

enum class Presence {
  Here,
  Closed,  // its connection ended without a goodbye
  Failed,  // it said that it ends with an error
  Left,    // it said goodbye: no longer watched
};

struct RankProgress {
  int rank = 0;
  std::int64_t step = 0;
  Phase phase = Phase::Loading;
  double seconds = 0;  // in the phase
  double limit = PhaseLimits::kUnknownSeconds;
  double silent_seconds = 0;
  Presence presence = Presence::Here;
  double absent_seconds = 0;  // since it closed or failed
};

// The rank that the others wait for: of those here the one of the lowest step, then of the earliest
// phase, then longest in it. Null when none is here.
[[nodiscard]] const RankProgress* furthest_behind(const std::vector<RankProgress>& ranks);

// The rank that is to blame, when there is one: it is gone since `grace_seconds`, or is
// not heard of for `silence_seconds`, or is furthest behind and longer in its phase than its limit.
// Another rank than the furthest behind may exceed its limit: it waits for that one, which may well
// be within its own, as rank 0 is while it writes a checkpoint.
[[nodiscard]] std::optional<Trip> verdict(const std::vector<RankProgress>& ranks,
                                          double silence_seconds, double grace_seconds);

// Ranks as (step phase seconds), the furthest behind first, at most eight, then how many more.
[[nodiscard]] std::string listing(std::vector<RankProgress> ranks);

}  // namespace regatta::trainer::watch
