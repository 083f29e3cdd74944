#include "checkpoint/retention.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace regatta::checkpoint {
namespace {

bool older(const Candidate& a, const Candidate& b) {
  return a.step != b.step ? a.step < b.step : a.name < b.name;
}

const Candidate* best_of(const std::vector<Candidate>& oldest_first, KeepBest keep) {
  const Candidate* best = nullptr;
  if (keep == KeepBest::No) return best;
  for (const Candidate& candidate : oldest_first) {
    if (!candidate.metric || std::isnan(*candidate.metric)) continue;
    const bool better =
        best == nullptr || (keep == KeepBest::Highest ? *candidate.metric >= *best->metric
                                                      : *candidate.metric <= *best->metric);
    if (better) best = &candidate;
  }
  return best;
}

}  // namespace

std::vector<std::string> plan_retention(const std::vector<Candidate>& candidates,
                                        const RetentionPolicy& policy) {
  std::vector<Candidate> sorted = candidates;
  std::sort(sorted.begin(), sorted.end(), older);
  const Candidate* const best = best_of(sorted, policy.keep_best);
  std::vector<std::string> removed;
  int kept = 0;
  for (auto it = sorted.rbegin(); it != sorted.rend(); ++it) {
    if (it->pinned) continue;
    if (kept < std::max(policy.keep_last, 1)) {
      ++kept;
    } else if (&*it != best) {
      removed.push_back(it->name);
    }
  }
  std::reverse(removed.begin(), removed.end());
  return removed;
}

std::vector<std::string> apply_retention(CheckpointStore& store, const RetentionPolicy& policy,
                                         const std::string& execution) {
  std::vector<Candidate> valid;
  std::vector<Entry> broken;
  std::int64_t newest = -1;
  for (const Entry& entry : store.list()) {
    if (entry.status == Status::Unreadable) continue;  // it may be good again tomorrow
    if (entry.status != Status::Valid) {
      broken.push_back(entry);
      continue;
    }
    valid.push_back({entry.name, entry.step, entry.manifest->value, false});
    newest = std::max(newest, entry.step);
  }
  std::vector<std::string> removed = plan_retention(valid, policy);
  for (const Entry& entry : broken) {
    if (entry.step < newest && entry.execution != execution) removed.push_back(entry.name);
  }
  for (const std::string& name : removed) store.remove(name);
  return removed;
}

}  // namespace regatta::checkpoint
