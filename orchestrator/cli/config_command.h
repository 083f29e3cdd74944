// `regatta config show`: what a run file, the user's file and the site's come to, and which of them
// says what. Needs no controller.
#pragma once

#include <string>

#include "orchestrator/cli/commands.h"

namespace regatta::orchestrator::cli {

struct ConfigOptions {
  std::string file;     // a run file; "-": stdin; empty: only what the files of defaults say
  bool origin = false;  // beside each value, which file has it
  Secrets secrets = Secrets::Hidden;
  Format format = Format::Text;
};
int show_config(const ConfigOptions& options, const site::ProgramEnvironment& environment);

}  // namespace regatta::orchestrator::cli
