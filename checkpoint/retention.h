// Which checkpoints go when new ones have come.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/store.h"

namespace regatta::checkpoint {

struct Candidate {
  std::string name;
  std::int64_t step = 0;
  std::optional<double> metric;
  bool pinned = false;  // never removed, and not counted
};

enum class KeepBest { No, Highest, Lowest };  // accuracy: highest; loss: lowest

struct RetentionPolicy {
  int keep_last = 3;                  // by step; below 1 counts as 1, so the newest always stays
  KeepBest keep_best = KeepBest::No;  // one more: the best metric, the newest among equals
};

// The names to remove, oldest first. Pure: the order of `candidates` does not matter, all of which
// must be valid checkpoints.
[[nodiscard]] std::vector<std::string> plan_retention(const std::vector<Candidate>& candidates,
                                                      const RetentionPolicy& policy);

// Removes what the policy does not keep, and the unfinished and damaged directories of earlier
// executions that are older than the newest valid checkpoint (a later one may still be being
// written). Returns what was removed.
std::vector<std::string> apply_retention(CheckpointStore& store, const RetentionPolicy& policy,
                                         const std::string& execution);

}  // namespace regatta::checkpoint
