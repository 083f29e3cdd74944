// Makes the next step's micro-batches on another thread while a step runs.
#pragma once

#include <cstdint>
#include <functional>
#include <future>
#include <vector>

#include "trainer/samples/batch.h"

namespace regatta::trainer::samples {

struct StepBatches {
  std::vector<PackedBatch> batches;
  std::int64_t moved_bytes = 0;  // of samples, sent to other ranks
  // Of those samples that are in the half that the noise scale looks at, where the step does.
  std::vector<PackedBatch> half;
};

class BatchPrefetcher {
 public:
  // collect(step) depends on the step alone, and is called on other threads, one call at a time; no
  // step beyond `last_step` is made ahead.
  using Collect = std::function<StepBatches(std::int64_t step)>;
  BatchPrefetcher(Collect collect, std::int64_t last_step);

  struct Taken {
    StepBatches step;
    bool stalled = false;  // they were in the making, and had to be waited for
  };
  // The step's micro-batches; begins to make the next step's. Any order of steps is right, rising
  // by one is fast. Throws what collect throws.
  [[nodiscard]] Taken take(std::int64_t step);
  // Waits for what is being made, and forgets it: collect() depends on something else from now on.
  void forget();

 private:
  Collect collect_;
  std::int64_t last_step_;
  std::int64_t next_step_ = 0;
  std::future<StepBatches> next_;  // its destructor waits
};

}  // namespace regatta::trainer::samples
