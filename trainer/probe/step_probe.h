// What one optimizer step of a run was made of: docs/formats/step_probe.md.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "base/clock.h"
#include "base/file_system.h"
#include "trainer/probe/replay.h"

namespace regatta::trainer::probe {

constexpr int kProbeFormat = 1;
constexpr int kMostProbedSamples = 4096;  // told one by one

// Replays the step and looks at it. Throws as Replay.
[[nodiscard]] nlohmann::ordered_json probe_step(base::FileSystem& files, const base::Clock& clock,
                                                const ReplayOptions& options);

}  // namespace regatta::trainer::probe
