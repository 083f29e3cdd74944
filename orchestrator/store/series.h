// The series of a run on the axis of time to accuracy.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "orchestrator/runs/run.h"
#include "orchestrator/runs/time_to_accuracy.h"
#include "orchestrator/store/store.h"

namespace regatta::orchestrator::store {

// The time axis of a run's attempts; those without a record yet have no place on it.
class RunAxis {
 public:
  explicit RunAxis(const std::vector<runs::Attempt>& attempts);

  [[nodiscard]] bool started() const { return axis_.started; }
  [[nodiscard]] double origin_utc() const { return axis_.origin_utc; }
  [[nodiscard]] int clamped() const { return axis_.clamped; }
  // The moment of a row: `seconds` since the start of its attempt. Zero for an unknown attempt.
  [[nodiscard]] double at(runs::AttemptNumber attempt, double seconds) const;
  // Of the newest record.
  [[nodiscard]] double last() const { return last_; }

 private:
  std::vector<runs::AttemptNumber> rows_;
  runs::TimeAxis axis_;
  double last_ = 0;
};

// What newest steps come to; absent where no row says it.
struct RecentFigures {
  std::optional<double> samples_per_second, tokens_per_second;
  // Weighted by the steps' times: shares of it, or rates.
  std::optional<double> mfu, utilisation, exposed_share, goodput;
  std::optional<double> imbalance, moved_bytes;  // means per step
  // Of the newest step that says one of them.
  std::optional<double> noise_scale, noise_scale_low, noise_scale_high, efficiency;
};
// `newest_first`: rows of one run. All but throughput come from the newest row's attempt alone,
// since another one may have had other ranks.
[[nodiscard]] RecentFigures recent_figures(const std::vector<StepRow>& newest_first);

// By the run's metric. In order of the rows, which are judged as the journal says, but those of a
// run whose file was changed by the target that it has now.
[[nodiscard]] std::vector<runs::EvaluationPoint> evaluation_points(
    const RunAxis& axis, const std::vector<EvaluationRow>& rows, const runs::Run& run);

// What the file of a run that was changed says, in place of what its attempts said at their start:
// steps and target.
void take_changes(runs::Run* run);

}  // namespace regatta::orchestrator::store
