#include "trainer/interchange/model_export.h"

#include <map>
#include <span>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "checkpoint/joined_reader.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/shards.h"
#include "checkpoint/store.h"
#include "trainer/contract/run_config.h"
#include "trainer/data/dataset_format.h"
#include "trainer/interchange/question_head.h"
#include "trainer/interchange/run_model.h"
#include "trainer/interchange/staged_directory.h"
#include "trainer/run/checkpoint_choice.h"

namespace regatta::trainer::interchange {
namespace {

using base::Code;
using base::Error;
using base::Path;
using checkpoint::NamedTensor;
using run::shown;

constexpr std::uint64_t kSpareBytes = std::uint64_t{8} << 20U;  // the small files

// Tensors of the checkpoint under other names, in the table's order.
class TensorFile {
 public:
  TensorFile(base::FileSystem& files, const Path& checkpoint, const char* kind)
      : reader_(checkpoint::JoinedReader::open(files, checkpoint, kind)) {}
  void add(const contract::TensorEntry& entry, const std::string& stored, const std::string& name) {
    std::vector<float>& values = values_.emplace_back(static_cast<std::size_t>(entry.size));
    reader_.read(stored, "F32", entry.shape, std::as_writable_bytes(std::span(values)));
    tensors_.push_back({name, "F32", entry.shape, std::as_bytes(std::span(values))});
  }
  // One that the checkpoint does not have.
  void add(const std::string& name, const std::vector<std::int64_t>& shape,
           std::vector<float> other) {
    std::vector<float>& values = values_.emplace_back(std::move(other));
    tensors_.push_back({name, "F32", shape, std::as_bytes(std::span(values))});
  }
  [[nodiscard]] const std::vector<NamedTensor>& tensors() const { return tensors_; }

 private:
  checkpoint::JoinedReader reader_;
  std::vector<std::vector<float>> values_;  // moves keep their elements where they are
  std::vector<NamedTensor> tensors_;
};

TensorFile model_tensors(base::FileSystem& files, const Path& checkpoint,
                         const contract::TensorTable& table, HuggingFaceClass model) {
  TensorFile file(files, checkpoint, checkpoint::kModel);
  for (const contract::TensorEntry& entry : table.tensors) {
    if (const auto name = exported_name(entry.name, model)) file.add(entry, entry.name, *name);
  }
  return file;
}

TensorFile optimizer_tensors(base::FileSystem& files, const Path& checkpoint,
                             const contract::TensorTable& table) {
  TensorFile file(files, checkpoint, checkpoint::kOptimizer);
  for (const char* moment : {checkpoint::kFirstMoment, checkpoint::kSecondMoment}) {
    for (const contract::TensorEntry& entry : table.tensors) {
      file.add(entry, moment + entry.name, moment + entry.name);
    }
  }
  return file;
}

void check_room(base::FileSystem& files, const Path& path,
                const std::vector<NamedTensor>& tensors) {
  const std::uint64_t needed = safetensors_bytes(tensors, {}) + kSpareBytes;
  const std::uint64_t available = files.free_bytes(path);
  if (available >= needed) return;
  throw Error(Code::Operator, "no room for " + shown(path) + ": it needs " +
                                  base::human_bytes(needed) + ", the disk has " +
                                  base::human_bytes(available) + "; free some space");
}

std::uint64_t write_tensors(base::FileSystem& files, const Path& path, const TensorFile& file,
                            const std::map<std::string, std::string>& metadata) {
  return checkpoint::write_safetensors(files, path, file.tensors(), metadata).bytes;
}

StagedDirectory::Existing check_output(base::FileSystem& files, const ExportOptions& options) {
  if (!options.force || !files.exists(options.output)) return StagedDirectory::Existing::Refuse;
  for (const char* name : {kConfigFile, checkpoint::kModelFile}) {
    if (files.exists(options.output / name)) continue;
    throw Error(Code::Conflict,
                shown(options.output) + " exists already and is not an exported model (" + name +
                    " is missing), so --force does not replace it; " + "choose another output");
  }
  return StagedDirectory::Existing::Replace;
}

void add_question_head(base::FileSystem& files, const ExportOptions& options,
                       const contract::RunConfig& config, TensorFile* file, ExportReport* report) {
  const std::int64_t hidden = config.model.hidden;
  QuestionHead head;
  if (options.question_head.empty()) {
    head = initial_question_head(hidden, config.seed);
    report->notes.emplace_back(
        "newly initialised: qa_outputs; the checkpoint answers no questions "
        "before it is fine-tuned");
  } else {
    head = read_question_head(files, options.question_head, hidden);
  }
  file->add(kQuestionWeight, {kSpanEnds, hidden}, std::move(head.weight));
  file->add(kQuestionBias, {kSpanEnds}, std::move(head.bias));
}

void check_options(const ExportOptions& options) {
  if (options.cased && options.vocabulary.empty()) {
    throw Error(Code::User, "--cased is about --vocab; the dataset knows its own case");
  }
  const bool asks = !options.model || *options.model == HuggingFaceClass::ForQuestionAnswering;
  if (!options.question_head.empty() && !asks) {
    throw Error(Code::User, "--qa-head goes with --for question-answering only");
  }
}

// The class to export as. Throws Code::User for one whose head the run does not train.
HuggingFaceClass chosen_class(const ExportOptions& options, contract::Task task) {
  using enum HuggingFaceClass;
  const HuggingFaceClass own = class_of(task);
  const HuggingFaceClass chosen = options.model.value_or(own);
  const bool new_head = task == contract::Task::Pretraining && chosen == ForQuestionAnswering;
  if (chosen != own && chosen != Encoder && !new_head) {
    throw Error(Code::User, std::string("a run of task ") + contract::name_of(task) +
                                " has no head of a " + name_of(chosen) +
                                "; leave --for out for a " + name_of(own) +
                                ", or use --for encoder");
  }
  if (options.with_optimizer && chosen != own) {
    throw Error(Code::User, "the optimizer's moments go with all weights; use --with-optimizer " +
                                std::string("without --for, as a ") + name_of(own));
  }
  if (!options.question_head.empty() && !new_head) {
    throw Error(Code::User, std::string("--qa-head goes with --for question-answering of a ") +
                                "pre-training run; this one is of task " + contract::name_of(task));
  }
  return chosen;
}

std::uint64_t export_weights(base::FileSystem& files, const ExportOptions& options,
                             const RunModel& run, const contract::TensorTable& table,
                             const Path& directory, ExportReport* report) {
  TensorFile model = model_tensors(files, run.checkpoint.path, table, report->model);
  const contract::Task task = run.config.model.task;
  const bool answers = report->model == HuggingFaceClass::ForQuestionAnswering;
  if (answers && task == contract::Task::Pretraining) {
    add_question_head(files, options, run.config, &model, report);
  }
  if (report->model == HuggingFaceClass::Encoder && task == contract::Task::QuestionAnswering) {
    report->notes.emplace_back("no pooler: the run has none, and a BertModel draws a new one");
  }
  check_room(files, directory, model.tensors());
  report->tensors = static_cast<std::int64_t>(model.tensors().size());
  return write_tensors(files, directory / checkpoint::kModelFile, model, {{"format", "pt"}});
}

std::uint64_t export_moments(base::FileSystem& files, const RunModel& run,
                             const contract::TensorTable& table, const Path& directory) {
  const TensorFile moments = optimizer_tensors(files, run.checkpoint.path, table);
  check_room(files, directory, moments.tensors());
  return write_tensors(
      files, directory / checkpoint::kOptimizerFile, moments,
      {{"format", "pt"}, {kStepMetadata, std::to_string(run.checkpoint.manifest.step)}});
}

}  // namespace

ExportReport export_model(base::FileSystem& files, const ExportOptions& options,
                          const base::Clock& clock) {
  check_options(options);
  const StagedDirectory::Existing existing = check_output(files, options);
  const RunModel run =
      open_run_model(files, clock,
                     {options.checkpoint, options.vocabulary, "regatta-train export",
                      "name the model's vocab.txt with --vocab"});
  const contract::ModelShape& shape = run.config.model;
  ExportReport report;
  report.model = chosen_class(options, shape.task);
  report.checkpoint = run.checkpoint.path.filename().string();
  report.step = run.checkpoint.manifest.step;
  report.notes = run.notes;

  StagedDirectory staged(files, options.output, existing,
                         "choose another output, or replace an earlier export with --force");
  const contract::TensorTable table = contract::make_tensor_table(shape);
  report.bytes = export_weights(files, options, run, table, staged.path(), &report);
  if (options.with_optimizer) report.bytes += export_moments(files, run, table, staged.path());
  const bool lower_case =
      options.vocabulary.empty() ? run.lower_case.value_or(true) : !options.cased;
  const HuggingFaceConfig described{shape,
                                    run.config.dropout,
                                    run.config.attention_dropout,
                                    run.vocabulary.special().pad,
                                    "",
                                    run.labels,
                                    ""};
  staged.write(kConfigFile, config_json(described, report.model));
  staged.write(data::kVocabularyName, run.vocabulary.text());
  staged.write(kTokenizerConfigFile, tokenizer_config_json(lower_case, shape.max_positions));
  staged.write(kSpecialTokensFile, special_tokens_json());
  staged.publish();
  return report;
}

}  // namespace regatta::trainer::interchange
