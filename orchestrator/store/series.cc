#include "orchestrator/store/series.h"

#include <algorithm>
#include <cmath>

#include "orchestrator/runs/metrics.h"
#include "trainer/contract/run_config.h"

namespace regatta::orchestrator::store {
namespace {

class Mean {
 public:
  void add(const std::optional<double>& value, double weight) {
    if (!value || !std::isfinite(*value) || !(weight > 0)) return;
    sum_ += *value * weight;
    weights_ += weight;
  }
  [[nodiscard]] std::optional<double> value() const {
    return weights_ > 0 ? std::optional(sum_ / weights_) : std::nullopt;
  }

 private:
  double sum_ = 0;
  double weights_ = 0;
};

}  // namespace

RunAxis::RunAxis(const std::vector<runs::Attempt>& attempts) {
  std::vector<runs::AttemptClock> clocks;
  for (const runs::Attempt& attempt : attempts) {
    if (!attempt.started) continue;
    rows_.push_back(attempt.row);
    clocks.push_back({attempt.start_utc, attempt.first_step_begin, attempt.last_seconds});
  }
  axis_ = runs::make_time_axis(clocks);
  if (!clocks.empty())
    last_ = runs::axis_seconds(axis_, clocks.size() - 1, clocks.back().last_seconds);
}

double RunAxis::at(runs::AttemptNumber attempt, double seconds) const {
  const auto it = std::find(rows_.begin(), rows_.end(), attempt);
  if (it == rows_.end()) return 0;
  return runs::axis_seconds(axis_, static_cast<std::size_t>(it - rows_.begin()), seconds);
}

RecentFigures recent_figures(const std::vector<StepRow>& newest_first) {
  RecentFigures figures;
  double samples = 0, tokens = 0, seconds = 0;
  Mean mfu, utilisation, exposed_share, goodput, imbalance, moved_bytes;
  for (const StepRow& row : newest_first) {
    samples += static_cast<double>(row.samples);
    tokens += static_cast<double>(row.tokens);
    seconds += row.step_seconds;
    if (row.attempt != newest_first.front().attempt) continue;
    mfu.add(row.mfu, row.step_seconds);
    utilisation.add(row.utilisation, row.step_seconds);
    goodput.add(row.goodput, row.step_seconds);
    imbalance.add(row.imbalance, 1);
    moved_bytes.add(row.moved_bytes, 1);
    if (row.exposed_seconds && row.step_seconds > 0) {
      exposed_share.add(*row.exposed_seconds / row.step_seconds, row.step_seconds);
    }
    if (!figures.efficiency && !figures.noise_scale && !figures.noise_scale_low) {
      figures.noise_scale = row.noise_scale;
      figures.noise_scale_low = row.noise_scale_low;
      figures.noise_scale_high = row.noise_scale_high;
      figures.efficiency = row.efficiency;
    }
  }
  if (seconds > 0) {
    figures.samples_per_second = samples / seconds;
    figures.tokens_per_second = tokens / seconds;
  }
  figures.mfu = mfu.value();
  figures.utilisation = utilisation.value();
  figures.exposed_share = exposed_share.value();
  figures.goodput = goodput.value();
  figures.imbalance = imbalance.value();
  figures.moved_bytes = moved_bytes.value();
  return figures;
}

std::vector<runs::EvaluationPoint> evaluation_points(const RunAxis& axis,
                                                     const std::vector<EvaluationRow>& rows,
                                                     const runs::Run& run) {
  const runs::RunSummary& summary = run.summary;
  const bool loss = runs::better_of(summary.metric) == runs::Better::Lower;
  std::vector<runs::EvaluationPoint> points;
  for (const EvaluationRow& row : rows) {
    bool met = row.target_met;
    if (run.changed_utc && summary.target) {
      met = loss ? row.value <= *summary.target : row.value >= *summary.target;
    }
    points.push_back({axis.at(row.attempt, row.seconds), row.value, met});
  }
  return points;
}

void take_changes(runs::Run* run) {
  if (!run->changed_utc) return;
  const auto config = trainer::contract::parse_run_config(run->config, "run.json");
  runs::RunSummary& summary = run->summary;
  summary.steps = config.steps;
  if (!config.target) return;
  summary.target_times_baseline = config.target->times_baseline;
  summary.target = config.target->value;
  if (config.target->times_baseline && summary.baseline) {
    summary.target = *config.target->times_baseline * *summary.baseline;
  }
}

}  // namespace regatta::orchestrator::store
