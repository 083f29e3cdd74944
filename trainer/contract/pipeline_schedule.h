// In which order a stage of a pipeline works, and how long a step of all stages takes by it: pure
// functions, so that trainer, planner and simulator mean the same.
#pragma once

#include <vector>

#include "trainer/contract/parallel_config.h"

namespace regatta::trainer::contract {

// Forward or backward of one micro-batch on one stage.
struct PipelineWork {
  enum class Way { Forward, Backward };
  Way way = Way::Forward;
  int micro_batch = 0;
  friend bool operator==(const PipelineWork&, const PipelineWork&) = default;
};

// Where a stage stands.
struct PipelinePlace {
  int stage = 0, stages = 1;
  int micro_batches = 0;
};

// All of a step, in order: each micro-batch once forward and once, later, backward, and both in
// ascending order, so that every order adds up gradients alike. 1F1B: stages − 1 − stage forward,
// then one forward and one backward in turn, then the backwards that are left.
[[nodiscard]] std::vector<PipelineWork> pipeline_work(PipelineOrder order,
                                                      const PipelinePlace& place);

// Micro-batches that a stage holds at most between their forward and their backward, whose
// activations it keeps: min(m, stages − stage) for 1F1B, m for GPipe.
[[nodiscard]] int most_in_flight(PipelineOrder order, const PipelinePlace& place);

// What a step costs: seconds, or FLOPs at unit speed. [stage][micro-batch]; links of all stages but
// the last.
struct PipelineCosts {
  std::vector<std::vector<double>> forward, backward;
  // From a stage to the next one, and back again: not in the way of computing. Empty: no time.
  std::vector<std::vector<double>> link;
};
struct PipelineTimes {
  double end = 0;                       // of the whole step
  std::vector<double> busy;             // by stage
  std::vector<double> stage_end;        // when its last work was done
  std::vector<std::vector<double>> at;  // [stage][work]: when each of pipeline_work() ended
  // Σ (end − busy) / Σ busy: time without work over time with. With equal stages and micro-batches
  // and no link it is (stages − 1) / micro-batches (Narayanan et al., arXiv 2104.04473,
  // section 2.2).
  [[nodiscard]] double bubble() const;
};
// Each stage does its work in order and as early as what it needs is there.
[[nodiscard]] PipelineTimes pipeline_times(PipelineOrder order, const PipelineCosts& costs);

}  // namespace regatta::trainer::contract
