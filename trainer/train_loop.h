// One optimizer step, and one evaluation: the order in which everything happens.
#pragma once

#include <cstdint>
#include <vector>

#include "base/clock.h"
#include "topology/plan.h"
#include "trainer/batch_prefetcher.h"
#include "trainer/bert.h"
#include "trainer/communicator.h"
#include "trainer/contract/journal.h"
#include "trainer/contract/run_config.h"
#include "trainer/loss_scaler.h"
#include "trainer/optimizer.h"
#include "trainer/sampler.h"

namespace regatta::trainer {

// The weights and moments of a run at one step; arena order.
struct TrainingState {
  std::vector<float> parameters, first_moment, second_moment;
  double loss_scale = 0;  // float16 only; 0: none yet
  std::int64_t good_steps = 0;
};

// Evaluation packs this many tokens at a time, and at most one sample more: bounded memory,
// whatever the set.
constexpr std::int64_t kEvaluationTokens = 8192;

[[nodiscard]] Dtype compute_dtype(Precision precision);
// How a run file's model runs on a device that likes tokens in buckets of `token_bucket`.
[[nodiscard]] BertOptions bert_options(const RunConfig& config, std::int64_t token_bucket);
// The same for a device at hand. Throws Code::User when it does not compute in the run file's
// dtype.
[[nodiscard]] BertOptions bert_options(const RunConfig& config, const Device& device);

class TrainLoop {
 public:
  // Everything passed by reference outlives the loop.
  TrainLoop(Device& device, Communicator& communicator, const base::Clock& clock,
            const RunConfig& config, const topology::Plan& plan, const SampleSource& samples);
  // Reductions that a failed step left under way are abandoned: they read the gradients.
  ~TrainLoop();
  TrainLoop(const TrainLoop&) = delete;
  TrainLoop& operator=(const TrainLoop&) = delete;

  [[nodiscard]] const Bert& model() const { return model_; }

  // Takes optimizer step `step` (1 is the first) and waits for it.
  StepRecord step(std::int64_t step);

  // Accuracy and loss over `samples`, each scored once. `step` only labels the record.
  EvalRecord evaluate(const std::vector<Sample>& samples, std::int64_t step);

  void load(const TrainingState& state);
  [[nodiscard]] TrainingState save();

 private:
  [[nodiscard]] std::vector<PackedBatch> collect_micro_batches(std::int64_t step) const;
  void launch_buckets(int tensors);
  void finish_buckets();

  Device& device_;
  Communicator& communicator_;
  const base::Clock& clock_;
  RunConfig config_;
  topology::Plan plan_;
  const SampleSource& samples_;
  Bert model_;
  Optimizer optimizer_;
  LossScaler loss_scaler_;
  HostMemory results_;               // float32 [7]: the model's sums, the squared gradient norm
  std::vector<Pending> reductions_;  // of this step's buckets, in order
  BatchPrefetcher prefetcher_;       // last: its thread reads the members above
};

}  // namespace regatta::trainer
