// How many samples each step has: of a batch that grows, or of a run that goes on from a checkpoint
// of another batch, which changes there were.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/manifest.h"
#include "trainer/contract/run_config.h"

namespace regatta::trainer::contract {

// From a step on (1 is the first), steps have this many samples.
using checkpoint::BatchChange;

// With one entry every figure is that of step · batch. Changes are only added.
class BatchSchedule {
 public:
  explicit BatchSchedule(std::int64_t batch);
  // Nothing unless the first change is of step 1 and each has a later step than the one before, and
  // samples.
  [[nodiscard]] static std::optional<BatchSchedule> of(std::vector<BatchChange> changes);

  // step: 1 or more.
  [[nodiscard]] std::int64_t batch_at(std::int64_t step) const;
  // Of all steps before this one.
  [[nodiscard]] std::int64_t samples_before(std::int64_t step) const;
  // Of all steps up to this one; 0 of step 0.
  [[nodiscard]] std::int64_t samples_after(std::int64_t step) const {
    return samples_before(step + 1);
  }
  [[nodiscard]] std::int64_t first() const { return changes_.front().size; }
  // The last that is decided.
  [[nodiscard]] std::int64_t newest() const { return changes_.back().size; }
  [[nodiscard]] const std::vector<BatchChange>& changes() const { return changes_; }
  // At a later step than all so far.
  void change(const BatchChange& change);

 private:
  explicit BatchSchedule(std::vector<BatchChange> changes);

  std::vector<BatchChange> changes_;  // never empty; ascending
};

// Which samples the steps before a checkpoint had, where a run with this batch.size goes on from
// it; nothing: as many. One of another run whose batch was constant does not list them.
[[nodiscard]] std::optional<checkpoint::BatchGrowthState> batches_of(
    const checkpoint::Manifest& manifest, std::int64_t batch);

// Why a run with these keys cannot go on from a checkpoint of step `done` whose steps had these
// batches; nothing: it can. Without growth it can where a step was worth a step.
struct RefusedCheckpoint {
  const char* key;  // of the run file
  std::string message;
};
[[nodiscard]] std::optional<RefusedCheckpoint> refuse_checkpoint(
    const checkpoint::BatchGrowthState& state, std::int64_t done, BatchGrowth growth,
    std::int64_t first, std::int64_t most);

// A change is decided after a step and holds from so many steps later on: beyond what is already
// being prepared (samples/batch_prefetcher.h), so that nothing prepared is thrown away and no
// timing decides.
constexpr std::int64_t kGrowthLead = 4;
// The batch grows when the noise scale is surely at least this many times as large.
constexpr double kGrowthThreshold = 2;

// What the batch grows to from the `newest` that is decided, with a noise scale that is at least
// `noise_low` samples; nothing: it stays.
[[nodiscard]] std::optional<std::int64_t> grown_batch(std::int64_t newest, std::int64_t most,
                                                      double noise_low);

// What a step of B samples does beside one of B₀, and at which noise scale φ, in samples.
struct BatchRatio {
  std::int64_t base = 1;  // B₀
  std::int64_t batch = 1;
  double noise_scale = 0;
};
// By what the learning rate is multiplied: under SquareRoot √(B/B₀) (Krizhevsky, arXiv 1404.5997;
// Malladi et al., arXiv 2205.10287, for Adam); under AdaScale the gain r = (B/B₀)·(φ + B₀)/(φ + B)
// (Johnson et al., arXiv 2007.05105; Pollux, OSDI 2021), between 1 and B/B₀.
[[nodiscard]] double rate_factor(BatchGrowth growth, const BatchRatio& ratio);
// Steps of the base batch that one such step is worth: B/B₀, and under AdaScale r. So progress
// under SquareRoot is samples/B₀.
[[nodiscard]] double base_steps(BatchGrowth growth, const BatchRatio& ratio);

}  // namespace regatta::trainer::contract
