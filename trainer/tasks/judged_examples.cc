// Examples as samples, and the score of their classes or values.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "base/thread_pool.h"
#include "base/wording.h"
#include "trainer/data/tokenizer.h"
#include "trainer/tasks/class_score.h"
#include "trainer/tasks/softmax.h"
#include "trainer/tasks/task_samples.h"

namespace regatta::trainer::tasks {
namespace {

using contract::TargetMetric;

samples::Sample example_sample_of(data::Tokenizer& tokenizer, const data::SpecialTokens& special,
                                  const std::string& text, const std::string* second,
                                  int max_length) {
  base::check(max_length >= 3, "an example has room for its special tokens");
  std::vector<data::TokenId> a;
  std::vector<data::TokenId> b;
  tokenizer.tokenize(text, a);
  if (second != nullptr) tokenizer.tokenize(*second, b);
  // What is left when the longer, or else the second, loses a piece until both fit.
  const auto room = static_cast<std::size_t>(max_length) - (second != nullptr ? 3 : 2);
  const std::size_t half = second != nullptr ? (room + 1) / 2 : room;
  a.resize(std::min(a.size(), std::max(half, room - std::min(room, b.size()))));
  b.resize(std::min(b.size(), room - a.size()));

  samples::Sample sample;
  sample.ids.reserve(a.size() + b.size() + 3);
  sample.ids.push_back(special.classify);
  sample.ids.insert(sample.ids.end(), a.begin(), a.end());
  sample.ids.push_back(special.separator);
  sample.types.assign(sample.ids.size(), 0);
  if (second != nullptr) {
    sample.ids.insert(sample.ids.end(), b.begin(), b.end());
    sample.ids.push_back(special.separator);
    sample.types.resize(sample.ids.size(), 1);
  }
  sample.sample_label = -1;
  sample.value = std::numeric_limits<float>::quiet_NaN();
  return sample;
}

// The index of the greatest, of equal ones the first.
std::size_t best_of(const std::vector<float>& logits) {
  return static_cast<std::size_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

constexpr int kValueDigits = 9;  // give a float32 back
constexpr int kProbabilityDigits = 6;

// As a field of a line.
std::string label_field(const std::string& label) {
  std::string field = base::printable(label);
  std::replace(field.begin(), field.end(), '\t', ' ');
  return field;
}

class JudgedExamples final : public JudgedSet {
 public:
  JudgedExamples(ExampleSet examples, contract::Task task, const TaskText& text);

  [[nodiscard]] const std::vector<samples::Sample>& samples() const override { return samples_; }
  [[nodiscard]] bool labelled() const override {
    return is_classes() ? !classes_.empty() : !values_.empty();
  }
  [[nodiscard]] std::vector<contract::Metric> score(const Logits& logits) const override;
  [[nodiscard]] std::vector<contract::Metric> baseline() const override;
  void write_predictions(const Logits& logits, const base::Path& directory,
                         base::FileSystem& files) const override;

 private:
  [[nodiscard]] bool is_classes() const { return !labels_.empty(); }
  void check_labels() const;
  void check_logits(const Logits& logits) const;
  [[nodiscard]] std::vector<contract::Metric> class_metrics(const Logits& logits) const;
  [[nodiscard]] std::vector<contract::Metric> value_metrics(const Logits& logits) const;

  std::vector<std::string> labels_;  // of Regression none
  std::vector<std::int32_t> classes_;
  std::vector<double> values_;
  std::vector<samples::Sample> samples_;
};

JudgedExamples::JudgedExamples(ExampleSet examples, contract::Task task, const TaskText& text)
    : labels_(std::move(examples.labels)) {
  base::check(!examples.texts.empty(), "there is an example to judge");
  base::check(task == contract::Task::Classification ? labels_.size() >= 2 : labels_.empty(),
              "classes have labels, at least two, and values have none");
  samples_ = example_samples(examples, task, text).samples;
  classes_ = std::move(examples.classes);
  values_ = std::move(examples.values);
}

void JudgedExamples::check_labels() const {
  if (labelled()) return;
  throw base::Error(base::Code::User, "the " + base::plural(samples_.size(), "example") +
                                          " have no labels to be judged by; use a file that has "
                                          "them, or predict only");
}

void JudgedExamples::check_logits(const Logits& logits) const {
  base::check(logits.size() == samples_.size(), "each example has logits");
  const std::size_t outputs = is_classes() ? labels_.size() : 1;
  for (const auto& each : logits) {
    base::check(each.size() == outputs, "an example has a logit for each label, or one value");
  }
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (std::all_of(logits[i].begin(), logits[i].end(),
                    [](float logit) { return std::isfinite(logit); })) {
      continue;
    }
    throw base::Error(base::Code::User, "example " + std::to_string(i + 1) + " of " +
                                            std::to_string(logits.size()) +
                                            ": a logit is not a finite number; evaluate a "
                                            "checkpoint from before training diverged");
  }
}

std::vector<contract::Metric> metrics_of_classes(const ClassScore& score) {
  return {{contract::name_of(TargetMetric::Accuracy), score.accuracy},
          {contract::name_of(TargetMetric::F1), score.f1},
          {contract::name_of(TargetMetric::Matthews), score.matthews}};
}

std::vector<contract::Metric> metrics_of_values(const ValueScore& score) {
  return {{contract::name_of(TargetMetric::Pearson), score.pearson.value_or(0)},
          {contract::name_of(TargetMetric::Spearman), score.spearman.value_or(0)}};
}

std::vector<contract::Metric> JudgedExamples::class_metrics(const Logits& logits) const {
  std::vector<std::int32_t> predicted;
  predicted.reserve(logits.size());
  double loss = 0;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    predicted.push_back(static_cast<std::int32_t>(best_of(logits[i])));
    const float logit = logits[i][static_cast<std::size_t>(classes_[i])];
    loss += Softmax(logits[i]).cross_entropy(logit);
  }
  std::vector<contract::Metric> metrics =
      metrics_of_classes(score_classes(classes_, predicted, static_cast<int>(labels_.size())));
  metrics.push_back(
      {contract::name_of(TargetMetric::Loss), loss / static_cast<double>(logits.size())});
  return metrics;
}

std::vector<contract::Metric> JudgedExamples::value_metrics(const Logits& logits) const {
  std::vector<double> predicted;
  predicted.reserve(logits.size());
  for (const auto& each : logits) predicted.push_back(each[0]);
  const ValueScore score = score_values(values_, predicted);
  std::vector<contract::Metric> metrics = metrics_of_values(score);
  metrics.push_back({contract::name_of(TargetMetric::Loss), score.mean_squared_error});
  return metrics;
}

std::vector<contract::Metric> JudgedExamples::score(const Logits& logits) const {
  check_labels();
  check_logits(logits);
  return is_classes() ? class_metrics(logits) : value_metrics(logits);
}

std::vector<contract::Metric> JudgedExamples::baseline() const {
  check_labels();
  if (!is_classes()) return metrics_of_values(best_constant(values_));
  return metrics_of_classes(best_constant(classes_, static_cast<int>(labels_.size())));
}

void JudgedExamples::write_predictions(const Logits& logits, const base::Path& directory,
                                       base::FileSystem& files) const {
  check_logits(logits);
  std::string text = "index\tprediction";
  for (const std::string& label : labels_) text += "\t" + label_field(label);
  text += "\n";
  for (std::size_t i = 0; i < logits.size(); ++i) {
    text += std::to_string(i) + "\t";
    text += is_classes() ? label_field(labels_[best_of(logits[i])])
                         : base::short_number(logits[i][0], kValueDigits);
    if (is_classes()) {
      const Softmax softmax(logits[i]);
      for (const float logit : logits[i]) {
        text += "\t" + base::short_number(softmax.probability(logit), kProbabilityDigits);
      }
    }
    text += "\n";
  }
  base::replace_file(files, directory / "predictions.tsv", text);
}

}  // namespace

std::unique_ptr<JudgedSet> judged_examples(ExampleSet examples, contract::Task task,
                                           const TaskText& text) {
  return std::make_unique<JudgedExamples>(std::move(examples), task, text);
}

samples::Sample example_sample(const data::WordPiece& pieces, const data::Vocabulary& vocabulary,
                               const std::string& text, const std::string* second, int max_length) {
  data::Tokenizer tokenizer(pieces);
  return example_sample_of(tokenizer, vocabulary.special(), text, second, max_length);
}

TaskSamples example_samples(const ExampleSet& examples, contract::Task task, const TaskText& text) {
  const std::size_t count = examples.texts.size();
  const auto all_or_none = [count](std::size_t size) { return size == 0 || size == count; };
  base::check(task == contract::Task::Classification || task == contract::Task::Regression,
              "examples are of classes or values");
  base::check(all_or_none(examples.second_texts.size()) && all_or_none(examples.classes.size()) &&
                  all_or_none(examples.values.size()),
              "all examples have second texts and labels, or none");
  const bool is_classes = task == contract::Task::Classification;
  const data::WordPiece pieces(text.vocabulary, {.lower_case = text.lower_case});
  TaskSamples result;
  result.samples.resize(count);
  const auto work = [&](std::int64_t begin, std::int64_t end) {
    data::Tokenizer tokenizer(pieces);
    for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i) {
      const std::string* const second =
          examples.second_texts.empty() ? nullptr : &examples.second_texts[i];
      samples::Sample sample = example_sample_of(tokenizer, text.vocabulary.special(),
                                                 examples.texts[i], second, text.max_length);
      if (is_classes && !examples.classes.empty()) sample.sample_label = examples.classes[i];
      if (!is_classes && !examples.values.empty()) {
        sample.value = static_cast<float>(examples.values[i]);
      }
      result.samples[i] = std::move(sample);
    }
  };
  constexpr std::int64_t kGrain = 4096;  // what a tokenizer's cache is worth
  base::ThreadPool(text.threads > 0 ? text.threads : base::usable_cores())
      .parallel_for(static_cast<std::int64_t>(count), kGrain, work);
  return result;
}

}  // namespace regatta::trainer::tasks
