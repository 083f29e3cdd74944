// Buckets ⇄ communicator: sums the gradient over ranks, slice by slice of the arena, as soon as a
// slice is complete; limits each rank's part of it before, where the run clips by bucket or rank.
#pragma once

#include <cstdint>
#include <vector>

#include "base/clock.h"
#include "topology/plan/plan.h"
#include "trainer/contract/run_config.h"
#include "trainer/model/bert.h"
#include "trainer/ranks/communicator.h"

namespace regatta::trainer::step {

// A slice of the arena.
struct ArenaSlice {
  std::int64_t begin = 0, size = 0;  // elements
  std::int64_t parameters = 0;       // of it, without the gaps between tensors
};
// Of buckets of the table in ascending order; together they need not cover it.
[[nodiscard]] std::vector<ArenaSlice> slices_of(const contract::TensorTable& table,
                                                const std::vector<topology::plan::Bucket>& buckets);

// What rank r's part of a bucket may have as norm, for gradients that are already divided by the
// global count: c·√(n_b/n)/R. The concatenation of all buckets, summed over all ranks, then stays
// within c. (Own derivation; the paper's formula is not public. arXiv 2402.02447.)
[[nodiscard]] double bucket_limit(double clip_norm, std::int64_t bucket_parameters,
                                  std::int64_t parameters, int ranks);

class GradientReducer {
 public:
  GradientReducer(device::Device& device, ranks::Communicator& communicator,
                  const base::Clock& clock, const model::Bert& model,
                  const std::vector<topology::plan::Bucket>& buckets,
                  const contract::RunConfig& config);

  // Between two steps: from the next one on in these buckets.
  void cut(const std::vector<topology::plan::Bucket>& buckets);

  // Before the last backward of a step. `loss_scale`: that the gradients carry. `start`: the
  // step's, for spans.
  void begin(double loss_scale, double start);
  // Whether buckets can begin within backward.
  [[nodiscard]] bool overlaps() const;
  // The gradients of the table's first `tensors` are enqueued, once and for all.
  void ready(int tensors);
  // Everything is: launches what is left, and orders all that follows behind the sums.
  void finish();
  // Whether reductions are under way, which read and write the gradients.
  [[nodiscard]] bool is_busy() const { return !pending_.empty(); }

  // Seconds since the step's start, of each bucket; once the host has waited for the step.
  struct Spans {
    std::vector<double> launched, finished;
  };
  [[nodiscard]] Spans spans() const;
  [[nodiscard]] const std::vector<ArenaSlice>& slices() const { return slices_; }
  // Seconds that finish() blocked the host.
  [[nodiscard]] double exposed_seconds() const { return exposed_; }

 private:
  void launch(std::size_t bucket);
  [[nodiscard]] device::View gradient(const ArenaSlice& slice) const;
  [[nodiscard]] device::View used(const device::DeviceMemory& memory) const;

  device::Device& device_;
  ranks::Communicator& communicator_;
  const base::Clock& clock_;
  const model::Bert& model_;
  std::vector<topology::plan::Bucket> buckets_;
  std::vector<ArenaSlice> slices_;
  contract::ClipMode clip_;
  double clip_norm_;
  bool overlap_, sharded_;
  std::vector<double> limit_values_;           // of each bucket, then of the rank; no loss scale
  device::DeviceMemory limits_, local_norms_;  // float32, as limit_values_; of any cut
  device::HostMemory host_limits_;
  std::vector<ranks::Pending> pending_;  // of this step's buckets, in order
  std::vector<ranks::Pending> finished_;
  std::vector<double> launched_;
  double start_ = 0, exposed_ = 0;
};

}  // namespace regatta::trainer::step
