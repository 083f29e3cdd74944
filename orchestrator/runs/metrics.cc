#include "orchestrator/runs/metrics.h"

#include "trainer/contract/run_config.h"

namespace regatta::orchestrator::runs {

using trainer::contract::TargetMetric;

const std::vector<std::string>& metric_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (int i = 0; i <= static_cast<int>(TargetMetric::Loss); ++i) {
      all.push_back(trainer::contract::name_of(static_cast<TargetMetric>(i)));
    }
    return all;
  }();
  return names;
}

Better better_of(std::string_view metric) {
  const std::vector<std::string>& names = metric_names();
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i] == metric) {
      return trainer::contract::is_loss(static_cast<TargetMetric>(i)) ? Better::Lower
                                                                      : Better::Higher;
    }
  }
  return Better::Higher;
}

}  // namespace regatta::orchestrator::runs
