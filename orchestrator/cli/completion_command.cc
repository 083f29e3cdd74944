#include <iostream>

#include "orchestrator/cli/commands.h"
#include "orchestrator/cli/completion_script.h"

namespace regatta::orchestrator::cli {
namespace {

class Completion : public Command {
 public:
  explicit Completion(const Program& program)
      : Command({"completion",
                 Group::Controller,
                 "print a completion script for a shell",
                 {"completion bash", "completion zsh", "completion fish"}}),
        program_(program) {}

  void add_options(OptionList& options) override {
    options
        .choose("shell", &shell_,
                {{"bash", Shell::Bash}, {"zsh", Shell::Zsh}, {"fish", Shell::Fish}},
                "the shell that is to complete")
        .is_required = true;
  }

  int run() override {
    const auto commands = completed_commands(all_commands(program_));
    std::cout << (shell_ == Shell::Bash  ? bash_completion(commands)
                  : shell_ == Shell::Zsh ? zsh_completion(commands)
                                         : fish_completion(commands));
    return 0;
  }

 private:
  enum class Shell { Bash, Zsh, Fish };
  Program program_;
  Shell shell_ = Shell::Bash;
};

}  // namespace

std::unique_ptr<Command> completion_command(const Program& program) {
  return std::make_unique<Completion>(program);
}

}  // namespace regatta::orchestrator::cli
