// The command line of `regatta`, whatever its commands are.
#pragma once

#include <string>
#include <vector>

#include "orchestrator/cli/command.h"

namespace regatta::orchestrator::cli {

constexpr int kUsageError = 2;  // exit code: the command line is wrong, and nothing was done

// What a command line asks for: one of the three.
struct ParsedCommandLine {
  Command* command = nullptr;  // to be run; its options are set
  std::string output;          // help or the version, for stdout
  std::string error;           // for stderr, one line: what was found, where, what to do
};

// words: those after the program's name. Each of the commands can be parsed for once.
[[nodiscard]] ParsedCommandLine parse_command_line(const Commands& commands,
                                                   const std::vector<std::string>& words,
                                                   const Program& program);

// Parses the words that follow the program's name and runs the command; the exit code of the
// program. Throws base::Error.
int run_command_line(const std::string& program_name, std::vector<std::string> words,
                     const Program& program);

}  // namespace regatta::orchestrator::cli
