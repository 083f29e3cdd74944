// What of a step looks after its numbers: alarms, the loss's factor, silent corruption, divergence.
#include <cmath>

#include "base/error.h"
#include "trainer/contract/guard_config.h"
#include "trainer/step/train_loop.h"

namespace regatta::trainer::step {
namespace {

contract::CorruptionRecord record_of(const numerics::Finding& found) {
  contract::CorruptionRecord record;
  record.rank = found.rank;
  record.suspects = found.suspects;
  record.quantity = found.quantity;
  record.tensor = found.tensor;
  if (!found.tensor.empty()) record.layer = contract::layer_of(found.tensor);
  record.tensors = found.tensors;
  return record;
}

}  // namespace

void TrainLoop::prepare_looking() {
  if (config_.guard.alarms) {
    std::vector<numerics::Span> spans;
    for (const StatePiece& piece : optimizer_.counted_pieces()) {
      spans.push_back({piece.arena_begin, piece.size});
    }
    update_ratio_.emplace(device_, model_.table(), spans);
  }
  if (const std::int64_t every = contract::replay_every(config_)) {
    replay_check_.emplace(device_, communicator_.host(), model_, config_.seed, every);
  }
}

// A copy from a GPU costs some microseconds for each run of weights, so that it is looked at less
// often.
void TrainLoop::begin_looking(const samples::StepBatches& batches, std::int64_t step,
                              const model::LossScale& scale, const StepTimer& timer) {
  noticed_ = {};
  const std::int64_t every = device_.is_on_host() ? 1 : config_.statistics_every;
  looks_at_updates_ = update_ratio_ && every > 0 && step % every == 0;
  replays_ = replay_check_ && replay_check_->is_due(step);
  if (!replays_) return;
  timer.enter(watch::Phase::Forward);
  gatherer_.finish_all();
  replay_check_->replay(step, batches.batches, compute_alone(step, scale));
}

numerics::ReplayCheck::Compute TrainLoop::compute_alone(std::int64_t step,
                                                        const model::LossScale& scale) {
  return [this, step, scale](const std::vector<samples::PackedBatch>& batches) {
    model_.zero_gradients();
    for (const samples::PackedBatch& batch : batches) {
      model_.upload(batch, static_cast<std::int32_t>(step), scale);
      model_.forward(model::Mode::Training);
      model_.backward();
    }
  };
}

// Before the step's gradients are summed. Those of a step that goes on are computed again.
void TrainLoop::compare_gradients(const samples::StepBatches& batches,
                                  const model::LossScale& scale, StepTimer* timer,
                                  contract::StepRecord* record) {
  timer->enter(watch::Phase::Forward);
  const std::vector<numerics::Finding> found =
      replay_check_->compare(record->step, batches.batches, compute_alone(record->step, scale));
  timer->lap(&record->statistics_seconds);
  if (found.empty()) return;
  const bool stops = config_.guard.on_corruption == contract::OnCorruption::Stop;
  for (const numerics::Finding& each : found) {
    contract::CorruptionRecord corruption = record_of(each);
    corruption.step = record->step;
    corruption.checked_step = replay_check_->checked_step();
    corruption.action = stops ? "stop" : "warn";
    noticed_.corruption.push_back(std::move(corruption));
  }
  if (stops) {
    throw Corrupted("gradients of step " + std::to_string(record->step) +
                    " differ from those of the same samples computed again");
  }
  sum_gradients(batches, scale, timer, record);
}

NotFinite TrainLoop::find_not_finite(std::int64_t step,
                                     const std::vector<samples::PackedBatch>& batches,
                                     const model::LossScale& scale) {
  gatherer_.finish_all();
  return first_not_finite(device_, communicator_.host(), model_,
                          {step, batches, scale, optimizer_.pieces(), !pipeline_});
}

void TrainLoop::look_at(const std::vector<samples::PackedBatch>& batches,
                        const model::LossScale& scale, contract::StepRecord* record) {
  if (!std::isfinite(record->loss) || !loss_scaler_.observe(!record->skipped)) {
    diverge(*record, batches, scale);
  }
  if (loss_scaler_.factor() != scale.factor) {
    contract::LossScaleRecord change;
    change.step = record->step;
    change.from = scale.factor;
    change.to = loss_scaler_.factor();
    change.why = record->skipped ? "overflow" : "quiet";
    if (record->skipped) {
      // The logits' gradient, which is made in their place, is what overflows: without the factor
      // forward is what it is in itself.
      const NotFinite first =
          find_not_finite(record->step, batches, {scale.masked, scale.samples, 1});
      change.quantity = first.quantity;
      change.tensor = first.tensor;
      change.rank = first.rank;
      if (!first.tensor.empty()) change.layer = contract::layer_of(first.tensor);
      const std::string where = to_text(first, communicator_.ranks());
      change.message = "The gradient overflowed at step " + std::to_string(record->step) +
                       (where.empty() ? "" : " (first: " + where + ")") + ". The step was skipped.";
    } else {
      change.message = "No gradient has overflowed for long.";
    }
    noticed_.loss_scale = std::move(change);
  }
  std::vector<numerics::LayerUpdate> layers;
  if (looks_at_updates_ && !record->skipped) {
    layers = update_ratio_->layers();
    sum_over_ranks(&layers);
    record->update_ratio = numerics::update_ratio(layers);
  }
  if (config_.guard.alarms) {
    noticed_.alarms = alarms_.observe(record->step, record->gradient_norm, layers);
  }
}

// Each rank looked at the weights that it updates.
void TrainLoop::sum_over_ranks(std::vector<numerics::LayerUpdate>* layers) {
  if (!config_.sharding.optimizer && !pipeline_) return;
  std::vector<double> sums;
  for (const numerics::LayerUpdate& layer : *layers) {
    sums.push_back(layer.change);
    sums.push_back(layer.weight);
  }
  communicator_.host().all_reduce_sum(sums.data(), static_cast<int>(sums.size()));
  for (std::size_t i = 0; i < layers->size(); ++i) {
    (*layers)[i].change = sums[2 * i];
    (*layers)[i].weight = sums[2 * i + 1];
  }
}

void TrainLoop::diverge(const contract::StepRecord& record,
                        const std::vector<samples::PackedBatch>& batches,
                        const model::LossScale& scale) {
  const NotFinite first = find_not_finite(record.step, batches, scale);
  const std::string where = to_text(first, communicator_.ranks());
  throw Diverged(std::string(std::isfinite(record.loss) ? "the gradient" : "the loss") +
                     " is not finite at step " + std::to_string(record.step) +
                     (where.empty() ? "" : " (first: " + where + ")"),
                 record.step, first);
}

}  // namespace regatta::trainer::step
