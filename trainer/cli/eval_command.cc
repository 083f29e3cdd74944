#include "trainer/cli/eval_command.h"

#include <CLI/CLI.hpp>
#include <cstdio>

#include "trainer/cli/option_checks.h"

namespace regatta::trainer::cli {

CLI::App* EvalCommand::add(CLI::App& program) {
  CLI::App* app = program.add_subcommand(
      "eval", "loss and accuracy of a checkpoint on a dataset's held-out documents");
  app->add_option("checkpoint", checkpoint_,
                  "a run directory for its newest checkpoint, or RUN/checkpoints/step-…")
      ->required()
      ->check(not_empty());
  app->add_option("--dataset", dataset_,
                  "dataset directory, instead of the run's own; with the same vocabulary")
      ->check(not_empty());
  app->add_option("--threads", options_.threads, "threads, instead of the run file's")
      ->check(CLI::Range(1, 1024));
  app->add_flag("--json", json_, "one JSON object instead of a table");
  return app;
}

int EvalCommand::run() {
  options_.checkpoint = checkpoint_;
  options_.dataset = dataset_;
  const run::CheckpointEvaluation evaluation =
      run::evaluate_checkpoint(base::posix_file_system(), base::system_clock(), options_);
  std::fputs((json_ ? run::to_json(evaluation) : run::to_text(evaluation)).c_str(), stdout);
  return 0;
}

}  // namespace regatta::trainer::cli
