// A run on machines that are described: its file with other ranks and another batch, and what a
// simulation of its steps there begins with.
#pragma once

#include <vector>

#include "orchestrator/plan/cluster_machines.h"
#include "orchestrator/plan/step_model.h"
#include "orchestrator/simulate/simulation.h"
#include "topology/nccl/nccl_tests_log.h"

namespace regatta::orchestrator::simulate {

// Evaluations and checkpoints stay as many samples apart as they are in the file; with another
// number of ranks there are as many replicas as stages leave.
[[nodiscard]] trainer::contract::RunConfig with_ranks_and_batch(
    const trainer::contract::RunConfig& file, int ranks, int batch);

struct DescribedRun {
  trainer::contract::RunConfig config;  // with the machines' ranks
  plan::Machines machines;
  trainer::contract::LengthTable lengths;
  std::vector<topology::nccl::NcclTestLog> logs;  // that count where they fit
  bool sharp = false;                             // reductions in the network
};
// Code::User for stages that the machines' ranks cannot have.
[[nodiscard]] SimulationInputs simulation_inputs(const DescribedRun& run,
                                                 const plan::StepModel& model, int steps);

}  // namespace regatta::orchestrator::simulate
