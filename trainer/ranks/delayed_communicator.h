// An artificial link, to show overlap where the real one is too fast to be seen: for tests and
// benchmarks only.
#pragma once

#include <memory>

#include "base/clock.h"
#include "trainer/ranks/communicator.h"

namespace regatta::trainer::ranks {

// One link that carries one collective after the other: each takes latency + bytes / rate from when
// it begins and the link is free. An all-reduce moves its bytes once over it, its two halves, a
// reduce-scatter and an all-gather, half of them each (round figures: what counts is when they are
// over).
struct LinkModel {
  double latency_seconds = 0;
  double bytes_per_second = 1e9;
  [[nodiscard]] double seconds(double bytes) const {
    return latency_seconds + bytes / bytes_per_second;
  }
};

// `inner` with that link: the real collective runs at once, finish() waits until the link would be
// done. Host collectives pass undelayed.
[[nodiscard]] std::unique_ptr<Communicator> make_delayed_communicator(
    std::unique_ptr<Communicator> inner, base::Clock& clock, const LinkModel& link);

}  // namespace regatta::trainer::ranks
