#include "trainer/tasks/task_samples.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "base/error.h"
#include "trainer/samples/permutation.h"

namespace regatta::trainer::tasks {
namespace {

TaskSamples training_samples_of(const TaskDataset& dataset, const TaskText& text) {
  if (dataset.task() == contract::Task::QuestionAnswering) {
    return question_samples(dataset.questions(Part::Training), text);
  }
  return example_samples(dataset.examples(Part::Training), dataset.task(), text);
}

}  // namespace

TaskText text_of(const TaskDataset& dataset, const contract::RunConfig& config, int threads) {
  return {dataset.vocabulary(), dataset.lower_case(), config.data.max_length, config.questions,
          threads};
}

std::unique_ptr<JudgedSet> evaluation_of(const TaskDataset& dataset, const TaskText& text) {
  if (dataset.task() == contract::Task::QuestionAnswering) {
    // All of them have labels, which decide.
    return judged_questions(dataset.questions(Part::Evaluation), text, false);
  }
  return judged_examples(dataset.examples(Part::Evaluation), dataset.task(), text);
}

TrainingSet::TrainingSet(const TaskDataset& dataset, const TaskText& text, std::uint64_t seed)
    : TrainingSet(training_samples_of(dataset, text), seed) {}

TrainingSet::TrainingSet(TaskSamples samples, std::uint64_t seed)
    : samples_(std::move(samples)), seed_(seed) {
  base::check(!samples_.samples.empty(), "there is a sample to train on");
}

std::int64_t TrainingSet::size() const {
  return static_cast<std::int64_t>(samples_.samples.size());
}

samples::SampleStream TrainingSet::stream() const {
  // Not `this`: the samples stay where they are when the set is moved.
  const auto find = [all = std::span<const samples::Sample>(samples_.samples),
                     seed = seed_](std::int64_t number) -> const samples::Sample& {
    base::check(number >= 0, "samples are numbered from 0");
    const auto n = static_cast<std::uint64_t>(number);
    const auto epoch = static_cast<std::uint32_t>(n / all.size());
    return all[samples::Permutation(all.size(), seed, epoch)(n % all.size())];
  };
  return {
      [find](std::int64_t number) { return find(number); },
      [find](std::int64_t number) { return static_cast<std::int32_t>(find(number).ids.size()); }};
}

}  // namespace regatta::trainer::tasks
