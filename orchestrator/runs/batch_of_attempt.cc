#include "orchestrator/runs/batch_of_attempt.h"

#include <algorithm>
#include <optional>

#include "base/text.h"
#include "trainer/contract/batch_schedule.h"

namespace regatta::orchestrator::runs {
namespace {

using trainer::contract::BatchChange;
using trainer::contract::BatchSchedule;

// Nothing where all steps have as many samples, or a store holds something else.
std::optional<BatchSchedule> schedule_of(const Attempt& attempt) {
  std::vector<BatchChange> changes;
  for (const std::string& text : attempt.batches) {
    const std::size_t colon = text.find(':');
    if (colon == std::string::npos) return std::nullopt;
    const auto step = base::parse_integer(text.substr(0, colon));
    const auto size = base::parse_integer(text.substr(colon + 1));
    if (!step || !size) return std::nullopt;
    changes.push_back({*step, *size});
  }
  return BatchSchedule::of(std::move(changes));
}

}  // namespace

std::vector<std::string> batch_texts(const trainer::contract::BatchChanges& changes) {
  std::vector<std::string> texts;
  for (const BatchChange& each : changes) {
    texts.push_back(std::to_string(each.step) + ":" + std::to_string(each.size));
  }
  return texts;
}

void add_batch(const trainer::contract::BatchRecord& change, Attempt* attempt) {
  std::optional<BatchSchedule> schedule = schedule_of(*attempt);
  if (!schedule || change.step <= schedule->changes().back().step ||
      change.size <= schedule->newest()) {
    return;
  }
  schedule->change({change.step, change.size});
  attempt->batches = batch_texts(schedule->changes());
}

std::int64_t samples_after(const Attempt& attempt, std::int64_t step) {
  const std::optional<BatchSchedule> schedule = schedule_of(attempt);
  if (!schedule) return step * attempt.batch_size;
  return schedule->samples_after(std::max<std::int64_t>(0, step));
}

std::int64_t batch_at(const Attempt& attempt, std::int64_t step) {
  const std::optional<BatchSchedule> schedule = schedule_of(attempt);
  return schedule ? schedule->batch_at(std::max<std::int64_t>(1, step)) : attempt.batch_size;
}

}  // namespace regatta::orchestrator::runs
