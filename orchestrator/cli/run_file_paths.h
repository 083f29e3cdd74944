// Paths of a run file that is sent to a controller, which stands at another place.
#pragma once

#include "base/file_system.h"
#include "orchestrator/sweeps/settings.h"
#include "trainer/contract/run_config.h"

namespace regatta::orchestrator::cli {

// Relative ones of the datasets are relative to `folder`, where the file lies.
void make_data_absolute(const base::Path& folder, trainer::contract::RunConfig* config);
// What a run begins with, beside `folder`: a text alone is a path where there is such a file, or
// where it has a "/"; else it is a run of the controller.
void settle_start(const base::Path& folder, trainer::contract::StartConfig* from);

// Of a sweep's parameters that are paths as of those of the run.
void make_paths_absolute(const base::Path& folder, sweeps::Sweep* sweep);

}  // namespace regatta::orchestrator::cli
