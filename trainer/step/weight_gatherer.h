// With sharded optimizer state: brings every rank the weights that the others have updated, bucket
// by bucket, while the next forward already runs.
#pragma once

#include <cstdint>
#include <vector>

#include "base/clock.h"
#include "topology/plan/plan.h"
#include "trainer/model/bert.h"
#include "trainer/ranks/communicator.h"
#include "trainer/step/gradient_reducer.h"

namespace regatta::trainer::step {

class WeightGatherer {
 public:
  WeightGatherer(device::Device& device, ranks::Communicator& communicator,
                 const base::Clock& clock, const model::Bert& model,
                 const std::vector<topology::plan::Bucket>& buckets);

  // From now on rank r holds ranges[r] of the arena, rather than its part of every bucket, and
  // sends it to the others.
  void gather_ranges(std::vector<ArenaSlice> ranges);

  // Begins to gather all buckets, in the order in which forward reads them: the table's end first.
  void launch();
  // Orders what follows behind the arrival of tensors [begin, end) of the table.
  void finish(int begin, int end);
  void finish_all();
  [[nodiscard]] bool is_busy() const { return left_ > 0; }
  // Seconds that finishing has blocked the host since the last launch, or forget_exposed().
  [[nodiscard]] double exposed_seconds() const { return exposed_; }
  void forget_exposed() { exposed_ = 0; }

 private:
  // Whether any of these tensors lies in that bucket, or range.
  [[nodiscard]] bool is_read(std::size_t part, int begin, int end) const;

  device::Device& device_;
  ranks::Communicator& communicator_;
  const base::Clock& clock_;
  const model::Bert& model_;
  std::vector<topology::plan::Bucket> buckets_;
  std::vector<ArenaSlice> slices_;
  std::vector<ArenaSlice> ranges_;       // by rank; none: buckets are gathered
  std::vector<ranks::Pending> pending_;  // by bucket
  std::vector<bool> under_way_;
  std::size_t left_ = 0;
  double exposed_ = 0;
};

}  // namespace regatta::trainer::step
