#include "trainer/run/target.h"

#include <string>

#include "base/error.h"
#include "base/wording.h"

namespace regatta::trainer::run {

std::optional<double> target_value(const contract::RunConfig& config,
                                   const std::optional<double>& baseline) {
  if (!config.target) return std::nullopt;
  if (config.target->value) return config.target->value;
  // Of accuracies, shares and correlations, whose best is 1.
  const double times = *config.target->times_baseline, guess = baseline.value_or(0);
  const std::string& metric = contract::metric_of(config);
  if (guess <= 0) {
    throw base::Error(base::Code::User,
                      "target.times_baseline: the best constant guess has no " + metric +
                          " on this data; say with target.value what the run is to reach");
  }
  if (times * guess > 1) {
    throw base::Error(base::Code::User, "target.times_baseline: " + base::short_number(times) +
                                            " times the best constant guess, whose " + metric +
                                            " is " + base::short_number(guess) +
                                            ", is more than 1; use less than " +
                                            base::short_number(1 / guess) + ", or target.value");
  }
  return times * guess;
}

bool meets(const contract::RunConfig& config, const std::optional<double>& target,
           const contract::EvalRecord& record) {
  if (!target) return false;
  const double value = contract::value_of(record, contract::metric_of(config));
  return contract::is_loss(config.target->metric) ? value <= *target : value >= *target;
}

}  // namespace regatta::trainer::run
