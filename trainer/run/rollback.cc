#include "trainer/run/rollback.h"

#include <algorithm>
#include <tuple>

namespace regatta::trainer::run {
std::int64_t skipped_steps(const std::vector<Rollback>& rollbacks) {
  std::int64_t steps = 0;
  for (const Rollback& each : rollbacks) steps += each.from_step - each.to_step;
  return steps;
}

std::vector<std::string> rollback_targets(const std::vector<checkpoint::Entry>& checkpoints,
                                          const std::vector<Rollback>& rollbacks,
                                          std::int64_t diverged_at, std::int64_t every) {
  std::vector<const checkpoint::Entry*> targets;
  for (const checkpoint::Entry& entry : checkpoints) {
    if (entry.status == checkpoint::Status::Valid && entry.step < diverged_at &&
        checkpoint::came_through(entry.step, entry.manifest->rollbacks, rollbacks)) {
      targets.push_back(&entry);
    }
  }
  const auto rank = [&](const checkpoint::Entry* entry) {
    // Written before it or, by an interruption, right after it: they are one state.
    const bool was_tried = !rollbacks.empty() && entry->step == rollbacks.back().to_step;
    const bool is_due = entry->step % every == 0;
    return std::tuple(was_tried, !is_due, -entry->step);
  };
  std::stable_sort(targets.begin(), targets.end(),
                   [&](const auto* a, const auto* b) { return rank(a) < rank(b); });
  std::vector<std::string> names;
  for (const checkpoint::Entry* entry : targets) names.push_back(entry->name);
  return names;
}

}  // namespace regatta::trainer::run
