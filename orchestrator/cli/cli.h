#pragma once

#include "orchestrator/cli/commands.h"

namespace regatta::orchestrator::cli {

// Parses the command line and runs the command; the exit code of the program (2 for wrong usage).
// Throws base::Error.
int run_command_line(int count, char** arguments, const site::ProgramEnvironment& environment);

}  // namespace regatta::orchestrator::cli
