// Time of work on a stream, where choices are made by measuring.
#pragma once

#include <algorithm>
#include <optional>

#include "trainer/cuda/handles.h"

namespace regatta::trainer::cuda {

// Microseconds of the best of three runs of `enqueue` after one that only warms up; waits for the
// stream. `enqueue` says whether it could enqueue: nothing is returned where it could not.
template <typename Enqueue>
[[nodiscard]] std::optional<double> best_microseconds(cudaStream_t stream, const Enqueue& enqueue) {
  constexpr int kRuns = 3;
  const OwnEvent start(cudaEventDefault);
  const OwnEvent stop(cudaEventDefault);
  std::optional<double> best;
  for (int i = 0; i <= kRuns; ++i) {
    check(cudaEventRecord(start.get(), stream), "timing");
    if (!enqueue()) return std::nullopt;
    check(cudaEventRecord(stop.get(), stream), "timing");
    check(cudaEventSynchronize(stop.get()), "timing");
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, start.get(), stop.get()), "timing");
    const double time = 1e3 * static_cast<double>(milliseconds);
    if (i > 0) best = std::min(time, best.value_or(time));
  }
  return best;
}

}  // namespace regatta::trainer::cuda
