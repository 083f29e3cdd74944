// The variables of this program's environment that it reads.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "base/file_system.h"

namespace regatta::orchestrator::site {

// The environment, read once by main.
struct ProgramEnvironment {
  std::optional<std::string> server;           // REGATTA_SERVER
  std::optional<std::string> token_file;       // REGATTA_TOKEN_FILE
  std::optional<std::string> runs;             // REGATTA_RUNS
  std::optional<std::string> state_home;       // XDG_STATE_HOME
  std::optional<std::string> home;             // HOME
  std::string path;                            // PATH
  base::Path program;                          // where this program lies
  std::map<std::string, std::string> whole{};  // all of it; what Slurm's commands see is chosen
};

}  // namespace regatta::orchestrator::site
