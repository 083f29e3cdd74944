#include "trainer/interchange/model_source.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "checkpoint/joined_reader.h"
#include "checkpoint/shards.h"
#include "checkpoint/store.h"
#include "trainer/data/dataset_format.h"
#include "trainer/interchange/hugging_face.h"
#include "trainer/interchange/hugging_face_weights.h"
#include "trainer/interchange/model_export.h"
#include "trainer/interchange/run_model.h"
#include "trainer/interchange/tensorflow_weights.h"

namespace regatta::trainer::interchange {
namespace {

using base::Code;
using base::Error;
using base::Path;
using contract::Task;
using run::shown;

constexpr std::uint64_t kMaxDescription = std::uint64_t{1} << 20U;
constexpr SizeNames kConfigNames{
    "num_hidden_layers",       "hidden_size",     "num_attention_heads", "intermediate_size",
    "max_position_embeddings", "type_vocab_size", "hidden_act",          "layer_norm_eps"};
constexpr SizeNames kRunNames{"layers there",       "hidden there",        "heads there",
                              "feed_forward there", "max_positions there", "token_types there",
                              "gelu there",         "LayerNorm there"};
constexpr const char* kMaskedHead[] = {"cls.predictions.bias",
                                       "cls.predictions.transform.dense.weight"};
constexpr char kQuestionHead[] = "qa_outputs.weight";
constexpr char kClassifierHead[] = "classifier.weight";
constexpr char kPooler[] = "bert.pooler.dense.weight";

std::string name_of_directory(const Path& path) {
  const Path whole = std::filesystem::absolute(path).lexically_normal();
  return base::printable((whole.has_filename() ? whole : whole.parent_path()).filename().string());
}

data::Vocabulary vocabulary_at(base::FileSystem& files, const Path& path) {
  if (files.exists(path)) return data::Vocabulary::load(path, files);
  throw Error(Code::NotFound, "no " + shown(path) +
                                  ", so nobody knows what the model's ids mean; put its " +
                                  "vocab.txt there");
}

Path vocabulary_path(const SourceOptions& options, const Path& directory) {
  return options.vocabulary.empty() ? directory / data::kVocabularyName : options.vocabulary;
}

// Or half of it, which is refused when it is read.
template <typename Weights>
bool has_masked_head(const Weights& weights) {
  return std::any_of(std::begin(kMaskedHead), std::end(kMaskedHead),
                     [&](const char* name) { return weights.has_name(name); });
}

// --- Hugging Face ---

// The task of the head, or nothing; of the architecture where it is told, else by the tensors.
std::optional<Task> task_of(const HuggingFaceConfig& config, const HuggingFaceWeights& weights) {
  const std::string& kind = config.architecture;
  const bool classifies = kind.empty()
                              ? weights.has_name(kPooler)  // not one for tokens
                              : kind == name_of(HuggingFaceClass::ForSequenceClassification);
  if (classifies && weights.has_name(kClassifierHead)) return task_of_classifier(config);
  const bool answers = kind.empty() || kind == name_of(HuggingFaceClass::ForQuestionAnswering);
  if (answers && weights.has_name(kQuestionHead)) return Task::QuestionAnswering;
  if (has_masked_head(weights)) return Task::Pretraining;
  return std::nullopt;
}

class HuggingFaceSource final : public ModelSource {
 public:
  HuggingFaceSource(base::FileSystem& files, Path directory, ModelFacts facts,
                    HuggingFaceWeights weights)
      : ModelSource(std::move(facts)),
        files_(files),
        directory_(std::move(directory)),
        weights_(std::move(weights)) {}

  bool has(const contract::TensorEntry& entry) override { return weights_.has(entry); }
  void read(const contract::TensorEntry& entry, std::span<float> values) override {
    weights_.read(entry, values);
  }
  std::vector<std::string> unused() override { return weights_.unused(); }

  std::int64_t moments_step(const std::string& without) override {
    const Path path = directory_ / checkpoint::kOptimizerFile;
    if (!files_.exists(path)) {
      throw Error(Code::User,
                  "no " + shown(path) + "; export with --with-optimizer, or " + without);
    }
    moments_.emplace(checkpoint::SafetensorsReader::open(files_, path));
    const auto text = moments_->metadata().find(kStepMetadata);
    const auto step =
        text == moments_->metadata().end() ? std::nullopt : base::parse_integer(text->second);
    if (step && *step >= 0) return *step;
    throw Error(Code::User, shown(path) + ": does not say at which step it was made; " + without);
  }
  void read_moment(const contract::TensorEntry& entry, Moment moment, std::span<float> values,
                   const std::string& /*without*/) override {
    const char* const prefix =
        moment == Moment::First ? checkpoint::kFirstMoment : checkpoint::kSecondMoment;
    moments_->read(prefix + entry.name, "F32", entry.shape, std::as_writable_bytes(values));
  }

 private:
  base::FileSystem& files_;
  Path directory_;
  HuggingFaceWeights weights_;
  std::optional<checkpoint::SafetensorsReader> moments_;
};

// What a tokenizer.json says; where it cannot be read the model can be used all the same.
void read_declared(base::FileSystem& files, const SourceOptions& options, ModelFacts* facts) {
  if (!options.vocabulary.empty() || !files.exists(options.path / kTokenizerFile)) return;
  try {
    facts->tokenizer = read_tokenizer(files, options.path);
  } catch (const Error& error) {
    facts->notes.push_back(std::string(error.what()) +
                           "; only vocab.txt and do_lower_case are compared");
    return;
  }
  if (facts->lower_case || !facts->tokenizer->lowercase) return;
  facts->lower_case = facts->tokenizer->lowercase;
  facts->case_file = facts->tokenizer->file;
}

std::unique_ptr<ModelSource> open_hugging_face(base::FileSystem& files,
                                               const SourceOptions& options) {
  const Path config_file = options.path / kConfigFile;
  const HuggingFaceConfig config =
      parse_config(files.read(config_file, kMaxDescription), shown(config_file));
  const Path vocabulary = vocabulary_path(options, options.path);
  ModelFacts facts{.vocabulary = vocabulary_at(files, vocabulary),
                   .vocabulary_file = shown(vocabulary),
                   .place = shown(options.path),
                   .name = name_of_directory(options.path),
                   .described_in = shown(config_file),
                   .names = kConfigNames,
                   .shape = config.shape,
                   .kind = config.architecture};
  const Path tokenizer = options.path / kTokenizerConfigFile;
  facts.case_file = shown(tokenizer);
  if (files.exists(tokenizer)) {
    facts.lower_case = lower_case_of(files.read(tokenizer, kMaxDescription), shown(tokenizer));
  }
  read_declared(files, options, &facts);
  HuggingFaceWeights weights(files, options.path, config.shape.vocabulary);
  const std::optional<Task> task = task_of(config, weights);
  facts.has_head = task.has_value();
  facts.shape.task = task.value_or(Task::Pretraining);
  if (task == Task::Classification) {
    facts.labels = config.labels;
    facts.shape.labels = static_cast<int>(config.labels.size());
  }
  return std::make_unique<HuggingFaceSource>(files, options.path, std::move(facts),
                                             std::move(weights));
}

// --- TensorFlow ---

class TensorflowSource final : public ModelSource {
 public:
  TensorflowSource(Path prefix, ModelFacts facts, TensorflowWeights weights)
      : ModelSource(std::move(facts)), prefix_(std::move(prefix)), weights_(std::move(weights)) {}

  bool has(const contract::TensorEntry& entry) override { return weights_.has_name(entry.name); }
  void read(const contract::TensorEntry& entry, std::span<float> values) override {
    (void)weights_.read(entry, checkpoint::TensorflowKind::Parameter, values);
  }
  std::vector<std::string> unused() override { return weights_.unused(); }

  std::int64_t moments_step(const std::string& without) override {
    if (const auto step = weights_.step()) return *step;
    throw Error(Code::User, shown(prefix_) + ": does not say at which step it was made " +
                                "(global_step); " + without);
  }
  void read_moment(const contract::TensorEntry& entry, Moment moment, std::span<float> values,
                   const std::string& without) override {
    const auto kind = moment == Moment::First ? checkpoint::TensorflowKind::First
                                              : checkpoint::TensorflowKind::Second;
    if (weights_.read(entry, kind, values)) return;
    throw Error(Code::User,
                shown(prefix_) + ": has not both moments of '" + entry.name + "'; " + without);
  }

 private:
  Path prefix_;
  TensorflowWeights weights_;
};

// PREFIX.index and PREFIX.data-…, as google-research/bert writes them; bert_config.json and
// vocab.txt lie beside them.
std::unique_ptr<ModelSource> open_tensorflow(base::FileSystem& files,
                                             const SourceOptions& options) {
  Path prefix = options.path;
  if (prefix.extension() == ".index") prefix.replace_extension();
  const Path directory = prefix.has_parent_path() ? prefix.parent_path() : Path(".");
  const Path config_file = directory / "bert_config.json";
  contract::ModelShape shape;
  const bool described = files.exists(config_file);
  if (described) {
    shape = parse_config(files.read(config_file, kMaxDescription), shown(config_file)).shape;
  }
  TensorflowWeights weights(
      files, prefix, options.moments ? checkpoint::Moments::Read : checkpoint::Moments::Skip);
  shape.vocabulary =
      static_cast<int>(std::min<std::int64_t>(weights.rows(), contract::kMostVocabulary));
  const Path vocabulary = vocabulary_path(options, directory);
  // Google's first code computed erf, the later one tanh; bert_config.json says "gelu" for both.
  ModelFacts facts{.vocabulary = vocabulary_at(files, vocabulary),
                   .vocabulary_file = shown(vocabulary),
                   .place = shown(prefix),
                   .name = base::printable(prefix.filename().string()),
                   .described_in = described ? shown(config_file) : "",
                   .names = kConfigNames,
                   .shape = shape,
                   .gelu_known = false};
  const bool answers = weights.has_name(kQuestionHead);
  facts.has_head = answers || has_masked_head(weights);
  if (answers) facts.shape.task = Task::QuestionAnswering;
  return std::make_unique<TensorflowSource>(std::move(prefix), std::move(facts),
                                            std::move(weights));
}

// --- Runs of this trainer ---

class RunSource final : public ModelSource {
 public:
  RunSource(base::FileSystem& files, ModelFacts facts, run::ChosenCheckpoint checkpoint)
      : ModelSource(std::move(facts)),
        files_(files),
        checkpoint_(std::move(checkpoint)),
        weights_(checkpoint::JoinedReader::open(files, checkpoint_.path, checkpoint::kModel)) {}

  bool has(const contract::TensorEntry& entry) override {
    return weights_.find(entry.name) != nullptr;
  }
  void read(const contract::TensorEntry& entry, std::span<float> values) override {
    weights_.read(entry.name, "F32", entry.shape, std::as_writable_bytes(values));
    read_.push_back(entry.name);
  }
  std::vector<std::string> unused() override {
    std::vector<std::string> names;
    for (const checkpoint::JoinedTensor& tensor : weights_.tensors()) {
      if (std::find(read_.begin(), read_.end(), tensor.name) == read_.end()) {
        names.push_back(tensor.name);
      }
    }
    return names;
  }

  std::int64_t moments_step(const std::string& /*without*/) override {
    moments_.emplace(
        checkpoint::JoinedReader::open(files_, checkpoint_.path, checkpoint::kOptimizer));
    return checkpoint_.manifest.step;
  }
  void read_moment(const contract::TensorEntry& entry, Moment moment, std::span<float> values,
                   const std::string& /*without*/) override {
    const char* const prefix =
        moment == Moment::First ? checkpoint::kFirstMoment : checkpoint::kSecondMoment;
    moments_->read(prefix + entry.name, "F32", entry.shape, std::as_writable_bytes(values));
  }

 private:
  base::FileSystem& files_;
  run::ChosenCheckpoint checkpoint_;
  checkpoint::JoinedReader weights_;
  std::optional<checkpoint::JoinedReader> moments_;
  std::vector<std::string> read_;
};

std::unique_ptr<ModelSource> open_run(base::FileSystem& files, const base::Clock& clock,
                                      const SourceOptions& options) {
  RunModel model = open_run_model(
      files, clock, {options.path, options.vocabulary, options.reader, options.other_vocabulary});
  const Path dataset = contract::data_paths(model.config.data).front();  // all have the same
  const Path vocabulary =
      options.vocabulary.empty() ? dataset / data::kVocabularyName : options.vocabulary;
  ModelFacts facts{.vocabulary = std::move(model.vocabulary),
                   .vocabulary_file = shown(vocabulary),
                   .place = shown(model.checkpoint.path),
                   .name = "run " + base::printable(model.config.name) + ", " +
                           model.checkpoint.path.filename().string(),
                   .described_in = shown(model.run_json),
                   .names = kRunNames,
                   .shape = model.config.model,
                   .lower_case = model.lower_case,
                   .case_file = shown(dataset),
                   .labels = std::move(model.labels),
                   .max_length = model.config.data.max_length,
                   .questions = model.config.questions,
                   .dataset = model.lower_case ? dataset : Path(),
                   .notes = std::move(model.notes)};
  return std::make_unique<RunSource>(files, std::move(facts), std::move(model.checkpoint));
}

// Whether it is for open_run to say what is wrong.
bool is_of_run(base::FileSystem& files, const Path& given) {
  if (given.empty()) return false;
  Path path = std::filesystem::absolute(given).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  if (files.exists(path / "run.json")) return true;
  return checkpoint::parse_checkpoint_name(path.filename().string()) &&
         files.exists(path.parent_path().parent_path() / "run.json");
}

}  // namespace

std::unique_ptr<ModelSource> open_model_source(base::FileSystem& files, const base::Clock& clock,
                                               const SourceOptions& options) {
  if (files.exists(options.path / kConfigFile)) return open_hugging_face(files, options);
  Path index = options.path;
  if (index.extension() != ".index") index += ".index";
  if (files.exists(index)) return open_tensorflow(files, options);
  if (is_of_run(files, options.path)) return open_run(files, clock, options);
  if (!files.exists(options.path)) {
    throw Error(Code::NotFound, "no model at " + shown(options.path) + "; check the name");
  }
  throw Error(Code::NotFound, shown(options.path) +
                                  ": has no config.json or run.json; name the directory of a "
                                  "Hugging Face model, the prefix of a TensorFlow checkpoint, a "
                                  "run directory or RUN/checkpoints/step-…");
}

}  // namespace regatta::trainer::interchange
