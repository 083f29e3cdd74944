// `regatta doctor`: reads what the user names and prints what the doctor finds.
#pragma once

#include <string>
#include <vector>

#include "orchestrator/cli/commands.h"

namespace regatta::orchestrator::cli {

struct DoctorOptions {
  std::vector<std::string> files;  // any that topology/sources/read_any.h knows; "-": stdin
  std::string job;                 // a run file, for the variables that it sets; empty: none
  bool list = false;               // only say what is checked
  Format format = Format::Text;
};

// 0: nothing wrong, or notes only; 1: warnings or errors. Throws base::Error for files that cannot
// be read.
int doctor(const DoctorOptions& options, const site::ProgramEnvironment& environment);

}  // namespace regatta::orchestrator::cli
