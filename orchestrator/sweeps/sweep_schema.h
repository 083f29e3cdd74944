// A run file with a section `sweep` as a JSON Schema (2020-12), for editors. What depends on other
// keys (the points of a grid, rungs that end at the maximum) is not in it: read_sweep() says that.
#pragma once

#include <string>

namespace regatta::orchestrator::sweeps {

[[nodiscard]] std::string sweep_file_schema();

}  // namespace regatta::orchestrator::sweeps
