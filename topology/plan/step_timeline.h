// One training step of a rank as the planner sees it: it computes, and beside that one stream sums
// the buckets in order, each as soon as its last gradient is ready and the stream is free.
#pragma once

#include <cstdint>
#include <vector>

#include "topology/nccl/communication_curve.h"
#include "topology/plan/bucket.h"

namespace regatta::topology::plan {

// A gradient in the arena. Bytes rather than a size, because there are gaps between tensors that a
// bucket carries along.
struct StepTensor {
  std::int64_t begin_byte = 0, end_byte = 0;
  double ready_seconds = 0;  // since the step's start, while no collective runs
};

struct StepInputs {
  std::vector<StepTensor> tensors;  // in arena order; ready times do not fall
  double forward_seconds = 0;       // until the backward that the sums overlap: only drawn
  double compute_seconds = 0;       // until backward's end, without any collective
  // After the last sum: the norm of all gradients for global clipping, and the optimizer, which can
  // not begin before that norm is known.
  double tail_seconds = 0;
  double slowdown = 0;  // computing takes 1 + slowdown times as long while a collective runs
};

// Seconds since the step's start.
struct BucketSpan {
  std::int64_t bytes = 0;
  double ready_seconds = 0, start_seconds = 0, end_seconds = 0;
};

struct StepTimeline {
  double forward_seconds = 0;
  double compute_seconds = 0;        // end of backward, slowed down by the collectives
  double communication_seconds = 0;  // sum over buckets
  double exposed_seconds = 0;        // from the end of backward to that of the last sum
  double tail_seconds = 0;
  double step_seconds = 0;
  std::vector<BucketSpan> buckets;  // in order
};

// Aborts unless there are tensors, their bytes and ready times do not fall, and the buckets cover
// them in order (parse_plan() and the programme see to that).
[[nodiscard]] StepTimeline run_step(const StepInputs& inputs, const std::vector<Bucket>& buckets,
                                    const nccl::CommunicationCurve& curve);

// The same step with the ready times that it has under the collectives of `timeline`, and no
// further slowdown: what the next round of planning under contention starts from.
[[nodiscard]] StepInputs slowed_by(const StepInputs& inputs, const StepTimeline& timeline);

}  // namespace regatta::topology::plan
