#include "trainer/tasks/task_samples.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
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

std::unique_ptr<JudgedSet> evaluation_of(const TaskDataset& dataset, const TaskText& text,
                                         int most) {
  const auto left = [most](auto& all) {
    const auto count = static_cast<std::size_t>(most);
    if (most > 0 && all.size() > count) all.resize(count);
  };
  if (dataset.task() == contract::Task::QuestionAnswering) {
    QuestionSet set = dataset.questions(Part::Evaluation);
    left(set.questions);
    std::size_t contexts = 0;
    for (const Question& question : set.questions) {
      contexts = std::max(contexts, question.context + 1);
    }
    set.contexts.resize(contexts);
    // All of them have labels: with the version, these decide.
    return judged_questions(std::move(set), text, false);
  }
  ExampleSet set = dataset.examples(Part::Evaluation);
  left(set.texts);
  left(set.second_texts);
  left(set.classes);
  left(set.values);
  return judged_examples(std::move(set), dataset.task(), text);
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
  const std::span<const samples::Sample> all(samples_.samples);
  struct Visit {
    std::uint32_t epoch;
    std::uint64_t index;
  };
  const auto visit = [count = all.size(), seed = seed_](std::int64_t number) {
    base::check(number >= 0, "samples are numbered from 0");
    const auto n = static_cast<std::uint64_t>(number);
    const auto epoch = static_cast<std::uint32_t>(n / count);
    return Visit{epoch, samples::Permutation(count, seed, epoch)(n % count)};
  };
  return {[=](std::int64_t number) { return all[visit(number).index]; },
          [=](std::int64_t number) {
            return static_cast<std::int32_t>(all[visit(number).index].ids.size());
          },
          [=](std::int64_t number) {
            const Visit visited = visit(number);
            return "0:" + std::to_string(visited.epoch) + ":" + std::to_string(visited.index);
          }};
}

}  // namespace regatta::trainer::tasks
