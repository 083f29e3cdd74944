// Where to cut the gradient into buckets, so that the step ends earliest. Few large buckets pay
// little latency, many small ones hide more behind backward.
//
// Tensors 1..L in the order in which they get ready at r_i, S_i bytes up to and with the i-th, one
// collective at a time, T(bytes) long. The first i tensors are summed with k buckets at the
// earliest at
//     E(k, i) = min over j < i of max(E(k-1, j), r_i) + T(S_i - S_j),
// which is exact, because T does not depend on what came before, so that to end earlier with the
// first j never hurts. Global clipping puts everything after the last sum behind it, so the end of
// the step is max(E(k, L), end of backward) + tail, and the smallest E is the best.
#pragma once

#include <cstdint>
#include <vector>

#include "topology/nccl/communication_curve.h"
#include "topology/plan/bucket.h"
#include "topology/plan/step_timeline.h"

namespace regatta::topology::plan {

// The cuts of others, which the programme has to beat. All cover the tensors.
[[nodiscard]] std::vector<Bucket> one_bucket(const StepInputs& inputs);
// As many neighbours as fit `bytes`, gaps not counted, at least one (PyTorch's rule, ours without
// a plan).
[[nodiscard]] std::vector<Bucket> buckets_of_at_most(const StepInputs& inputs, std::int64_t bytes);
// Megatron-Core's: a bucket is closed once it has max(40 M, 1 M · ranks) elements of float32.
[[nodiscard]] std::vector<Bucket> megatron_buckets(const StepInputs& inputs, int ranks);
// A bucket for each group of tensors that get ready together.
[[nodiscard]] std::vector<Bucket> buckets_as_ready(const StepInputs& inputs);

// Beyond so many tensors the programme cuts only between those that get ready apart, and beyond so
// many of these only between every second, third … of them.
inline constexpr int kMostCuts = 1024;

// The fewest buckets with which the step ends within `tolerance_seconds` of the earliest end there
// is, and of these the earliest. Exact where inputs.slowdown is 0, which it takes no notice of.
[[nodiscard]] std::vector<Bucket> best_buckets(const StepInputs& inputs,
                                               const nccl::CommunicationCurve& curve,
                                               double tolerance_seconds = 0);

// The same with slowdown: the programme's buckets shift the ready times, which shift the buckets;
// a few rounds, of which the best one counts. Not exact.
[[nodiscard]] std::vector<Bucket> best_buckets_under_contention(
    const StepInputs& inputs, const nccl::CommunicationCurve& curve, double tolerance_seconds = 0);

}  // namespace regatta::topology::plan
