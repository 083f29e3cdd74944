#include "trainer/cli/predict_command.h"

#include <CLI/CLI.hpp>
#include <cstdio>

#include "base/clock.h"
#include "base/error.h"
#include "base/file_system.h"
#include "trainer/cli/option_checks.h"
#include "trainer/tasks/task_dataset.h"

namespace regatta::trainer::cli {

CLI::App* PredictCommand::add(CLI::App& program) {
  CLI::App* app = program.add_subcommand(
      "predict", "a model's predictions for a file, and its scores where the file has labels");
  model_.add(*app);
  app->add_option("file", file_,
                  "a SQuAD file for a model that answers questions, else .tsv, .csv or .jsonl")
      ->required()
      ->check(not_empty());
  app->add_option("--output,-o", output_, "directory to make")->required()->check(not_empty());
  app->add_flag("--force", options_.force, "replace earlier predictions");
  tasks::ExampleOptions& examples = options_.examples;
  app->add_option("--format", format_, "of examples: tsv, csv or jsonl (default: by the name)")
      ->check(CLI::IsMember({"tsv", "csv", "jsonl"}));
  CLI::Option* const text =
      app->add_option("--text-column", examples.text_column,
                      "column or field of the text, by name or number from 1 (default: known by "
                      "its name, as in GLUE's files)")
          ->check(not_empty());
  app->add_option("--second-text-column", examples.second_text_column,
                  "that of the second text of a pair")
      ->needs(text)
      ->check(not_empty());
  CLI::Option* const label =
      app->add_option("--label-column", examples.label_column, "that of the label or number")
          ->check(not_empty());
  app->add_flag("--no-header", no_header_, "tables begin with an example; columns have numbers")
      ->needs(text);
  app->add_option("--labels", examples.labels,
                  "names of the model's classes in its order, where the file has others: a,b,…")
      ->delimiter(',')
      ->allow_extra_args(false);
  app->add_flag("--no-labels", no_labels_, "predict only, whatever labels the file has")
      ->excludes(label);
  model_.add_question_choices(*app);
  app->add_flag("--json", json_, "one JSON object instead of a table");
  return app;
}

int PredictCommand::run() {
  options_.model = model_.model();
  options_.vocabulary = model_.vocabulary();
  options_.use = model_.use();
  options_.choices = model_.choices();
  options_.file = file_;
  options_.output = output_;
  options_.examples.format = tasks::example_format_named(format_);
  options_.examples.header = !no_header_;
  if (no_labels_) options_.examples.kind = tasks::ExampleLabels::Absent;
  const interchange::Predicted predicted =
      interchange::predict_file(base::posix_file_system(), base::system_clock(), options_);
  std::fputs((json_ ? interchange::to_json(predicted) : interchange::to_text(predicted)).c_str(),
             stdout);
  return 0;
}

}  // namespace regatta::trainer::cli
