#include "trainer/cli/prepare_task.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <optional>

#include "base/error.h"
#include "base/file_system.h"
#include "base/text.h"
#include "trainer/cli/option_checks.h"
#include "trainer/contract/model_shape.h"
#include "trainer/data/dataset.h"
#include "trainer/interchange/hugging_face.h"
#include "trainer/tasks/task_dataset.h"

namespace regatta::trainer::cli {
namespace {

constexpr std::uint64_t kLargestTokenizerConfig = std::uint64_t{16} << 20U;

// A model's vocab.txt, and whether its text is in lower case, if that is said.
struct TaskVocabulary {
  base::Path file;
  std::optional<bool> lower_case;
};

// `given`: the file, or a directory that has it: of Hugging Face, or a dataset.
[[nodiscard]] TaskVocabulary task_vocabulary(const base::Path& given, base::FileSystem& files) {
  std::error_code unknown;
  if (!std::filesystem::is_directory(given, unknown)) return {given, std::nullopt};
  TaskVocabulary found{given / data::kVocabularyName, std::nullopt};
  if (!files.exists(found.file)) {
    throw base::Error(base::Code::NotFound,
                      "--vocabulary: " + base::printable(given.string()) +
                          " has no vocab.txt; name the model's vocab.txt or its directory");
  }
  const base::Path config = given / interchange::kTokenizerConfigFile;
  if (files.exists(config)) {
    found.lower_case = interchange::lower_case_of(files.read(config, kLargestTokenizerConfig),
                                                  base::printable(config.string()));
  } else if (tasks::TaskDataset::is_there(given, files)) {
    found.lower_case = tasks::TaskDataset::open(given, files).lower_case();
  } else if (files.exists(given / data::kManifestName)) {
    found.lower_case = data::Dataset::open(given).manifest().tokenizer.lower_case;
  }
  return found;
}

[[nodiscard]] contract::Task task_named(const std::string& name) {
  const auto& names = contract::task_names();
  return static_cast<contract::Task>(std::find(names.begin(), names.end(), name) - names.begin());
}

}  // namespace

void PrepareTask::add(CLI::App& app, const std::vector<CLI::Option*>& others) {
  std::vector<std::string> names = contract::task_names();
  names.erase(names.begin());  // pre-training: without --task
  CLI::Option* const task =
      app.add_option("--task", task_,
                     "make a dataset to fine-tune on, of two files: TRAINING EVALUATION, of SQuAD "
                     "for question-answering, else .tsv, .csv or .jsonl")
          ->check(CLI::IsMember(names));
  for (CLI::Option* const other : others) task->excludes(other);
  app.add_option("--text-column", text_column_,
                 "with --task: column or field of the text, by name or number from 1 (default: "
                 "known by its name, as in GLUE's files)")
      ->needs(task)
      ->check(not_empty());
  app.add_option("--second-text-column", second_text_column_,
                 "with --task: that of the second text of a pair; with --text-column only")
      ->needs(task)
      ->check(not_empty());
  app.add_option("--label-column", label_column_, "with --task: that of the label or number")
      ->needs(task)
      ->check(not_empty());
  app.add_flag("--no-header", no_header_,
               "with --task: tables begin with an example; columns have numbers")
      ->needs(task);
}

void PrepareTask::check(const Shared& given) const {
  const auto fail = [](const std::string& what) { throw base::Error(base::Code::User, what); };
  if (given.inputs.size() != 2) {
    fail("--task takes two files, TRAINING and EVALUATION, and " +
         std::to_string(given.inputs.size()) + (given.inputs.size() == 1 ? " is" : " are") +
         " given; name both");
  }
  if (given.vocabulary.empty()) {
    fail("name the vocab.txt of the model, or the model's directory, with --vocabulary");
  }
  if (given.format == "text") fail("--format text has no labels; choose tsv, csv or jsonl");
  if (task_named(task_) == contract::Task::QuestionAnswering) {
    const std::string advice =
        " is of tables, and --task question-answering reads SQuAD files; "
        "leave it out";
    if (!given.format.empty()) fail("--format" + advice);
    if (!text_column_.empty()) fail("--text-column" + advice);
    if (!second_text_column_.empty()) fail("--second-text-column" + advice);
    if (!label_column_.empty()) fail("--label-column" + advice);
    if (no_header_) fail("--no-header" + advice);
  }
  if (text_column_.empty() && !second_text_column_.empty()) {
    fail("--second-text-column needs --text-column; give both");
  }
  if (no_header_ && (text_column_.empty() || label_column_.empty())) {
    fail("--no-header needs --text-column and --label-column as numbers from 1; give both");
  }
  if (no_header_ && given.format == "jsonl") {
    fail("--no-header is of tables, not of --format jsonl; leave it out");
  }
}

tasks::TaskPrepareReport PrepareTask::prepared(const Shared& given,
                                               data::PartialDataset& partial) const {
  check(given);
  base::FileSystem& files = base::posix_file_system();
  const TaskVocabulary vocabulary = task_vocabulary(given.vocabulary, files);
  tasks::TaskPrepareOptions options;
  options.task = task_named(task_);
  options.training = given.inputs[0];
  options.evaluation = given.inputs[1];
  options.vocabulary = vocabulary.file;
  options.lower_case = !given.cased && vocabulary.lower_case.value_or(true);
  options.examples.format = tasks::example_format_named(given.format);
  options.examples.header = !no_header_;
  options.examples.text_column = text_column_;
  options.examples.second_text_column = second_text_column_;
  options.examples.label_column = label_column_;
  options.output = given.output;
  options.force = given.force;
  options.partial = &partial;
  return tasks::prepare_task(options, files);
}

}  // namespace regatta::trainer::cli
