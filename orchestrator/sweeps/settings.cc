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

}  // namespace regatta::orchestrator::sweeps
