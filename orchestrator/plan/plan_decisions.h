// Settings of the run file that a plan cannot change, because they change what is computed or what
// memory holds, and what the planner would have there.
#pragma once

#include <optional>
#include <vector>

#include "orchestrator/plan/plan_inputs.h"
#include "topology/nccl/communication_curve.h"
#include "topology/nccl/cost_model.h"
#include "topology/plan/plan.h"
#include "trainer/contract/length_table.h"
#include "trainer/contract/run_config.h"

namespace regatta::orchestrator {

struct DecisionInputs {
  const trainer::RunConfig& config;
  const PlanFigures& figures;
  int ranks_per_node = 1;
  topology::CommunicationCurve all_reduce, reduce_scatter, all_gather;
  // Nothing on machines without a model.
  std::optional<topology::Allocation> allocation;
  std::optional<trainer::LengthTable> lengths;
};

// `hierarchical`, `sharding.optimizer`, `balance.strategy` and `clip.mode`, where there is a
// choice. The run file's stays unless another saves kLeastGain of the step.
[[nodiscard]] std::vector<topology::Decision> decide(const DecisionInputs& inputs,
                                                     const topology::Plan& plan);
inline constexpr double kLeastGain = 0.01;

// The slowest rank's FLOPs by those of an average one, mean over steps, when `strategy` deals
// samples whose lengths are drawn from the table. At least 1.
[[nodiscard]] double imbalance_of(const trainer::RunConfig& config, trainer::Balance strategy,
                                  int ranks_per_node, const trainer::LengthTable& lengths);

// Sums within nodes, between them and within nodes again, each with NCCL's own choice: a curve over
// the bytes of the gradient. Nothing on one node, or with one rank on each.
[[nodiscard]] std::optional<topology::CommunicationCurve> hierarchical_curve(
    const topology::Allocation& allocation, double most_bytes);

}  // namespace regatta::orchestrator
