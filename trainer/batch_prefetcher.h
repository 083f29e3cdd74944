// Makes the next step's micro-batches on another thread while a step runs.
#pragma once

#include <cstdint>
#include <functional>
#include <future>
#include <vector>

#include "trainer/batch.h"

namespace regatta::trainer {

class BatchPrefetcher {
 public:
  // collect(step) is a pure function, called on other threads; no step beyond `last_step` is made
  // ahead.
  using Collect = std::function<std::vector<PackedBatch>(std::int64_t step)>;
  BatchPrefetcher(Collect collect, std::int64_t last_step);

  struct Taken {
    std::vector<PackedBatch> batches;
    bool stalled = false;  // they were in the making, and had to be waited for
  };
  // The step's micro-batches; begins to make the next step's. Any order of steps is right, rising
  // by one is fast. Throws what collect throws.
  [[nodiscard]] Taken take(std::int64_t step);

 private:
  Collect collect_;
  std::int64_t last_step_;
  std::int64_t next_step_ = 0;
  std::future<std::vector<PackedBatch>> next_;  // its destructor waits
};

}  // namespace regatta::trainer
