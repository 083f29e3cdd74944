// Which layout a run would be fastest with: data parallel alone, or the layers cut into pipeline
// stages as well. The ranks are the run file's; so is batch.micro where it says one.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "orchestrator/plan/pipeline_step.h"
#include "topology/nccl/nccl_tests_log.h"
#include "topology/plan/plan.h"
#include "trainer/contract/length_table.h"
#include "trainer/contract/run_config.h"

namespace regatta::orchestrator::plan {

struct LayoutInputs {
  const trainer::contract::RunConfig& config;
  const trainer::contract::LengthTable& lengths;
  ComputeFigures compute;
  double overhead_seconds = 0;
  const topology::nccl::Allocation& allocation;
  const DeviceFigures* device = nullptr;
  const std::vector<topology::nccl::NcclTestLog>& logs;
};

struct RankLayout {
  int data = 1, stages = 1;
  int micro_batch = 0;       // samples; 0: all of a replica's
  double micro_batches = 1;  // of a replica, mean
  double step_seconds = 0;
  double bubble = 0;  // time without work over time with
};
// "data 4 x pipeline 2 in micro-batches of 8".
[[nodiscard]] std::string name_of(const RankLayout& layout);

// "4 stages of 3, 3, 3 and 3 layers, 2 replicas, 8 micro-batches of 4: the bubble is 38.1 % of
// computing, 37.5 % with even stages".
[[nodiscard]] std::string stages_text(const std::vector<trainer::contract::Stage>& stages,
                                      const RankLayout& layout);

struct Layouts {
  std::vector<RankLayout> known;      // by stages
  std::vector<std::string> left_out;  // and why, a sentence each
};

// Every number of stages that divides the ranks, up to one for each layer. Where the run file has
// no batch.micro, of 1, 2, 4 and 8 micro-batches for each stage the fastest. `data_parallel`: what
// a step takes without stages, as planned; nothing: the run cannot be so. Steps are drawn as
// `regatta simulate` draws them, fewer of large batches.
[[nodiscard]] Layouts compare_layouts(const LayoutInputs& inputs,
                                      std::optional<double> data_parallel);

// One layout: its step in the mean of drawn steps.
[[nodiscard]] PipelineModel pipeline_model(const LayoutInputs& inputs);
[[nodiscard]] RankLayout layout_of(const LayoutInputs& inputs, const PipelineModel& model);

// `parallel.pipeline`, and `batch.micro` where another one goes with the choice. The run file's
// layout stays unless another saves kLeastGain of the step. None where there is nothing to compare.
[[nodiscard]] std::vector<topology::plan::PlanDecision> decide_layout(
    const trainer::contract::RunConfig& config, const Layouts& layouts);

// Where stages were chosen, whatever does not go with them (contract::refuse_parallel) stays as the
// run file has it; but if that alone would save more, the run file's layout stays.
void settle_layout(std::vector<topology::plan::PlanDecision>* decisions);

}  // namespace regatta::orchestrator::plan
