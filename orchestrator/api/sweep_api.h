// The routes below /sweeps (docs/api.md).
#pragma once

#include "orchestrator/api/routes.h"
#include "orchestrator/control/sweep_driver.h"

namespace regatta::orchestrator::api {

// sweeps: null where there are none, and then none can be found.
[[nodiscard]] Response list_sweeps(control::SweepDriver* sweeps, const Call& call);
[[nodiscard]] Response submit_sweep(control::SweepDriver* sweeps, const Call& call);
[[nodiscard]] Response show_sweep(control::SweepDriver* sweeps, const std::string& name);
[[nodiscard]] Response sweep_trials(control::SweepDriver* sweeps, const std::string& name);
[[nodiscard]] Response stop_sweep(control::SweepDriver* sweeps, const Call& call);
[[nodiscard]] Response remove_sweep(control::SweepDriver* sweeps, const Call& call);

}  // namespace regatta::orchestrator::api
