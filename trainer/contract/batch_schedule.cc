#include "trainer/contract/batch_schedule.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"

namespace regatta::trainer::contract {

BatchSchedule::BatchSchedule(std::int64_t batch)
    : BatchSchedule(std::vector{BatchChange{1, batch}}) {}

BatchSchedule::BatchSchedule(std::vector<BatchChange> changes) : changes_(std::move(changes)) {
  base::check(changes_.front().size > 0, "a step has samples");
}

std::optional<BatchSchedule> BatchSchedule::of(std::vector<BatchChange> changes) {
  if (changes.empty() || changes.front().step != 1 || changes.front().size < 1) {
    return std::nullopt;
  }
  const auto wrong = [](const BatchChange& a, const BatchChange& b) {
    return b.step <= a.step || b.size < 1;
  };
  if (std::adjacent_find(changes.begin(), changes.end(), wrong) != changes.end()) {
    return std::nullopt;
  }
  return BatchSchedule(std::move(changes));
}

std::int64_t BatchSchedule::batch_at(std::int64_t step) const {
  base::check(step >= 1, "step 1 is the first");
  const auto later = std::find_if(changes_.begin(), changes_.end(),
                                  [&](const BatchChange& change) { return change.step > step; });
  return std::prev(later)->size;
}

std::int64_t BatchSchedule::samples_before(std::int64_t step) const {
  base::check(step >= 1, "step 1 is the first");
  std::int64_t samples = 0;
  for (std::size_t i = 0; i < changes_.size() && changes_[i].step < step; ++i) {
    const std::int64_t end = i + 1 < changes_.size() ? std::min(step, changes_[i + 1].step) : step;
    samples += (end - changes_[i].step) * changes_[i].size;
  }
  return samples;
}

void BatchSchedule::change(const BatchChange& change) {
  base::check(change.step > changes_.back().step && change.size > 0,
              "a batch changes later than before");
  changes_.push_back(change);
}

std::optional<checkpoint::BatchGrowthState> batches_of(const checkpoint::Manifest& manifest,
                                                       std::int64_t batch) {
  const std::int64_t steps = manifest.step;
  if (manifest.growth || steps < 1 || manifest.samples == steps * batch) return manifest.growth;
  if (manifest.samples < steps || manifest.samples % steps != 0) return std::nullopt;
  return checkpoint::BatchGrowthState{{{1, manifest.samples / steps}}, static_cast<double>(steps)};
}

std::optional<RefusedCheckpoint> refuse_checkpoint(const checkpoint::BatchGrowthState& state,
                                                   std::int64_t done, BatchGrowth growth,
                                                   std::int64_t first, std::int64_t most) {
  const std::int64_t begun = state.batches.front().size, newest = state.batches.back().size;
  const std::string at = "the checkpoint's batch has grown to " + std::to_string(newest);
  if (growth == BatchGrowth::None) {
    if (state.progress == static_cast<double>(done)) return std::nullopt;
    return RefusedCheckpoint{"batch.growth",
                             at + ", and batch.growth is none; set it to square_root or "
                                  "adascale"};
  }
  if (begun != first) {
    return RefusedCheckpoint{"batch.size", "the checkpoint's batch began with " +
                                               std::to_string(begun) + ", and batch.size is " +
                                               std::to_string(first) + "; set it to that"};
  }
  if (newest > most) {
    return RefusedCheckpoint{"batch.max_size",
                             at + ", and batch.max_size is " + std::to_string(most) + "; raise it"};
  }
  return std::nullopt;
}

std::optional<std::int64_t> grown_batch(std::int64_t newest, std::int64_t most, double noise_low) {
  if (newest >= most || !(noise_low >= kGrowthThreshold * static_cast<double>(newest))) {
    return std::nullopt;
  }
  return std::min(2 * newest, most);
}

namespace {

double times(const BatchRatio& ratio) {
  return static_cast<double>(ratio.batch) / static_cast<double>(ratio.base);
}
double gain(const BatchRatio& ratio) {
  return times(ratio) * (ratio.noise_scale + static_cast<double>(ratio.base)) /
         (ratio.noise_scale + static_cast<double>(ratio.batch));
}

}  // namespace

double rate_factor(BatchGrowth growth, const BatchRatio& ratio) {
  if (growth == BatchGrowth::None) return 1;
  return growth == BatchGrowth::SquareRoot ? std::sqrt(times(ratio)) : gain(ratio);
}

double base_steps(BatchGrowth growth, const BatchRatio& ratio) {
  return growth == BatchGrowth::AdaScale ? gain(ratio) : times(ratio);
}

}  // namespace regatta::trainer::contract
