// One optimizer step, and one evaluation: the order in which everything happens.
#pragma once

#include <cstdint>
#include <vector>

#include "base/clock.h"
#include "topology/plan.h"
#include "trainer/bert.h"
#include "trainer/communicator.h"
#include "trainer/contract/journal.h"
#include "trainer/contract/run_config.h"
#include "trainer/optimizer.h"
#include "trainer/sampler.h"

namespace regatta::trainer {

// The weights and moments of a run at one step; arena order.
struct TrainingState {
  std::vector<float> parameters, first_moment, second_moment;
};

class TrainLoop {
 public:
  // Everything passed by reference outlives the loop.
  TrainLoop(Device& device, Communicator& communicator, const base::Clock& clock,
            const RunConfig& config, const topology::Plan& plan, const SampleSource& samples);

  [[nodiscard]] const Bert& model() const { return model_; }

  // Takes optimizer step `step` (1 is the first) and waits for it.
  StepRecord step(std::int64_t step);

  // Accuracy and loss over `samples`, each scored once. `step` only labels the record.
  EvalRecord evaluate(const std::vector<Sample>& samples, std::int64_t step);

  void load(const TrainingState& state);
  [[nodiscard]] TrainingState save();

 private:
  void collect_micro_batches(std::int64_t step);
  void reduce_buckets();

  Device& device_;
  Communicator& communicator_;
  const base::Clock& clock_;
  RunConfig config_;
  topology::Plan plan_;
  const SampleSource& samples_;
  Bert model_;
  Optimizer optimizer_;
  // Host memory that enqueued copies read: unchanged until the step's end.
  std::vector<PackedBatch> batches_;
  std::int32_t step_number_ = 0;
};

}  // namespace regatta::trainer
