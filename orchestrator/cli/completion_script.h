// Scripts by which shells complete the words of `regatta`.
#pragma once

#include <string>

#include "orchestrator/cli/command_outline.h"

namespace regatta::orchestrator::cli {

// program: program_outline(). What a script offers of the table is in the script; runs it asks for
// with `regatta completion --runs`, and of the answer it offers plain words only.
[[nodiscard]] std::string bash_completion(const Outline& program);
[[nodiscard]] std::string fish_completion(const Outline& program);
[[nodiscard]] std::string zsh_completion(const Outline& program);

}  // namespace regatta::orchestrator::cli
