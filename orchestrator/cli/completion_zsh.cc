#include "base/text.h"
#include "orchestrator/cli/completion_script.h"

namespace regatta::orchestrator::cli {
namespace {

// Ids and names of runs, sweeps or experiments, within a second; none where no controller answers.
// compadd quotes them.
constexpr const char* kZshThings = R"zsh(
_regatta_things() {
  local -a things
  local thing
  while IFS= read -r thing; do
    [[ -z $thing || $thing == -* || $thing == *[^A-Za-z0-9._-]* ]] || things+=("$thing")
  done < <(command regatta completion --$1 2>/dev/null </dev/null)
  _wanted $1 expl ${1%s} compadd -a things
}
_regatta_runs() { _regatta_things runs }
_regatta_sweeps() { _regatta_things sweeps }
_regatta_experiments() { _regatta_things experiments }
)zsh";

// 'text' for the shell: quotes end, stand by themselves, and begin again.
std::string zsh_quoted(const std::string& text) {
  return "'" + base::join(base::split(base::printable(text), '\''), "'\\''") + "'";
}

// Text for a part of a specification of _arguments, where these end the part.
std::string escaped(const std::string& text) {
  std::string made;
  for (const char letter : text) {
    if (letter == ':' || letter == '[' || letter == ']' || letter == '\\') made += '\\';
    made += letter;
  }
  return made;
}

// ":message:action" of a value.
std::string value_of(const OutlineOption& option) {
  const std::string message =
      ":" + escaped(option.range.empty() ? option.value : option.value + ", " + option.range) + ":";
  if (!option.choices.empty()) return message + "(" + base::join(option.choices, " ") + ")";
  switch (option.kind) {
    case ValueKind::Run:
    case ValueKind::RunFirst:
      return message + "_regatta_runs";
    case ValueKind::Sweep:
      return message + "_regatta_sweeps";
    case ValueKind::Experiment:
      return message + "_regatta_experiments";
    case ValueKind::RunFile:
      return message + "_files -g \"*.(yaml|yml|json)(-.)\"";
    case ValueKind::File:
      return message + "_files";
    case ValueKind::Directory:
      return message + "_files -/";
    case ValueKind::Any:
      break;
  }
  return message + " ";
}

void add_option(const OutlineOption& option, std::vector<std::string>* specifications) {
  // One excludes the other, and itself unless it may be given again.
  const std::string others = option.is_repeatable ? "*" : "(" + base::join(option.names, " ") + ")";
  for (const std::string& name : option.names) {
    std::string made = others + name;
    if (!option.value.empty()) made += name.rfind("--", 0) == 0 ? "=" : "+";
    made += "[" + escaped(option.help) + "]";
    if (!option.value.empty()) made += value_of(option);
    specifications->push_back(made);
  }
}

void add_operands(const Outline& command, std::vector<std::string>* specifications) {
  int place = 0;
  for (const OutlineOption& operand : command.operands) {
    ++place;
    const std::string at = std::to_string(place) + (operand.is_required ? "" : ":");
    if (operand.kind == ValueKind::RunFirst) {
      specifications->push_back(at + value_of(operand));
      specifications->push_back("*:" + escaped(operand.value) + ": ");
    } else {
      specifications->push_back((operand.is_repeatable ? "*" : at) + value_of(operand));
    }
  }
}

std::string function_of(const Outline& command) {
  return command.path.empty() ? "_regatta" : "_regatta_" + base::join(command.path, "_");
}

// For commands below `command`: their names, and the function of the one that is named.
std::string parts_text(const Outline& command) {
  std::string names, calls;
  for (const Outline& part : command.parts) {
    names += "        " + zsh_quoted(escaped(part.text.name) + ":" + part.text.summary) + "\n";
    calls += "        " + part.text.name + ") " + function_of(part) + " ;;\n";
  }
  return "  case $state in\n"
         "    command)\n"
         "      commands=(\n" +
         names +
         "      )\n"
         "      _describe -t commands command commands\n"
         "      ;;\n"
         "    arguments)\n"
         "      curcontext=${curcontext%:*}-$words[1]:\n"
         "      case $words[1] in\n" +
         calls +
         "      esac\n"
         "      ;;\n"
         "  esac\n";
}

std::string functions_text(const Outline& command) {
  std::string text;
  for (const Outline& part : command.parts) text += functions_text(part);
  text += "\n" + function_of(command) + "() {\n";
  if (command.passes_words_on) return text + "  _files\n}\n";
  std::vector<std::string> specifications;
  for (const OutlineOption& option : command.options) add_option(option, &specifications);
  if (command.parts.empty()) {
    add_operands(command, &specifications);
  } else {
    text +=
        "  local curcontext=$curcontext state line\n"
        "  local -a commands\n"
        "  local -A opt_args\n";
    specifications.emplace_back("1:command:->command");
    specifications.emplace_back("*::argument:->arguments");
  }
  text += command.parts.empty() ? "  _arguments -s -S" : "  _arguments -C -s -S";
  for (const std::string& each : specifications) text += " \\\n    " + zsh_quoted(each);
  return text + "\n" + (command.parts.empty() ? "" : parts_text(command)) + "}\n";
}

}  // namespace

std::string zsh_completion(const Outline& program) {
  return "#compdef regatta\n"
         "# Completion of regatta for zsh; `regatta completion zsh` made it.\n" +
         std::string(kZshThings) + functions_text(program) +
         "\n"
         "# Loaded by compinit as a function, or sourced.\n"
         "if [[ ${funcstack[1]} == _regatta ]]; then\n"
         "  _regatta \"$@\"\n"
         "else\n"
         "  compdef _regatta regatta\n"
         "fi\n";
}

}  // namespace regatta::orchestrator::cli
