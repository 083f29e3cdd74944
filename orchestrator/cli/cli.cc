#include "orchestrator/cli/cli.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <sstream>
#include <string_view>

#include "base/file_system.h"
#include "base/text.h"
#include "base/wording.h"
#include "orchestrator/cli/commands.h"
#include "orchestrator/cli/usage_error.h"

namespace regatta::orchestrator::cli {
namespace {

std::string alternatives(const std::vector<std::string>& words) {
  const std::vector<std::string> first(words.begin(), words.end() - 1);
  return base::join(first, ", ") + (first.empty() ? "" : " or ") + words.back();
}

std::string refusal(const Option& option, const std::string& given, const std::string& use) {
  return option.name() + " is '" + given + "'; use " + use;
}

// CLI::Range takes NaN for any number.
CLI::Validator check_of(const Option& option, const NumberRange& range) {
  const std::string text =
      base::short_number(range.low, 15) + " to " + base::short_number(range.high, 15);
  return {[option, range, text](const std::string& given) {
            char* end = nullptr;
            const double value = std::strtod(given.c_str(), &end);
            const bool is_number = !given.empty() && *end == '\0';
            const bool is_inside = is_number && value >= range.low && value <= range.high;
            return is_inside ? "" : refusal(option, given, text);
          },
          text};
}

// Adds an option by what its target is.
class Adder {
 public:
  Adder(CLI::App& app, const Option& option) : app_(app), option_(option) {}

  CLI::Option* operator()(bool* value) const {
    return app_.add_flag(option_.names, *value, option_.help);
  }
  CLI::Option* operator()(const std::function<void()>& call) const {
    return app_.add_flag_callback(option_.names, call, option_.help);
  }
  CLI::Option* operator()(const std::function<void(const std::string&)>& call) const {
    const auto checked = [call, option = option_](const std::string& word) {
      const auto& choices = option.choices;
      if (!choices.empty() && std::find(choices.begin(), choices.end(), word) == choices.end()) {
        throw CLI::ValidationError(refusal(option, word, alternatives(choices)));
      }
      call(word);
    };
    CLI::Option* const added =
        app_.add_option_function<std::string>(option_.names, checked, option_.help);
    if (!option_.choices.empty()) added->type_name(base::join(option_.choices, "|"));
    return added->default_str(option_.default_text);
  }
  CLI::Option* operator()(std::vector<std::string>* values) const {
    CLI::Option* const added = app_.add_option(option_.names, *values, option_.help);
    return added->get_positional() ? added : added->allow_extra_args(false);
  }
  CLI::Option* operator()(std::vector<int>* values) const {
    return app_.add_option(option_.names, *values, option_.help)
        ->delimiter(',')
        ->capture_default_str();
  }
  template <typename Value>
  CLI::Option* operator()(std::optional<Value>* value) const {
    return app_.add_option(option_.names, *value, option_.help);
  }
  template <typename Value>
  CLI::Option* operator()(Value* value) const {
    CLI::Option* const added = app_.add_option(option_.names, *value, option_.help);
    return *value == Value() ? added : added->capture_default_str();
  }

 private:
  CLI::App& app_;
  const Option& option_;
};

void add_option(CLI::App& app, const Option& option) {
  CLI::Option* const added = std::visit(Adder(app, option), option.target);
  if (option.range) added->check(check_of(option, *option.range));
  if (!option.type.empty()) added->type_name(option.type);
  if (option.is_required) added->required();
  if (option.is_hidden) added->group("");
}

std::string examples_text(const CommandText& text) {
  if (text.examples.empty()) return "";
  std::string lines = "Examples:";
  for (const std::string& example : text.examples) lines += "\n  regatta " + example;
  return lines;
}

// A command, and the parts of a family, below `parent`.
void add_command(CLI::App& parent, Command& command, const char* heading) {
  const CommandText& text = command.text();
  CLI::App* const app = parent.add_subcommand(text.name, text.summary)->group(heading);
  app->footer(examples_text(text));
  OptionList options;
  command.add_options(options);
  for (const Option& option : options.all()) add_option(*app, option);
  for (const auto& part : command.parts()) add_command(*app, *part, "Commands");
  if (!command.parts().empty()) app->require_subcommand(1);
}

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(command->get_name());
  }
  return names;
}

std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group().empty()) continue;  // hidden
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

// A command that was named: "regatta ckpt verify".
struct Place {
  const CLI::App* app;
  std::string name;

  [[nodiscard]] bool has_commands() const { return !command_names(*app).empty(); }
  [[nodiscard]] std::string hint() const {
    return " '" + name + " --help' lists the " + (has_commands() ? "commands" : "options");
  }
};

// The program, and the commands that were named, each below the one before it.
std::vector<Place> path_in(const CLI::App& program) {
  std::vector<Place> path{{&program, program.get_name()}};
  while (!path.back().app->get_subcommands().empty()) {
    const CLI::App* const next = path.back().app->get_subcommands().front();
    path.push_back({next, path.back().name + " " + next->get_name()});
  }
  return path;
}

std::string suggestion(const std::string& word, const std::vector<std::string>& names) {
  const auto nearest = base::closest(word, names);
  return nearest ? "; did you mean '" + *nearest + "'?" : ";";
}

// Of the words that `place` cannot use; an option before others, which may be its value.
std::optional<std::string> foreign_word(const Place& place) {
  const std::vector<std::string> rest = place.app->remaining();
  if (rest.empty()) return std::nullopt;
  for (const std::string& word : rest) {
    if (word.size() < 2 || word.front() != '-') continue;
    const std::string option = word.substr(0, word.find('='));
    return "'" + place.name + "' has no option '" + option + "'" +
           suggestion(option, option_names(*place.app));
  }
  const std::string& word = rest.front();
  if (!place.has_commands()) return "'" + word + "' is one word too many for '" + place.name + "';";
  return "'" + word + "' is not a command" + suggestion(word, command_names(*place.app));
}

// CLI11's complaint about a value, in plain words.
std::string explain_value(const CLI::App& app, const CLI::ParseError& error) {
  constexpr std::string_view kUnread = "Could not convert: ";
  const std::string message = error.what();
  const std::size_t equals = message.find(" = ");
  if (message.rfind(kUnread, 0) == 0 && equals != std::string::npos) {
    const std::string name = message.substr(kUnread.size(), equals - kUnread.size());
    const CLI::Option* const option = app.get_option_no_throw(name);
    const bool is_flag = option != nullptr && option->get_expected_max() == 0;
    return name + " is '" + message.substr(equals + 3) + "'; " +
           (is_flag ? "leave the value out" : "use a whole number");
  }
  const std::string option = message.substr(0, message.find(':'));
  if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ArgumentMismatch)) {
    const bool is_repeated = message.find("At Most") != std::string::npos;
    return option + (is_repeated ? " is given more than once" : " needs a value");
  }
  // "--limit: --limit is '0'; …"
  const std::string twice = option + ": " + option + " is ";
  return message.rfind(twice, 0) == 0 ? message.substr(option.size() + 2) : message;
}

// One line: what was found, where, what to do.
std::string usage_message(const CLI::App& program, const CLI::ParseError& error) {
  constexpr std::string_view kRequired = " is required";
  const std::vector<Place> path = path_in(program);
  const Place& last = path.back();
  const auto is = [&error](CLI::ExitCodes code) {
    return error.get_exit_code() == static_cast<int>(code);
  };
  const bool is_required = is(CLI::ExitCodes::RequiredError);
  if (!last.has_commands() && !is_required && !is(CLI::ExitCodes::ExtrasError)) {
    return explain_value(*last.app, error) + ";" + last.hint();
  }
  for (const Place& place : path) {
    if (const auto foreign = foreign_word(place)) return *foreign + place.hint();
  }
  if (last.has_commands()) return "'" + last.name + "' needs a command;" + last.hint();
  std::string what = error.what();
  if (is_required && what.size() > kRequired.size()) what.resize(what.size() - kRequired.size());
  return "'" + last.name + "' needs a value for '" + what + "';" + last.hint();
}

Command* named(const Commands& commands, const std::string& name) {
  for (const auto& command : commands) {
    if (command->text().name == name) return command.get();
  }
  return nullptr;
}

}  // namespace

ParsedCommandLine parse_command_line(const Commands& commands,
                                     const std::vector<std::string>& words,
                                     const Program& program) {
  if (Command* const first = words.empty() ? nullptr : named(commands, words.front());
      first != nullptr && first->words() != nullptr) {
    first->words()->assign(words.begin() + 1, words.end());
    return {first, "", ""};
  }
  CLI::App app("Trains BERT-style encoders and shows how long they take to reach an accuracy.");
  app.name("regatta");
  app.set_version_flag("--version", program.version);
  app.require_subcommand(1);
  for (const auto& command : commands) {
    add_command(app, *command, heading_of(command->text().group));
  }
  try {
    app.parse(std::vector<std::string>(words.rbegin(), words.rend()));
  } catch (const CLI::ParseError& error) {
    const Place last = path_in(app).back();
    // Help that was asked for of an unknown command would be that of another one.
    const bool is_unknown = last.has_commands() && !last.app->remaining().empty();
    if (error.get_exit_code() != 0 || is_unknown) return {nullptr, "", usage_message(app, error)};
    std::ostringstream output;
    app.exit(error, output, output);
    return {nullptr, output.str(), ""};
  } catch (const UsageError& error) {  // of an option that looks at its value
    return {nullptr, "", error.what()};
  }
  Command* command = nullptr;
  const std::vector<Place> path = path_in(app);
  for (std::size_t level = 1; level < path.size(); ++level) {
    command = named(command == nullptr ? commands : command->parts(), path[level].app->get_name());
  }
  return {command, "", ""};
}

int run_command_line(const std::string& program_name, std::vector<std::string> words,
                     const Program& program) {
  const Commands commands = all_commands(program);
  const std::string name = base::Path(program_name).filename();
  if (Command* const linked = named(commands, name);
      linked != nullptr && linked->words() != nullptr) {
    words.insert(words.begin(), name);
  }
  const ParsedCommandLine parsed = parse_command_line(commands, words, program);
  if (parsed.command != nullptr) {
    try {
      return parsed.command->run();
    } catch (const UsageError& error) {
      std::cerr << "regatta: " << base::printable(error.what()) << "\n";
      return kUsageError;
    }
  }
  std::cout << parsed.output << std::flush;
  if (parsed.error.empty()) return 0;
  std::cerr << "regatta: " << base::printable(parsed.error) << "\n";
  return kUsageError;
}

}  // namespace regatta::orchestrator::cli
