// Made-up samples of tasks for tests of steps: few, easy to learn, and of different lengths.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/file_system.h"
#include "trainer/contract/journal.h"
#include "trainer/contract/model_shape.h"
#include "trainer/contract/run_config.h"
#include "trainer/samples/batch.h"
#include "trainer/samples/sample_stream.h"
#include "trainer/tasks/task_samples.h"

namespace regatta::tests {

inline constexpr int kTaskClasses = 3;

[[nodiscard]] inline trainer::contract::RunConfig task_config(trainer::contract::Task task,
                                                              int ranks) {
  trainer::contract::RunConfig config;
  config.model = trainer::contract::preset_shape("tiny");
  config.model.hidden = 32;
  config.model.heads = 2;
  config.model.feed_forward = 64;
  config.model.max_positions = 32;
  config.model.vocabulary = 100;
  config.model.task = task;
  if (task == trainer::contract::Task::Classification) config.model.labels = kTaskClasses;
  config.dropout = config.attention_dropout = 0;
  config.data.max_length = 32;
  config.batch_size = 6;
  config.steps = 1000;
  config.optimizer.schedule = trainer::contract::ScheduleKind::Constant;
  config.optimizer.learning_rate = 3e-3;
  config.statistics_every = 0;
  config.ranks = ranks;
  config.ranks_per_node = 1;
  return config;
}

// Of 8 to 24 tokens. The answer begins at piece 7, which is there once, and ends one or two tokens
// behind it; class and value go with the second piece.
[[nodiscard]] inline trainer::samples::Sample task_sample(std::int64_t number) {
  trainer::samples::Sample sample;
  const auto length = static_cast<std::int32_t>(8 + number * 5 % 17);
  const auto answer = static_cast<std::int32_t>(2 + number * 3 % 4);
  for (std::int32_t i = 0; i < length; ++i) {
    const auto piece = static_cast<std::int32_t>(10 + (number * 13 + i * 7) % 80);
    sample.ids.push_back(i == 0 ? 2 : i == answer ? 7 : piece);
    sample.types.push_back(i < length / 2 ? 0 : 1);
  }
  sample.ids[1] = static_cast<std::int32_t>(90 + number % kTaskClasses);
  sample.sample_label = static_cast<std::int32_t>(number % kTaskClasses);
  sample.answer_begin = answer;
  sample.answer_end = answer + 1 + static_cast<std::int32_t>(number % 2);
  sample.value = static_cast<float>(number % kTaskClasses) - 0.75F;
  return sample;
}

// `count` of them, over and over.
[[nodiscard]] inline trainer::samples::SampleStream task_stream(std::int64_t count) {
  return {[count](std::int64_t number) { return task_sample(number % count); },
          [count](std::int64_t number) {
            return static_cast<std::int32_t>(task_sample(number % count).ids.size());
          }};
}

// Whose figures no two logits could change places without: "loss" is a sum of all of them, each
// with a weight of its own.
class WeighedSet final : public trainer::tasks::JudgedSet {
 public:
  explicit WeighedSet(int count) {
    for (int i = 0; i < count; ++i) samples_.push_back(task_sample(i));
  }
  [[nodiscard]] const std::vector<trainer::samples::Sample>& samples() const override {
    return samples_;
  }
  [[nodiscard]] bool labelled() const override { return true; }
  [[nodiscard]] std::vector<trainer::contract::Metric> score(const Logits& logits) const override {
    double sum = 0, weight = 1;
    std::size_t positive = 0, count = 0;
    for (const std::vector<float>& of_sample : logits) {
      for (const float logit : of_sample) {
        sum += weight * static_cast<double>(logit);
        weight += 0.37;
        ++count;
        positive += logit > 0 ? 1 : 0;
      }
    }
    return {{"accuracy", static_cast<double>(positive) / static_cast<double>(count)},
            {"f1", 1 / static_cast<double>(count)},
            {"loss", sum}};
  }
  [[nodiscard]] std::vector<trainer::contract::Metric> baseline() const override { return {}; }
  void write_predictions(const Logits&, const base::Path&, base::FileSystem&) const override {}

 private:
  std::vector<trainer::samples::Sample> samples_;
};

}  // namespace regatta::tests
