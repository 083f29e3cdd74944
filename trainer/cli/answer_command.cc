#include "trainer/cli/answer_command.h"

#include <CLI/CLI.hpp>
#include <cstdint>
#include <cstdio>

#include "base/clock.h"
#include "base/error.h"
#include "base/file_system.h"
#include "trainer/cli/option_checks.h"

namespace regatta::trainer::cli {
namespace {

constexpr std::uint64_t kMostContextFile = std::uint64_t{1} << 20U;  // what `ask` takes

}  // namespace

CLI::App* AnswerCommand::add(CLI::App& program) {
  CLI::App* app = program.add_subcommand(
      "answer", "a model's best answers to a question about a text, and where they stand");
  model_.add(*app);
  app->add_option("--question", options_.question, "the question")->required()->check(not_empty());
  CLI::Option* const text =
      app->add_option("--context", options_.context, "the text that has the answer")
          ->check(not_empty());
  app->add_option("--context-file", context_file_, "a file with that text, in UTF-8")
      ->check(not_empty())
      ->excludes(text);
  app->add_option("--top", options_.best, "answers told (default: 3)")->check(CLI::Range(1, 20));
  model_.add_question_choices(*app);
  app->add_flag("--json", json_, "one JSON object instead of a table");
  return app;
}

int AnswerCommand::run() {
  base::FileSystem& files = base::posix_file_system();
  if (!context_file_.empty()) {
    options_.context = files.read(context_file_, kMostContextFile);
  } else if (options_.context.empty()) {
    throw base::Error(base::Code::User, "name the text with --context or --context-file");
  }
  options_.model = model_.model();
  options_.vocabulary = model_.vocabulary();
  options_.use = model_.use();
  options_.choices = model_.choices();
  const interchange::AskedQuestion asked = interchange::ask(files, base::system_clock(), options_);
  std::fputs((json_ ? interchange::to_json(asked) : interchange::to_text(asked)).c_str(), stdout);
  return 0;
}

}  // namespace regatta::trainer::cli
