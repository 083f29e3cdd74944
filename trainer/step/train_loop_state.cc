// The state of a training loop: what it begins with, and what is saved of it.
#include <algorithm>

#include "base/error.h"
#include "trainer/step/train_loop.h"

namespace regatta::trainer::step {
namespace {

using model::kCompute;

}  // namespace

void TrainLoop::begin_at(std::int64_t done, const std::optional<BatchGrowthState>& growth) {
  batch_.restore(done, growth);
  prefetcher_.forget();
  const std::int64_t batch = batch_.schedule().batch_at(std::max<std::int64_t>(1, done));
  noise_scale_.set_batch(batch);
  raw_noise_scale_.set_batch(batch);
}

void TrainLoop::load(const StateShard& whole) {
  gatherer_.finish_all();  // no weights of a step before arrive later
  const bool source = communicator_.rank() == 0;
  double header[3] = {whole.first_moment == nullptr ? 0.0 : 1.0, whole.loss_scale,
                      static_cast<double>(whole.good_steps)};
  communicator_.host().broadcast(header, sizeof header, 0);
  if (source) {
    base::check(is_whole(whole, model_.table()), "the state is a whole one");
    device_.copy_to_device(kCompute, model_.parameters(), whole.parameters);
  }
  communicator_.finish(kCompute, communicator_.broadcast(kCompute, model_.parameters(), 0));
  model_.renew_compute_copy();
  loss_scaler_ = LossScaler(config_.dtype, header[1], static_cast<std::int64_t>(header[2]));
  if (header[0] > 0) {
    load_moment(optimizer_.first_moment(), whole.first_moment);
    load_moment(optimizer_.second_moment(), whole.second_moment);
  } else {
    device_.fill_zero(kCompute, optimizer_.first_moment());
    device_.fill_zero(kCompute, optimizer_.second_moment());
  }
  NoiseStates noise = whole.noise;
  communicator_.host().broadcast(&noise, sizeof noise, 0);
  noise_scale_.restore(noise[0]);
  raw_noise_scale_.restore(noise[1]);
  device_.synchronize();
}

// Bucket by bucket the whole travels, and each rank keeps its pieces: a state fits any number of
// ranks, and no rank ever holds all of it.
void TrainLoop::load_moment(device::View moment, const float* from) {
  const bool source = communicator_.rank() == 0;
  if (!config_.sharding.optimizer && !pipeline_) {
    if (source) device_.copy_to_device(kCompute, moment, from);
    return communicator_.finish(kCompute, communicator_.broadcast(kCompute, moment, 0));
  }
  for_each_bucket([&](const ArenaSlice& slice, device::View whole) {
    if (source) device_.copy_to_device(kCompute, whole, from + slice.begin);
    communicator_.finish(kCompute, communicator_.broadcast(kCompute, whole, 0));
    for (const StatePiece& piece : pieces_in(slice)) {
      device_.copy(kCompute, moment.slice(piece.state_begin, piece.size),
                   whole.slice(piece.arena_begin - slice.begin, piece.size));
    }
  });
}

void TrainLoop::for_each_bucket(const std::function<void(const ArenaSlice&, device::View)>& body) {
  std::int64_t largest = 0;
  for (const ArenaSlice& slice : slices_) largest = std::max(largest, slice.size);
  const device::DeviceMemory memory(device_, largest, device::Dtype::Float32);
  for (const ArenaSlice& slice : slices_) {
    body(slice, memory.view().slice(0, slice.size));
  }
  device_.synchronize();
}

// What of this rank's state lies in a bucket.
std::vector<StatePiece> TrainLoop::pieces_in(const ArenaSlice& slice) const {
  std::vector<StatePiece> found;
  for (const StatePiece& piece : optimizer_.pieces()) {
    const std::int64_t begin = std::max(piece.arena_begin, slice.begin);
    const std::int64_t end = std::min(piece.arena_begin + piece.size, slice.begin + slice.size);
    if (begin < end) {
      found.push_back({begin, end - begin, piece.state_begin + begin - piece.arena_begin});
    }
  }
  return found;
}

int TrainLoop::shards() const {
  if (config_.sharding.optimizer) return std::max(1, communicator_.parts());
  return stage_ranks_.grid().stages;
}

std::optional<int> TrainLoop::shard() const {
  const int rank = communicator_.rank();
  if (pipeline_) {
    return stage_ranks_.replica() == 0 ? std::optional(stage_ranks_.stage()) : std::nullopt;
  }
  return rank < shards() ? std::optional(rank) : std::nullopt;
}

// From the first replica's ranks, which have their stage's newest weights.
void TrainLoop::gather_weights() {
  if (!pipeline_ || stage_ranks_.replica() != 0) return;
  const contract::TensorTable& table = model_.table();
  const auto weights_of = [&](const contract::Stage& stage) {
    const contract::StageTensors tensors = contract::stage_tensors(model_.shape(), table, stage);
    const std::int64_t begin = table.tensors[static_cast<std::size_t>(tensors.begin)].offset;
    const std::int64_t end = table.tensors[static_cast<std::size_t>(tensors.end)].offset;
    return model_.parameters().slice(begin, end - begin);
  };
  if (stage_ranks_.stage() > 0) {
    return communicator_.finish(kCompute,
                                communicator_.send(kCompute, weights_of(model_.stage()), 0));
  }
  std::vector<ranks::Pending> coming;
  for (std::size_t s = 1; s < stages_.size(); ++s) {
    const int from = stage_ranks_.grid().rank_of(static_cast<int>(s), 0);
    coming.push_back(communicator_.receive(kCompute, weights_of(stages_[s]), from));
  }
  for (const ranks::Pending pending : coming) communicator_.finish(kCompute, pending);
}

void TrainLoop::show_step(std::int64_t step, const samples::StepBatches& batches,
                          const model::LossScale& scale) {
  gatherer_.finish_all();
  const samples::StepPlace place = in_stream(place_of(step));
  options_.observer.before_forward({step, place, batches, scale, model_});
}

void TrainLoop::snapshot(Snapshot* to) {
  gatherer_.finish_all();
  gather_weights();
  if (to == nullptr) return;
  if (to->parameters() != nullptr) {
    device_.copy_to_host(kCompute, to->parameters(), model_.parameters());
  }
  if (to->first_moment() != nullptr) {
    const std::vector<StatePiece> own = pieces();
    const std::int64_t size = own.empty() ? 0 : own.back().state_begin + own.back().size;
    device_.copy_to_host(kCompute, to->first_moment(), optimizer_.first_moment().slice(0, size));
    device_.copy_to_host(kCompute, to->second_moment(), optimizer_.second_moment().slice(0, size));
  }
  if (loss_scaler_.is_dynamic()) {
    to->set_loss_scale(loss_scaler_.factor(), loss_scaler_.good_steps());
  }
  to->set_noise({noise_scale_.state(), raw_noise_scale_.state()});
  device_.synchronize();
}

}  // namespace regatta::trainer::step
