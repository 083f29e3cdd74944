// The keys of run files.
#pragma once

#include <string>
#include <vector>

namespace regatta::orchestrator::sweeps {

// Those of run_file_schema() that have a value, and are neither a mapping, a list of mappings nor
// an older spelling: "optimizer.learning_rate". Without `name`, by which a run is called.
[[nodiscard]] std::vector<std::string> run_file_keys();

}  // namespace regatta::orchestrator::sweeps
