// From a run file and what is known of the machines to a plan: which cut of the gradient, which
// GPUs, and what the planner would set otherwise in the run file, each with alternatives and why.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "orchestrator/plan/plan_inputs.h"
#include "orchestrator/plan/step_model.h"
#include "topology/graph/graph.h"
#include "topology/nccl/measured_curve.h"
#include "topology/nccl/nccl_tests_log.h"
#include "topology/plan/plan.h"
#include "topology/plan/plan_store.h"
#include "trainer/contract/length_table.h"
#include "trainer/contract/run_config.h"

namespace regatta::orchestrator::plan {

// What nccl-tests or `regatta-train bench comm` printed.
struct MeasuredLog {
  std::string name;  // for messages
  topology::nccl::NcclTestLog log;
  std::optional<topology::nccl::Way> way{};  // that NCCL was made to take; nothing: its own choice
};
// "FILE", or "Ring/Simple=FILE" (or "Ring/Simple/16=FILE" with 16 channels) for what was measured
// with NCCL_ALGO, NCCL_PROTO (and NCCL_MAX_NCHANNELS) set so. Code::User for an unknown name.
struct MeasuredName {
  std::string file;
  std::optional<topology::nccl::Way> way{};
};
[[nodiscard]] MeasuredName parse_measured(const std::string& text);

struct PlanRequest {
  trainer::contract::RunConfig config;  // with ranks and vocabulary
  topology::graph::Graph
      machines;  // nodes that the run may get, or that are like them; none: as measured
  std::vector<MeasuredLog> measured;
  // Figures of 0 are those of step_model.h for the machines' GPU.
  PlanFigures figures;
  GivenFigures given;  // by whoever plans, in place of the usual
  std::optional<trainer::contract::LengthTable>
      lengths;                                     // of samples; nothing: all of data.max_length
  std::vector<topology::plan::StoredPlan> stored;  // what earlier runs found out
};

struct PlanReport {
  topology::plan::Plan plan;
  topology::plan::StepInputs inputs;  // the step that it was made for
  double overhead_seconds = 0;        // of its tail: what is beside all that is modelled
  std::string machines;               // "64 ranks on 8 nodes of 8 NVIDIA H100 80GB HBM3"
  std::string stages;                 // of a run with pipeline stages: one sentence on its layout
  std::string example_csv;            // for NVIDIA's example tuner plug-in; empty: no NCCL
  std::vector<std::string> notes;     // what was not used, and why: a sentence each
  std::vector<std::string> basis;     // what the step's seconds rest on: a sentence each
};

// Ranks take the GPUs of the first nodes that have them, by name, config.ranks_per_node on each (0:
// as many as the node has GPUs). A measured log counts where it is of such machines; a log of other
// ranks or of a disturbed machine is left out with a note. Where an earlier run of the same model
// and ranks has tried cuts on such machines, its winner is the plan. The same request gives the
// same plan.
//
// On machines every layout is compared with the run file's (layouts.h): a decision on
// `parallel.pipeline`. With pipeline stages the plan has a cut for each of them, leaves NCCL alone
// and says nothing of the other settings.
//
// Throws Code::User: too few nodes or GPUs, neither machines nor a log of the run's ranks, and what
// allocation_of() and plan_inputs() throw.
[[nodiscard]] PlanReport plan_run(const PlanRequest& request);

// The nodes of a run of `ranks`, by name, and the ranks on each.
struct NodeChoice {
  std::vector<topology::graph::VertexIndex> nodes;
  int ranks_per_node = 0;
};
[[nodiscard]] NodeChoice choose_nodes(const topology::graph::Graph& machines,
                                      const trainer::contract::RunConfig& config);

// How long a collective of all ranks takes, over its bytes, when NCCL is told `tuner`.
[[nodiscard]] topology::nccl::CommunicationCurve curve_of(
    const topology::nccl::CalibratedModel& model, topology::nccl::Collective collective,
    double most_bytes, const topology::plan::TunerTable& tuner = {});

}  // namespace regatta::orchestrator::plan
