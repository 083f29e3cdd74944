#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "orchestrator/cli/client_options.h"
#include "orchestrator/cli/commands.h"
#include "orchestrator/cli/completion_script.h"
#include "orchestrator/cli/usage_error.h"

namespace regatta::orchestrator::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kTimeoutSeconds = 1;  // a shell waits
constexpr int kMostRuns = 1000;        // the newest

// Whether a run may be offered by this word: letters, digits and "._-" only, without a dash first,
// so that it means nothing else to a shell or to a command.
bool is_plain_word(const std::string& word) {
  constexpr const char* kPlain =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
  return !word.empty() && word.front() != '-' &&
         word.find_first_not_of(kPlain) == std::string::npos;
}

// Ids, and names that only one run has.
std::set<std::string> words_for_runs(const Json& runs) {
  std::set<std::string> words;
  std::map<std::string, int> names;
  for (const Json& run : runs) {
    words.insert(run.value("id", ""));
    ++names[run.value("name", "")];
  }
  for (const auto& [name, count] : names) {
    if (count == 1) words.insert(name);
  }
  return words;
}

class Completion : public Command {
 public:
  explicit Completion(const Program& program)
      : Command({"completion",
                 Group::Controller,
                 "print the script by which a shell completes commands, options and runs",
                 {"completion bash", "completion zsh", "completion fish"}}),
        program_(program) {}

  void add_options(OptionList& options) override {
    Option& shell = options.add(
        "shell",
        std::function<void(const std::string&)>([this](const std::string& word) { shell_ = word; }),
        "the shell: bash, zsh or fish");
    shell.choices = {"bash", "zsh", "fish"};
    // For the scripts, which choose of them.
    options.add("--runs", &runs_, "").is_hidden = true;
  }

  int run() override {
    if (runs_) return print_runs();
    if (shell_.empty()) {
      throw UsageError("no shell is named; use bash, zsh or fish");
    }
    const Outline outline = program_outline(all_commands(program_));
    std::cout << (shell_ == "bash"  ? bash_completion(outline)
                  : shell_ == "zsh" ? zsh_completion(outline)
                                    : fish_completion(outline));
    return 0;
  }

 private:
  // Whatever fails, a shell completes nothing and shows no message amid the line.
  int print_runs() {
    try {
      const Client client(controller_address(program_.environment), kTimeoutSeconds);
      const Json runs = client.get("/runs?limit=" + std::to_string(kMostRuns)).at("runs");
      for (const std::string& word : words_for_runs(runs)) {
        if (is_plain_word(word)) std::cout << word << "\n";
      }
    } catch (const std::exception&) {
    }
    return 0;
  }

  Program program_;
  std::string shell_;
  bool runs_ = false;  // print words for runs instead
};

}  // namespace

std::unique_ptr<Command> completion_command(const Program& program) {
  return std::make_unique<Completion>(program);
}

}  // namespace regatta::orchestrator::cli
