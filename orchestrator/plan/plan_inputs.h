// From a run file to what the planner plans with: where each gradient lies, when it gets ready by
// the FLOPs before it, and what comes after the last sum.
#pragma once

#include <optional>

#include "topology/plan/step_timeline.h"
#include "trainer/contract/model_shape.h"
#include "trainer/contract/run_config.h"

namespace regatta::orchestrator::plan {

// What the run file does not say. Defaults are for what is not known.
struct PlanFigures {
  double peak_flops = 0;               // per second, of a rank's device; 0: the run's peak_tflops
  double efficiency = 0.5;             // share of it that training gets to
  double memory_bytes_per_second = 0;  // of a rank's device; 0: the optimizer takes no time
  double mean_tokens = 0;              // of a sample; 0: all are data.max_length long
  double mean_squared_tokens = 0;      // of a sample; 0: the square of the mean
  // Of computing while a collective runs, as a share; nothing: as the planner reckons, here none.
  std::optional<double> slowdown{};
  // Of forward and backward together, to which what the FLOPs take is stretched; 0: as they are.
  double compute_seconds = 0;
  double overhead_seconds = 0;  // of a step, beside all that is modelled: it ends the step
};

// What an average rank has of a step.
[[nodiscard]] trainer::contract::BatchSizes mean_sizes(const trainer::contract::RunConfig& config,
                                                       const PlanFigures& figures);

// The step of an average rank. Gradients get ready in the groups in which the trainer announces
// them: the heads, four for each layer, the embeddings; where sums do not overlap (buckets.overlap,
// clip by rank) all at the end. Bytes are of float32, as gradients are. Throws Code::User if the
// vocabulary or the peak is not known, or a figure is not possible.
[[nodiscard]] topology::plan::StepInputs plan_inputs(const trainer::contract::RunConfig& config,
                                                     const PlanFigures& figures);

}  // namespace regatta::orchestrator::plan
