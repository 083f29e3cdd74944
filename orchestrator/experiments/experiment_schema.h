// A run file with a section `experiment` as a JSON Schema (2020-12), for editors. What depends on
// the rest of the file (whether it has layers enough) is not in it: parse_parallel_experiment()
// says that.
#pragma once

#include <string>

namespace regatta::orchestrator::experiments {

[[nodiscard]] std::string experiment_file_schema();

}  // namespace regatta::orchestrator::experiments
