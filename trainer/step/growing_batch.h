// How many samples the steps of a run have, and how far it is: of a batch that grows with the
// gradient noise scale, and, as a special case, of one that does not. Such a run, too, may go on
// from a checkpoint of another batch.
//
// All of it is a function of the state and of the noise scale that the steps found, which all ranks
// have alike; so ranks agree, and an attempt that resumes goes on as the one before would have.
#pragma once

#include <cstdint>
#include <optional>

#include "checkpoint/manifest.h"
#include "trainer/contract/batch_schedule.h"
#include "trainer/contract/journal.h"
#include "trainer/contract/noise_scale.h"
#include "trainer/contract/run_config.h"

namespace regatta::trainer::step {

using checkpoint::BatchGrowthState;

// One thread at a time.
class GrowingBatch {
 public:
  explicit GrowingBatch(const contract::RunConfig& config);

  [[nodiscard]] bool grows() const { return growth_ != contract::BatchGrowth::None; }
  [[nodiscard]] const contract::BatchSchedule& schedule() const { return schedule_; }
  // Steps of the first batch that those before `step` are worth; `step` is the next one.
  [[nodiscard]] double progress_before(std::int64_t step) const;
  // Whether the next step is the last.
  [[nodiscard]] bool is_last(std::int64_t step, const contract::NoiseScale& noise) const;
  // Whether the run is over after step `done`, the last one taken.
  [[nodiscard]] bool is_over(std::int64_t done) const;
  // By what the next step's learning rate is multiplied.
  [[nodiscard]] double rate_factor(std::int64_t step, const contract::NoiseScale& noise) const;
  // That step is done, with the noise scale as it was before it.
  void count(std::int64_t step, const contract::NoiseScale& noise);
  // After a step that looked at the noise. What was decided, if anything was.
  [[nodiscard]] std::optional<contract::BatchRecord> decide(std::int64_t step,
                                                            const contract::NoiseScale& noise);

  // For checkpoints, after the last step taken; nothing where all steps have the run file's batch.
  [[nodiscard]] std::optional<BatchGrowthState> state() const;
  // As the checkpoint of step `done` has it. Nothing: all steps so far were of the first batch.
  // Throws Code::User where the batch grows and the run file has another first one or a largest one
  // below what the run has reached, and where it does not grow any more but did.
  void restore(std::int64_t done, const std::optional<BatchGrowthState>& state);

 private:
  [[nodiscard]] contract::BatchSchedule going_on(const BatchGrowthState& state,
                                                 std::int64_t done) const;
  [[nodiscard]] contract::BatchRatio ratio(std::int64_t step,
                                           const contract::NoiseScale& noise) const;
  [[nodiscard]] double progress_after(std::int64_t step, const contract::NoiseScale& noise) const;

  contract::BatchGrowth growth_;
  std::int64_t first_, most_, steps_;  // batches; the run's steps
  contract::BatchSchedule schedule_;
  std::int64_t done_ = 0;  // the last step taken,
  double progress_ = 0;    // and what all are worth
};

}  // namespace regatta::trainer::step
