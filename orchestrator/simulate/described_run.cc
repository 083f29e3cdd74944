#include "orchestrator/simulate/described_run.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/wording.h"

namespace regatta::orchestrator::simulate {

using trainer::contract::RunConfig;

RunConfig with_ranks_and_batch(const RunConfig& file, int ranks, int batch) {
  RunConfig config = file;
  if (ranks != file.ranks) config.parallel.data = 0;
  config.ranks = ranks;
  config.batch_size = batch;
  const double times = static_cast<double>(file.batch_size) / batch;
  const auto scaled = [&](std::int64_t every) {
    return std::max<std::int64_t>(1, std::llround(static_cast<double>(every) * times));
  };
  config.evaluate_every = scaled(file.evaluate_every);
  config.checkpoint_every = scaled(file.checkpoint_every);
  return config;
}

SimulationInputs simulation_inputs(const DescribedRun& run, const plan::StepModel& model,
                                   int steps) {
  const RunConfig& config = run.config;
  const plan::Machines& machines = run.machines;
  if (const auto refusal = trainer::contract::refuse_parallel(config);
      refusal && config.parallel.pipeline > 1) {
    throw base::Error(base::Code::User, "on " + base::plural(machines.nodes, "node") + " with " +
                                            base::plural(machines.ranks(), "rank") + " " +
                                            refusal->key + " " + refusal->message);
  }
  topology::nccl::Allocation allocation = machines.allocation;
  allocation.sharp = run.sharp;
  SimulationInputs inputs;
  inputs.config = config;
  inputs.lengths = run.lengths;
  inputs.ranks_per_node = machines.ranks_per_node;
  inputs.compute = model.compute;
  if (config.parallel.pipeline > 1) {
    const trainer::contract::RankGrid grid = trainer::contract::rank_grid(config);
    inputs.stage_network = plan::stage_network(allocation, machines.device, grid, run.logs);
    inputs.network = inputs.stage_network.sums;
  } else {
    inputs.network =
        plan::network_of(allocation, machines.device, config.sharding.optimizer, run.logs);
  }
  inputs.overhead_seconds = model.overhead_seconds;
  inputs.steps = steps;
  return inputs;
}

}  // namespace regatta::orchestrator::simulate
