// `regatta diff`: what a job or a run was made of, beside what stands there now.
#pragma once

#include <string>

#include "orchestrator/cli/commands.h"

namespace regatta::orchestrator::cli {

struct DiffOptions {
  std::string run;   // a job's number, a frozen tree's name, or a run's id or name
  std::string file;  // a run file to compare the run's own with; empty: none
  bool names_only = false;
};
// 0 where nothing has changed, 1 where something has. Code::NotFound where nothing was frozen.
int diff(const ClientOptions& client, const DiffOptions& options,
         const site::ProgramEnvironment& environment);

}  // namespace regatta::orchestrator::cli
