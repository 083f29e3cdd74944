#include "orchestrator/sweeps/asha.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace regatta::orchestrator::sweeps {
namespace {

struct Result {
  const SweepTrial* trial;
  double objective;
  bool can_go_on;  // was not promoted, has more to train, and its objective is finite
};

// The ladder of rungs as the history has it.
class Rungs {
 public:
  Rungs(const SweepSettings& settings, const SweepHistory& history)
      : settings_(settings), history_(history), budgets_(rung_budgets(settings)) {
    for (std::size_t rung = 0; rung < budgets_.size(); ++rung) ranked_.push_back(ranked_at(rung));
  }

  [[nodiscard]] std::size_t count() const { return budgets_.size(); }
  [[nodiscard]] std::int64_t budget(std::size_t rung) const { return budgets_[rung]; }
  // Best first.
  [[nodiscard]] const std::vector<Result>& ranked(std::size_t rung) const { return ranked_[rung]; }
  [[nodiscard]] std::size_t places(std::size_t results) const {
    return results / static_cast<std::size_t>(settings_.factor);
  }
  // The highest that the trial was told to reach.
  [[nodiscard]] std::size_t rung_of(const SweepTrial& trial) const {
    const auto above = std::upper_bound(budgets_.begin(), budgets_.end(), trial.goal);
    return above == budgets_.begin() ? 0 : static_cast<std::size_t>(above - budgets_.begin()) - 1;
  }

  // For each rung, how many results it has when all have arrived that may: those on their way to
  // it, and those below that may still go on.
  [[nodiscard]] std::vector<std::size_t> most_results() const {
    std::vector<std::size_t> most;
    const auto trials = static_cast<std::size_t>(settings_.trials);
    std::size_t coming = trials - std::min(trials, history_.trials.size());
    for (std::size_t rung = 0; rung < count(); ++rung) {
      for (const SweepTrial& trial : history_.trials) {
        const bool on_its_way = trial.state == TrialState::Running && !is_at_goal(trial);
        coming += on_its_way && rung_of(trial) == rung ? 1 : 0;
      }
      most.push_back(ranked_[rung].size() + coming);
      const std::size_t best = std::min(places(most[rung]), ranked_[rung].size());
      for (std::size_t rank = 0; rank < best; ++rank) coming += ranked_[rung][rank].can_go_on;
    }
    return most;
  }

 private:
  [[nodiscard]] std::vector<Result> ranked_at(std::size_t rung) const {
    std::vector<Result> results;
    for (const SweepTrial& trial : history_.trials) {
      if (trial.goal < budgets_[rung]) continue;
      const auto objective = objective_at(trial, budgets_[rung]);
      if (!objective) continue;
      const bool waits = trial.state == TrialState::Paused || is_at_goal(trial);
      results.push_back(
          {&trial, *objective, waits && rung_of(trial) == rung && std::isfinite(*objective)});
    }
    std::sort(results.begin(), results.end(), [&](const Result& a, const Result& b) {
      if (comes_before(a.objective, b.objective, settings_.better)) return true;
      if (comes_before(b.objective, a.objective, settings_.better)) return false;
      return a.trial->number < b.trial->number;
    });
    return results;
  }

  const SweepSettings& settings_;
  const SweepHistory& history_;
  std::vector<std::int64_t> budgets_;
  std::vector<std::vector<Result>> ranked_;
};

// The numbers of those that may be promoted some day.
std::vector<int> promotable_some_day(const Rungs& rungs) {
  std::vector<int> numbers;
  const std::vector<std::size_t> most = rungs.most_results();
  for (std::size_t rung = 0; rung + 1 < rungs.count(); ++rung) {
    const std::vector<Result>& ranked = rungs.ranked(rung);
    const std::size_t best = std::min(rungs.places(most[rung]), ranked.size());
    for (std::size_t rank = 0; rank < best; ++rank) {
      if (ranked[rank].can_go_on) numbers.push_back(ranked[rank].trial->number);
    }
  }
  return numbers;
}

}  // namespace

std::optional<ContinueTrial> next_promotion(const SweepSettings& settings,
                                            const SweepHistory& history) {
  const Rungs rungs(settings, history);
  for (std::size_t rung = rungs.count() - 1; rung-- > 0;) {
    const std::vector<Result>& ranked = rungs.ranked(rung);
    for (std::size_t rank = 0; rank < rungs.places(ranked.size()); ++rank) {
      if (ranked[rank].can_go_on) {
        return ContinueTrial{ranked[rank].trial->number, rungs.budget(rung + 1)};
      }
    }
  }
  return std::nullopt;
}

std::optional<StopTrial> next_stop(const SweepSettings& settings, const SweepHistory& history) {
  const std::vector<int> kept = promotable_some_day(Rungs(settings, history));
  std::optional<StopTrial> next;
  for (const SweepTrial& trial : history.trials) {
    const bool keep = std::find(kept.begin(), kept.end(), trial.number) != kept.end();
    const bool stops = is_at_goal(trial) || (trial.state == TrialState::Paused && !keep);
    if (!stops || (next && next->number < trial.number)) continue;
    next = StopTrial{trial.number, keep ? AfterStop::Keep : AfterStop::Release};
  }
  return next;
}

}  // namespace regatta::orchestrator::sweeps
