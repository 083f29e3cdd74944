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

namespace regatta::orchestrator::plan {

struct DecisionInputs {
  const trainer::contract::RunConfig& config;
  const PlanFigures& figures;
  int ranks_per_node = 1;
  topology::nccl::CommunicationCurve all_reduce, reduce_scatter, all_gather;
  // Nothing on machines without a model.
  std::optional<topology::nccl::Allocation> allocation;
  std::optional<trainer::contract::LengthTable> lengths;
};

// `hierarchical`, `sharding.optimizer`, `balance.strategy` and `clip.mode`, where there is a
// choice. The run file's stays unless another saves kLeastGain of the step.
[[nodiscard]] std::vector<topology::plan::PlanDecision> decide(const DecisionInputs& inputs,
                                                               const topology::plan::Plan& plan);
inline constexpr double kLeastGain = 0.01;

// The slowest rank's FLOPs by those of an average one, mean over steps, when `strategy` deals
// samples whose lengths are drawn from the table. At least 1.
[[nodiscard]] double imbalance_of(const trainer::contract::RunConfig& config,
                                  trainer::contract::Balance strategy, int ranks_per_node,
                                  const trainer::contract::LengthTable& lengths);

// Sums within nodes, between them and within nodes again, each with NCCL's own choice: a curve over
// the bytes of the gradient. Nothing on one node, or with one rank on each.
[[nodiscard]] std::optional<topology::nccl::CommunicationCurve> hierarchical_curve(
    const topology::nccl::Allocation& allocation, double most_bytes);

}  // namespace regatta::orchestrator::plan
