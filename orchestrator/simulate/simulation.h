// Steps of a run on machines that are not there: lengths drawn from a table, dealt to ranks by the
// trainer's own functions, computed as compute_model.h says, summed in the planner's buckets.
//
// The slowest rank decides a step: the sums of all ranks begin when its gradients are ready. With
// pipeline stages (plan/pipeline_step.h) the slowest replica of each stage does. Not modelled:
// devices of unlike speed, noise of the operating system, slow links, waiting for data.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "orchestrator/plan/cluster_machines.h"
#include "orchestrator/plan/compute_model.h"
#include "orchestrator/plan/stage_network.h"
#include "topology/plan/plan.h"
#include "trainer/contract/length_table.h"
#include "trainer/contract/run_config.h"
#include "trainer/contract/stage_cut.h"

namespace regatta::orchestrator::simulate {

// What a device computes for a sample. The trainer does Unpadded only.
enum class RowLayout {
  Unpadded,
  Padded,  // every sample is as long as data.max_length
  Packed,  // rows of data.max_length that hold two samples each
};

struct SimulationInputs {
  trainer::contract::RunConfig config;     // with the ranks, and the batch, that are simulated
  trainer::contract::LengthTable lengths;  // none above data.max_length
  int ranks_per_node = 1;
  plan::ComputeFigures compute;
  plan::Network network = plan::no_network();
  // With pipeline stages, in place of `network`. Then rows are unpadded, gradients float32, and
  // optimizer_parts and evaluation_layout say nothing.
  plan::StageNetwork stage_network{};
  RowLayout layout = RowLayout::Unpadded;
  RowLayout evaluation_layout = RowLayout::Unpadded;
  int evaluation_batch = 0;     // samples of a rank at once; 0: as in training
  int gradient_bytes = 4;       // of an element that is summed
  int gather_bytes = 4;         // of a weight that is gathered
  int optimizer_parts = 0;      // ranks that share the optimizer; 0: as the run file says
  double overhead_seconds = 0;  // of a step, beside all that is modelled
  int steps = 200;              // that are drawn
};

// Mean seconds of a step, which add up to `step`.
struct StepParts {
  double compute = 0;    // forward and backward of the mean rank
  double imbalance = 0;  // what the slowest rank, or replica, takes longer
  double exposed = 0;    // sums that nothing hides
  double tail = 0;       // norm and optimizer
  double gather = 0;     // new weights that nothing hides
  double overhead = 0;
  double step = 0;
  double bubble = 0;  // with stages: what the mean rank waits until its replica is done
};

// The layout of a run with pipeline stages, and what it costs.
struct SimulatedStages {
  std::vector<trainer::contract::Stage> cut;
  int data = 1;              // replicas
  int micro_batch = 0;       // samples
  double micro_batches = 0;  // of a replica and step, mean
  double bubble = 0;         // as the journal's: time without work over time with
  double bubble_even = 0;    // (stages − 1) / micro_batches
  double send_seconds = 0;   // of a mean micro-batch, where it takes longest
  double ends_seconds = 0;   // of what the first and the last stage have in common
};

struct Simulation {
  int ranks = 1;
  int batch = 0;
  StepParts mean;
  double step_p5 = 0, step_p95 = 0;   // seconds
  double communication_seconds = 0;   // of sums, hidden or not
  double token_imbalance = 1;         // largest share of a rank ÷ mean, over the steps
  double samples_per_second = 0;      // while steps are taken
  double model_flops_per_second = 0;  // of a rank
  double evaluation_seconds = 0;      // of one
  topology::plan::Plan plan;
  topology::plan::StepTimeline timeline;  // of the mean step
  std::optional<SimulatedStages> stages{};
};

// The same inputs give the same result, on any machine to rounding; config.seed draws the lengths.
// Throws Code::User for fewer samples than ranks (with stages: than replicas), a layout that
// refuse_parallel() refuses, lengths above data.max_length, and what
// plan_inputs() refuses.
[[nodiscard]] Simulation simulate_steps(const SimulationInputs& inputs);

}  // namespace regatta::orchestrator::simulate
