// What was removed stays visible: one line per removal in removed.jsonl, written and synced before
// the removal begins, so that one cut short is known and finished by the next.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/file_system.h"

namespace regatta::checkpoint {

constexpr std::size_t kMostTombstones = 10'000;  // beyond that the older half is forgotten

struct Tombstone {
  std::string name;
  std::int64_t step = 0;
  double utc_seconds = 0;
  std::string why;
  bool kept = false;  // the removal was called off: the checkpoint had been pinned meanwhile
  // Of the round of retention that wrote it. Several rounds may be about to remove a checkpoint,
  // and each can call off only its own.
  std::string round{};
};

// The newest of each name; those called off are left out. Torn and foreign lines are passed over.
[[nodiscard]] std::map<std::string, Tombstone> read_tombstones(base::FileSystem& files,
                                                               const base::Path& checkpoints);

// Appends and syncs.
void add_tombstones(base::FileSystem& files, const base::Path& checkpoints,
                    const std::vector<Tombstone>& tombstones);

}  // namespace regatta::checkpoint
