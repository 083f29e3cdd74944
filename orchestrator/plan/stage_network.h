// What travels and is summed with pipeline stages on these machines, by NCCL's model.
//
// Rank r has stage r ÷ data (contract::RankGrid), and nodes take ranks in turn, so that a node has
// several stages, or a stage several nodes. NCCL's model knows no send; one is reckoned as a
// broadcast between two ranks, which moves the same bytes once. Where all ranks of a node send to
// another node at once, each has its part of the NICs.
#pragma once

#include <vector>

#include "orchestrator/plan/cluster_machines.h"
#include "topology/nccl/communication_curve.h"
#include "topology/nccl/cost_model.h"
#include "topology/nccl/nccl_tests_log.h"
#include "trainer/contract/parallel_config.h"

namespace regatta::orchestrator::plan {

struct StageNetwork {
  Network sums = no_network();  // of a stage's gradients, over its replicas
  // From each stage but the last to the next, and back.
  std::vector<topology::nccl::CommunicationCurve> sends;
  // Of the first and the last stage of a replica, which have the word embedding in common.
  topology::nccl::CommunicationCurve ends = no_network().sum;
};

// `logs` count where they are of sums among the ranks of a stage. Throws Code::User where neither
// does a stage fill whole nodes nor a node whole stages, and where allocation and grid have
// different numbers of ranks.
[[nodiscard]] StageNetwork stage_network(const topology::nccl::Allocation& allocation,
                                         const DeviceFigures* device,
                                         const trainer::contract::RankGrid& grid,
                                         const std::vector<topology::nccl::NcclTestLog>& logs = {});

// Nothing takes any time.
[[nodiscard]] StageNetwork no_stage_network(int stages);

}  // namespace regatta::orchestrator::plan
