// The checkpoint that somebody names who reads one from outside of a run.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/file_system.h"
#include "checkpoint/held_mark.h"
#include "checkpoint/store.h"

namespace regatta::trainer::run {

// As messages have it.
[[nodiscard]] std::string shown(const base::Path& path);

struct CheckpointPlace {
  base::Path run;
  std::string name;  // empty: its newest
};
// Of a run directory, or RUN/checkpoints/step-…. Throws Code::NotFound or User for anything else.
[[nodiscard]] CheckpointPlace checkpoint_place(base::FileSystem& files, const base::Path& given);

struct ChosenCheckpoint {
  checkpoint::Manifest manifest;
  base::Path path;
  std::unique_ptr<checkpoint::HeldMark> mark;  // of `reader`; null where none could be written
  std::vector<std::string> skipped;            // newer ones, and why
};
// The one of that name, or the newest, of those that are whole, byte for byte, and for which
// `check_fit` does not throw. Those skipped are logged; throws why the named or the newest one
// is none.
[[nodiscard]] ChosenCheckpoint choose_checkpoint(
    base::FileSystem& files, const base::Clock& clock, const checkpoint::CheckpointStore& store,
    const std::string& name, const std::string& reader,
    const std::function<void(const checkpoint::Entry&)>& check_fit);

}  // namespace regatta::trainer::run
