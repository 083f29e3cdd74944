// One optimizer step, and one evaluation: the order in which everything happens.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "topology/plan/plan.h"
#include "trainer/contract/journal.h"
#include "trainer/contract/noise_scale.h"
#include "trainer/contract/run_config.h"
#include "trainer/model/bert.h"
#include "trainer/numerics/alarms.h"
#include "trainer/numerics/replay_check.h"
#include "trainer/numerics/update_ratio.h"
#include "trainer/ranks/communicator.h"
#include "trainer/ranks/rank_agreement.h"
#include "trainer/samples/batch_prefetcher.h"
#include "trainer/samples/input_tuner.h"
#include "trainer/samples/sample_stream.h"
#include "trainer/samples/step_samples.h"
#include "trainer/step/divergence.h"
#include "trainer/step/evaluation.h"
#include "trainer/step/gradient_reducer.h"
#include "trainer/step/growing_batch.h"
#include "trainer/step/loss_scaler.h"
#include "trainer/step/noise_probe.h"
#include "trainer/step/optimizer.h"
#include "trainer/step/pipeline.h"
#include "trainer/step/shard_sums.h"
#include "trainer/step/snapshot.h"
#include "trainer/step/stage_ranks.h"
#include "trainer/step/step_exchange.h"
#include "trainer/step/step_pace.h"
#include "trainer/step/step_timer.h"
#include "trainer/step/weight_gatherer.h"
#include "trainer/tasks/task_samples.h"

namespace regatta::trainer::step {

// Whether the run looks at its gradient's noise on some steps. Gradients that ranks limit before
// they are summed tell nothing of the others.
[[nodiscard]] bool measures_noise(const contract::RunConfig& config);

[[nodiscard]] device::Dtype compute_dtype(contract::Precision precision);
// How a run file's model runs on a device that likes tokens in buckets of `token_bucket`.
[[nodiscard]] model::BertOptions bert_options(const contract::RunConfig& config,
                                              std::int64_t token_bucket);
// The same for a device at hand. Throws Code::User when it does not compute in the run file's
// dtype.
[[nodiscard]] model::BertOptions bert_options(const contract::RunConfig& config,
                                              const device::Device& device);

// The stages of a run with parallel.pipeline: cut by the FLOPs of its first samples, unpadded, so
// that all ranks, and every attempt at the run, cut alike. Without stages one, the whole model.
[[nodiscard]] std::vector<contract::Stage> stages_of(const contract::RunConfig& config,
                                                     const samples::SampleStream& samples);

// What a rank's samples are made with, for a run of the device's threads and ranks as found.
[[nodiscard]] samples::InputTuner input_tuner(const contract::RunConfig& config);

// A step as somebody sees it who looks on.
struct StepSeen {
  std::int64_t step = 0;
  const samples::StepPlace& place;  // of its samples, as StepSamples::share() takes it
  const samples::StepBatches& batches;
  const model::LossScale& scale;
  model::Bert& model;
};
// Changes no bit of training. Both calls come on every rank, where nobody works on the model.
struct StepObserver {
  // With the weights that the step begins with: it may upload, run forward and backward, after
  // which gradients and sums begin anew.
  std::function<void(const StepSeen&)> before_forward{};
  // With the gradient of the whole step, times scale.factor (of clip.mode bucket and rank:
  // limited), if this rank has all of it.
  std::function<void(std::int64_t step, const model::LossScale& scale, const model::Bert& model)>
      before_update{};
};

struct TrainLoopOptions {
  double peak_flops = 0;          // per second, all ranks; 0: mfu is not told
  bool peak_is_measured = false;  // it is raised by a step that computes faster
  Beat beat;
  // What this rank asks for, at the end of each step; may be empty.
  std::function<StepFlags()> local_flags;
  StepObserver observer{};
};

// The loss or the gradient is not finite, as all ranks find at the same step. No rank is within the
// step any more.
struct Diverged : ranks::AgreedError {
  Diverged(const std::string& message, std::int64_t at, NotFinite what)
      : ranks::AgreedError(base::Code::User, message), step(at), first(std::move(what)) {}
  std::int64_t step;
  NotFinite first;
};

// Ranks made other gradients of the same samples, as all find before these were summed. The step
// has changed nothing. What was found is in TrainLoop::noticed().
struct Corrupted : ranks::AgreedError {
  explicit Corrupted(const std::string& message) : ranks::AgreedError(base::Code::Retry, message) {}
};

// What a step noticed of its numbers; the same on all ranks. Of corruption, host, device and
// message are not known here.
struct Noticed {
  std::vector<contract::AlarmRecord> alarms;
  std::optional<contract::LossScaleRecord> loss_scale;
  std::vector<contract::CorruptionRecord> corruption;
};

class TrainLoop {
 public:
  // Everything passed by reference outlives the loop. config.ranks is the communicator's number.
  // Collective, as all calls below.
  TrainLoop(device::Device& device, ranks::Communicator& communicator, const base::Clock& clock,
            const contract::RunConfig& config, const topology::plan::Plan& plan,
            samples::SampleStream samples, TrainLoopOptions options = {});
  // After a failure other ranks may be anywhere: what is under way is abandoned.
  ~TrainLoop();
  TrainLoop(const TrainLoop&) = delete;
  TrainLoop& operator=(const TrainLoop&) = delete;

  [[nodiscard]] const model::Bert& model() const { return model_; }

  // Takes optimizer step `step` (1 is the first) and waits for it. Throws Diverged on all ranks,
  // and Corrupted with guard.on_corruption Stop. Of a batch that grows, the one after the last or
  // after that of begin_at().
  contract::StepRecord step(std::int64_t step);
  // Whether the run is over with that step, the last one taken.
  [[nodiscard]] bool is_over(std::int64_t done) const { return batch_.is_over(done); }
  [[nodiscard]] const GrowingBatch& batch() const { return batch_; }
  // What the last step decided of the batch, if anything.
  [[nodiscard]] const std::optional<contract::BatchRecord>& decided() const { return decided_; }
  // Of the last step, also of one that threw.
  [[nodiscard]] const Noticed& noticed() const { return noticed_; }
  // How this rank makes samples from the next step on, if the last one changed or settled that.
  [[nodiscard]] const std::optional<contract::InputRecord>& input_told() const {
    return input_told_;
  }
  // Whether ranks look for silent corruption by computing one another's samples; nothing: they do
  // not look.
  [[nodiscard]] std::optional<bool> crosses() const {
    return replay_check_ ? std::optional(replay_check_->crosses()) : std::nullopt;
  }
  // What any rank asked for in the last step.
  [[nodiscard]] const StepFlags& agreed() const { return agreed_; }
  // How long it took; the same on all ranks.
  [[nodiscard]] const StepPace& pace() const { return pace_; }
  [[nodiscard]] const contract::RanksRecord& ranks() const { return ranks_; }

  // Sums the gradient in these buckets from the next step on. Not with sharded state, whose parts
  // are those of the buckets that the loop began with. Changes no bit where the communicator's sums
  // do not depend on buckets (MPI), unless the run clips by bucket.
  void cut(const std::vector<topology::plan::Bucket>& buckets);

  // From the next step on, step s takes the samples of step s + `steps`. Collective.
  void skip(std::int64_t steps);

  // Accuracy and loss over `samples`, each scored once, shared out among ranks. `step` only labels
  // the record.
  contract::EvalRecord evaluate(const std::vector<samples::Sample>& samples, std::int64_t step);

  // The same of a task's set, by its metrics; rank 0's are everybody's.
  contract::EvalRecord evaluate(const tasks::JudgedSet& set, std::int64_t step);

  // Before load(): step `done` is the last one taken, and what its checkpoint says of a batch that
  // grows. The same on all ranks. Throws as GrowingBatch::restore().
  void begin_at(std::int64_t done, const std::optional<BatchGrowthState>& growth);
  // From rank 0's state, a whole one; others pass what they like. Without moments they are zero.
  void load(const StateShard& whole);
  void load(const TrainingState& state) { load(state.whole(model_.table())); }
  // This rank's share of the moments, as a checkpoint has it: the optimizer's, without what another
  // stage counts.
  [[nodiscard]] std::vector<StatePiece> pieces() const { return optimizer_.counted_pieces(); }
  // Into how many shards a checkpoint's moments go, and which of them this rank writes: with
  // sharded state each part, with stages each stage, of ranks that hold the same the first.
  [[nodiscard]] int shards() const;
  [[nodiscard]] std::optional<int> shard() const;
  // What this rank sums with others, in the order of reduction.
  [[nodiscard]] const std::vector<ArenaSlice>& summed() const { return reducer_.slices(); }
  [[nodiscard]] const std::vector<contract::Stage>& stages() const { return stages_; }
  // Copies what `to` asks for, and waits for it; null: only makes sure that the weights are whole.
  // With stages they are whole on rank 0 only.
  void snapshot(Snapshot* to);

 private:
  // The parts of step(), in its order.
  [[nodiscard]] samples::StepPlace place_of(std::int64_t step) const;
  void show_step(std::int64_t step, const samples::StepBatches& batches,
                 const model::LossScale& scale);
  // Where in the stream its samples are, those left out counted.
  [[nodiscard]] samples::StepPlace in_stream(const samples::StepPlace& place) const {
    return {place.step + skipped_steps_, place.batch, place.first};
  }
  [[nodiscard]] samples::BatchPrefetcher::Taken take_batches(std::int64_t step);
  [[nodiscard]] samples::BatchPrefetcher::Make begin_micro_batches(const samples::StepPlace& place);
  [[nodiscard]] samples::StepBatches micro_batches_of(const std::vector<samples::StepShare>& shares,
                                                      const samples::StepPlace& place) const;
  void tune_input(const samples::BatchPrefetcher::Taken& taken, contract::StepRecord* record);
  [[nodiscard]] bool measures_noise_of(std::int64_t step) const;
  struct LossScales {
    model::LossScale step, half;
  };
  [[nodiscard]] LossScales agree_on_scales(const samples::StepBatches& batches, std::int64_t batch);
  void measure_half(const samples::StepBatches& batches, std::int64_t step,
                    const model::LossScale& scale, const StepTimer& timer);
  [[nodiscard]] model::Bert::Needed needed_weights();
  void sum_gradients(const samples::StepBatches& batches, const model::LossScale& scale,
                     StepTimer* timer, contract::StepRecord* record);
  void go_through_shards(const std::vector<samples::PackedBatch>& batches,
                         const std::vector<std::size_t>& counts, const model::LossScale& scale,
                         const StepTimer& timer, contract::StepRecord* record);
  void finish_sums();
  [[nodiscard]] double sums_exposed_seconds() const;
  [[nodiscard]] double predicted_bubble(const std::vector<samples::PackedBatch>& batches) const;
  [[nodiscard]] StagedForward staged_forward();
  [[nodiscard]] EvaluationSums sums_of_ranks(const std::vector<samples::Sample>& samples);
  [[nodiscard]] EvaluationSums sums_of_shards(const std::vector<samples::Sample>& samples);
  [[nodiscard]] tasks::JudgedSet::Logits own_logits(const std::vector<samples::Sample>& samples);
  [[nodiscard]] SharedBy logits_are_shared_by() const;
  void gather_weights();
  void begin_update(const model::LossScale& scale, contract::StepRecord* record);
  void update();
  [[nodiscard]] LocalStep local_step(const samples::StepBatches& batches,
                                     const contract::StepRecord& record) const;
  void describe(const StepExchange& all, const model::LossScale& scale,
                contract::StepRecord* record);
  struct HalfCounts {
    double half = 0, rest = 0;
  };
  [[nodiscard]] HalfCounts half_counts(const LossScales& scales) const;
  void measure_noise(const LossScales& scales, contract::StepRecord* record);
  void observe_noise(const LossScales& scales);
  void grow_batch(std::int64_t step, bool measured);
  void describe_noise(contract::StepRecord* record) const;
  // train_loop_guard.cc: what looks after the step's numbers.
  void prepare_looking();
  void begin_looking(const samples::StepBatches& batches, std::int64_t step,
                     const model::LossScale& scale, const StepTimer& timer);
  void compare_gradients(const samples::StepBatches& batches, const model::LossScale& scale,
                         StepTimer* timer, contract::StepRecord* record);
  [[nodiscard]] numerics::ReplayCheck::Compute compute_alone(std::int64_t step,
                                                             const model::LossScale& scale);
  [[nodiscard]] NotFinite find_not_finite(std::int64_t step,
                                          const std::vector<samples::PackedBatch>& batches,
                                          const model::LossScale& scale);
  void sum_over_ranks(std::vector<numerics::LayerUpdate>* layers);
  void look_at(const std::vector<samples::PackedBatch>& batches, const model::LossScale& scale,
               contract::StepRecord* record);
  [[noreturn]] void diverge(const contract::StepRecord& record,
                            const std::vector<samples::PackedBatch>& batches,
                            const model::LossScale& scale);

  void load_moment(device::View moment, const float* from);
  // With an array of the bucket's size; waits for all at the end.
  void for_each_bucket(const std::function<void(const ArenaSlice&, device::View whole)>& body);
  [[nodiscard]] std::vector<StatePiece> pieces_in(const ArenaSlice& slice) const;

  device::Device& device_;
  ranks::Communicator& communicator_;
  const base::Clock& clock_;
  contract::RunConfig config_;
  TrainLoopOptions options_;
  StageRanks stage_ranks_;
  std::vector<contract::Stage> stages_;
  model::Bert model_;
  std::optional<Pipeline> pipeline_;  // nothing: this rank has the whole model
  double waited_seconds_ = 0;         // of the newest step, for neighbours
  GradientReducer reducer_;
  std::optional<ShardSums> shard_sums_;  // nothing: reducer_ sums what each rank has
  Optimizer optimizer_;
  WeightGatherer gatherer_;
  std::vector<ArenaSlice> slices_;  // of the plan's buckets
  LossScaler loss_scaler_;
  std::optional<NoiseProbe> noise_probe_;  // nothing: the run does not look
  contract::NoiseScale noise_scale_,
      raw_noise_scale_;  // of preconditioned gradients, and as they are
  GrowingBatch batch_;
  std::optional<contract::BatchRecord> decided_;
  numerics::Alarms alarms_;
  std::optional<numerics::UpdateRatio> update_ratio_;  // nothing: the run has no alarms
  std::optional<numerics::ReplayCheck> replay_check_;  // nothing: the run does not look
  bool replays_ = false;                               // in this step
  bool looks_at_updates_ = false;                      // so, too
  Noticed noticed_;
  StepFlags agreed_;
  StepPace pace_;
  contract::RanksRecord ranks_;  // of the newest step
  device::HostMemory results_;   // float32 [7]: the model's sums, the squared gradient norm
  samples::InputTuner input_;
  std::optional<contract::InputRecord> input_told_;
  std::unique_ptr<ranks::HostCollectives> channel_;  // of the prefetcher's threads, in turn
  std::int64_t skipped_steps_ = 0;
  samples::StepSamples samples_;
  samples::BatchPrefetcher prefetcher_;  // last: its threads read the members above
};

}  // namespace regatta::trainer::step
