#include "orchestrator/sweeps/parzen.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "orchestrator/sweeps/draws.h"

namespace regatta::orchestrator::sweeps {
namespace {

constexpr int kHalvings = 200;  // bisection ends before, where no double is between
constexpr double kWidth = 0.1;  // of one trial's kernel, in ranges
constexpr double kLeastWidth = 0.03;

double normal_density(double z) {
  return std::exp(-0.5 * z * z) * std::numbers::inv_sqrtpi / std::numbers::sqrt2;
}

// Of `count` trials that have the number, among so many numbers.
double sigma_of(const NumberScale& scale, std::size_t count, std::size_t numbers) {
  const double range = scale.high() - scale.low();
  const auto trials = static_cast<double>(std::max<std::size_t>(count, 1));
  const double wide = kWidth * std::pow(trials, -1 / (4 + static_cast<double>(numbers)));
  return range * std::max(wide, kLeastWidth);
}

std::size_t place_of(const SweepParameter& parameter, const SweepValue& choice) {
  const auto found = std::find_if(parameter.choices.begin(), parameter.choices.end(),
                                  [&](const SweepValue& each) { return same_value(each, choice); });
  return static_cast<std::size_t>(found - parameter.choices.begin());
}

// What the trial had of it, if the parameter can still have that.
const SweepValue* value_in(const SweepTrial& trial, const SweepParameter& parameter) {
  const auto found = trial.values.find(parameter.key);
  const bool counts = found != trial.values.end() && can_be(parameter, found->second);
  return counts ? &found->second : nullptr;
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
    : trials_(trials.size()) {
  const std::vector<SweepParameter>& parameters = space.parameters();
  const auto numbers = static_cast<std::size_t>(
      std::count_if(parameters.begin(), parameters.end(),
                    [](const SweepParameter& each) { return each.kind != ParameterKind::Choice; }));
  for (const SweepParameter& parameter : parameters) {
    Axis axis{&parameter, std::nullopt};
    if (parameter.kind != ParameterKind::Choice) axis.scale.emplace(parameter);
    const auto count = static_cast<std::size_t>(std::count_if(
        trials.begin(), trials.end(),
        [&](const SweepTrial* trial) { return value_in(*trial, parameter) != nullptr; }));
    for (std::size_t i = 0; i < trials.size(); ++i) {
      const SweepValue* value = value_in(*trials[i], parameter);
      Kernel kernel;
      if (value != nullptr && axis.scale) {
        kernel = CutGaussian(axis.scale->position(*number_in(*value)),
                             sigma_of(*axis.scale, count, numbers), axis.scale->low(),
                             axis.scale->high());
      } else if (value != nullptr) {
        kernel = place_of(parameter, *value);
      }
      trials_[i].push_back(kernel);
    }
    axes_.push_back(axis);
  }
}

double TrialDensity::other_choices() const { return 1 / (static_cast<double>(trials_.size()) + 1); }

TrialDensity::Asked TrialDensity::asked(std::size_t axis, const SweepValue& value) const {
  const SweepParameter& parameter = *axes_[axis].parameter;
  Asked asked{axis};
  if (!axes_[axis].scale) {
    asked.choice = place_of(parameter, value);
    asked.prior = 1 / static_cast<double>(parameter.choices.size());
    return asked;
  }
  const NumberScale& scale = *axes_[axis].scale;
  const double number = number_in(value).value_or(0);
  asked.at = scale.position(number);
  const bool whole = parameter.kind == ParameterKind::Integer;
  if (whole) std::tie(asked.from, asked.to) = ends_of(scale, number);
  asked.prior = (whole ? asked.to - asked.from : 1) / (scale.high() - scale.low());
  return asked;
}

double TrialDensity::share(const Kernel& kernel, const Asked& asked) const {
  if (const auto* gaussian = std::get_if<CutGaussian>(&kernel)) {
    return asked.to > asked.from ? gaussian->mass(asked.from, asked.to)
                                 : gaussian->density(asked.at);
  }
  const auto* choice = std::get_if<std::size_t>(&kernel);
  if (choice == nullptr) return asked.prior;
  const double w = other_choices();
  return (*choice == asked.choice ? 1 - w : 0) + w * asked.prior;
}

double TrialDensity::log_at(const SweepValues& values) const {
  std::vector<Asked> all;
  double sum = 1;  // the prior's
  for (std::size_t i = 0; i < axes_.size(); ++i) {
    const auto found = values.find(axes_[i].parameter->key);
    if (found == values.end()) continue;
    all.push_back(asked(i, found->second));
    sum *= all.back().prior;
  }
  for (const std::vector<Kernel>& kernels : trials_) {
    double product = 1;
    for (const Asked& each : all) product *= share(kernels[each.axis], each);
    sum += product;
  }
  return std::log(sum) - std::log(static_cast<double>(trials_.size() + 1));
}

// Of choices the trial's own below 1 − w, and beyond that any of them.
SweepValue TrialDensity::drawn(const Axis& axis, const Kernel& kernel, double u) const {
  if (const auto* gaussian = std::get_if<CutGaussian>(&kernel)) {
    return axis.scale->value(gaussian->point(u));
  }
  const auto* choice = std::get_if<std::size_t>(&kernel);
  if (choice == nullptr) return prior_value(*axis.parameter, u);
  const double w = other_choices();
  if (u < 1 - w) return axis.parameter->choices.at(*choice);
  return prior_value(*axis.parameter, std::min((u - (1 - w)) / w, std::nextafter(1.0, 0.0)));
}

SweepValues TrialDensity::drawn(double component,
                                const std::function<double(std::size_t)>& within) const {
  const auto components = static_cast<double>(trials_.size() + 1);
  const auto which = std::min(static_cast<std::size_t>(component * components), trials_.size());
  SweepValues values;
  for (std::size_t i = 0; i < axes_.size(); ++i) {
    const SweepParameter& parameter = *axes_[i].parameter;
    if (!is_active(parameter, values)) continue;
    values[parameter.key] =
        drawn(axes_[i], which == 0 ? Kernel() : trials_[which - 1][i], within(i));
  }
  return values;
}

}  // namespace regatta::orchestrator::sweeps
