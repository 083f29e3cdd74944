// Softmax of a few logits in double precision.
#pragma once

#include <algorithm>
#include <span>

#include "base/portable_math.h"

namespace regatta::trainer::tasks {

class Softmax {
 public:
  // At least one logit, all finite. Neither overflows nor loses small differences of large ones.
  explicit Softmax(std::span<const float> logits)
      : greatest_(*std::max_element(logits.begin(), logits.end())) {
    double sum = 0;
    for (const float logit : logits) sum += base::portable_exp(logit - greatest_);
    log_sum_ = base::portable_log(sum);
  }

  // −log of the probability of one of them: its cross-entropy where it is the label.
  [[nodiscard]] double cross_entropy(float logit) const { return log_sum_ + (greatest_ - logit); }
  [[nodiscard]] double probability(float logit) const {
    return base::portable_exp(-cross_entropy(logit));
  }

 private:
  double greatest_;
  double log_sum_ = 0;  // of exp(logit − greatest)
};

}  // namespace regatta::trainer::tasks
