// The run that a request or a command means.
#pragma once

#include <string>

#include "orchestrator/store/store_reads.h"

namespace regatta::orchestrator::control {

// By its id, or by its name when only one run has it. Code::NotFound with a suggestion.
[[nodiscard]] runs::Run find_run(store::StoreReads& store, const std::string& name);

}  // namespace regatta::orchestrator::control
