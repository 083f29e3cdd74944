// Which checkpoints go when new ones have come, and their removal.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "checkpoint/store.h"

namespace regatta::checkpoint {

struct Candidate {
  std::string name;
  std::int64_t step = 0;
  std::optional<double> metric;
  Status status = Status::Valid;
  std::string execution;   // that wrote it
  std::int64_t epoch = 0;  // this and the next: where a manifest says
  std::vector<Rollback> rollbacks{};
  bool pinned = false;      // never removed, and not counted
  bool being_read = false;  // not removed now
  bool removed = false;     // has a tombstone: its removal began and did not end
};

enum class Better { Highest, Lowest };  // accuracy: highest; loss: lowest

struct RetentionPolicy {
  int keep_last = 3;            // by age; below 1 counts as 1, so the newest always stays
  int keep_best = 0;            // by the metric, the newer among equals; 0: none
  std::int64_t keep_every = 0;  // steps above 0 that it divides stay; 0: none
  Better better = Better::Highest;
  std::string metric{};  // values of another metric are not compared; empty: whatever there is
};

struct RetentionDecision {
  std::string name;
  std::int64_t step = 0;
  bool goes = false;
  // Why it stays ("latest 2 of 3", "best mlm_accuracy 0.41", "every 1000", "pinned", "being read"),
  // or why it goes (one reason).
  std::vector<std::string> reasons;
};

// One decision per candidate, newest first. Pure: the order of `candidates` does not matter, and
// once what goes has gone, nothing more goes. Of valid checkpoints one always stays. Unfinished and
// damaged ones go when they are older than the newest valid one, unfinished ones not of
// `execution`, the newest attempt, which may still be writing them; after a rollback its names go
// on after that. What the run has gone back beyond since is among the latest only where they are
// fewer than kept.
[[nodiscard]] std::vector<RetentionDecision> plan_retention(
    const std::vector<Candidate>& candidates, const RetentionPolicy& policy,
    const std::string& execution);

struct RetentionRound {
  std::string execution;   // of the newest attempt
  double utc_seconds = 0;  // now
  // Plan: removes nothing. Apply: trusts the manifests. Check: first reads the newest checkpoint
  // that claims to be valid, every byte, and the next one if that is damaged; what it finds is
  // noted (found_damage.h). Preview: reads and notes as Check, and removes nothing.
  enum class Mode { Plan, Apply, Check, Preview } mode = Mode::Apply;
  std::set<std::string> damaged{};  // known to be beside those noted, whatever their manifests say
};

struct RetentionOutcome {
  std::vector<RetentionDecision> decisions;  // newest first
  std::vector<std::string> removed;  // oldest first; those called off meanwhile are not here
};

// Decides on what `store` holds, with its pins and reading marks, and removes what goes: a
// tombstone first, then the look whether it was pinned meanwhile, then a rename to a name that no
// reader takes for a checkpoint, then its files. Finishes removals that were cut short. Links are
// not followed. On an error what was not removed yet is as it was.
RetentionOutcome apply_retention(base::FileSystem& files, CheckpointStore& store,
                                 const RetentionPolicy& policy, const RetentionRound& round);

}  // namespace regatta::checkpoint
