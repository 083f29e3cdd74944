#include "orchestrator/sweeps/parzen.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.h"
#include "orchestrator/sweeps/draws.h"

namespace regatta::orchestrator::sweeps {
namespace {

constexpr int kHalvings = 200;             // bisection ends before, where no double is between
constexpr double kWidth = 0.2;             // of one trial's kernel, in ranges
constexpr std::size_t kMostOfRange = 100;  // the least width is the range over this, or over m + 1

double normal_density(double z) {
  return std::exp(-0.5 * z * z) * std::numbers::inv_sqrtpi / std::numbers::sqrt2;
}

// Of `count` trials that have the number, among so many numbers.
double sigma_of(const NumberScale& scale, std::size_t count, std::size_t numbers) {
  const double range = scale.high() - scale.low();
  const auto trials = static_cast<double>(std::max<std::size_t>(count, 1));
  const double wide = kWidth * std::pow(trials, -1 / (4 + static_cast<double>(numbers)));
  const double least = 1 / static_cast<double>(std::min(kMostOfRange, count + 1));
  return range * std::clamp(wide, least, 1.0);
}

std::optional<double> place_of(const SweepParameter& parameter,
                               const std::optional<NumberScale>& scale, const SweepTrial& trial) {
  const auto found = trial.values.find(parameter.key);
  if (found == trial.values.end() || !can_be(parameter, found->second)) return std::nullopt;
  if (scale) return scale->position(*number_in(found->second));
  for (std::size_t i = 0; i < parameter.choices.size(); ++i) {
    if (same_value(parameter.choices[i], found->second)) return static_cast<double>(i);
  }
  return std::nullopt;
}

// Of an integer: where it begins and ends on the scale.
std::pair<double, double> ends_of(const NumberScale& scale, double number) {
  return {scale.position(number - 0.5), scale.position(number + 0.5)};
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

CutGaussian::CutGaussian(double centre, double sigma, double low, double high)
    : centre_(centre), sigma_(sigma), low_(low), high_(high) {
  base::check(low < high && sigma > 0, "a density has a range and a width");
  below_ = normal_below((low - centre) / sigma);
  inside_ = normal_below((high - centre) / sigma) - below_;
}

double CutGaussian::density(double x) const {
  return normal_density((x - centre_) / sigma_) / (sigma_ * inside_);
}

double CutGaussian::mass(double from, double to) const {
  return (normal_below((to - centre_) / sigma_) - normal_below((from - centre_) / sigma_)) /
         inside_;
}

double CutGaussian::point(double u) const {
  const double z =
      normal_quantile(below_ + u * inside_, (low_ - centre_) / sigma_, (high_ - centre_) / sigma_);
  return std::clamp(centre_ + z * sigma_, low_, high_);
}

TrialDensity::TrialDensity(const Space& space, const std::vector<const SweepTrial*>& trials)
    : points_(trials.size()) {
  std::size_t numbers = 0;
  for (const SweepParameter& parameter : space.parameters()) {
    numbers += parameter.kind == ParameterKind::Choice ? 0 : 1;
  }
  for (const SweepParameter& parameter : space.parameters()) {
    Axis axis{&parameter, std::nullopt};
    if (parameter.kind != ParameterKind::Choice) axis.scale.emplace(parameter);
    std::size_t count = 0;
    for (std::size_t i = 0; i < trials.size(); ++i) {
      points_[i].push_back(place_of(parameter, axis.scale, *trials[i]));
      count += points_[i].back() ? 1 : 0;
    }
    if (axis.scale) axis.sigma = sigma_of(*axis.scale, count, numbers);
    axes_.push_back(axis);
  }
}

double TrialDensity::other_choices() const { return 1 / (static_cast<double>(points_.size()) + 1); }

double TrialDensity::prior(const Axis& axis, const SweepValue& value) const {
  const SweepParameter& parameter = *axis.parameter;
  if (!axis.scale) return 1 / static_cast<double>(parameter.choices.size());
  const double range = axis.scale->high() - axis.scale->low();
  if (parameter.kind != ParameterKind::Integer) return 1 / range;
  const auto [from, to] = ends_of(*axis.scale, number_in(value).value_or(0));
  return (to - from) / range;
}

double TrialDensity::kernel(const Axis& axis, double centre, const SweepValue& value) const {
  const SweepParameter& parameter = *axis.parameter;
  if (!axis.scale) {
    const SweepValue& its = parameter.choices.at(static_cast<std::size_t>(centre));
    const double w = other_choices();
    return (same_value(its, value) ? 1 - w : 0) + w / static_cast<double>(parameter.choices.size());
  }
  const CutGaussian gaussian(centre, axis.sigma, axis.scale->low(), axis.scale->high());
  const double number = number_in(value).value_or(0);
  if (parameter.kind != ParameterKind::Integer) {
    return gaussian.density(axis.scale->position(number));
  }
  const auto [from, to] = ends_of(*axis.scale, number);
  return gaussian.mass(from, to);
}

double TrialDensity::log_at(const SweepValues& values) const {
  std::vector<std::size_t> active;
  double even = 1;  // the prior's
  for (std::size_t i = 0; i < axes_.size(); ++i) {
    const auto found = values.find(axes_[i].parameter->key);
    if (found == values.end()) continue;
    active.push_back(i);
    even *= prior(axes_[i], found->second);
  }
  double sum = even;
  for (const Point& point : points_) {
    double product = 1;
    for (const std::size_t i : active) {
      const SweepValue& value = values.at(axes_[i].parameter->key);
      product *= point[i] ? kernel(axes_[i], *point[i], value) : prior(axes_[i], value);
    }
    sum += product;
  }
  return std::log(sum) - std::log(static_cast<double>(points_.size() + 1));
}

// The choice itself below 1 − w, and beyond that any of them.
SweepValue TrialDensity::drawn(const Axis& axis, double centre, double u) const {
  if (axis.scale) {
    const CutGaussian gaussian(centre, axis.sigma, axis.scale->low(), axis.scale->high());
    return axis.scale->value(gaussian.point(u));
  }
  const double w = other_choices();
  if (u < 1 - w) return axis.parameter->choices.at(static_cast<std::size_t>(centre));
  return prior_value(*axis.parameter, std::min((u - (1 - w)) / w, std::nextafter(1.0, 0.0)));
}

SweepValues TrialDensity::drawn(double component,
                                const std::function<double(std::size_t)>& within) const {
  const auto components = static_cast<double>(points_.size() + 1);
  const auto which = std::min(static_cast<std::size_t>(component * components), points_.size());
  SweepValues values;
  for (std::size_t i = 0; i < axes_.size(); ++i) {
    const SweepParameter& parameter = *axes_[i].parameter;
    if (!is_active(parameter, values)) continue;
    const std::optional<double> centre = which == 0 ? std::nullopt : points_[which - 1][i];
    values[parameter.key] =
        centre ? drawn(axes_[i], *centre, within(i)) : prior_value(parameter, within(i));
  }
  return values;
}

}  // namespace regatta::orchestrator::sweeps
