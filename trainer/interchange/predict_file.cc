#include "trainer/interchange/predict_file.h"

#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "base/wording.h"
#include "trainer/interchange/staged_directory.h"
#include "trainer/run/checkpoint_choice.h"
#include "trainer/run/checkpoint_evaluation.h"
#include "trainer/tasks/question_file.h"
#include "trainer/tasks/task_dataset.h"
#include "trainer/tasks/task_samples.h"

namespace regatta::trainer::interchange {
namespace {

using base::Code;
using base::Error;
using contract::Task;
using run::shown;

// What a directory may have that --force replaces.
constexpr std::string_view kPredictionFiles[] = {"predictions.json", "nbest_predictions.json",
                                                 "null_odds.json", "predictions.tsv"};
constexpr char kOutputTaken[] =
    "choose another output, or replace earlier predictions with --force";

StagedDirectory::Existing check_predictions(base::FileSystem& files,
                                            const PredictOptions& options) {
  const base::Path& given = options.output;
  const base::Path parent = (given.has_filename() ? given : given.parent_path()).parent_path();
  if (!parent.empty() && !files.exists(parent)) {
    throw Error(Code::NotFound, "no directory " + shown(parent) + " to make --output in; make it");
  }
  if (!files.exists(options.output)) return StagedDirectory::Existing::Refuse;
  if (!options.force) {
    throw Error(Code::Conflict, shown(options.output) + " exists already; " + kOutputTaken);
  }
  for (const std::string& name : files.list(options.output)) {
    const bool known = std::find(std::begin(kPredictionFiles), std::end(kPredictionFiles), name) !=
                       std::end(kPredictionFiles);
    if (known) continue;
    throw Error(Code::Conflict, shown(options.output) + " has " + base::printable(name) +
                                    ", which is no file of predictions, so --force does not "
                                    "replace it; choose another output");
  }
  return StagedDirectory::Existing::Replace;
}

// Before a model is read.
void check_choices(const PredictOptions& options, Task task) {
  const tasks::ExampleOptions& examples = options.examples;
  const QuestionChoices& choices = options.choices;
  const bool of_examples = examples.format != tasks::ExampleFormat::Automatic || !examples.header ||
                           !examples.text_column.empty() || !examples.second_text_column.empty() ||
                           !examples.label_column.empty() || !examples.labels.empty() ||
                           examples.kind == tasks::ExampleLabels::Absent;
  const bool of_questions = choices.doc_stride || choices.max_question || choices.max_answer ||
                            choices.null_threshold || choices.always_answered;
  if (task == Task::QuestionAnswering && of_examples) {
    throw Error(Code::User,
                "the model answers questions, and its files are SQuAD's; leave out "
                "--format, --labels and what is about columns");
  }
  if (task != Task::QuestionAnswering && of_questions) {
    throw Error(Code::User, "the model is one for " + contract::name_of(task) +
                                "; leave out what is about questions (--doc-stride, "
                                "--max-question, --max-answer, --null-threshold, --answerable)");
  }
  if (task != Task::Classification && !examples.labels.empty()) {
    throw Error(Code::User, "--labels is of classes, and the model is one for " +
                                contract::name_of(task) + "; leave it out");
  }
}

std::vector<std::string> labels_for(const AnyModel& model, const PredictOptions& options) {
  const std::vector<std::string>& given = options.examples.labels;
  if (given.empty() || given.size() == model.labels.size()) {
    return given.empty() ? model.labels : given;
  }
  throw Error(Code::User, "--labels names " + base::plural(given.size(), "label") + ", and " +
                              model.name + " has " + std::to_string(model.labels.size()) + " (" +
                              base::printable(base::join(model.labels, ", ")).substr(0, 200) +
                              "); name all, in its order");
}

void tell_cut_examples(const tasks::ExampleSet& examples, Task task, tasks::TaskText text,
                       std::vector<std::string>* notes) {
  const auto most = static_cast<std::size_t>(text.max_length);
  text.max_length = std::numeric_limits<int>::max();
  const std::vector<samples::Sample> whole = tasks::example_samples(examples, task, text).samples;
  const auto cut = std::count_if(whole.begin(), whole.end(), [most](const samples::Sample& one) {
    return one.ids.size() > most;
  });
  if (cut == 0) return;
  notes->push_back(base::plural(cut, "example") + " of " + std::to_string(whole.size()) +
                   " cut to " + std::to_string(most) + " tokens, from the end of the longer text");
}

std::unique_ptr<tasks::JudgedSet> examples_to_predict(const AnyModel& model,
                                                      const PredictOptions& options,
                                                      const tasks::TaskText& text,
                                                      Predicted* predicted) {
  const Task task = model.shape.task;
  tasks::ExampleOptions reading = options.examples;
  const bool absent = reading.kind == tasks::ExampleLabels::Absent;
  if (task == Task::Classification) reading.labels = labels_for(model, options);
  if (!absent && task == Task::Regression) reading.kind = tasks::ExampleLabels::Numbers;
  reading.labels_if_there = true;
  tasks::ExampleSet examples = tasks::read_examples(options.file, STDIN_FILENO, reading);
  predicted->count = examples.texts.size();
  if (examples.invalid_sequences > 0) {
    predicted->notes.push_back(
        base::plural(examples.invalid_sequences, "ill-formed UTF-8 sequence") + " read as U+FFFD");
  }
  tell_cut_examples(examples, task, text, &predicted->notes);
  return tasks::judged_examples(std::move(examples), task, text);
}

// Where the file does not tell: what the model has learned, or a threshold that is asked for.
bool may_be_null(base::FileSystem& files, const AnyModel& model, const QuestionChoices& choices) {
  if (choices.null_threshold) return true;
  if (model.dataset.empty()) return false;
  const auto dataset = tasks::TaskDataset::open(model.dataset, files);
  const tasks::QuestionSet learned = dataset.questions(tasks::Part::Training);
  return std::any_of(learned.questions.begin(), learned.questions.end(),
                     [](const tasks::Question& question) { return question.impossible; });
}

std::unique_ptr<tasks::JudgedSet> questions_to_predict(base::FileSystem& files,
                                                       const AnyModel& model,
                                                       const PredictOptions& options,
                                                       const tasks::TaskText& text,
                                                       Predicted* predicted) {
  tasks::QuestionSet questions =
      tasks::read_question_file(options.file, tasks::QuestionUse::Prediction, files);
  predicted->count = questions.questions.size();
  tell_cut_questions(questions, text, &predicted->notes);
  const bool always = options.choices.always_answered;
  const bool told = always || tasks::may_be_null_by_file(questions).has_value();
  const bool null = !told && may_be_null(files, model, options.choices);
  if (!told && !null) {
    predicted->notes.emplace_back(
        "the file has neither a version nor answers, so that every question gets an answer; with "
        "--null-threshold 0 some may have none");
  }
  return tasks::judged_questions(std::move(questions), text, null, always);
}

}  // namespace

Predicted predict_file(base::FileSystem& files, const base::Clock& clock,
                       const PredictOptions& options) {
  const StagedDirectory::Existing existing = check_predictions(files, options);
  const AnyModel model =
      open_any_model(files, clock, {options.model, options.vocabulary, std::nullopt});
  const Task task = model.shape.task;
  if (task == Task::Pretraining) {
    throw Error(Code::User, shown(options.model) +
                                ": has no head that answers questions, classifies or gives a "
                                "number; fill in masked words with `regatta-train fill`, or train "
                                "a head: a run file with task and from: this model");
  }
  check_choices(options, task);
  Predicted predicted;
  predicted.notes = model.notes;
  predicted.model = model.name;
  predicted.task = task;
  predicted.file = options.file;
  predicted.output = options.output;
  const tasks::TaskText text =
      text_for(model, options.choices, threads_of(options.use), &predicted.notes);
  const std::unique_ptr<tasks::JudgedSet> set =
      task == Task::QuestionAnswering
          ? questions_to_predict(files, model, options, text, &predicted)
          : examples_to_predict(model, options, text, &predicted);
  predicted.samples = set->samples().size();
  ModelOnDevice used(model, options.use);
  predicted.device = used.device();
  const double start = clock.monotonic_seconds();
  const tasks::JudgedSet::Logits logits = used.logits(set->samples());
  predicted.seconds = clock.monotonic_seconds() - start;
  if (set->labelled()) {
    predicted.metrics = set->score(logits);
    predicted.best = set->best_thresholds(logits);
  } else {
    predicted.notes.emplace_back("not everything in the file has a label, so nothing is scored");
  }
  StagedDirectory staged(files, options.output, existing, kOutputTaken);
  set->write_predictions(logits, staged.path(), files);
  staged.publish();
  return predicted;
}

std::string to_text(const Predicted& predicted) {
  std::string text;
  for (const std::string& note : predicted.notes) text += base::printable(note) + "\n";
  const auto line = [&](const char* name, const std::string& value) {
    text += base::formatted("%-24s", name) + base::printable(value) + "\n";
  };
  const auto figure = [&](const char* name, double value) {
    line(name, base::formatted("%.6f", value));
  };
  line("model", predicted.model);
  line("file", predicted.file.string());
  line("device", predicted.device);
  const bool asks = predicted.task == Task::QuestionAnswering;
  line(asks ? "questions" : "examples", std::to_string(predicted.count));
  if (asks) line("windows", std::to_string(predicted.samples));
  for (const contract::Metric& metric : predicted.metrics) {
    figure(metric.name.c_str(), metric.value);
  }
  if (predicted.best) {
    for (const auto& [name, value] : run::figures_of(*predicted.best)) figure(name, value);
  }
  line("time", base::human_seconds(predicted.seconds));
  line("predictions", predicted.output.string());
  return text;
}

std::string to_json(const Predicted& predicted) {
  nlohmann::ordered_json json{
      {"model", predicted.model},        {"task", contract::name_of(predicted.task)},
      {"file", predicted.file.string()}, {"output", predicted.output.string()},
      {"device", predicted.device},      {"count", predicted.count},
      {"samples", predicted.samples}};
  for (const contract::Metric& metric : predicted.metrics) json[metric.name] = metric.value;
  if (predicted.best) {
    for (const auto& [name, value] : run::figures_of(*predicted.best)) json[name] = value;
  }
  json["seconds"] = predicted.seconds;
  json["notes"] = predicted.notes;
  return base::json_text(json) + "\n";
}

}  // namespace regatta::trainer::interchange
