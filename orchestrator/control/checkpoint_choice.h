// The checkpoint of a run that somebody means who begins another run with it.
#pragma once

#include <string>

#include "base/clock.h"
#include "base/file_system.h"
#include "checkpoint/store.h"

namespace regatta::orchestrator::control {

struct CheckpointWish {
  std::string run;     // its id, for messages
  std::string metric;  // that it is judged by
  // A name; a step; "latest" or "newest", of those that nobody found damaged; or "best", the newer
  // among equals, by the values of `metric`.
  std::string asked;
};
// Whether a named one is damaged, who reads it finds out. Code::NotFound and Code::User with key
// "checkpoint" where there is none of these that is whole by its manifest, or several.
[[nodiscard]] checkpoint::Entry choose_checkpoint(base::FileSystem& files,
                                                  const base::Path& run_directory,
                                                  const CheckpointWish& wish);

// "RUN", "RUN@newest", "RUN@best", "RUN@STEP": Code::User, key "from.run", for a word with nothing
// behind its "@".
struct NamedStart {
  std::string run, checkpoint;
};
[[nodiscard]] NamedStart parse_start(const std::string& text);

// A checkpoint that a run begins with stays until that has one of its own: by a pin that names the
// run, unless it was pinned already. Code::NotFound when it is not there (any more).
void pin_start(base::FileSystem& files, const base::Path& checkpoint, const std::string& run,
               double utc_seconds);
// Takes that pin away; no other. successor: another run that begins with it, whose pin it becomes;
// empty: there is none.
void unpin_start(base::FileSystem& files, const base::Path& checkpoint, const std::string& run,
                 const std::string& successor, double utc_seconds);

}  // namespace regatta::orchestrator::control
