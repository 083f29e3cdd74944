#include "orchestrator/cli/completion_script.h"

#include <algorithm>
#include <variant>

#include "base/text.h"

namespace regatta::orchestrator::cli {
namespace {

// Ids that the controller knows, one a line, within a second; nothing where there is none. What is
// no plain word is left out: it could mean something to the shell.
constexpr const char* kRuns =
    "command regatta ls --all --limit 1000 --timeout 1 -o name 2>/dev/null </dev/null | "
    "command grep -E '^[A-Za-z0-9][A-Za-z0-9._-]*$'";

bool takes_value(const Option& option) {
  return !std::holds_alternative<bool*>(option.target) &&
         !std::holds_alternative<std::function<void()>>(option.target);
}

// A word that may be a run: "run", "runs", "words" of `ckpt`.
bool is_run(const Option& option) {
  return option.names == "run" || option.names == "runs" || option.names == "words";
}

std::vector<std::string> names_of(const Option& option) { return base::split(option.names, ','); }

// 'text' for any shell: quotes end, stand by themselves, and begin again.
std::string quoted(const std::string& text) {
  std::string word = "'";
  for (const char c : base::printable(text)) {
    if (c == '\'') {
      word += "'\\''";
    } else {
      word += c;
    }
  }
  return word + "'";
}

void add_command(Command& command, const std::string& before, std::vector<CompletedCommand>* all) {
  CompletedCommand made;
  made.path = before.empty() ? command.text().name : before + " " + command.text().name;
  made.summary = command.text().summary;
  for (const auto& part : command.parts()) {
    made.parts.emplace_back(part->text().name, part->text().summary);
  }
  OptionList options;
  command.add_options(options);
  for (const Option& option : options.all()) {
    if (option.is_hidden) continue;
    if (option.names.front() != '-') {
      made.takes_run = made.takes_run || is_run(option);
      for (const std::string& choice : option.choices) made.parts.emplace_back(choice, option.help);
      continue;
    }
    made.options.push_back({names_of(option), option.help, takes_value(option), option.choices});
  }
  made.options.push_back({{"-h", "--help"}, "print this help", false, {}});
  const std::string path = made.path;
  all->push_back(std::move(made));
  for (const auto& part : command.parts()) add_command(*part, path, all);
}

std::vector<std::string> words_after(const CompletedCommand& command) {
  std::vector<std::string> words;
  for (const auto& [name, summary] : command.parts) words.push_back(name);
  for (const CompletedOption& option : command.options) {
    words.insert(words.end(), option.names.begin(), option.names.end());
  }
  return words;
}

std::vector<std::string> paths_that_take_runs(const std::vector<CompletedCommand>& commands) {
  std::vector<std::string> paths;
  for (const CompletedCommand& command : commands) {
    if (command.takes_run) paths.push_back(command.path);
  }
  return paths;
}

}  // namespace

std::vector<CompletedCommand> completed_commands(const Commands& commands) {
  std::vector<CompletedCommand> all;
  CompletedCommand program;
  for (const auto& command : commands) {
    program.parts.emplace_back(command->text().name, command->text().summary);
  }
  program.options = {{{"-h", "--help"}, "print this help", false, {}},
                     {{"--version"}, "print the version", false, {}}};
  all.push_back(std::move(program));
  for (const auto& command : commands) add_command(*command, "", &all);
  return all;
}

std::string bash_completion(const std::vector<CompletedCommand>& commands) {
  std::string words, values, paths;
  for (const CompletedCommand& command : commands) {
    words += "    " + quoted(command.path) +
             ") words=" + quoted(base::join(words_after(command), " ")) + " ;;\n";
    if (!command.path.empty()) paths += " | " + quoted(command.path);
    for (const CompletedOption& option : command.options) {
      if (!option.takes_value) continue;
      std::vector<std::string> patterns;
      for (const std::string& name : option.names) {
        patterns.push_back(quoted(command.path + " " + name));
      }
      values += "    " + base::join(patterns, " | ") +
                ") values=" + quoted(base::join(option.choices, " ")) + " taken=yes ;;\n";
    }
  }
  std::vector<std::string> runs;
  for (const std::string& path : paths_that_take_runs(commands)) runs.push_back(quoted(path));
  return "# Completion of regatta for bash: source it, or put it where bash-completion looks.\n"
         "_regatta() {\n"
         "  local word=${COMP_WORDS[COMP_CWORD]} path='' words='' values='' taken='' i\n"
         "  for ((i = 1; i < COMP_CWORD; ++i)); do\n"
         "    case \"${path:+$path }${COMP_WORDS[i]}\" in\n"
         "      " +
         paths.substr(paths.empty() ? 0 : 3) +
         ") path=\"${path:+$path }${COMP_WORDS[i]}\" ;;\n"
         "    esac\n"
         "  done\n"
         "  case \"$path ${COMP_WORDS[COMP_CWORD - 1]}\" in\n" +
         values +
         "  esac\n"
         "  COMPREPLY=()\n"
         "  if [[ -n $taken ]]; then\n"
         "    [[ -z $values ]] || mapfile -t COMPREPLY < <(compgen -W \"$values\" -- \"$word\")\n"
         "    return\n"
         "  fi\n"
         "  case \"$path\" in\n" +
         words +
         "  esac\n"
         "  mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$word\")\n"
         "  [[ $word != -* ]] || return 0\n"
         "  case \"$path\" in\n    " +
         base::join(runs, " | ") +
         ")\n"
         "      mapfile -t -O \"${#COMPREPLY[@]}\" COMPREPLY < <(\n"
         "        compgen -W \"$(" +
         kRuns +
         ")\" -- \"$word\")\n"
         "      ;;\n"
         "  esac\n"
         "}\n"
         "complete -o default -F _regatta regatta\n";
}

std::string zsh_completion(const std::vector<CompletedCommand>& commands) {
  return "#compdef regatta\n"
         "# Completion of regatta for zsh: in a directory of fpath, as _regatta.\n"
         "autoload -U +X bashcompinit && bashcompinit\n" +
         bash_completion(commands);
}

std::string fish_completion(const std::vector<CompletedCommand>& commands) {
  std::string out =
      "# Completion of regatta for fish: in ~/.config/fish/completions, as regatta.fish.\n"
      "function __regatta_runs\n    " +
      std::string(kRuns) +
      "\nend\n"
      "# Whether the words so far that are no options are these.\n"
      "function __regatta_at\n"
      "    set -l words (commandline -opc)[2..-1]\n"
      "    set words (string match -v -- '-*' $words)\n"
      "    if test (count $argv) -eq 0\n"
      "        test (count $words) -eq 0\n"
      "        return\n"
      "    end\n"
      "    set -l size (count $argv)\n"
      "    test (count $words) -ge $size; and test \"$words[1..$size]\" = \"$argv\"\n"
      "end\n";
  for (const CompletedCommand& command : commands) {
    const std::string at = "complete -c regatta -n '__regatta_at " + command.path + "' ";
    for (const auto& [name, summary] : command.parts) {
      out += at + "-f -a " + name + " -d " + quoted(summary) + "\n";
    }
    for (const CompletedOption& option : command.options) {
      out += at;
      for (const std::string& name : option.names) {
        const bool is_long = name.rfind("--", 0) == 0;
        out += (is_long ? "-l " : "-s ") + name.substr(is_long ? 2 : 1) + " ";
      }
      if (option.takes_value) out += option.choices.empty() ? "-r " : "-x ";
      if (!option.choices.empty()) out += "-a " + quoted(base::join(option.choices, " ")) + " ";
      out += "-d " + quoted(option.help) + "\n";
    }
    if (command.takes_run) out += at + "-a '(__regatta_runs)'\n";
  }
  return out;
}

}  // namespace regatta::orchestrator::cli
