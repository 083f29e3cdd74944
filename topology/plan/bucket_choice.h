// Which cut a run gets: the programme's and the rules of others are judged side by side, with ready
// times and curves that are not quite what they were taken for.
#pragma once

#include <cstdint>

#include "topology/nccl/communication_curve.h"
#include "topology/plan/plan.h"
#include "topology/plan/step_timeline.h"

namespace regatta::topology::plan {

struct ChoiceOptions {
  double jitter = 0.1;  // share by which ready times vary, either way
  // Latency and the rest of a curve may be 1 + this times as long or as short. NCCL's own model is
  // 20 to 50 % off at the sizes of buckets; a measured curve earns a smaller figure.
  double curve_error = 0.5;
  int samples = 64;  // half of them with the curve as it is
  std::uint64_t seed = 1;
  double least_gain = 0.01;  // share of the step below which 25 MB buckets stay
  double most_loss =
      0.0025;  // share that a cut may lose to them in a sample with the curve as it is
};

// The cut with the best mean over all samples among those that never lose more than `most_loss`;
// 25 MB buckets (25 · 2²⁰ bytes, what the trainer does without a plan) unless it gains
// `least_gain`. Sets ranks, buckets, cut, why, alternatives and timeline. The same inputs give the
// same plan. One rank: default_plan().
[[nodiscard]] Plan plan_buckets(const StepInputs& inputs, const nccl::CommunicationCurve& curve,
                                int ranks, const ChoiceOptions& options = {});

}  // namespace regatta::topology::plan
