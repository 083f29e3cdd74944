// Man pages of the program, in roff with the man macros.
#pragma once

#include <map>
#include <string>

#include "orchestrator/cli/command_outline.h"

namespace regatta::orchestrator::cli {

// The page of each file: "regatta.1", and "regatta-ckpt.1" of every command, which also describes
// the command's parts. program: program_outline(); version: "regatta 0.1.0".
[[nodiscard]] std::map<std::string, std::string> man_pages(const Outline& program,
                                                           const std::string& version);

}  // namespace regatta::orchestrator::cli
