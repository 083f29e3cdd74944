#include "base/statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/error.h"

namespace regatta::base {
namespace {

// Of the non-empty `values`; false if they cannot be sorted, because one is NaN.
bool sort_numbers(std::vector<double>* values) {
  check(!values->empty(), "a statistic is of at least one value");
  if (std::any_of(values->begin(), values->end(), [](double v) { return std::isnan(v); })) {
    return false;
  }
  std::sort(values->begin(), values->end());
  return true;
}

}  // namespace

double median(std::vector<double> values) {
  if (!sort_numbers(&values)) return std::numeric_limits<double>::quiet_NaN();
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

double median_or(std::vector<double> values, double otherwise) {
  return values.empty() ? otherwise : median(std::move(values));
}

double percentile(std::vector<double> values, double share) {
  check(share >= 0 && share <= 1, "the share of a percentile is from 0 to 1");
  if (!sort_numbers(&values)) return std::numeric_limits<double>::quiet_NaN();
  const double rank = share * static_cast<double>(values.size() - 1);
  return values[static_cast<std::size_t>(std::llround(rank))];
}

double mean(const std::vector<double>& values) {
  check(!values.empty(), "a mean is of at least one value");
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double robust_deviation(const std::vector<double>& values) {
  constexpr double kOfNormalValues = 1.4826;  // 1 / Φ⁻¹(3/4)
  const double middle = median(values);
  std::vector<double> distances;
  for (const double value : values) distances.push_back(std::abs(value - middle));
  return kOfNormalValues * median(std::move(distances));
}

}  // namespace regatta::base
