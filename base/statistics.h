// Statistics of a list of numbers, in the unit of the numbers. The order of the list does not
// matter. If one of the numbers is NaN, so is every result. Infinite numbers are numbers like
// others.
#pragma once

#include <vector>

namespace regatta::base {

// The value in the middle; for an even count the mean of the two in the middle. `values` must not
// be empty (the program ends).
[[nodiscard]] double median(std::vector<double> values);

// The same, or `otherwise` if `values` is empty.
[[nodiscard]] double median_or(std::vector<double> values, double otherwise);

// Nearest rank, without interpolation: the value that has the rank share·(n−1), rounded, among the
// n sorted values. Rank 0 is the smallest, half a rank is rounded up. So 0 gives the smallest
// value, 1 the largest, and the result is always one of the values. `values` must not be empty and
// `share` must be from 0 to 1 (the program ends).
[[nodiscard]] double percentile(std::vector<double> values, double share);

// The arithmetic mean, summed in the order of the list. `values` must not be empty (the program
// ends).
[[nodiscard]] double mean(const std::vector<double>& values);

// 1.4826 × the median of |value − median|, which estimates the standard deviation of normal values
// and does not mind a few that are far off. 0 for one value. `values` must not be empty (the
// program ends).
[[nodiscard]] double robust_deviation(const std::vector<double>& values);

}  // namespace regatta::base
