// `regatta help COMMAND`: the same as `regatta COMMAND --help`.
#include <iostream>

#include "orchestrator/cli/cli.h"
#include "orchestrator/cli/commands.h"
#include "orchestrator/cli/usage_error.h"

namespace regatta::orchestrator::cli {
namespace {

class Help : public Command {
 public:
  explicit Help(const Program& program)
      : Command({"help",
                 Group::Controller,
                 "show what a command does and takes, as --help after it does",
                 {"help", "help ls", "help ckpt verify"}}),
        program_(program) {}

  void add_options(OptionList& options) override {
    Option& command =
        options.add("command", &words_, "a command, and one of its commands; without: all");
    command.type = "COMMAND";
#define REGATTA_NAME(name) #name,
    command.offered = {REGATTA_COMMANDS(REGATTA_NAME)};
#undef REGATTA_NAME
  }

  int run() override {
    std::vector<std::string> words = words_;
    words.emplace_back("--help");
    const Commands commands = all_commands(program_);
    const ParsedCommandLine parsed = parse_command_line(commands, words, program_);
    if (parsed.command != nullptr) return parsed.command->run();  // another program has the words
    if (!parsed.error.empty()) throw UsageError(parsed.error);
    std::cout << parsed.output << std::flush;
    return 0;
  }

 private:
  Program program_;
  std::vector<std::string> words_;
};

}  // namespace

std::unique_ptr<Command> help_command(const Program& program) {
  return std::make_unique<Help>(program);
}

}  // namespace regatta::orchestrator::cli
