#include "orchestrator/sweeps/settings.h"

namespace regatta::orchestrator::sweeps {

std::vector<std::int64_t> rung_budgets(const SweepSettings& settings) {
  if (settings.method != SweepMethod::Asha) return {settings.max_budget};
  std::vector<std::int64_t> budgets{settings.min_budget};
  while (budgets.back() <= settings.max_budget / settings.factor) {
    budgets.push_back(budgets.back() * settings.factor);
  }
  return budgets;
}

const std::vector<std::string>& method_names() {
  static const std::vector<std::string> names{"grid", "random", "asha", "tpe"};
  return names;
}

const std::vector<std::string>& objective_names() {
  static const std::vector<std::string> names{"metric", "time_to_accuracy", "goodput"};
  return names;
}

}  // namespace regatta::orchestrator::sweeps
