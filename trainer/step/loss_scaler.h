// Dynamic loss scaling for float16 (Micikevicius et al., "Mixed precision training", 2018): the
// loss is multiplied by a factor so that small gradients do not become zero, the optimizer divides
// by it, and a step whose gradients overflow is skipped and halves the factor.
#pragma once

#include <cstdint>

#include "trainer/contract/run_config.h"

namespace regatta::trainer::step {

class LossScaler {
 public:
  // Other precisions than Float16 have the factor 1 for ever.
  explicit LossScaler(contract::Precision precision)
      : dynamic_(precision == contract::Precision::Float16), factor_(dynamic_ ? kFirst : 1.0) {}
  LossScaler(contract::Precision precision, double factor, std::int64_t good_steps)
      : LossScaler(precision) {
    if (!dynamic_ || factor <= 0) return;
    factor_ = factor;
    good_steps_ = good_steps;
  }

  [[nodiscard]] bool is_dynamic() const { return dynamic_; }
  [[nodiscard]] double factor() const { return factor_; }
  [[nodiscard]] std::int64_t good_steps() const { return good_steps_; }  // since the last change

  // After a step: doubles after kPatience steps without overflow, halves after one with. False when
  // the factor cannot fall further, or when it is not dynamic and the gradients are not finite: the
  // loss itself diverges.
  [[nodiscard]] bool observe(bool finite) {
    if (finite) {
      if (dynamic_ && ++good_steps_ == kPatience) {
        good_steps_ = 0;
        if (factor_ < kMost) factor_ *= 2;
      }
      return true;
    }
    good_steps_ = 0;
    if (!dynamic_ || factor_ <= 1) return false;
    factor_ /= 2;
    return true;
  }

 private:
  static constexpr double kFirst = 65536;
  static constexpr double kMost = 16777216;
  static constexpr std::int64_t kPatience = 2000;

  bool dynamic_;
  double factor_;
  std::int64_t good_steps_ = 0;
};

}  // namespace regatta::trainer::step
