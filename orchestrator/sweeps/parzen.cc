#include "orchestrator/sweeps/parzen.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "base/error.h"

namespace regatta::orchestrator::sweeps {
namespace {

constexpr int kHalvings = 200;             // bisection ends before, where no double is between
constexpr std::size_t kMostOfRange = 100;  // the least width is the range over this, or over n + 1

double normal_density(double z) {
  return std::exp(-0.5 * z * z) * std::numbers::inv_sqrtpi / std::numbers::sqrt2;
}

}  // namespace

double normal_below(double z) { return 0.5 * std::erfc(-z / std::numbers::sqrt2); }

double normal_quantile(double u, double low, double high) {
  for (int i = 0; i < kHalvings; ++i) {
    const double middle = low + 0.5 * (high - low);
    if (middle <= low || middle >= high) break;
    (normal_below(middle) < u ? low : high) = middle;
  }
  return high;
}

ParzenEstimator::ParzenEstimator(double low, double high, std::vector<double> centres)
    : low_(low), high_(high) {
  base::check(low < high, "a density has a range");
  std::sort(centres.begin(), centres.end());
  const double range = high - low;
  const double least =
      range / static_cast<double>(std::min(kMostOfRange, centres.size() + std::size_t{1}));
  for (std::size_t i = 0; i < centres.size(); ++i) {
    const double left = i == 0 ? low : centres[i - 1];
    const double right = i + 1 == centres.size() ? high : centres[i + 1];
    const double sigma = std::clamp(std::max(centres[i] - left, right - centres[i]), least, range);
    const double below = normal_below((low - centres[i]) / sigma);
    gaussians_.push_back(
        {centres[i], sigma, below, normal_below((high - centres[i]) / sigma) - below});
  }
}

double ParzenEstimator::density(double x) const {
  double sum = 1 / (high_ - low_);
  for (const Gaussian& each : gaussians_) {
    sum += normal_density((x - each.centre) / each.sigma) / (each.sigma * each.inside);
  }
  return sum / static_cast<double>(gaussians_.size() + 1);
}

double ParzenEstimator::mass(double from, double to) const {
  double sum = (to - from) / (high_ - low_);
  for (const Gaussian& each : gaussians_) {
    sum += (normal_below((to - each.centre) / each.sigma) -
            normal_below((from - each.centre) / each.sigma)) /
           each.inside;
  }
  return sum / static_cast<double>(gaussians_.size() + 1);
}

double ParzenEstimator::point(double component, double within) const {
  const auto components = static_cast<double>(gaussians_.size() + 1);
  const auto which = std::min(static_cast<std::size_t>(component * components), gaussians_.size());
  if (which == 0) return low_ + within * (high_ - low_);
  return point_of(gaussians_[which - 1], within);
}

double ParzenEstimator::point_of(const Gaussian& gaussian, double within) const {
  const double z = normal_quantile(gaussian.below + within * gaussian.inside,
                                   (low_ - gaussian.centre) / gaussian.sigma,
                                   (high_ - gaussian.centre) / gaussian.sigma);
  return std::clamp(gaussian.centre + z * gaussian.sigma, low_, high_);
}

std::vector<double> choice_probabilities(const std::vector<int>& counts) {
  double all = 0;
  for (const int count : counts) all += 1 + count;
  std::vector<double> probabilities;
  for (const int count : counts) probabilities.push_back((1 + count) / all);
  return probabilities;
}

}  // namespace regatta::orchestrator::sweeps
