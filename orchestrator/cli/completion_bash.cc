#include "base/text.h"
#include "orchestrator/cli/completion_script.h"

namespace regatta::orchestrator::cli {
namespace {

// Everything but the table. Words of the table and of runs are compared, never expanded: compgen -W
// would run what is in them.
constexpr const char* kBashFunctions = R"bash(
# Adds the words that follow and begin like the one at the cursor.
_regatta_offer() {
  local each
  for each; do
    [[ $each != "$current"* ]] || COMPREPLY+=("$before$each")
  done
}

# Ids and names of runs, sweeps or experiments, within a second; none where no controller answers.
_regatta_offer_things() {
  local thing
  while IFS= read -r thing; do
    [[ -z $thing || $thing == -* || $thing == *[!A-Za-z0-9._-]* ]] || _regatta_offer "$thing"
  done < <(command regatta completion "--$1" 2>/dev/null </dev/null)
}

# Files by these endings, and directories; any file if there are none.
_regatta_offer_files() {
  local ending file
  for ending; do
    while IFS= read -r file; do
      COMPREPLY+=("$file")
    done < <(compgen -f -X "!*.$ending" -- "$current")
  done
  while IFS= read -r file; do
    COMPREPLY+=("$file")
  done < <(compgen -d -- "$current")
  compopt -o filenames -o default 2>/dev/null
}

# Offers values of a kind.
_regatta_offer_kind() {
  local -a choices
  case $1 in
    one:*)
      IFS='|' read -ra choices <<<"${1#one:}"
      _regatta_offer "${choices[@]}"
      ;;
    runs | sweeps | experiments) _regatta_offer_things "$1" ;;
    run-file) _regatta_offer_files yaml yml json ;;
    file) compopt -o default 2>/dev/null ;;
    directory) compopt -o dirnames 2>/dev/null ;;
  esac
}

# Reads the words before the cursor: the command's path, the option whose value is next, and how
# many operands there are. "--output=json" comes as three words, "unix:x" as well.
_regatta_read_words() {
  local word glued='' ended=''
  local -i at
  for ((at = 1; at < COMP_CWORD; ++at)); do
    word=${COMP_WORDS[at]}
    if [[ $word =~ ^[:=]+$ ]]; then
      glued=yes
      continue
    elif [[ -n $option || -n $glued ]]; then
      option=''
    elif [[ $word == -- ]]; then
      ended=yes
    elif [[ $word == -?* && -z $ended ]]; then
      _regatta_find_value "$path" "$word"
      [[ -z $kind ]] || option=$word
    elif [[ " ${commands[*]} " == *" $word "* ]]; then
      path+=${path:+ }$word
      _regatta_find_command "$path"
    else
      count+=1
    fi
    glued=''
  done
  [[ -z $ended ]] || options=()
  [[ ! $current =~ ^[:=]+$ ]] || { current='' glued=yes; }
  # What follows another word's colon is nobody's.
  [[ -z $glued || -n $option ]] || { options=() commands=() operands=(any); }
}

_regatta() {
  local IFS=$' \t\n' current=${COMP_WORDS[COMP_CWORD]} before='' path='' option='' kind=''
  local -a commands=() options=() operands=()
  local -i count=0
  COMPREPLY=()
  _regatta_find_command ''
  _regatta_read_words
  if [[ -z $option && $current == --*=* ]]; then
    option=${current%%=*} before=${current%%=*}= current=${current#*=}
  fi
  if [[ -n $option ]]; then
    _regatta_find_value "$path" "$option"
    _regatta_offer_kind "$kind"
  elif [[ $current == -* || ${#commands[@]}${#operands[@]} == 00 ]]; then
    _regatta_offer "${options[@]}"
  elif ((${#commands[@]} > 0)); then
    _regatta_offer "${commands[@]}"
  else
    kind=${operands[count]-${operands[-1]}}
    [[ $count -lt ${#operands[@]} || $kind == *... ]] || return 0
    _regatta_offer_kind "${kind%...}"
  fi
}

complete -F _regatta regatta
)bash";

std::string kind_of(const OutlineOption& option) {
  if (!option.choices.empty()) return "one:" + base::join(option.choices, "|");
  switch (option.kind) {
    case ValueKind::Run:
    case ValueKind::RunFirst:
      return "runs";
    case ValueKind::Sweep:
      return "sweeps";
    case ValueKind::Experiment:
      return "experiments";
    case ValueKind::RunFile:
      return "run-file";
    case ValueKind::File:
      return "file";
    case ValueKind::Directory:
      return "directory";
    case ValueKind::Any:
      break;
  }
  return "any";
}

// Words of the table have no quotes.
std::string bash_quoted(const std::string& word) { return "'" + word + "'"; }

std::string pattern_of(const Outline& command) {
  return bash_quoted(base::join(command.path, " "));
}

// "name=(a b)"; nothing for none, which is what it was before.
std::string array(const std::string& name, const std::vector<std::string>& words) {
  std::vector<std::string> quoted_words;
  for (const std::string& word : words) quoted_words.push_back(bash_quoted(word));
  return "      " + name + "=(" + base::join(quoted_words, " ") + ")\n";
}

// What may follow a command.
std::string command_case(const Outline& command) {
  std::vector<std::string> commands, options, operands;
  for (const Outline& part : command.parts) commands.push_back(part.text.name);
  for (const OutlineOption& option : command.options) {
    options.insert(options.end(), option.names.begin(), option.names.end());
  }
  for (const OutlineOption& operand : command.operands) {
    const bool is_first = operand.kind == ValueKind::RunFirst;
    operands.push_back(kind_of(operand) + (operand.is_repeatable && !is_first ? "..." : ""));
    if (is_first) operands.emplace_back("any...");
  }
  if (command.passes_words_on) operands.emplace_back("file...");
  std::string text = "    " + pattern_of(command) + ")\n" + array("commands", commands) +
                     array("options", options) + array("operands", operands) + "      ;;\n";
  for (const Outline& part : command.parts) text += command_case(part);
  return text;
}

std::string value_case(const Outline& command) {
  std::string text;
  for (const OutlineOption& option : command.options) {
    if (option.value.empty()) continue;
    text += "        " + base::join(option.names, " | ") +
            ") kind=" + bash_quoted(kind_of(option)) + " ;;\n";
  }
  if (!text.empty()) {
    text = "    " + pattern_of(command) + ")\n      case $2 in\n" + text + "      esac\n      ;;\n";
  }
  for (const Outline& part : command.parts) text += value_case(part);
  return text;
}

}  // namespace

std::string bash_completion(const Outline& program) {
  return "# shellcheck shell=bash disable=SC2034\n"
         "# Completion of regatta for bash; `regatta completion bash` made it.\n"
         "\n"
         "# What may follow the command $1. The arrays are those of _regatta.\n"
         "_regatta_find_command() {\n"
         "  case $1 in\n" +
         command_case(program) +
         "  esac\n"
         "}\n"
         "\n"
         "# The kind of the value of option $2 of the command $1; empty: it has none.\n"
         "_regatta_find_value() {\n"
         "  kind=''\n"
         "  case $1 in\n" +
         value_case(program) +
         "  esac\n"
         "}\n" +
         kBashFunctions;
}

}  // namespace regatta::orchestrator::cli
