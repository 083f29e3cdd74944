#include "trainer/step/growing_batch.h"

#include <string>
#include <vector>

#include "base/error.h"

namespace regatta::trainer::step {

GrowingBatch::GrowingBatch(const contract::RunConfig& config)
    : growth_(config.growth),
      first_(config.batch_size),
      most_(config.max_batch),
      steps_(config.steps),
      schedule_(config.batch_size) {}

double GrowingBatch::progress_before(std::int64_t step) const {
  if (!grows()) return static_cast<double>(step - 1);
  base::check(step == done_ + 1, "steps of a batch that grows follow one another");
  return progress_;
}

bool GrowingBatch::is_over(std::int64_t done) const {
  if (!grows()) return done >= steps_;
  base::check(done == done_, "steps of a batch that grows follow one another");
  return progress_ >= static_cast<double>(steps_);
}

// While nothing is known of the noise a larger batch is worth no more than the first.
contract::BatchRatio GrowingBatch::ratio(std::int64_t step,
                                         const contract::NoiseScale& noise) const {
  contract::BatchRatio ratio{first_, schedule_.batch_at(step), 0};
  if (const std::optional<contract::NoiseInterval> allowed = noise.interval()) {
    ratio.noise_scale = noise.samples().value_or(allowed->low);
  }
  return ratio;
}

double GrowingBatch::rate_factor(std::int64_t step, const contract::NoiseScale& noise) const {
  return contract::rate_factor(growth_, ratio(step, noise));
}

// Not a sum of quotients under SquareRoot, so that it is right to the last bit.
double GrowingBatch::progress_after(std::int64_t step, const contract::NoiseScale& noise) const {
  if (growth_ == contract::BatchGrowth::SquareRoot) {
    return static_cast<double>(schedule_.samples_after(step)) / static_cast<double>(first_);
  }
  return progress_before(step) + (grows() ? contract::base_steps(growth_, ratio(step, noise)) : 1);
}

bool GrowingBatch::is_last(std::int64_t step, const contract::NoiseScale& noise) const {
  return progress_after(step, noise) >= static_cast<double>(steps_);
}

void GrowingBatch::count(std::int64_t step, const contract::NoiseScale& noise) {
  progress_ = progress_after(step, noise);
  done_ = step;
}

std::optional<contract::BatchRecord> GrowingBatch::decide(std::int64_t step,
                                                          const contract::NoiseScale& noise) {
  const std::optional<contract::NoiseInterval> allowed = noise.interval();
  if (!grows() || !allowed) return std::nullopt;
  const std::optional<std::int64_t> larger =
      contract::grown_batch(schedule_.newest(), most_, allowed->low);
  if (!larger) return std::nullopt;
  contract::BatchRecord record;
  record.step = step + contract::kGrowthLead;
  record.size = *larger;
  record.noise_scale = noise.samples();
  record.noise_scale_low = allowed->low;
  schedule_.change({record.step, record.size});
  return record;
}

std::optional<BatchGrowthState> GrowingBatch::state() const {
  if (!grows() && schedule_.changes().size() == 1) return std::nullopt;
  return BatchGrowthState{schedule_.changes(), progress_};
}

// Without growth steps from here on have the run file's batch; what was decided for them is void.
contract::BatchSchedule GrowingBatch::going_on(const BatchGrowthState& state,
                                               std::int64_t done) const {
  std::vector<checkpoint::BatchChange> changes = state.batches;
  if (!grows()) {
    while (changes.size() > 1 && changes.back().step > done) changes.pop_back();
  }
  std::optional<contract::BatchSchedule> schedule = contract::BatchSchedule::of(changes);
  base::check(schedule.has_value(), "a manifest's batches follow one another");
  if (!grows() && schedule->newest() != first_) {
    if (done == 0) return contract::BatchSchedule(first_);
    schedule->change({done + 1, first_});
  }
  return *schedule;
}

void GrowingBatch::restore(std::int64_t done, const std::optional<BatchGrowthState>& state) {
  contract::BatchSchedule found(first_);
  if (state) {
    if (const auto refusal = contract::refuse_checkpoint(*state, done, growth_, first_, most_)) {
      throw base::Error(base::Code::User, refusal->message);
    }
    found = going_on(*state, done);
  }
  schedule_ = found;
  done_ = done;
  progress_ = state ? state->progress : static_cast<double>(done);
}

}  // namespace regatta::trainer::step
