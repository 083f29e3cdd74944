// The run that a request or a command means.
#pragma once

#include <string>

#include "orchestrator/store/store_reads.h"

namespace regatta::orchestrator::control {

// By its id, by its name when only one run has it, by a beginning of its id that is longer than its
// name and a dash when only one run's begins so, or "@last": the newest. Code::NotFound with a
// suggestion.
[[nodiscard]] runs::Run find_run(store::StoreReads& store, const std::string& name);

// Code::Conflict: "run ID " and why its state does not allow what is asked for.
[[noreturn]] void refuse(const runs::Run& run, const std::string& why);

}  // namespace regatta::orchestrator::control
