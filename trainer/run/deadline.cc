#include "trainer/run/deadline.h"

#include <algorithm>

namespace regatta::trainer::run {

bool Deadline::is_due(double now) {
  if (before_ >= 0) {
    steps_[next_] = now - before_;
    next_ = (next_ + 1) % steps_.size();
  }
  before_ = now;
  const double step = *std::max_element(steps_.begin(), steps_.end());
  return at_ - now < 2 * (save_ + step);
}

}  // namespace regatta::trainer::run
