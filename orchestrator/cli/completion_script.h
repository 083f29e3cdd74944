// Completion scripts for shells, made of the table of commands. Pure.
#pragma once

#include <string>
#include <vector>

#include "orchestrator/cli/command.h"

namespace regatta::orchestrator::cli {

struct CompletedOption {
  std::vector<std::string> names;  // "-o", "--output"
  std::string help;
  bool takes_value = false;
  std::vector<std::string> choices;  // of the value; empty: any
};
// What may follow the words of `path`.
struct CompletedCommand {
  std::string path;  // "ckpt verify"; empty: the program itself
  std::string summary;
  std::vector<std::pair<std::string, std::string>> parts;  // fixed words that may follow, and why
  std::vector<CompletedOption> options;
  bool takes_run = false;  // a word of it is a run
};

// The program first. add_options() of every command is called.
[[nodiscard]] std::vector<CompletedCommand> completed_commands(const Commands& commands);

[[nodiscard]] std::string bash_completion(const std::vector<CompletedCommand>& commands);
[[nodiscard]] std::string zsh_completion(const std::vector<CompletedCommand>& commands);
[[nodiscard]] std::string fish_completion(const std::vector<CompletedCommand>& commands);

}  // namespace regatta::orchestrator::cli
