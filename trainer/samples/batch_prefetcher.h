// Makes the next step's micro-batches on another thread while a step runs.
#pragma once

#include <cstdint>
#include <functional>
#include <future>
#include <optional>
#include <vector>

#include "trainer/samples/batch.h"
#include "trainer/samples/step_place.h"

namespace regatta::trainer::samples {

struct StepBatches {
  std::vector<PackedBatch> batches;
  std::int64_t moved_bytes = 0;  // of samples, sent to other ranks
  // Of those samples that are in the half that the noise scale looks at, where the step does.
  std::vector<PackedBatch> half;
  // Of a run with shards, how many of those are each shard's, in their order; else nothing.
  std::vector<std::size_t> shard_batches, shard_half;
};

class BatchPrefetcher {
 public:
  // collect(place) depends on the place alone, and is called on other threads, one call at a time.
  using Collect = std::function<StepBatches(const StepPlace& place)>;
  explicit BatchPrefetcher(Collect collect);

  struct Taken {
    StepBatches step;
    bool stalled = false;  // they were in the making, and had to be waited for
  };
  // The step's micro-batches; begins to make those of `next`, if there is one. Any order of steps
  // is right; to be asked for `next` next is fast. Throws what collect throws.
  [[nodiscard]] Taken take(const StepPlace& place, const std::optional<StepPlace>& next);
  // Waits for what is being made, and forgets it: collect() depends on something else from now on.
  void forget();

 private:
  Collect collect_;
  StepPlace next_place_;           // of next_
  std::future<StepBatches> next_;  // its destructor waits
};

}  // namespace regatta::trainer::samples
