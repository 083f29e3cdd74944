#include "base/text.h"
#include "orchestrator/cli/completion_script.h"

namespace regatta::orchestrator::cli {
namespace {

constexpr const char* kFishFunctions = R"fish(
# Ids and names of runs, sweeps or experiments, within a second; none where no controller answers.
function __regatta_things
    command regatta completion --$argv[1] 2>/dev/null </dev/null |
        string match -r '^[A-Za-z0-9._][A-Za-z0-9._-]*$'
end

# Whether the words before the cursor begin with the command that follows; without one: whether
# there is no command yet.
function __regatta_at
    set -l words (commandline -opc)
    set -e words[1]
    if test (count $argv) -eq 0
        test (count $words) -eq 0
    else
        test (count $words) -ge (count $argv)
        and test "$words[1..$(count $argv)]" = "$argv"
    end
end

# Whether the next word is one of the command's operands from number $argv[1] to number $argv[2].
function __regatta_operand
    set -l path $argv[3..]
    __regatta_at $path
    or return 1
    set -l words (commandline -opc)
    set -e words[1..(math 1 + (count $path))]
    set -l valued (__regatta_valued "$path")
    set -l number 1
    set -l skip no
    for word in $words
        if test $skip = yes
            set skip no
        else if contains -- $word $valued
            set skip yes
        else if not string match -q -- '-*' $word
            set number (math $number + 1)
        end
    end
    test $number -ge $argv[1] -a $number -le $argv[2]
end

# Whether the command that follows is followed by nothing.
function __regatta_family
    set -l words (commandline -opc)
    __regatta_at $argv
    and test (count $words) -eq (math 1 + (count $argv))
end

complete -c regatta -f
)fish";

constexpr const char* kMostOperands = "999";

// 'text' for fish: in quotes only backslashes and quotes mean something.
std::string fish_quoted(const std::string& text) {
  std::string made = "'";
  for (const char letter : base::printable(text)) {
    if (letter == '\'' || letter == '\\') made += '\\';
    made += letter;
  }
  return made + "'";
}

// Which words complete a value, as options of `complete`.
std::string values_of(const OutlineOption& option) {
  if (!option.choices.empty()) return " -a " + fish_quoted(base::join(option.choices, " "));
  switch (option.kind) {
    case ValueKind::Run:
    case ValueKind::RunFirst:
      return " -a '(__regatta_things runs)'";
    case ValueKind::Sweep:
      return " -a '(__regatta_things sweeps)'";
    case ValueKind::Experiment:
      return " -a '(__regatta_things experiments)'";
    case ValueKind::RunFile:
      return " -k -a '(__fish_complete_suffix .yaml; __fish_complete_suffix .json)'";
    case ValueKind::File:
      return " -F";
    case ValueKind::Directory:
      return " -a '(__fish_complete_directories (commandline -ct))'";
    case ValueKind::Any:
      break;
  }
  return "";
}

std::string lines_of(const Outline& command) {
  const std::string path = base::join(command.path, " ");
  std::string text = "\n# regatta" + (path.empty() ? "" : " " + path) + "\n";
  const std::string start = "complete -c regatta -n '";
  for (const Outline& part : command.parts) {
    const std::string when = path.empty() ? "__regatta_at" : "__regatta_family " + path;
    text +=
        start + when + "' -a " + part.text.name + " -d " + fish_quoted(part.text.summary) + "\n";
  }
  const std::string at = start + "__regatta_at" + (path.empty() ? "" : " " + path) + "'";
  for (const OutlineOption& option : command.options) {
    text += at;
    for (const std::string& name : option.names) {
      text += name.rfind("--", 0) == 0 ? " -l " + name.substr(2) : " -s " + name.substr(1);
    }
    if (!option.value.empty()) text += " -r" + values_of(option);
    text += " -d " + fish_quoted(option.help) + "\n";
  }
  int place = 0;
  for (const OutlineOption& operand : command.operands) {
    const std::string low = std::to_string(++place);
    const bool is_last = operand.is_repeatable && operand.kind != ValueKind::RunFirst;
    const std::string values = values_of(operand);
    if (values.empty()) continue;
    text += start + "__regatta_operand " + low + " " + (is_last ? kMostOperands : low) + " " +
            path + "'" + values + "\n";
  }
  if (command.passes_words_on) text += at + " -F\n";
  for (const Outline& part : command.parts) text += lines_of(part);
  return text;
}

// The options of each command that have a value.
std::string valued_case(const Outline& command) {
  std::vector<std::string> names;
  for (const OutlineOption& option : command.options) {
    if (!option.value.empty()) names.insert(names.end(), option.names.begin(), option.names.end());
  }
  std::string text;
  if (!names.empty()) {
    text = "        case '" + base::join(command.path, " ") + "'\n            printf '%s\\n' " +
           base::join(names, " ") + "\n";
  }
  for (const Outline& part : command.parts) text += valued_case(part);
  return text;
}

}  // namespace

std::string fish_completion(const Outline& program) {
  return "# Completion of regatta for fish; `regatta completion fish` made it.\n"
         "\n"
         "# Options of the command $argv[1] that have a value.\n"
         "function __regatta_valued\n"
         "    switch $argv[1]\n" +
         valued_case(program) +
         "    end\n"
         "end\n" +
         kFishFunctions + lines_of(program);
}

}  // namespace regatta::orchestrator::cli
