#include "trainer/run/checkpoint_evaluation.h"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "base/thread_pool.h"
#include "checkpoint/joined_reader.h"
#include "checkpoint/shards.h"
#include "trainer/contract/run_config.h"
#include "trainer/contract/run_directory.h"
#include "trainer/data/dataset.h"
#include "trainer/run/checkpoint_choice.h"
#include "trainer/run/run_data.h"
#include "trainer/samples/mixture.h"
#include "trainer/step/train_loop.h"
#include "trainer/tasks/task_dataset.h"

namespace regatta::trainer::run {
namespace {

using base::Code;
using base::Error;
using base::Path;
using model::kCompute;

constexpr int kMostRanks = 1 << 20;

// What data is known by, of pre-training or of another task.
struct Known {
  contract::DataConfig data;
  std::string vocabulary, fingerprint;  // digests
  int pieces = 0;
  std::vector<std::string> labels;
};

Known known(base::FileSystem& files, contract::Task task, const contract::DataConfig& data) {
  if (task == contract::Task::Pretraining) {
    const samples::Datasets datasets = samples::Datasets::open(data);
    return {data,
            datasets.vocabulary().digest(),
            datasets.fingerprint(),
            static_cast<int>(datasets.vocabulary().size()),
            {}};
  }
  const tasks::TaskDataset dataset = tasks::TaskDataset::open(data.path, files);
  if (dataset.task() != task) {
    throw Error(Code::User, shown(data.path) + " is a dataset for task " +
                                contract::name_of(dataset.task()) + ", and the run's task is " +
                                contract::name_of(task) + "; name one of that");
  }
  return {data, dataset.vocabulary().digest(), dataset.fingerprint(),
          static_cast<int>(dataset.vocabulary().size()), dataset.labels()};
}

// The data to evaluate on, and what the model was trained on as far as it is known.
struct Data {
  Known evaluated;
  std::optional<Known> own;  // nothing: it is the same, or gone
};

Data open_data(base::FileSystem& files, const contract::RunConfig& config,
               const EvaluationOptions& options, CheckpointEvaluation* evaluation) {
  if (options.dataset.empty()) {
    try {
      return {known(files, config.model.task, config.data), std::nullopt};
    } catch (const Error& error) {
      throw Error(error.code(),
                  std::string(error.what()) + "; name another dataset with --dataset");
    }
  }
  contract::DataConfig other = config.data;
  other.path = options.dataset.string();
  other.mixture.clear();
  Data data{known(files, config.model.task, other), std::nullopt};
  try {
    data.own = known(files, config.model.task, config.data);
  } catch (const Error&) {
    evaluation->notes.push_back("the run's own dataset " + shown(contract::data_name(config.data)) +
                                " cannot be read, so only the size of the vocabulary is compared");
    return data;
  }
  if (data.own->labels != data.evaluated.labels) {
    throw Error(Code::User, shown(options.dataset) + " has other labels than the run's " +
                                shown(contract::data_name(config.data)) + ": " +
                                base::join(data.evaluated.labels, ", ").substr(0, 200) +
                                " instead of " + base::join(data.own->labels, ", ").substr(0, 200));
  }
  if (data.own->vocabulary != data.evaluated.vocabulary) {
    throw Error(Code::User, shown(options.dataset) + " has another vocabulary than the run's " +
                                shown(contract::data_name(config.data)) +
                                "; prepare it with --vocab of that one's vocab.txt");
  }
  if (data.own->fingerprint == data.evaluated.fingerprint) data.own.reset();
  return data;
}

void check_fit(const checkpoint::Entry& entry, const contract::RunConfig& config, const Data& data,
               const EvaluationOptions& options) {
  if (entry.manifest->model_fingerprint != contract::model_fingerprint(config.model)) {
    throw Error(Code::User, entry.name + " is of another model than the run file with a " +
                                "vocabulary of " + std::to_string(config.model.vocabulary) +
                                " pieces; name a dataset of its vocabulary with --dataset");
  }
  if (options.dataset.empty() && entry.manifest->data_fingerprint != data.evaluated.fingerprint) {
    throw Error(Code::User, entry.name + " was trained on other data than " +
                                shown(contract::data_name(config.data)) +
                                " now holds; name the data to evaluate on with --dataset");
  }
}

// Of the attempt that wrote the checkpoint; an import, or an older trainer, may not say.
int ranks_of(const checkpoint::Manifest& manifest) {
  const auto found = manifest.versions.find("ranks");
  if (found == manifest.versions.end()) return 1;
  const auto ranks = base::parse_integer(found->second);
  return ranks && *ranks >= 1 && *ranks <= kMostRanks ? static_cast<int>(*ranks) : 1;
}

void load_weights(base::FileSystem& files, const Path& checkpoint, device::Device& device,
                  model::Bert& model) {
  const auto reader = checkpoint::JoinedReader::open(files, checkpoint, checkpoint::kModel);
  const contract::TensorTable& table = model.table();
  std::vector<float> weights(static_cast<std::size_t>(table.arena_size), 0.0F);
  for (const contract::TensorEntry& entry : table.tensors) {
    const std::span<float> values(weights.data() + entry.offset,
                                  static_cast<std::size_t>(entry.size));
    reader.read(entry.name, "F32", entry.shape, std::as_writable_bytes(values));
  }
  device.copy_to_device(kCompute, model.parameters(), weights.data());
  model.renew_compute_copy();
  device.synchronize();
}

}  // namespace

CheckpointEvaluation evaluate_checkpoint(base::FileSystem& files, const base::Clock& clock,
                                         const EvaluationOptions& options) {
  CheckpointEvaluation evaluation;
  const CheckpointPlace place = checkpoint_place(files, options.checkpoint);
  const contract::RunDirectory run = contract::RunDirectory::open(files, place.run);
  contract::RunConfig config =
      contract::parse_run_config(run.run_json(), (place.run / "run.json").string());
  const Data data = open_data(files, config, options, &evaluation);
  const int pieces = data.evaluated.pieces;
  if (config.model.vocabulary != 0 && config.model.vocabulary != pieces) {
    throw Error(Code::User, shown(contract::data_name(data.evaluated.data)) +
                                " has a vocabulary of " + std::to_string(pieces) +
                                " pieces, the run's model one of " +
                                std::to_string(config.model.vocabulary) +
                                "; name a dataset of its vocabulary with --dataset");
  }
  config.model.vocabulary = pieces;
  config.model.labels = static_cast<int>(data.evaluated.labels.size());
  const checkpoint::CheckpointStore store(files, run.checkpoints_path());
  const ChosenCheckpoint chosen = choose_checkpoint(
      files, clock, store, place.name, "regatta-train eval",
      [&](const checkpoint::Entry& entry) { check_fit(entry, config, data, options); });

  evaluation.notes.insert(evaluation.notes.end(), chosen.skipped.begin(), chosen.skipped.end());
  if (options.threads > 0) config.threads = options.threads;
  if (config.threads == 0) config.threads = base::usable_cores();
  const std::unique_ptr<device::Device> device = plugins::make_device(
      {config.device, config.dtype, config.attention, config.threads, 0, config.determinism.level},
      options.place);
  model::Bert model(*device, config.model, step::bert_options(config, *device));
  load_weights(files, chosen.path, *device, model);
  config.data = data.evaluated.data;
  evaluation.run = config.name;
  evaluation.checkpoint = chosen.path.filename().string();
  evaluation.dataset = contract::data_name(config.data);
  evaluation.device = device->description();
  evaluation.ranks =
      config.determinism.shards > 0 ? config.determinism.shards : ranks_of(chosen.manifest);
  const double start = clock.monotonic_seconds();
  const WholeEvaluation whole =
      open_run_data(files, config, config.threads)
          ->evaluate(*device, model, evaluation.ranks, chosen.manifest.step);
  evaluation.result = whole.record;
  evaluation.best = whole.best;
  evaluation.result.seconds = clock.monotonic_seconds() - start;
  return evaluation;
}

std::vector<std::pair<const char*, double>> figures_of(const tasks::BestThresholds& best) {
  constexpr double kPercent = 100;
  return {{"best_exact", best.exact / kPercent},
          {"best_exact_threshold", best.exact_threshold},
          {"best_f1", best.f1 / kPercent},
          {"best_f1_threshold", best.f1_threshold}};
}

std::string to_text(const CheckpointEvaluation& evaluation) {
  const contract::EvalRecord& result = evaluation.result;
  std::string text;
  for (const std::string& note : evaluation.notes) text += note + "\n";
  const auto line = [&](const char* name, const std::string& value) {
    char row[64];
    std::snprintf(row, sizeof row, "%-24s", name);
    text += row + base::printable(value) + "\n";
  };
  const auto figure = [](double value) {
    char digits[32];
    std::snprintf(digits, sizeof digits, "%.6f", value);
    return std::string(digits);
  };
  line("checkpoint", evaluation.checkpoint + " of run " + evaluation.run);
  line("dataset", evaluation.dataset.string());
  line("device", evaluation.device);
  line("held-out samples", std::to_string(result.samples));
  for (const contract::Metric& metric : result.metrics)
    line(metric.name.c_str(), figure(metric.value));
  if (evaluation.best) {
    for (const auto& [name, value] : figures_of(*evaluation.best)) line(name, figure(value));
  }
  if (result.metrics.empty()) {
    line("MLM loss", figure(result.mlm_loss));
    line("MLM accuracy", figure(result.mlm_accuracy));
    line("next-sentence accuracy", figure(result.nsp_accuracy));
  }
  line("time", base::human_seconds(result.seconds));
  return text;
}

std::string to_json(const CheckpointEvaluation& evaluation) {
  const contract::EvalRecord& result = evaluation.result;
  nlohmann::ordered_json json;
  json["run"] = evaluation.run;
  json["checkpoint"] = evaluation.checkpoint;
  json["dataset"] = evaluation.dataset.string();
  json["device"] = evaluation.device;
  json["ranks"] = evaluation.ranks;
  json["step"] = result.step;
  json["samples"] = result.samples;
  for (const contract::Metric& metric : result.metrics) json[metric.name] = metric.value;
  if (evaluation.best) {
    for (const auto& [name, value] : figures_of(*evaluation.best)) json[name] = value;
  }
  if (result.metrics.empty()) {
    json["mlm_accuracy"] = result.mlm_accuracy;
    json["mlm_loss"] = result.mlm_loss;
    json["nsp_accuracy"] = result.nsp_accuracy;
  }
  json["eval_seconds"] = result.seconds;
  json["notes"] = evaluation.notes;
  return base::json_text(json) + "\n";
}

}  // namespace regatta::trainer::run
