// Options of the command line that take one of a few words.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/text.h"

namespace regatta::orchestrator::cli {

// A word of the command line, and what it means.
template <typename Value>
using Choices = std::vector<std::pair<std::string, Value>>;

// Adds an option that sets *value to what its word means. Help shows the words, and another word is
// refused with "--output is 'yaml'; use text or json". (CLI11's own transformer shows the numbers
// behind an enumeration.)
template <typename Value>
CLI::Option* add_choice(CLI::App* command, const std::string& names, Value* value,
                        const Choices<Value>& choices, const std::string& help = "") {
  std::vector<std::string> words;
  for (const auto& choice : choices) words.push_back(choice.first);
  const std::string name = "--" + names.substr(names.rfind("--") + 2);
  const auto choose = [value, choices, words, name](const std::string& word) {
    for (const auto& [known, meaning] : choices) {
      if (word != known) continue;
      *value = meaning;
      return;
    }
    const std::vector<std::string> first(words.begin(), words.end() - 1);
    throw CLI::ValidationError(name + " is '" + word + "'; use " + base::join(first, ", ") +
                               (first.empty() ? "" : " or ") + words.back());
  };
  CLI::Option* const option = command->add_option_function<std::string>(names, choose, help);
  for (const auto& [word, meaning] : choices) {
    if (meaning == *value) option->default_str(word);
  }
  return option->type_name(base::join(words, "|"));
}

}  // namespace regatta::orchestrator::cli
