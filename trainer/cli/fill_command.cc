#include "trainer/cli/fill_command.h"

#include <CLI/CLI.hpp>
#include <cstdio>

#include "base/clock.h"
#include "base/file_system.h"
#include "trainer/cli/option_checks.h"

namespace regatta::trainer::cli {

CLI::App* FillCommand::add(CLI::App& program) {
  CLI::App* app = program.add_subcommand(
      "fill", "what a model puts for each [MASK] of a text, with probabilities");
  model_.add(*app);
  app->add_option("text", options_.text, "text with [MASK] for each word to fill in")
      ->required()
      ->check(not_empty());
  app->add_option("--top", options_.best, "pieces told of each mask (default: 5)")
      ->check(CLI::Range(1, 1000));
  app->add_flag("--json", json_, "one JSON object instead of a table");
  return app;
}

int FillCommand::run() {
  options_.model = model_.model();
  options_.vocabulary = model_.vocabulary();
  options_.use = model_.use();
  const interchange::FilledText filled =
      interchange::fill_masks(base::posix_file_system(), base::system_clock(), options_);
  std::fputs((json_ ? interchange::to_json(filled) : interchange::to_text(filled)).c_str(), stdout);
  return 0;
}

}  // namespace regatta::trainer::cli
