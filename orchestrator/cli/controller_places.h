// Where `regatta serve` has its store and its runs, for it and for commands that work without it.
#pragma once

#include <string>

#include "base/file_system.h"
#include "orchestrator/site/environment.h"

namespace regatta::orchestrator::cli {

// given: with --data; empty: the default. Absolute. Code::Operator where there is none.
[[nodiscard]] base::Path data_directory(const std::string& given,
                                        const site::ProgramEnvironment& environment);
// given: with --runs; empty: the default.
[[nodiscard]] base::Path runs_directory(const std::string& given,
                                        const site::ProgramEnvironment& environment,
                                        const base::Path& data);

}  // namespace regatta::orchestrator::cli
