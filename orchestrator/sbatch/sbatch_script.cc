#include "orchestrator/sbatch/sbatch_script.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <utility>

#include "base/ascii.h"
#include "base/text.h"

namespace regatta::orchestrator::sbatch {
namespace {

using View = std::string_view;

constexpr View kMagic = "#SBATCH";
constexpr std::size_t kMostQuoted = 60;  // bytes of a script's text in a finding

constexpr View kBlanks = " \t\n\v\f\r";

bool is_blank(char c) { return kBlanks.find(c) != View::npos; }

std::string shown(View text) {
  return base::printable(text.substr(0, kMostQuoted)) + (text.size() > kMostQuoted ? "…" : "");
}

std::string in_quotes(View text) { return "`" + shown(text) + "`"; }

// The words behind #SBATCH.
std::vector<std::string> directive_words(View text) {
  std::vector<std::string> words;
  std::string word;
  bool inside = false;
  bool escaped = false;
  char quote = 0;
  for (const char c : text) {
    if (escaped) {
      word += c;
      escaped = false;
    } else if (c == '\\') {
      escaped = inside = true;
    } else if (quote != 0) {
      if (c == quote) {
        quote = 0;
      } else {
        word += c;
      }
    } else if (c == '#') {
      break;
    } else if (is_blank(c)) {
      if (inside) words.push_back(std::exchange(word, ""));
      inside = false;
    } else {
      inside = true;
      if (c == '\'' || c == '"') {
        quote = c;
      } else {
        word += c;
      }
    }
  }
  if (inside) words.push_back(word);
  return words;
}

// "# SBATCH -N 2", "  #SBATCH -N 2", "#sbatch -N 2": meant as a directive, and none.
bool is_near_miss(View line) {
  View text = base::trimmed(line, kBlanks);
  if (text.empty() || text.front() != '#') return false;
  text.remove_prefix(1);
  const bool doubled = !text.empty() && text.front() == '#';  // the way to switch one off
  const bool apart = !text.empty() && is_blank(text.front());
  text = base::trimmed(text, kBlanks);
  const std::size_t end = std::min(text.find_first_of(" \t"), text.size());
  std::string word(text.substr(0, end));
  if (apart && word == "sbatch") return false;  // how to call it: "# sbatch -N 2 train.sh"
  for (char& c : word) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  const View rest = base::trimmed(text.substr(end), kBlanks);
  return !doubled && word == kMagic.substr(1) && !rest.empty() && rest.front() == '-';
}

// Whether `text` runs the trainer as a step: a signal for the steps reaches it.
bool runs_trainer(View text) {
  const std::size_t step = text.find("srun");
  const std::size_t trainer = text.find("regatta-train", step == View::npos ? text.size() : step);
  if (trainer == View::npos || text.find("--deadline-", trainer) != View::npos) return false;
  return text.find(" run", trainer) != View::npos;
}

class ScriptReader {
 public:
  SbatchScript read(View text) {
    std::string command;  // with the lines that a backslash joins
    int command_line = 0;
    for (const std::string& line : base::split(text, '\n')) {
      ++number_;
      const View stripped = base::trimmed(line, kBlanks);
      if (stripped.empty() || stripped.front() == '#') {
        comment(line);
        continue;
      }
      if (first_command_ == 0) first_command_ = number_;
      if (command.empty()) command_line = number_;
      command += stripped;
      if (command.back() == '\\') {
        command.back() = ' ';
        continue;
      }
      if (out_.trainer_line == 0 && runs_trainer(command)) out_.trainer_line = command_line;
      out_.commands.push_back({command_line, std::exchange(command, "")});
    }
    return std::move(out_);
  }

 private:
  void find(const char* id, std::string text) {
    out_.findings.push_back({number_, std::move(text), id});
  }

  void comment(View line) {
    const bool magic = line.substr(0, kMagic.size()) == kMagic;
    if (first_command_ != 0) {
      const View rest = magic ? base::trimmed(line.substr(kMagic.size()), kBlanks) : View();
      if (!rest.empty() && rest.front() == '-') {
        find("late-directive",
             "sbatch ignores this line, since the first command stands before it (line " +
                 std::to_string(first_command_) + "); move it up");
      }
    } else if (magic) {
      directive(line.substr(kMagic.size()));
    } else if (line.substr(0, 5) == "#PBS " || line.substr(0, 6) == "#BSUB ") {
      out_.has_others = true;
    } else if (is_near_miss(line)) {
      find("near-directive",
           "sbatch takes " + in_quotes(base::trimmed(line, kBlanks)) +
               " for a comment; a directive begins with #SBATCH, at the line's beginning");
    }
  }

  void directive(View text) {
    const std::vector<std::string> words = directive_words(text);
    if (!words.empty() && (words[0] == "hetjob" || words[0] == "packjob")) {
      out_.heterogeneous = true;
      return;
    }
    const SbatchCommand given =
        parse_sbatch_command(words, [](const std::string&) { return false; });
    for (GivenOption option : given.options) {
      option.line = number_;
      check_value(option);
      if (!out_.heterogeneous) out_.options.push_back(std::move(option));
    }
    if (given.script) {
      find("no-option", in_quotes(*given.script) +
                            " is not an option, so sbatch refuses the script; options begin "
                            "with -");
    }
  }

  void check_value(const GivenOption& option) {
    if (option.value.find_first_of("$`") == std::string::npos && option.value.rfind("~/", 0) != 0) {
      return;
    }
    find("not-expanded", "sbatch expands nothing here: " + in_quotes(option.value) +
                             " is taken as it stands; give --" + shown(option.name) +
                             " on the command line, where your shell expands it");
  }

  SbatchScript out_;
  int number_ = 0;
  int first_command_ = 0;  // its line; 0: none yet
};

constexpr View kMissing = "folder-missing";

bool allows(const base::Path& path, int mode) {
  return ::faccessat(AT_FDCWD, path.c_str(), mode, AT_EACCESS) == 0 ||
         (errno != EACCES && errno != EROFS);
}

// The rule's id and what is wrong with the place of a file; both empty if nothing is. pattern: the
// path's end is not known, so only its folder counts.
std::pair<View, std::string> folder_trouble(const base::Path& path, bool pattern, bool writes) {
  std::error_code error;
  const base::Path folder = path.parent_path();
  if (!std::filesystem::is_directory(folder, error)) {
    return {kMissing, "there is no folder " + folder.string()};
  }
  if (!pattern && std::filesystem::exists(path, error)) {
    if (allows(path, writes ? W_OK : R_OK)) return {};
    return {"no-access", std::string("you may not ") + (writes ? "write" : "read") + " the file " +
                             path.string()};
  }
  if (!writes)
    return pattern ? std::pair<View, std::string>()
                   : std::pair<View, std::string>(kMissing, "there is no file " + path.string());
  if (allows(folder, W_OK | X_OK)) return {};
  return {"no-access", "you may not write into the folder " + folder.string()};
}

}  // namespace

SbatchScript read_sbatch_script(View text) { return ScriptReader().read(text); }

std::vector<SbatchFinding> sbatch_folder_findings(const std::vector<GivenOption>& options,
                                                  const base::Path& directory) {
  const GivenOption* const chdir = find_option(options, "chdir");
  const base::Path base = chdir == nullptr ? directory : directory / chdir->value;
  if (chdir != nullptr && chdir->value.find_first_of("$`\\") != std::string::npos) return {};
  const GivenOption usual{"output", "slurm-%j.out", chdir == nullptr ? 0 : chdir->line};
  std::vector<SbatchFinding> findings;
  for (const char* const name : {"output", "error", "input"}) {
    const GivenOption* option = find_option(options, name);
    if (option == nullptr && View(name) == "output") option = &usual;
    // What is not expanded has its finding already, and patterns may make any folder.
    if (option == nullptr || option->value.find_first_of("$`\\") != std::string::npos) continue;
    const bool pattern = option->value.find('%') != std::string::npos;
    const std::string value = option->value.substr(0, option->value.find('%'));
    if (value.empty() && !pattern) continue;
    const bool writes = View(name) != "input";
    auto [id, trouble] = folder_trouble(base / value, pattern, writes);
    if (trouble.empty()) continue;
    findings.push_back(
        {option->line,
         base::printable(trouble) + " for the job's " + name +
             ", so the job would end at once and leave no log; " +
             (id == kMissing ? writes ? "make it first (mkdir -p)" : "name a file that is there"
                             : "name another"),
         std::string(id)});
  }
  return findings;
}

}  // namespace regatta::orchestrator::sbatch
