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
constexpr int kMost = 1000;            // of what is listed, the newest

// What the controller lists that words may mean.
struct Things {
  const char* plural;  // of the address, and of the list in the answer
  bool has_names;      // by which one is found, too
};
constexpr Things kThings[] = {{"runs", true}, {"sweeps", true}, {"experiments", false}};

// Whether one may be offered by this word: letters, digits and "._-" only, without a dash first,
// so that it means nothing else to a shell or to a command.
bool is_plain_word(const std::string& word) {
  constexpr const char* kPlain =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
  return !word.empty() && word.front() != '-' &&
         word.find_first_not_of(kPlain) == std::string::npos;
}

// Ids, and names that only one has.
std::set<std::string> words_for(const Json& list, const Things& things) {
  std::set<std::string> words;
  std::map<std::string, int> names;
  for (const Json& each : list) {
    words.insert(each.value("id", ""));
    if (things.has_names) ++names[each.value("name", "")];
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
    for (const Things& each : kThings) {
      const auto choose = [this, &each] { things_ = &each; };
      options.add(std::string("--") + each.plural, std::function<void()>(choose), "").is_hidden =
          true;
    }
  }

  int run() override {
    if (things_ != nullptr) return print_words(*things_);
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
  int print_words(const Things& things) {
    try {
      const Client client(controller_address(program_.environment), kTimeoutSeconds);
      const std::string plural = things.plural;
      const Json answer = client.get("/" + plural + "?limit=" + std::to_string(kMost));
      for (const std::string& word : words_for(answer.at(plural), things)) {
        if (is_plain_word(word)) std::cout << word << "\n";
      }
    } catch (const std::exception&) {
    }
    return 0;
  }

  Program program_;
  std::string shell_;
  const Things* things_ = nullptr;  // print words for these instead
};

}  // namespace

std::unique_ptr<Command> completion_command(const Program& program) {
  return std::make_unique<Completion>(program);
}

}  // namespace regatta::orchestrator::cli
