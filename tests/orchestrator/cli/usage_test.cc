// Wrong command lines, of all commands: exit code 2, one line, nothing done. What only a command
// can see counts like what the parser sees.
#include <gmock/gmock.h>

#include <algorithm>
#include <iostream>
#include <variant>

#include "base/text.h"
#include "orchestrator/cli/cli.h"
#include "orchestrator/cli/commands.h"
#include "orchestrator/cli/usage_error.h"

namespace regatta::orchestrator::cli {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

const Program kProgram{{}, "regatta 1.2.3", "0123"};
using Words = std::vector<std::string>;

struct Outcome {
  int code;
  std::string text, errors;
};

Outcome outcome_of(const Words& words) {
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  Outcome made{};
  try {
    made.code = run_command_line("regatta", words, kProgram);
  } catch (const base::Error& error) {
    made.code = base::meaning(error.code()).exit_code;
    std::cerr << "regatta: " << error.what() << "\n";
  }
  made.text = testing::internal::GetCapturedStdout();
  made.errors = testing::internal::GetCapturedStderr();
  return made;
}

void expect_usage_error(const Words& words, const std::string& why) {
  const Outcome made = outcome_of(words);
  const std::string line = base::join(words, " ");
  EXPECT_EQ(made.code, kUsageError) << line << ": " << made.errors;
  EXPECT_EQ(made.text, "") << line;
  EXPECT_THAT(made.errors, StartsWith("regatta: ")) << line;
  EXPECT_THAT(made.errors, HasSubstr(why)) << line;
  EXPECT_EQ(std::count(made.errors.begin(), made.errors.end(), '\n'), 1) << made.errors;
}

// Each runnable command, with the words that name it and what it takes.
struct Named {
  Words words;
  std::vector<Option> options;
};
void collect(const Commands& commands, const Words& before, std::vector<Named>* all) {
  for (const auto& command : commands) {
    Words words = before;
    words.push_back(command->text().name);
    if (!command->parts().empty()) {
      collect(command->parts(), words, all);
    } else if (command->words() == nullptr) {
      OptionList options;
      command->add_options(options);
      all->push_back({words, options.all()});
    }
  }
}

bool is_number(const Option& option) {
  return std::holds_alternative<int*>(option.target) ||
         std::holds_alternative<double*>(option.target) ||
         std::holds_alternative<std::optional<double>*>(option.target) ||
         std::holds_alternative<std::optional<std::uint64_t>*>(option.target) ||
         std::holds_alternative<std::vector<int>*>(option.target);
}
bool is_flag(const Option& option) {
  return std::holds_alternative<bool*>(option.target) ||
         std::holds_alternative<std::function<void()>>(option.target);
}

TEST(Usage, EveryCommandRefusesWhatItDoesNotTake) {
  const Commands table = all_commands(kProgram);
  std::vector<Named> all;
  collect(table, {}, &all);
  ASSERT_GT(all.size(), 35U);
  int missing = 0, malformed = 0;
  for (const Named& each : all) {
    const auto with = [&each](Words more) {
      more.insert(more.begin(), each.words.begin(), each.words.end());
      return more;
    };
    expect_usage_error(with({"--no-such-option"}), "has no option '--no-such-option'");
    const bool needs = std::any_of(each.options.begin(), each.options.end(),
                                   [](const Option& option) { return option.is_required; });
    if (needs) {
      expect_usage_error(each.words, "needs a value for");
      ++missing;
    }
    Words operands;
    for (const Option& option : each.options) {
      if (option.is_required && option.names.front() != '-') operands.push_back("word");
    }
    for (const Option& option : each.options) {
      const std::string name = option.name();
      if (name.front() != '-' || option.is_hidden) continue;  // a hidden one is our own programs'
      if (is_flag(option)) {
        expect_usage_error(with({name + "=maybe"}), name + " is 'maybe'");
        continue;
      }
      expect_usage_error(with({name}), name + " needs a value");
      if (!is_number(option) && option.choices.empty()) continue;
      Words words = operands;
      words.push_back(name + "=no-such-word");
      expect_usage_error(with(words), name + " is 'no-such-word'; use ");
      ++malformed;
    }
  }
  EXPECT_GT(missing, 15);
  EXPECT_GT(malformed, 80);
}

TEST(Usage, CommandsRefuseWhatOnlyTheySee) {
  struct Case {
    Words words;
    const char* why;
  };
  const Words nowhere{"--server", "unix:/nowhere/controller.sock"};
  for (Case each : std::vector<Case>{
           {{"ls", "--tag", ""}, "--tag is ''"},
           {{"ls", "--owner", ""}, "--owner is ''"},
           {{"ls", "--state", ""}, "--state is ''"},
           {{"ls", "--state", "running,busy"}, "--state has 'busy'; use queued, starting"},
           {{"ls", "--since", "yesterday"}, "--since is 'yesterday'; use an age such as 90m"},
           {{"ls", "--until", "7x"}, "--until is '7x'"},
           {{"ls", "--columns", "id,stat"}, "--columns has 'stat'; did you mean 'state'?"},
           {{"ls", "--columns", "id,stat"}, "? Use id, name, state, "},
           {{"ls", "--columns", ""}, "--columns has ''"},
           {{"ls", "--columns", "id,,state"}, "--columns has ''"},
           {{"ls", "--columns", "id,"}, "--columns has ''"},
           {{"ls", "--columns", "id,qqqqqqqqqq"}, "--columns has 'qqqqqqqqqq'; use "},
           {{"ls", "--columns", "id,state,id"}, "--columns has 'id' more than once"},
           {{"ls", "--columns", "id", "-o", "yaml"}, "--columns is for -o text and csv"},
           {{"ls", "--every", "3"}, "--every has no effect without --watch"},
           {{"ls", "--watch", "-o", "csv"}, "--watch prints text, json or yaml"},
           {{"show", ""}, "a name is empty"},
           {{"references", "rm", ""}, "a name is empty"},
           {{"logs", "x", "-C", "2"}, "--context has no effect without --grep"},
           {{"logs", "x", "-i"}, "--ignore-case has no effect without --grep"},
           {{"logs", "x", "--grep", ""}, "--grep is ''"},
           {{"logs", "x", "--grep", "a", "-f"}, "leave out -f and --tail"},
           {{"logs", "x", "--every", "1"}, "--every has no effect without --follow"},
           {{"logs", "x", "--list", "-f"}, "--list lists logs"},
           {{"logs", "x", "-o", "csv"}, "a log is text or json"},
           {{"submit", "x.yaml", "--dry-run", "--wait"}, "leave out --wait"},
           {{"rm", "x"}, "add --yes"},
           {{"webhooks", "--skip", "x", "--redeliver", "x"}, "send to 'x'; give one of them"},
           {{"compare", "one"}, "1 run cannot be compared; name 2 to 10"},
           {{"compare", "one", "two", "three", "--learning"},
            "--speed, --learning, --environment and files compare two, not 3"},
           {{"compare", "one.json", "./two", "--speed"}, "one of these is a path; a run elsewhere"},
           {{"compare", "one", "two", "three.json"}, "compare two, not 3"},
           {{"resume", "x", "--set", "steps=3"}, "is not slurm.KEY=VALUE"},
           {{"export", "x", "-o", "tensorboard"}, "name the directory"},
           {{"export", "x", "--directory", "d"}, "--directory is for -o tensorboard"},
           {{"export", "x", "--series", "all"}, "rows of several series are no table"},
           {{"open", "--url", "ftp://x"}, "--url is 'ftp://x'"},
           {{"ckpt", "ls"}, "no run is named"},
           {{"ckpt", "ls", "a", "b"}, "'b' is one word too many"},
           {{"ckpt", "show", "a"}, "no checkpoint to show is named"},
           {{"ckpt", "pin", "a", "1", "2"}, "more than one checkpoint to pin is named"},
           {{"ckpt", "diff", "a"}, "diff takes two checkpoint directories"},
           {{"ckpt", "export", "a"}, "give RUN and CHECKPOINT"},
           {{"ckpt", "export", "a", "b", "--cased"}, "--cased is for exports that are made here"},
           {{"ckpt", "export", "a", "b", "--vocab", "v"}, "--vocab is for exports"}}) {
    each.words.insert(each.words.end(), nowhere.begin(), nowhere.end());
    expect_usage_error(each.words, each.why);
  }
  expect_usage_error({"simulate"}, "simulate needs a run file and --cluster");
  expect_usage_error({"simulate", "-", "--cluster", "-"}, "cannot both be stdin");
  expect_usage_error({"completion"}, "no shell is named");
  expect_usage_error({"import", "mlperf", "a", "b", "--name", "n"}, "--name is for one file");
  expect_usage_error({"ls", "--server", "gopher://x"}, "is not an address");
  expect_usage_error({"init", "--output", ""}, "--output is ''; name a file");
  expect_usage_error({"init", "-o", "-", "--force"}, "--force is for a file");
  expect_usage_error({"schema", "--output", ""}, "--output is ''; name a file");
  expect_usage_error({"help", "lss"}, "'lss' is not a command; did you mean 'ls'?");
}

// A '/' would lead to another address, where dots would, too: curl takes them away.
TEST(Usage, WhatCannotBeANameIsNotFound) {
  for (const Words& words : std::vector<Words>{{"references", "rm", "a/b"},
                                               {"references", "rm", ".."},
                                               {"show", "a/b"},
                                               {"ckpt", "show", "a", "../.."}}) {
    Words line = words;
    line.insert(line.end(), {"--server", "unix:/nowhere/controller.sock"});
    const Outcome made = outcome_of(line);
    EXPECT_EQ(made.code, 3) << made.errors;
    EXPECT_THAT(made.errors, HasSubstr("nothing is called '" + words.back() + "'"));
  }
}

TEST(Usage, HelpIsThatOfTheOption) {
  for (const Words& words :
       std::vector<Words>{{}, {"ls"}, {"ckpt"}, {"ckpt", "verify"}, {"help"}}) {
    Words asked = words, option = words;
    asked.insert(asked.begin(), "help");
    option.emplace_back("--help");
    const Outcome made = outcome_of(asked);
    EXPECT_EQ(made.code, 0) << made.errors;
    EXPECT_EQ(made.text, outcome_of(option).text);
    EXPECT_THAT(made.text, HasSubstr("Usage: regatta"));
  }
}

}  // namespace
}  // namespace regatta::orchestrator::cli
