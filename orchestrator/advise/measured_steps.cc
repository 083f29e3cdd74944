#include "orchestrator/advise/measured_steps.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace regatta::orchestrator::advise {
namespace {

constexpr std::size_t kLeastSteps = 8;

double quantile(const std::vector<double>& sorted, double share) {
  const double place = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (place - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

struct Fit {
  double alpha = 0, beta = 0;
};

Fit fit(const std::vector<const MeasuredStep*>& steps) {
  const auto count = static_cast<double>(steps.size());
  double batch = 0, seconds = 0, batch2 = 0, product = 0;
  for (const MeasuredStep* const step : steps) {
    batch += step->batch;
    seconds += step->seconds.value;
    batch2 += static_cast<double>(step->batch) * step->batch;
    product += step->batch * step->seconds.value;
  }
  const double spread = count * batch2 - batch * batch;
  if (spread > 0) {
    const double beta = (count * product - batch * seconds) / spread;
    const double alpha = (seconds - beta * batch) / count;
    if (alpha >= 0 && beta >= 0) return {alpha, beta};
    if (beta < 0) return {seconds / count, 0};
  }
  return {0, product / batch2};
}

}  // namespace

Range typical_step(std::vector<double> seconds) {
  if (seconds.size() < kLeastSteps) {
    throw base::Error(base::Code::User, "only " + std::to_string(seconds.size()) +
                                            " steps are known, fewer than the " +
                                            std::to_string(kLeastSteps) +
                                            " from which a step's time is told");
  }
  const auto skipped = std::max<std::size_t>(3, seconds.size() / 5);
  seconds.erase(seconds.begin(), seconds.begin() + static_cast<std::ptrdiff_t>(skipped));
  std::sort(seconds.begin(), seconds.end());
  return {quantile(seconds, 0.5), quantile(seconds, 0.25), quantile(seconds, 0.75)};
}

MeasuredSteps::MeasuredSteps(const std::vector<MeasuredStep>& steps) {
  std::map<int, std::vector<const MeasuredStep*>> by_ranks;
  for (const MeasuredStep& step : steps) {
    if (!(step.seconds.low > 0) || !std::isfinite(step.seconds.high)) {
      throw base::Error(base::Code::User, "a step that was measured took no time");
    }
    by_ranks[step.ranks].push_back(&step);
  }
  if (by_ranks.empty()) throw base::Error(base::Code::User, "no step was measured");
  for (const auto& [ranks, tried] : by_ranks) {
    const Fit found = fit(tried);
    Line line{tried.front()->nodes, found.alpha, found.beta, 1, 1, 0};
    for (const MeasuredStep* const step : tried) {
      const double told = found.alpha + found.beta * step->batch;
      line.below = std::min(line.below, step->seconds.low / told);
      line.above = std::max(line.above, step->seconds.high / told);
      line.evaluation_seconds += step->evaluation_seconds / static_cast<double>(tried.size());
    }
    lines_[ranks] = line;
  }
}

Candidate MeasuredSteps::candidate(int ranks, int batch) const {
  const auto found = lines_.find(ranks);
  base::check(found != lines_.end(), "steps of these ranks were measured");
  const Line& line = found->second;
  Candidate candidate;
  candidate.nodes = line.nodes;
  candidate.ranks = ranks;
  candidate.batch = batch;
  const double seconds = line.alpha + line.beta * batch;
  candidate.step_seconds = {seconds, seconds * line.below, seconds * line.above};
  candidate.evaluation_seconds = line.evaluation_seconds;
  return candidate;
}

std::vector<int> MeasuredSteps::ranks() const {
  std::vector<int> ranks;
  for (const auto& [count, line] : lines_) ranks.push_back(count);
  return ranks;
}

}  // namespace regatta::orchestrator::advise
