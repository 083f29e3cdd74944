#include "orchestrator/cli/man_page.h"

#include "base/text.h"
#include "orchestrator/cli/commands.h"
#include "orchestrator/cli/roff.h"

namespace regatta::orchestrator::cli {
namespace {

struct ManEntry {
  const char* name;
  const char* text;
};

constexpr ManEntry kVariables[] = {
    {"REGATTA_SERVER",
     "the controller: unix:PATH of its socket, or http://HOST:PORT; empty or unset: "
     "controller.sock in the data directory"},
    {"REGATTA_TOKEN_FILE",
     "file with the controller's token, for an address with http://; unset: token in the data "
     "directory"},
    {"REGATTA_RUNS", "the runs directory, for `serve`, `plan` and `sbatch --freeze`"},
    {"REGATTA_FROZEN",
     "where `sbatch --freeze` keeps the frozen files; unset: .frozen in the runs directory"},
    {"REGATTA_CONFIG",
     "the user's defaults of run files; empty: none; unset: regatta/config.yaml in "
     "XDG_CONFIG_HOME"},
    {"REGATTA_SITE_CONFIG",
     "the site's defaults of run files; empty: none; unset: /etc/regatta/config.yaml"},
    {"XDG_STATE_HOME",
     "the data directory is regatta in it; unset: ~/.local/state; `serve --data` names another"},
    {"XDG_CONFIG_HOME", "see REGATTA_CONFIG; unset: ~/.config"},
    {"SLURMD_NODENAME",
     "in a job of Slurm: the node that `platform bench --keep` measures; unset: this machine's "
     "name"},
};

constexpr ManEntry kExitCodes[] = {
    {"0", "done"},
    {"1", "failed"},
    {"2", "wrong usage; nothing was done"},
    {"3", "not found"},
    {"4", "not allowed: without the token, as another user, `serve` as root"},
    {"5", "conflict with the present state"},
    {"6", "controller unreachable"},
    {"7", "invalid input"},
    {"130", "interrupted; nothing was cancelled"},
};

constexpr const char* kDescription =
    "Regatta trains BERT-style encoders and shows how long they take to reach an accuracy. "
    "`regatta serve` is the controller: it starts runs, on this machine or on Slurm, and serves "
    "an API and a page. The other commands ask it, or work on machines, plans and files by "
    "themselves.";

std::string section(const std::string& name) { return ".SH " + name + "\n"; }

std::string entry(const std::string& tag, const std::string& text) {
  return ".TP\n" + roff_line(tag) + roff_line(roff_text(text));
}

std::string rows(const ManEntry* begin, const ManEntry* end) {
  std::string text;
  for (const ManEntry* row = begin; row != end; ++row)
    text += entry(roff_bold(row->name), row->text);
  return text;
}

std::string tag_of(const OutlineOption& option) {
  std::vector<std::string> names;
  names.reserve(option.names.size());
  for (const std::string& name : option.names) names.push_back(roff_bold(name));
  return base::join(names, ", ") + (option.value.empty() ? "" : " " + roff_italic(option.value));
}

std::string help_of(const OutlineOption& option) {
  std::string help = option.help;
  if (!option.range.empty()) help += "; " + option.range;
  if (!option.default_text.empty()) help += "; default: " + option.default_text;
  if (option.is_required) help += "; required";
  return help;
}

std::string page_name(const std::string& command) { return "regatta-" + command; }

std::string reference(const std::string& command) {
  return roff_bold(command.empty() ? "regatta" : page_name(command)) + "(1)";
}

std::string heading(const std::string& name, const std::string& summary,
                    const std::string& version) {
  return ".TH " + roff_code(name) + " 1 \"\" \"" + roff_code(version) + "\" \"Regatta\"\n" +
         section("NAME") + roff_line(roff_code(name) + " \\- " + roff_text(summary));
}

// "regatta diff [OPTIONS] RUN [FILE]".
std::string synopsis(const Outline& command) {
  std::string text = roff_bold("regatta " + base::join(command.path, " "));
  if (command.passes_words_on) return roff_line(text + " [" + roff_italic("WORD") + "...]");
  text += " [" + roff_italic("OPTION") + "...]";
  for (const OutlineOption& option : command.options) {
    if (option.is_required)
      text += " " + roff_bold(option.names.back()) + " " + roff_italic(option.value);
  }
  if (!command.parts.empty()) text += " " + roff_italic("COMMAND");
  for (const OutlineOption& operand : command.operands) {
    const std::string word = roff_italic(operand.value) + (operand.is_repeatable ? "..." : "");
    text += operand.is_required ? " " + word : " [" + word + "]";
  }
  return roff_line(text);
}

std::string options_of(const Outline& command) {
  std::string text;
  for (const OutlineOption& operand : command.operands) {
    text += entry(roff_italic(operand.value), help_of(operand));
  }
  for (const OutlineOption& option : command.options)
    text += entry(tag_of(option), help_of(option));
  return text;
}

std::string examples_of(const CommandText& command) {
  std::string text = ".PP\n.RS 4\n.nf\n";
  for (const std::string& example : command.examples)
    text += roff_line(roff_code("regatta " + example));
  return text + ".fi\n.RE\n";
}

// One of the commands that a page describes together.
std::string part_text(const Outline& part) {
  return ".SS \"" + roff_code("regatta " + base::join(part.path, " ")) + "\"\n" +
         roff_line(roff_text(part.text.summary)) + ".PP\n" + synopsis(part) + options_of(part) +
         (part.text.examples.empty() ? "" : ".PP\nExamples:\n" + examples_of(part.text));
}

std::string command_page(const Outline& command, const std::string& version) {
  std::string text = heading(page_name(command.text.name), command.text.summary, version) +
                     section("SYNOPSIS") + synopsis(command);
  if (command.passes_words_on) {
    text += section("DESCRIPTION") +
            roff_line(roff_text("Words that follow are those of `" + command.text.name +
                                "`, whose own page describes them."));
  }
  if (!command.parts.empty()) {
    text += section("COMMANDS");
    for (const Outline& part : command.parts) text += part_text(part);
  } else if (!command.passes_words_on) {
    text += section("OPTIONS") + options_of(command);
  }
  if (!command.text.examples.empty()) text += section("EXAMPLES") + examples_of(command.text);
  return text + section("EXIT STATUS") + "0 if all went well; " + reference("") +
         " lists the others, and environment variables.\n" + section("SEE ALSO") +
         roff_line(reference(""));
}

std::string commands_by_group(const Outline& program) {
  std::string text, group;
  for (const Outline& command : program.parts) {
    if (group != heading_of(command.text.group)) {
      group = heading_of(command.text.group);
      text += ".SS " + group + "\n";
    }
    text += entry(reference(command.text.name), command.text.summary);
  }
  return text;
}

std::string program_page(const Outline& program, const std::string& version) {
  std::vector<std::string> others;
  for (const Outline& command : program.parts) others.push_back(reference(command.text.name));
  return heading("regatta", "train BERT-style encoders, on this machine or on Slurm", version) +
         section("SYNOPSIS") +
         roff_line(roff_bold("regatta") + " " + roff_italic("COMMAND") + " [" +
                   roff_italic("WORD") + "...]") +
         section("DESCRIPTION") + roff_line(roff_text(kDescription)) + section("OPTIONS") +
         options_of(program) + section("COMMANDS") + commands_by_group(program) +
         section("ENVIRONMENT") + rows(std::begin(kVariables), std::end(kVariables)) +
         section("EXIT STATUS") + rows(std::begin(kExitCodes), std::end(kExitCodes)) +
         section("SEE ALSO") + roff_line(base::join(others, ", "));
}

}  // namespace

std::map<std::string, std::string> man_pages(const Outline& program, const std::string& version) {
  std::map<std::string, std::string> pages{{"regatta.1", program_page(program, version)}};
  for (const Outline& command : program.parts) {
    pages[page_name(command.text.name) + ".1"] = command_page(command, version);
  }
  return pages;
}

}  // namespace regatta::orchestrator::cli
