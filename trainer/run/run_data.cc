#include "trainer/run/run_data.h"

#include <limits>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "trainer/samples/mixture.h"
#include "trainer/samples/sampler.h"
#include "trainer/step/evaluation.h"
#include "trainer/tasks/task_dataset.h"
#include "trainer/tasks/task_samples.h"

namespace regatta::trainer::run {
namespace {

using contract::Task;

class PretrainingData final : public RunData {
 public:
  explicit PretrainingData(const contract::RunConfig& config)
      : datasets_(samples::Datasets::open(config.data)),
        training_(datasets_, data::Split::Training, config.data, config.seed,
                  config.shuffle_labels),
        evaluation_(samples::evaluation_samples(datasets_, config.data,
                                                config.evaluate_samples > 0
                                                    ? config.evaluate_samples
                                                    : std::numeric_limits<int>::max())) {
    if (!contract::is_loss(contract::judged_by(config))) {
      baseline_ = samples::constant_guess_accuracy(evaluation_);
    }
  }

  [[nodiscard]] const data::Vocabulary& vocabulary() const override {
    return datasets_.vocabulary();
  }
  [[nodiscard]] bool lower_case() const override {
    return datasets_.first().manifest().tokenizer.lower_case;
  }
  [[nodiscard]] const std::string& fingerprint() const override { return datasets_.fingerprint(); }
  [[nodiscard]] std::vector<plugins::DatasetIdentity> facts() const override {
    std::vector<plugins::DatasetIdentity> all;
    for (const data::Dataset& dataset : datasets_.all()) {
      const data::Manifest& manifest = dataset.manifest();
      plugins::DatasetIdentity& facts = all.emplace_back();
      facts.fingerprint = manifest.fingerprint;
      facts.vocabulary_size = manifest.vocabulary_size;
      facts.vocabulary_digest = manifest.vocabulary_digest;
      facts.lower_case = manifest.tokenizer.lower_case;
      facts.word_limit = manifest.tokenizer.word_limit;
      facts.corpus_digest = manifest.corpus_digest;
    }
    return all;
  }
  [[nodiscard]] const std::vector<std::string>& labels() const override { return nothing_; }
  [[nodiscard]] samples::SampleStream training() const override {
    return samples::stream_of(training_);
  }
  [[nodiscard]] std::int64_t training_samples() const override { return training_.size(); }
  [[nodiscard]] std::int64_t evaluation_samples() const override { return std::ssize(evaluation_); }
  [[nodiscard]] const std::vector<std::string>& warnings() const override { return nothing_; }
  [[nodiscard]] std::optional<double> baseline() const override { return baseline_; }
  [[nodiscard]] contract::EvalRecord evaluate(step::TrainLoop& loop,
                                              std::int64_t step) const override {
    return loop.evaluate(evaluation_, step);
  }
  [[nodiscard]] WholeEvaluation evaluate(device::Device& device, model::Bert& model, int ranks,
                                         std::int64_t step) const override {
    step::EvaluationSums sums{};
    for (int rank = 0; rank < ranks; ++rank) {
      const step::EvaluationSums share =
          step::evaluate_share(device, model, evaluation_, rank, ranks);
      for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += share[i];
    }
    return {step::evaluation_of(sums, step), std::nullopt};
  }

 private:
  samples::Datasets datasets_;
  samples::Mixture training_;
  std::vector<samples::Sample> evaluation_;
  std::optional<double> baseline_;
  std::vector<std::string> nothing_;
};

tasks::TaskDataset open_task(base::FileSystem& files, const contract::RunConfig& config) {
  tasks::TaskDataset dataset = tasks::TaskDataset::open(config.data.path, files);
  if (dataset.task() == config.model.task) return dataset;
  throw base::Error(base::Code::User,
                    base::printable(config.data.path) + " is a dataset for task " +
                        contract::name_of(dataset.task()) + ", and the run's task is " +
                        contract::name_of(config.model.task) +
                        "; set task to it, or name another dataset");
}

void refuse_task(base::FileSystem& files, const std::string& path,
                 const contract::RunConfig& config) {
  if (!tasks::TaskDataset::is_there(path, files)) return;
  const std::string what = base::printable(path) + " is a dataset of a task, and ";
  if (!config.data.mixture.empty()) {
    throw base::Error(base::Code::User,
                      what + "several datasets are only for pre-training; leave it out");
  }
  throw base::Error(base::Code::User,
                    what + "the run file names none; set task to " +
                        contract::name_of(tasks::TaskDataset::open(path, files).task()));
}

// Of a run for pre-training.
void refuse_tasks(base::FileSystem& files, const contract::RunConfig& config) {
  for (const std::string& path : contract::data_paths(config.data)) {
    refuse_task(files, path, config);
  }
}

class TaskData final : public RunData {
 public:
  TaskData(base::FileSystem& files, const contract::RunConfig& config, int threads)
      : dataset_(open_task(files, config)),
        text_(tasks::text_of(dataset_, config, threads)),
        training_(dataset_, text_, config.seed),
        evaluation_(tasks::evaluation_of(dataset_, text_, config.evaluate_samples)) {
    const contract::TargetMetric metric = contract::judged_by(config);
    if (contract::is_loss(metric)) return;
    for (const contract::Metric& each : evaluation_->baseline()) {
      if (each.name == contract::name_of(metric)) baseline_ = each.value;
    }
  }

  [[nodiscard]] const data::Vocabulary& vocabulary() const override {
    return dataset_.vocabulary();
  }
  [[nodiscard]] bool lower_case() const override { return dataset_.lower_case(); }
  [[nodiscard]] const std::string& fingerprint() const override { return dataset_.fingerprint(); }
  [[nodiscard]] std::vector<plugins::DatasetIdentity> facts() const override {
    const tasks::TaskManifest& manifest = dataset_.manifest();
    plugins::DatasetIdentity facts;
    facts.fingerprint = manifest.fingerprint;
    facts.vocabulary_size = manifest.vocabulary_size;
    facts.vocabulary_digest = manifest.vocabulary_digest;
    facts.lower_case = manifest.tokenizer.lower_case;
    facts.word_limit = manifest.tokenizer.word_limit;
    facts.training_digest = manifest.file(tasks::Part::Training).digest;
    facts.evaluation_digest = manifest.file(tasks::Part::Evaluation).digest;
    return {facts};
  }
  [[nodiscard]] const std::vector<std::string>& labels() const override {
    return dataset_.labels();
  }
  [[nodiscard]] samples::SampleStream training() const override { return training_.stream(); }
  [[nodiscard]] std::int64_t training_samples() const override { return training_.size(); }
  [[nodiscard]] std::int64_t evaluation_samples() const override {
    return std::ssize(evaluation_->samples());
  }
  [[nodiscard]] const std::vector<std::string>& warnings() const override {
    return training_.warnings();
  }
  [[nodiscard]] std::optional<double> baseline() const override { return baseline_; }
  [[nodiscard]] contract::EvalRecord evaluate(step::TrainLoop& loop,
                                              std::int64_t step) const override {
    return loop.evaluate(*evaluation_, step);
  }
  [[nodiscard]] WholeEvaluation evaluate(device::Device& device, model::Bert& model, int ranks,
                                         std::int64_t step) const override {
    const std::vector<samples::Sample>& samples = evaluation_->samples();
    tasks::JudgedSet::Logits all(samples.size());
    for (int rank = 0; rank < ranks; ++rank) {
      auto place = static_cast<std::size_t>(rank);
      for (std::vector<float>& logits : step::logits_share(device, model, samples, rank, ranks)) {
        all[place] = std::move(logits);
        place += static_cast<std::size_t>(ranks);
      }
    }
    return {step::judged(*evaluation_, all, step), evaluation_->best_thresholds(all)};
  }

 private:
  tasks::TaskDataset dataset_;
  tasks::TaskText text_;
  tasks::TrainingSet training_;
  std::unique_ptr<tasks::JudgedSet> evaluation_;
  std::optional<double> baseline_;
};

}  // namespace

std::unique_ptr<RunData> open_run_data(base::FileSystem& files, const contract::RunConfig& config,
                                       int threads) {
  if (config.model.task != Task::Pretraining) {
    return std::make_unique<TaskData>(files, config, threads);
  }
  refuse_tasks(files, config);
  return std::make_unique<PretrainingData>(config);
}

void complete_model(const std::string& source, const data::Vocabulary& vocabulary,
                    const std::vector<std::string>& labels, contract::RunConfig* config) {
  const auto fill = [&](const char* key, int said, std::size_t found, const char* what) {
    const int count = static_cast<int>(found);
    if (said == 0 || said == count) return count;
    throw base::Error(base::Code::User,
                      source + ": model." + key + " is " + std::to_string(said) +
                          ", but the dataset has " + std::to_string(count) + " " + what +
                          "; leave the key out or prepare the data with the right " + key);
  };
  contract::ModelShape& model = config->model;
  model.vocabulary = fill("vocabulary", model.vocabulary, vocabulary.size(), "pieces");
  if (model.task != Task::Classification) return;
  model.labels = fill("labels", model.labels, labels.size(), "labels");
}

void complete_model(base::FileSystem& files, const std::string& source,
                    contract::RunConfig* config) {
  if (config->model.task == Task::Pretraining) {
    refuse_tasks(files, *config);
    const samples::Datasets datasets = samples::Datasets::open(config->data);
    return complete_model(source, datasets.vocabulary(), {}, config);
  }
  const tasks::TaskDataset dataset = open_task(files, *config);
  complete_model(source, dataset.vocabulary(), dataset.labels(), config);
}

}  // namespace regatta::trainer::run
