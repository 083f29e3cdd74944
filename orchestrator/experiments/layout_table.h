// An experiment's runs as a table of its layouts, with a published one beside it.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "orchestrator/experiments/run_figures.h"

namespace regatta::orchestrator::experiments {

// In `figures` of a layout, means over the seeds of the runs that succeeded, with the sample
// standard deviation (n − 1; null of one run); null where no run says the figure:
//
// {"experiment": "4f2a91", "runs_planned": 6|null, "batch_size": 16, "device", "hosts": […],
//  "loss_samples": 960|null (after which the validation losses are),
//  "layouts": [{"name", "ranks", "data", "pipeline", "schedule": "1f1b"|null, "succeeded": 2,
//               "failed": ["id"…], "figures": {"samples_per_second": {"mean", "deviation",
//               "runs"}|null…}}…],
//  "runs": [{"id", "state", "layout", "seed", "place", "noise_scale_low", "noise_scale_high",
//            "error", "figures": {"samples_per_second": 71.2|null…}}…],
//  "agreement": {"noise_scale": true|false|null, "loss_difference": 0.0002|null, "sentences": […]},
//  "notes": ["…"…],
//  "published": {"what", "hardware", "layouts": [{"name", "figures": {…}}…], "note", "link"}}
//
// Layouts are in the order of the file, by their runs' tags.
[[nodiscard]] nlohmann::ordered_json layout_table(const std::string& experiment,
                                                  std::vector<ExperimentRun> runs);

}  // namespace regatta::orchestrator::experiments
