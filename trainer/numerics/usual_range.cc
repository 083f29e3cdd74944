#include "trainer/numerics/usual_range.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/statistics.h"

namespace regatta::trainer::numerics {

std::optional<UsualRange::Judged> UsualRange::judge(double value) {
  if (!std::isfinite(value) || value <= 0) return std::nullopt;
  const double logarithm = std::log(value);
  std::optional<Judged> judged;
  if (logarithms_.size() >= kLeast) {
    std::vector<double> values(logarithms_.begin(), logarithms_.end());
    const double middle = base::median(values);
    const double spread = std::max(kLeastSpread, base::robust_deviation(values));
    const double above = logarithm - middle;
    judged = {std::exp(middle), above / spread,
              above > kManySpreads * spread && above > std::log(kManyTimes)};
  }
  logarithms_.push_back(logarithm);
  if (logarithms_.size() > kMost) logarithms_.pop_front();
  return judged;
}

}  // namespace regatta::trainer::numerics
