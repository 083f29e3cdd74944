#include "trainer/interchange/run_model.h"

#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "checkpoint/joined_reader.h"
#include "checkpoint/shards.h"
#include "checkpoint/store.h"
#include "trainer/contract/run_directory.h"
#include "trainer/data/dataset_format.h"
#include "trainer/samples/mixture.h"
#include "trainer/tasks/task_dataset.h"

namespace regatta::trainer::interchange {
namespace {

using base::Code;
using base::Error;
using base::Path;
using run::shown;

constexpr std::uint64_t kMaxDatasetManifest = std::uint64_t{16} << 20U;
constexpr char kClassifierRows[] = "classifier.weight";

data::Manifest manifest_of(base::FileSystem& files, const Path& dataset) {
  const Path path = dataset / data::kManifestName;
  const std::string text = files.read(path, kMaxDatasetManifest);
  try {
    return data::parse_manifest(text);
  } catch (const Error& error) {
    throw Error(error.code(), shown(path) + ": " + error.what());
  }
}

// Manifests and vocabulary only: the shards may be large.
DatasetFacts pretraining_facts(base::FileSystem& files, const contract::DataConfig& data) {
  const std::vector<std::string> paths = contract::data_paths(data);
  const Path dataset = paths.front();
  const data::Manifest manifest = manifest_of(files, dataset);
  DatasetFacts found{data::Vocabulary::load(dataset / data::kVocabularyName, files),
                     manifest.tokenizer.lower_case,
                     {},
                     ""};
  if (found.vocabulary.digest() != manifest.vocabulary_digest) {
    throw Error(Code::User, shown(dataset) + ": its vocab.txt has changed; prepare it again");
  }
  std::vector<std::string> fingerprints{manifest.fingerprint}, lines;
  for (std::size_t i = 1; i < paths.size(); ++i) {
    const Path path = paths[i];
    const data::Manifest other = manifest_of(files, path);
    fingerprints.push_back(other.fingerprint);
    const auto differences = samples::text_differences({dataset, manifest}, {path, other});
    lines.insert(lines.end(), differences.begin(), differences.end());
  }
  if (!lines.empty()) throw Error(Code::User, base::join(lines, "; "));
  found.fingerprint = samples::mixture_fingerprint(fingerprints, contract::data_weights(data));
  return found;
}

// Rows of the classifier; 0 without one.
int labels_in(base::FileSystem& files, const Path& checkpoint, int hidden) {
  const auto reader = checkpoint::JoinedReader::open(files, checkpoint, checkpoint::kModel);
  const checkpoint::JoinedTensor* const tensor = reader.find(kClassifierRows);
  if (tensor == nullptr) return 0;
  const std::uint64_t rows = tensor->elements() / static_cast<std::uint64_t>(hidden);
  return rows <= static_cast<std::uint64_t>(contract::kMostLabels) ? static_cast<int>(rows) : 0;
}

// Of a Classification, by the dataset or, without one, by the checkpoint.
int label_count(base::FileSystem& files, const contract::RunConfig& config,
                const std::optional<DatasetFacts>& data, const Path& checkpoint) {
  if (config.model.task != contract::Task::Classification) return 0;
  const int count = data ? static_cast<int>(data->labels.size())
                         : labels_in(files, checkpoint, config.model.hidden);
  if (count >= 2) return count;
  throw Error(Code::User, (data ? shown(config.data.path) : shown(checkpoint)) + ": has " +
                              std::to_string(count) + " labels, a classification at least 2; " +
                              "name another run");
}

// Throws Code::User unless the checkpoint is of this model and, where it is known, of this data.
void check_checkpoint(const checkpoint::Entry& entry, const contract::ModelShape& shape,
                      const std::optional<DatasetFacts>& data, const std::string& advice) {
  if (entry.manifest->model_fingerprint != contract::model_fingerprint(shape)) {
    throw Error(Code::User, entry.name +
                                " is of another model than the run file with a vocabulary of " +
                                std::to_string(shape.vocabulary) + " pieces; " + advice);
  }
  if (data && data->fingerprint != entry.manifest->data_fingerprint) {
    throw Error(Code::User,
                entry.name + " was trained on other data than the dataset now holds; " + advice);
  }
}

std::optional<DatasetFacts> data_of(base::FileSystem& files, const contract::RunConfig& config,
                                    const RunModelOptions& options) {
  try {
    return dataset_facts(files, config);
  } catch (const Error& error) {
    if (!options.vocabulary.empty()) return std::nullopt;
    throw Error(error.code(), "no vocabulary in the dataset " +
                                  shown(contract::data_name(config.data)) + ": " + error.what() +
                                  "; " + options.no_data);
  }
}

void name_labels(const std::optional<DatasetFacts>& data, RunModel* model) {
  if (model->config.model.task != contract::Task::Classification) return;
  if (data) {
    model->labels = data->labels;
    return;
  }
  for (int i = 0; i < model->config.model.labels; ++i) {
    model->labels.push_back("LABEL_" + std::to_string(i));
  }
  model->notes.emplace_back("the names of the labels are not known without the run's dataset");
}

}  // namespace

DatasetFacts dataset_facts(base::FileSystem& files, const contract::RunConfig& config) {
  if (config.model.task == contract::Task::Pretraining) {
    return pretraining_facts(files, config.data);
  }
  const auto dataset = tasks::TaskDataset::open(config.data.path, files);
  if (dataset.task() != config.model.task) {
    throw Error(Code::User, shown(config.data.path) + ": is a dataset for " +
                                contract::name_of(dataset.task()) + ", the run's task is " +
                                contract::name_of(config.model.task) +
                                "; set data.path or the task");
  }
  return {dataset.vocabulary(), dataset.lower_case(), dataset.labels(), dataset.fingerprint()};
}

RunModel open_run_model(base::FileSystem& files, const base::Clock& clock,
                        const RunModelOptions& options) {
  const run::CheckpointPlace place = run::checkpoint_place(files, options.path);
  const contract::RunDirectory directory = contract::RunDirectory::open(files, place.run);
  const Path run_json = place.run / "run.json";
  contract::RunConfig config = contract::parse_run_config(directory.run_json(), run_json.string());
  std::optional<DatasetFacts> data = data_of(files, config, options);
  const bool own = options.vocabulary.empty();
  data::Vocabulary vocabulary =
      own ? data->vocabulary : data::Vocabulary::load(options.vocabulary, files);
  contract::ModelShape& shape = config.model;
  if (shape.vocabulary != 0 && shape.vocabulary != vocabulary.size()) {
    throw Error(Code::User, "the run file's model has a vocabulary of " +
                                std::to_string(shape.vocabulary) + " pieces, the one at hand " +
                                std::to_string(vocabulary.size()) + "; " + options.no_data);
  }
  shape.vocabulary = vocabulary.size();
  const checkpoint::CheckpointStore store(files, directory.checkpoints_path());
  const std::optional<DatasetFacts> nothing;
  run::ChosenCheckpoint chosen = run::choose_checkpoint(
      files, clock, store, place.name, options.reader, [&](const checkpoint::Entry& entry) {
        const std::optional<DatasetFacts>& its = own ? data : nothing;
        shape.labels = label_count(files, config, its, store.directory() / entry.name);
        check_checkpoint(entry, shape, its, options.no_data);
      });
  if (data && data->fingerprint != chosen.manifest.data_fingerprint) data.reset();
  const std::optional<bool> lower_case = data ? std::optional(data->lower_case) : std::nullopt;
  RunModel model{std::move(config), std::move(vocabulary), lower_case, {},
                 run_json,          std::move(chosen),     {}};
  name_labels(data, &model);
  return model;
}

}  // namespace regatta::trainer::interchange
