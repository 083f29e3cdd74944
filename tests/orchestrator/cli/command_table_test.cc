// The table of commands against its help, its examples, and what documents and messages say of it.
#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "base/text.h"
#include "orchestrator/cli/cli.h"
#include "orchestrator/cli/commands.h"
#include "tests/orchestrator/support.h"
#include "tests/shared_data.h"

namespace regatta::orchestrator::cli {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

const Program kProgram{{}, "regatta 1.2.3", "0123"};

// A command that runs, with the words that name it: "ckpt verify".
struct Named {
  std::string name;
  Command* command;
};

std::vector<Named> runnable(const Commands& commands, const std::string& before = "") {
  std::vector<Named> all;
  for (const auto& command : commands) {
    const std::string name = before + command->text().name;
    if (command->parts().empty()) all.push_back({name, command.get()});
    for (const Named& part : runnable(command->parts(), name + " ")) all.push_back(part);
  }
  return all;
}

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream in(text);
  return {std::istream_iterator<std::string>(in), {}};
}

// Each call parses for commands of its own.
ParsedCommandLine parsed(const std::vector<std::string>& words) {
  return parse_command_line(all_commands(kProgram), words, kProgram);
}
std::string error_of(const std::string& line) { return parsed(words_of(line)).error; }

std::vector<Option> options_of(Command& command) {
  OptionList options;
  command.add_options(options);
  return options.all();
}

TEST(CommandTable, NamesAreUniqueAndSortedInTheirGroups) {
  const Commands commands = all_commands(kProgram);
  ASSERT_GT(commands.size(), 20U);
  std::vector<std::pair<Group, std::string>> order;
  for (const auto& command : commands)
    order.emplace_back(command->text().group, command->text().name);
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
  std::set<std::string> names;
  for (const Named& each : runnable(commands)) {
    EXPECT_TRUE(names.insert(each.name).second) << each.name;
  }
  for (const auto& command : commands) {
    const Commands& parts = command->parts();
    EXPECT_TRUE(std::is_sorted(parts.begin(), parts.end(), [](const auto& a, const auto& b) {
      return a->text().name < b->text().name;
    })) << command->text().name;
  }
}

TEST(CommandTable, HelpListsEveryCommandUnderItsHeading) {
  const ParsedCommandLine help = parsed({"--help"});
  EXPECT_EQ(help.command, nullptr);
  EXPECT_EQ(help.error, "");
  std::string heading;
  std::map<std::string, std::string> headings;  // of each line's first word
  for (const std::string& line : base::split(help.output, '\n')) {
    if (line.size() > 1 && line.front() != ' ' && line.back() == ':') heading = line;
    if (const auto words = words_of(line); !words.empty()) headings.emplace(words.front(), heading);
  }
  const Commands commands = all_commands(kProgram);
  for (const auto& command : commands) {
    const CommandText& text = command->text();
    EXPECT_EQ(headings[text.name], std::string(heading_of(text.group)) + ":") << text.name;
    EXPECT_THAT(help.output, HasSubstr(text.summary));
    EXPECT_THAT(text.summary, Not(IsEmpty()));
    EXPECT_THAT(text.summary, Not(HasSubstr("\n")));
    EXPECT_LE(text.summary.size(), 100U) << text.name;
    for (const auto& part : command->parts()) {
      EXPECT_THAT(parsed({text.name, "--help"}).output, HasSubstr(part->text().summary));
    }
  }
}

TEST(CommandTable, HelpNamesEveryOptionAndExample) {
  const Commands commands = all_commands(kProgram);
  for (const Named& each : runnable(commands)) {
    if (each.command->words() != nullptr) continue;  // another program's help
    std::vector<std::string> words = words_of(each.name);
    words.emplace_back("--help");
    const ParsedCommandLine help = parsed(words);
    EXPECT_EQ(help.error, "") << each.name;
    EXPECT_THAT(help.output,
                StartsWith(each.command->text().summary + "\nUsage: regatta " + each.name));
    for (const Option& option : options_of(*each.command)) {
      SCOPED_TRACE(each.name + " " + option.names);
      if (option.is_hidden) {
        EXPECT_THAT(help.output, Not(HasSubstr("  " + option.names)));
        continue;
      }
      EXPECT_THAT(help.output, HasSubstr("\n  " + option.names));
      EXPECT_THAT(option.help, Not(IsEmpty()));
      EXPECT_THAT(help.output, HasSubstr(option.help));
    }
    for (const std::string& example : each.command->text().examples) {
      EXPECT_THAT(help.output, HasSubstr("\n  regatta " + example));
    }
  }
}

TEST(CommandTable, ExamplesParse) {
  const Commands table = all_commands(kProgram);
  for (const Named& each : runnable(table)) {
    EXPECT_THAT(each.command->text().examples, Not(IsEmpty())) << each.name;
    for (const std::string& example : each.command->text().examples) {
      SCOPED_TRACE(example);
      EXPECT_TRUE(example == each.name || example.rfind(each.name + " ", 0) == 0);
      const Commands commands = all_commands(kProgram);
      const ParsedCommandLine made = parse_command_line(commands, words_of(example), kProgram);
      EXPECT_EQ(made.error, "");
      ASSERT_NE(made.command, nullptr);
      EXPECT_EQ(made.command->text().name, each.command->text().name);
      EXPECT_EQ(made.command->text().summary, each.command->text().summary);
    }
  }
}

// With its last letter doubled, every name is nearest to itself.
TEST(CommandTable, MistypedCommandsAndOptionsSuggestTheNearest) {
  const Commands commands = all_commands(kProgram);
  for (const Named& each : runnable(commands)) {
    EXPECT_THAT(
        error_of(each.name + each.name.back()),
        HasSubstr("' is not a command; did you mean '" + each.command->text().name + "'? "));
    if (each.command->words() != nullptr) continue;
    for (const Option& option : options_of(*each.command)) {
      const std::string name = option.name();
      if (option.is_hidden || name.front() != '-') continue;
      EXPECT_THAT(error_of(each.name + " " + name + name.back()),
                  StartsWith("'regatta " + each.name + "' has no option '" + name + name.back() +
                             "'; did you mean '" + name + "'? 'regatta " + each.name + " --help'"));
    }
  }
}

TEST(CommandTable, UsageErrorsSayWhatWhereAndWhatToDoInOneLine) {
  struct Case {
    const char* line;
    const char* error;
  };
  const Case cases[] = {
      {"", "'regatta' needs a command; 'regatta --help' lists the commands"},
      {"ckpt", "'regatta ckpt' needs a command; 'regatta ckpt --help' lists the commands"},
      {"dance", "'dance' is not a command; 'regatta --help' lists the commands"},
      {"dance --help", "'dance' is not a command; 'regatta --help' lists the commands"},
      {"--help dance", "'dance' is not a command; 'regatta --help' lists the commands"},
      {"dance ls", "'dance' is not a command; 'regatta --help' lists the commands"},
      {"ckpt lss",
       "'lss' is not a command; did you mean 'ls'? 'regatta ckpt --help' lists the commands"},
      {"--server x ls", "'regatta' has no option '--server'; 'regatta --help' lists the commands"},
      {"ls -z", "'regatta ls' has no option '-z'; 'regatta ls --help' lists the options"},
      {"show --bogus",
       "'regatta show' has no option '--bogus'; 'regatta show --help' lists the options"},
      {"show", "'regatta show' needs a value for 'run'; 'regatta show --help' lists the options"},
      {"ckpt download x",
       "'regatta ckpt download' needs a value for 'checkpoint'; 'regatta ckpt download --help' "
       "lists "
       "the options"},
      {"ls extra",
       "'extra' is one word too many for 'regatta ls'; 'regatta ls --help' lists the options"},
      {"ls --limit", "--limit needs a value; 'regatta ls --help' lists the options"},
      {"ls --limit 1 --limit 2",
       "--limit is given more than once; 'regatta ls --help' lists the options"},
      {"ls --limit 0", "--limit is '0'; use 1 to 1000000; 'regatta ls --help' lists the options"},
      {"ls --limit nan",
       "--limit is 'nan'; use 1 to 1000000; 'regatta ls --help' lists the options"},
      {"ls --limit 2.5",
       "--limit is '2.5'; use a whole number; 'regatta ls --help' lists the options"},
      {"ls --timeout nan",
       "--timeout is 'nan'; use 0.1 to 3600; 'regatta ls --help' lists the options"},
      {"ls --all=maybe",
       "--all is 'maybe'; leave the value out; 'regatta ls --help' lists the options"},
      {"ls -o xml",
       "--output is 'xml'; use text, json, yaml, csv or name; 'regatta ls --help' lists the "
       "options"},
      {"simulate --nodes 1,x",
       "--nodes is '1,x'; use a whole number; 'regatta simulate --help' lists the options"},
  };
  for (const Case& each : cases) {
    const ParsedCommandLine made = parsed(words_of(each.line));
    EXPECT_EQ(made.error, each.error);
    EXPECT_EQ(made.command, nullptr);
    EXPECT_EQ(made.output, "");
  }
}

// All kinds of values that an option can have.
class EveryKind : public Command {
 public:
  EveryKind() : Command({"every", Group::Plans, "has every kind of option", {}}) {}
  void add_options(OptionList& options) override {
    options.add("first", &first, "a word").is_required = true;
    options.add("rest", &rest, "more words");
    options.add("--flag", &flag, "a flag");
    options.add("--call", std::function<void()>([this] { ++calls; }), "a call");
    options.add("--integer", &integer, "an integer");
    options.add("--real", &real, "a number").range = {-1, 1};
    options.add("--maybe", &maybe, "a number or none");
    options.add("--seed", &seed, "a large integer or none");
    options.add("-n,--numbers", &numbers, "a list");
    options.add("--texts", &texts, "repeatable");
    options.choose("--choice", &choice, {{"one", 1}, {"two", 2}}, "a choice");
  }
  int run() override { return 0; }

  std::string first;
  std::vector<std::string> rest, texts;
  bool flag = false;
  int calls = 0, integer = 7, choice = 1;
  double real = 0.5;
  std::optional<double> maybe;
  std::optional<std::uint64_t> seed;
  std::vector<int> numbers{3};
};

TEST(CommandLine, SetsEveryKindOfValue) {
  Commands commands;
  commands.push_back(std::make_unique<EveryKind>());
  auto& made = dynamic_cast<EveryKind&>(*commands.front());
  const std::string help = parse_command_line(commands, {"every", "--help"}, kProgram).output;
  for (const char* shown : {"--integer INT=7", "--real FLOAT:-1 to 1=0.5", "--choice one|two=one",
                            "--maybe FLOAT ", "--texts TEXT ..."}) {
    EXPECT_THAT(help, HasSubstr(shown));
  }
  const ParsedCommandLine least = parse_command_line(commands, {"every", "a"}, kProgram);
  EXPECT_EQ(least.error, "");
  EXPECT_EQ(made.integer, 7);
  EXPECT_EQ(made.choice, 1);
  EXPECT_EQ(made.numbers, std::vector<int>{3});
  EXPECT_EQ(made.maybe, std::nullopt);

  const ParsedCommandLine most = parse_command_line(commands,
                                                    {"every",
                                                     "--flag",
                                                     "--call",
                                                     "--integer",
                                                     "-4",
                                                     "a",
                                                     "--real=-0.25",
                                                     "--maybe",
                                                     "0",
                                                     "--seed",
                                                     "18446744073709551615",
                                                     "-n",
                                                     "1,2",
                                                     "--texts",
                                                     "x",
                                                     "b",
                                                     "--texts=y z",
                                                     "--choice",
                                                     "two",
                                                     "c"},
                                                    kProgram);
  EXPECT_EQ(most.error, "");
  EXPECT_EQ(most.command, &made);
  EXPECT_EQ(made.first, "a");
  EXPECT_EQ(made.rest, (std::vector<std::string>{"b", "c"}));
  EXPECT_TRUE(made.flag);
  EXPECT_EQ(made.calls, 1);
  EXPECT_EQ(made.integer, -4);
  EXPECT_EQ(made.real, -0.25);
  EXPECT_EQ(made.maybe, 0.0);
  EXPECT_EQ(made.seed, 18446744073709551615U);
  EXPECT_EQ(made.numbers, (std::vector<int>{1, 2}));
  EXPECT_EQ(made.texts, (std::vector<std::string>{"x", "y z"}));
  EXPECT_EQ(made.choice, 2);
}

TEST(CommandLine, SbatchGetsItsWordsAsTheyAre) {
  const std::vector<std::string> words{"--help", "-N2", "ls", "--", "--version", ""};
  std::vector<std::string> line{"sbatch"};
  line.insert(line.end(), words.begin(), words.end());
  const Commands commands = all_commands(kProgram);
  const ParsedCommandLine made = parse_command_line(commands, line, kProgram);
  EXPECT_EQ(made.error + made.output, "");
  ASSERT_NE(made.command, nullptr);
  EXPECT_EQ(made.command->text().name, "sbatch");
  EXPECT_EQ(*made.command->words(), words);
}

TEST(CommandLine, PrintsTheVersion) { EXPECT_EQ(parsed({"--version"}).output, "regatta 1.2.3\n"); }

// What a document says in code: lines that are indented or fenced, and spans in backticks.
std::vector<std::string> code_in(const std::string& markdown) {
  std::vector<std::string> code;
  bool fenced = false;
  std::string prose;
  for (const std::string& line : base::split(markdown, '\n')) {
    if (line.rfind("```", 0) == 0) {
      fenced = !fenced;
    } else if (fenced || line.rfind("    ", 0) == 0) {
      code.push_back(line.substr(0, line.find(" #")));
    } else {
      prose += line + " ";
    }
  }
  const std::vector<std::string> parts = base::split(prose, '`');
  for (std::size_t at = 1; at < parts.size(); at += 2) code.push_back(parts[at]);
  return code;
}

// Compares calls of `regatta` with the table.
class Calls {
 public:
  Calls() {
    for (const Named& each : runnable(commands_)) {
      auto& known = options_[each.name];
      known = {"--help", "-h"};
      if (each.command->words() != nullptr) known.insert("*");
      for (const Option& option : options_of(*each.command)) {
        for (const std::string& name : base::split(option.names, ',')) known.insert(name);
      }
    }
    for (const auto& command : commands_)
      families_[command->text().name] = !command->parts().empty();
  }

  // What is wrong with the calls in a piece of code.
  [[nodiscard]] std::vector<std::string> faults(const std::string& code) {
    std::vector<std::string> found;
    if (code.find("regatta ") == std::string::npos) return found;
    static const std::regex call(R"((^|[\s/('$])regatta ([a-z]+)(?![a-z./_=-])([^|;&)']*))");
    for (auto at = std::sregex_iterator(code.begin(), code.end(), call);
         at != std::sregex_iterator(); ++at) {
      ++count;
      check((*at)[2], words_of((*at)[3]), &found);
    }
    return found;
  }

  int count = 0;  // calls that were looked at

 private:
  void check(std::string name, std::vector<std::string> words, std::vector<std::string>* found) {
    const auto family = families_.find(name);
    if (family == families_.end()) {
      found->push_back("'regatta " + name + "' is not a command");
      return;
    }
    if (family->second) {
      if (words.empty() || !std::isalpha(static_cast<unsigned char>(words.front().front()))) return;
      name += " " + words.front();
    }
    const auto known = options_.find(name);
    if (known == options_.end()) {
      found->push_back("'regatta " + name + "' is not a command");
      return;
    }
    if (known->second.count("*") > 0) return;  // another program's
    const std::regex option(R"(\[?(--[a-z][a-z-]*|-[a-z]$).*)");
    for (const std::string& word : words) {
      std::smatch match;
      if (!std::regex_match(word, match, option) || known->second.count(match[1]) > 0) continue;
      found->push_back("'regatta " + name + "' has no option " + std::string(match[1]));
    }
  }

  const Commands commands_ = all_commands(kProgram);
  std::map<std::string, std::set<std::string>> options_;
  std::map<std::string, bool> families_;
};

std::vector<base::Path> sources(const std::set<std::string>& extensions) {
  const std::set<std::string> skipped{"build", "node_modules", ".git", "dist", "demo", ".ccache"};
  std::vector<base::Path> found;
  for (auto at = std::filesystem::recursive_directory_iterator(REGATTA_SOURCE_DIR);
       at != std::filesystem::recursive_directory_iterator(); ++at) {
    if (at->is_directory() && skipped.count(at->path().filename()) > 0) {
      at.disable_recursion_pending();
    } else if (at->is_regular_file() && extensions.count(at->path().extension()) > 0) {
      found.push_back(at->path());
    }
  }
  return found;
}

TEST(CommandTable, DocumentsNameOnlyCommandsAndOptionsThatExist) {
  Calls calls;
  for (const base::Path& path : sources({".md"})) {
    for (const std::string& code : code_in(tests::file_text(path))) {
      EXPECT_THAT(calls.faults(code), IsEmpty()) << path << ": " << code;
    }
  }
  EXPECT_GT(calls.count, 60) << "documents call the program in many places";
}

// Messages quote calls: "; 'regatta watch demo' shows it".
TEST(CommandTable, MessagesNameOnlyCommandsAndOptionsThatExist) {
  Calls calls;
  for (const base::Path& path : sources({".cc", ".h", ".sh"})) {
    const std::string relative = path.lexically_relative(REGATTA_SOURCE_DIR);
    if (relative.rfind("tests/", 0) == 0) continue;  // they also try what is wrong
    const std::string text = tests::file_text(path);
    for (std::size_t at = text.find("regatta "); at != std::string::npos;
         at = text.find("regatta ", at + 1)) {
      const bool is_shown = at > 20 && text.substr(at - 15, 15) == "shown_command(\"";
      if (at == 0 || (text[at - 1] != '\'' && text[at - 1] != '`' && !is_shown)) continue;
      const std::string quoted = text.substr(at, text.find_first_of("'`\"\n", at) - at);
      EXPECT_THAT(calls.faults(quoted), IsEmpty()) << path << ": " << quoted;
    }
  }
  EXPECT_GT(calls.count, 30);
}

TEST(CommandTable, AWrongCallInADocumentIsFound) {
  Calls calls;
  const auto faults = [&](const std::string& markdown) {
    std::string all;
    for (const std::string& code : code_in(markdown)) all += base::join(calls.faults(code), ", ");
    return all;
  };
  EXPECT_EQ(faults("    regatta shw demo"), "'regatta shw' is not a command");
  EXPECT_EQ(faults("see `regatta ckpt lst`"), "'regatta ckpt lst' is not a command");
  EXPECT_EQ(faults("`regatta\nls --lmit 3`"), "'regatta ls' has no option --lmit");
  EXPECT_EQ(faults("```\nx/regatta ls --limit=3 -x\n```"), "'regatta ls' has no option -x");
  EXPECT_EQ(faults("    regatta ls --limit 3   # --what is this\n`regatta-train lst`, regatta lst"),
            "");
  EXPECT_EQ(faults("`regatta sbatch --gres=gpu:1 x.sh`"), "");
}

}  // namespace
}  // namespace regatta::orchestrator::cli
