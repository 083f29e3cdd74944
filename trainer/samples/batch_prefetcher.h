// Makes the micro-batches of coming steps on other threads while a step runs.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/clock.h"
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

// Of the host memory that a step's micro-batches take.
[[nodiscard]] std::int64_t bytes_of(const StepBatches& step);

class BatchPrefetcher {
 public:
  // The rest of making a step, on any thread, beside that of other steps.
  using Make = std::function<StepBatches()>;
  // begin(place) depends on the place alone. It is called in the order of steps, one call at a
  // time: what ranks do together to make a step is done there.
  using Begin = std::function<Make(const StepPlace& place)>;
  // The clock outlives it.
  BatchPrefetcher(const base::Clock& clock, Begin begin);
  // Makes what was begun, as other ranks do: they may wait for this one.
  ~BatchPrefetcher();
  BatchPrefetcher(const BatchPrefetcher&) = delete;
  BatchPrefetcher& operator=(const BatchPrefetcher&) = delete;

  // So many threads make steps from now on, at least 1: with 2 those of two steps at once.
  void set_workers(int workers);

  struct Taken {
    StepBatches step;
    bool stalled = false;       // they were in the making, and had to be waited for
    double waited_seconds = 0;  // then, for so long
    double making_seconds = 0;  // that a thread took for them
  };
  // The step's micro-batches; has those of `next` made ahead, in that order, as many as it names.
  // Any order of steps is right; to be asked for them in their order is fast. Throws what making
  // them threw, and not before it is asked for them.
  [[nodiscard]] Taken take(const StepPlace& place, const std::vector<StepPlace>& next);
  // Waits for all that is being made, and forgets it: begin() depends on something else from now
  // on.
  void forget();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace regatta::trainer::samples
