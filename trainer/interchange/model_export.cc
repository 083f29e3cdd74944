#include "trainer/interchange/model_export.h"

#include <optional>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "checkpoint/joined_reader.h"
#include "checkpoint/shards.h"
#include "checkpoint/store.h"
#include "trainer/contract/run_config.h"
#include "trainer/contract/run_directory.h"
#include "trainer/data/dataset_format.h"
#include "trainer/interchange/question_head.h"
#include "trainer/interchange/staged_directory.h"
#include "trainer/run/checkpoint_choice.h"
#include "trainer/samples/mixture.h"

namespace regatta::trainer::interchange {
namespace {

using base::Code;
using base::Error;
using base::Path;
using checkpoint::CheckpointStore;
using checkpoint::NamedTensor;
using run::shown;

constexpr std::uint64_t kMaxDatasetManifest = std::uint64_t{16} << 20U;
constexpr std::uint64_t kSpareBytes = std::uint64_t{8} << 20U;  // the small files

struct Tokenization {
  data::Vocabulary vocabulary;
  bool lower_case = true;
  std::string data_fingerprint;  // empty: not known
};

data::Manifest manifest_of(base::FileSystem& files, const Path& dataset) {
  return data::parse_manifest(files.read(dataset / data::kManifestName, kMaxDatasetManifest));
}

// The vocabulary and rules that the model was trained with: every dataset of it has them.
Tokenization tokenization_of(base::FileSystem& files, const contract::RunConfig& config,
                             const ExportOptions& options) {
  if (!options.vocabulary.empty()) {
    return {data::Vocabulary::load(options.vocabulary, files), !options.cased, ""};
  }
  const std::vector<std::string> paths = contract::data_paths(config.data);
  Path dataset = paths.front();
  try {
    const data::Manifest manifest = manifest_of(files, dataset);
    Tokenization tokenization{data::Vocabulary::load(dataset / data::kVocabularyName, files),
                              manifest.tokenizer.lower_case, ""};
    if (tokenization.vocabulary.digest() != manifest.vocabulary_digest) {
      throw Error(Code::User, "its vocab.txt has changed");
    }
    std::vector<std::string> fingerprints;
    for (const std::string& path : paths) {
      dataset = path;
      fingerprints.push_back(manifest_of(files, dataset).fingerprint);
    }
    tokenization.data_fingerprint =
        samples::mixture_fingerprint(fingerprints, contract::data_weights(config.data));
    return tokenization;
  } catch (const Error& error) {
    throw Error(error.code(), "no vocabulary in the dataset " + shown(dataset) + ": " +
                                  error.what() + "; name the model's vocab.txt with --vocab");
  }
}

// Throws Code::User unless the checkpoint is of this model and data.
void check_fit(const checkpoint::Entry& entry, const contract::ModelShape& shape,
               const Tokenization& tokenization) {
  if (entry.manifest->model_fingerprint != contract::model_fingerprint(shape)) {
    throw Error(Code::User, entry.name +
                                " is of another model than the run file with a vocabulary of " +
                                std::to_string(shape.vocabulary) +
                                " pieces; name the model's vocab.txt with --vocab");
  }
  if (!tokenization.data_fingerprint.empty() &&
      tokenization.data_fingerprint != entry.manifest->data_fingerprint) {
    throw Error(Code::User, entry.name + " was trained on other data than the dataset now holds; " +
                                "name the model's vocab.txt with --vocab");
  }
}

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
  if (options.with_optimizer && options.model != HuggingFaceClass::ForPreTraining) {
    throw Error(Code::User, "the optimizer's moments go with all weights; " +
                                std::string("use --with-optimizer with --for pretraining"));
  }
  if (options.cased && options.vocabulary.empty()) {
    throw Error(Code::User, "--cased is about --vocab; the dataset knows its own case");
  }
  if (!options.question_head.empty() && options.model != HuggingFaceClass::ForQuestionAnswering) {
    throw Error(Code::User, "--qa-head goes with --for question-answering only");
  }
}

}  // namespace

ExportReport export_model(base::FileSystem& files, const ExportOptions& options,
                          const base::Clock& clock) {
  check_options(options);
  const StagedDirectory::Existing existing = check_output(files, options);
  const run::CheckpointPlace place = run::checkpoint_place(files, options.checkpoint);
  const contract::RunDirectory run = contract::RunDirectory::open(files, place.run);
  contract::RunConfig config =
      contract::parse_run_config(run.run_json(), (place.run / "run.json").string());
  const Tokenization tokenization = tokenization_of(files, config, options);
  if (config.model.vocabulary != 0 && config.model.vocabulary != tokenization.vocabulary.size()) {
    throw Error(Code::User, "the run file's model has a vocabulary of " +
                                std::to_string(config.model.vocabulary) +
                                " pieces, the one at hand " +
                                std::to_string(tokenization.vocabulary.size()) +
                                "; name the model's vocab.txt with --vocab");
  }
  config.model.vocabulary = tokenization.vocabulary.size();
  const CheckpointStore store(files, run.checkpoints_path());
  const run::ChosenCheckpoint chosen = run::choose_checkpoint(
      files, clock, store, place.name, "regatta-train export",
      [&](const checkpoint::Entry& entry) { check_fit(entry, config.model, tokenization); });

  StagedDirectory staged(files, options.output, existing,
                         "choose another output, or replace an earlier export with --force");
  const contract::TensorTable table = contract::make_tensor_table(config.model);
  ExportReport report{chosen.path.filename().string(), chosen.manifest.step, 0, 0, {}};
  {
    TensorFile model = model_tensors(files, chosen.path, table, options.model);
    if (options.model == HuggingFaceClass::ForQuestionAnswering) {
      add_question_head(files, options, config, &model, &report);
    }
    check_room(files, staged.path(), model.tensors());
    report.tensors = static_cast<std::int64_t>(model.tensors().size());
    report.bytes =
        write_tensors(files, staged.path() / checkpoint::kModelFile, model, {{"format", "pt"}});
  }
  if (options.with_optimizer) {
    const TensorFile moments = optimizer_tensors(files, chosen.path, table);
    check_room(files, staged.path(), moments.tensors());
    report.bytes += write_tensors(files, staged.path() / checkpoint::kOptimizerFile, moments,
                                  {{"format", "pt"}, {kStepMetadata, std::to_string(report.step)}});
  }
  const HuggingFaceConfig described{config.model, config.dropout, config.attention_dropout,
                                    tokenization.vocabulary.special().pad};
  staged.write(kConfigFile, config_json(described, options.model));
  staged.write(data::kVocabularyName, tokenization.vocabulary.text());
  staged.write(kTokenizerConfigFile,
               tokenizer_config_json(tokenization.lower_case, config.model.max_positions));
  staged.write(kSpecialTokensFile, special_tokens_json());
  staged.publish();
  return report;
}

}  // namespace regatta::trainer::interchange
