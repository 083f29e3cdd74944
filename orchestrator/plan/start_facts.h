// What the model says of itself that a run is to begin with (`from`): read from its descriptions
// alone, whose sizes must be the run's. Its weights are for the trainer to look at.
#pragma once

#include <string>

#include "base/file_system.h"
#include "trainer/contract/run_config.h"

namespace regatta::orchestrator::plan {

// A run file's `from` that is a text alone is a path where it has a "/", and else a run. Code::User
// for a path that is not absolute.
void settle_short_start(trainer::contract::RunConfig* config);

// Throws Code::User or NotFound, in one line with the key at fault, where no run can begin with the
// model at from.path: nothing is there that could be opened (a Hugging Face directory, a TensorFlow
// checkpoint's prefix, a run directory with a whole checkpoint, or one of its checkpoints), or its
// sizes or its vocabulary are others. What the file system throws passes through.
void check_start(base::FileSystem& files, const trainer::contract::RunConfig& config);

}  // namespace regatta::orchestrator::plan
