#pragma once

#include "base/clock.h"
#include "base/file_system.h"
#include "trainer/contract/exit_code.h"
#include "trainer/contract/run_directory.h"
#include "trainer/make_device.h"

namespace regatta::trainer {

struct TrainingRunOptions {
  int threads = 0;  // overrides the run file's; 0: as it says
  DevicePlace place;
};

// One attempt at a run, from its directory: takes the next attempt and epoch, resumes from the
// newest good checkpoint, trains until the target, the last step or a stop signal, and journals
// everything. What goes wrong is written as the journal's end record and to the log, and comes back
// as exit code.
[[nodiscard]] ExitCode train(base::FileSystem& files, base::Clock& clock,
                             const RunDirectory& directory, const TrainingRunOptions& options);

}  // namespace regatta::trainer
