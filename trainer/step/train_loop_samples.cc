// The samples of a training loop's steps: where they lie, and this rank's micro-batches of them.
#include <algorithm>
#include <iterator>
#include <utility>

#include "base/thread_pool.h"
#include "trainer/samples/batch.h"
#include "trainer/step/train_loop.h"

namespace regatta::trainer::step {
namespace {

// Of at most `most` samples each; 0: one of all.
std::vector<samples::PackedBatch> micro_batches(const samples::StepShare& share, int most) {
  std::vector<samples::PackedBatch> batches;
  const std::ptrdiff_t all = std::ssize(share.samples);
  const std::ptrdiff_t step = most > 0 ? most : std::max<std::ptrdiff_t>(1, all);
  for (std::ptrdiff_t from = 0; from < all; from += step) {
    const std::ptrdiff_t to = std::min(all, from + step);
    batches.push_back(
        samples::collate({share.samples.begin() + from, share.samples.begin() + to},
                         {share.ordinals.begin() + from, share.ordinals.begin() + to}));
  }
  return batches;
}

// What of a share is in the half that the noise scale looks at, by place.
samples::StepShare half_of(const samples::StepShare& share, const std::vector<bool>& in_half) {
  samples::StepShare half;
  for (std::size_t i = 0; i < share.samples.size(); ++i) {
    if (!in_half[static_cast<std::size_t>(share.ordinals[i])]) continue;
    half.ordinals.push_back(share.ordinals[i]);
    half.samples.push_back(share.samples[i]);
  }
  return half;
}

// How many there were.
std::size_t append(std::vector<samples::PackedBatch> batches,
                   std::vector<samples::PackedBatch>* all) {
  std::move(batches.begin(), batches.end(), std::back_inserter(*all));
  return batches.size();
}

// Of a rank. A step of a batch that has grown is more of them, not larger ones, so that it needs
// the memory of the first.
int micro_batch_of(const contract::RunConfig& config) {
  if (config.micro_batch_size > 0 || !contract::grows(config)) return config.micro_batch_size;
  const int replicas = contract::rank_grid(config).data;
  return (config.batch_size + replicas - 1) / replicas;
}

}  // namespace

samples::InputTuner input_tuner(const contract::RunConfig& config) {
  // Also where computing takes all cores: making samples may be waiting for storage.
  const int cores = std::max(1, base::usable_cores() / std::max(1, config.ranks_per_node));
  const bool exchanges = config.balance.strategy == contract::Balance::Exchange && config.ranks > 1;
  return {config.input, std::max(4, 2 * cores), !exchanges && !contract::grows(config)};
}

samples::StepPlace TrainLoop::place_of(std::int64_t step) const {
  const contract::BatchSchedule& schedule = batch_.schedule();
  const std::int64_t batch = schedule.batch_at(step);
  // `stratified` deals windows of steps of one size, whatever the steps before had.
  if (config_.balance.strategy == contract::Balance::Stratified) {
    return {step, batch, (step + skipped_steps_ - 1) * batch};
  }
  return {step, batch, schedule.samples_before(step + skipped_steps_)};
}

samples::BatchPrefetcher::Taken TrainLoop::take_batches(std::int64_t step) {
  const samples::StepPlace place = place_of(step);
  noise_scale_.set_batch(place.batch);
  raw_noise_scale_.set_batch(place.batch);
  std::vector<samples::StepPlace> next;
  if (batch_.grows()) {  // how many steps are left is not known
    if (!batch_.is_last(step, noise_scale_)) next.push_back(place_of(step + 1));
  } else {
    const std::int64_t last =
        std::min<std::int64_t>(config_.steps, step + input_.choice().prefetch);
    for (std::int64_t ahead = step + 1; ahead <= last; ++ahead) next.push_back(place_of(ahead));
  }
  return prefetcher_.take(place, next);
}

// sampler → balancer → collator: this rank's share of the step, packed. On any thread: reads
// nothing that a step changes.
samples::BatchPrefetcher::Make TrainLoop::begin_micro_batches(const samples::StepPlace& place) {
  const samples::StepPlace at = in_stream(place);
  if (shard_sums_) {
    auto places = samples_.places(at, shard_sums_->first(), shard_sums_->count());
    return [this, place, places = std::move(places)] {
      std::vector<samples::StepShare> shares;
      for (const samples::SharePlaces& each : places) shares.push_back(samples_.read(each));
      return micro_batches_of(shares, place);
    };
  }
  if (samples_.moves()) {
    std::vector<samples::StepShare> shares;
    shares.push_back(samples_.share(at));
    return [this, place, shares = std::move(shares)] { return micro_batches_of(shares, place); };
  }
  return [this, place, places = samples_.places(at)] {
    std::vector<samples::StepShare> shares;
    shares.push_back(samples_.read(places));
    return micro_batches_of(shares, place);
  };
}

samples::StepBatches TrainLoop::micro_batches_of(const std::vector<samples::StepShare>& shares,
                                                 const samples::StepPlace& place) const {
  std::vector<bool> in_half;
  if (measures_noise_of(place.step)) {
    in_half = half_of_step(config_.seed, place.step, static_cast<int>(place.batch));
  }
  const int most = micro_batch_of(config_);
  samples::StepBatches batches;
  for (const samples::StepShare& share : shares) {
    batches.moved_bytes += share.moved_bytes;
    const std::size_t count = append(micro_batches(share, most), &batches.batches);
    if (shard_sums_) batches.shard_batches.push_back(count);
    if (in_half.empty()) continue;
    const std::size_t halves = append(micro_batches(half_of(share, in_half), most), &batches.half);
    if (shard_sums_) batches.shard_half.push_back(halves);
  }
  return batches;
}

void TrainLoop::tune_input(const samples::BatchPrefetcher::Taken& taken,
                           contract::StepRecord* record) {
  record->input_stalled = taken.stalled;
  record->making_seconds = taken.making_seconds;
  samples::InputLook look;
  look.step_seconds = record->seconds;
  look.waited_seconds = taken.waited_seconds;
  look.making_seconds = taken.making_seconds;
  for (const samples::PackedBatch& batch : taken.step.batches) look.samples += batch.samples();
  look.bytes = samples::bytes_of(taken.step);
  input_told_ = input_.observe(record->step, look);
  if (const auto copies = model_.host_copies(); input_told_ && copies) {
    input_told_->pinned_seconds = copies->pinned_seconds;
    input_told_->ordinary_seconds = copies->ordinary_seconds;
    input_told_->why += "; " + copies->text();
  }
  prefetcher_.set_workers(input_.choice().workers);
}

bool TrainLoop::measures_noise_of(std::int64_t step) const {
  return measures_noise(config_) && step % config_.statistics_every == 0;
}

void TrainLoop::skip(std::int64_t steps) {
  prefetcher_.forget();
  skipped_steps_ = steps;
}

}  // namespace regatta::trainer::step
