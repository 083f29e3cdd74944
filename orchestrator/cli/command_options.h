// What a command takes on the command line, as data: cli.cc parses by it, and help, messages and
// tests read the rest.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace regatta::orchestrator::cli {

struct NumberRange {
  double low = 0;
  double high = 0;
};

// What a value names, for a shell that completes it.
enum class ValueKind {
  Any,
  Run,       // its id or name
  RunFirst,  // of several words, the first is a run; another may be anything
  RunFile,   // a file, most often *.yaml or *.json
  File,
  Directory,
  Sweep,  // its id or name
  Experiment,
};

// An option, a flag, or a word without dashes.
struct Option {
  // Where the parser writes, or what it calls. A list of texts takes an option as often as it is
  // given, and without dashes all words; one of numbers takes "1,2,4". A value that is not zero or
  // empty is a default, and help shows it.
  using Target =
      std::variant<bool*, int*, double*, std::optional<double>*, std::optional<std::uint64_t>*,
                   std::string*, std::vector<int>*, std::vector<std::string>*,
                   std::function<void()>, std::function<void(const std::string&)>>;

  std::string names;  // "-o,--output"; without dashes it is a word's place, such as "file"
  Target target;
  std::string help;
  std::string type{};                  // what help shows for a value; empty: by the target
  std::string default_text{};          // of a function, which has no value to show
  std::vector<std::string> choices{};  // the words that are allowed; empty: any
  std::vector<std::string> offered{};  // words that completion offers where any is allowed
  std::optional<NumberRange> range{};
  bool is_required = false;
  bool is_hidden = false;  // help leaves it out
  ValueKind kind = ValueKind::Any;

  // "--output", "file": what messages call it.
  [[nodiscard]] std::string name() const {
    const std::size_t dashes = names.rfind("--");
    return dashes == std::string::npos ? names : names.substr(dashes);
  }
};

// A word of the command line, and what it means.
template <typename Value>
using Choices = std::vector<std::pair<std::string, Value>>;

class OptionList {
 public:
  // What comes back may be completed until the next call. The target lives until the command ran.
  Option& add(std::string names, Option::Target target, std::string help) {
    return options_.emplace_back(Option{std::move(names), std::move(target), std::move(help)});
  }

  // The same, where the value names something.
  Option& add(std::string names, ValueKind kind, Option::Target target, std::string help) {
    Option& option = add(std::move(names), std::move(target), std::move(help));
    option.kind = kind;
    return option;
  }

  // An option that sets *value to what its word means. Another word is refused with
  // "--output is 'yaml'; use text or json".
  template <typename Value>
  Option& choose(std::string names, Value* value, const Choices<Value>& meanings,
                 std::string help) {
    const auto set = [value, meanings](const std::string& word) {
      for (const auto& [known, meaning] : meanings) {
        if (word == known) *value = meaning;
      }
    };
    Option& option =
        add(std::move(names), std::function<void(const std::string&)>(set), std::move(help));
    for (const auto& [word, meaning] : meanings) {
      option.choices.push_back(word);
      if (meaning == *value) option.default_text = word;
    }
    return option;
  }

  [[nodiscard]] const std::vector<Option>& all() const { return options_; }

 private:
  std::vector<Option> options_;
};

}  // namespace regatta::orchestrator::cli
