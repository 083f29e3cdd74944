#include "trainer/numerics/usual_range.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace regatta::trainer::numerics {
namespace {

// Of at least one.
double median(std::vector<double> values) {
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

constexpr double kNormal = 1.4826;  // 1 / 0.67449, the normal distribution's upper quartile

}  // namespace

std::optional<UsualRange::Judged> UsualRange::judge(double value) {
  if (!std::isfinite(value) || value <= 0) return std::nullopt;
  const double logarithm = std::log(value);
  std::optional<Judged> judged;
  if (logarithms_.size() >= kLeast) {
    std::vector<double> values(logarithms_.begin(), logarithms_.end());
    const double middle = median(values);
    for (double& each : values) each = std::abs(each - middle);
    const double spread = std::max(kLeastSpread, kNormal * median(std::move(values)));
    const double above = logarithm - middle;
    judged = {std::exp(middle), above / spread,
              above > kManySpreads * spread && above > std::log(kManyTimes)};
  }
  logarithms_.push_back(logarithm);
  if (logarithms_.size() > kMost) logarithms_.pop_front();
  return judged;
}

}  // namespace regatta::trainer::numerics
