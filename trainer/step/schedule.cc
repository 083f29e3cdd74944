#include "trainer/step/schedule.h"

#include <algorithm>
#include <cmath>

namespace regatta::trainer::step {

double learning_rate(const contract::OptimizerConfig& config, std::int64_t steps,
                     std::int64_t step) {
  if (step <= config.warmup_steps && config.warmup_steps > 0) {
    return config.learning_rate * static_cast<double>(step) /
           static_cast<double>(config.warmup_steps);
  }
  if (config.schedule == contract::ScheduleKind::Constant) return config.learning_rate;
  const std::int64_t end = config.decay_steps > 0 ? config.decay_steps : steps;
  const auto length = static_cast<double>(std::max<std::int64_t>(1, end - config.warmup_steps));
  // Of the decay's steps before this one: the first still has the full rate.
  const auto done = static_cast<double>(step - 1 - config.warmup_steps);
  const double progress = std::min(1.0, done / length);
  const double power = config.schedule == contract::ScheduleKind::Polynomial ? config.power : 1.0;
  return config.end_learning_rate +
         (config.learning_rate - config.end_learning_rate) * std::pow(1.0 - progress, power);
}

}  // namespace regatta::trainer::step
