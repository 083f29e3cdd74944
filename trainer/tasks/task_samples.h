// A task as the engine sees it: numbered training samples, a fixed evaluation set, and the score of
// a model's logits on it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/file_system.h"
#include "trainer/contract/journal.h"
#include "trainer/contract/run_config.h"
#include "trainer/data/word_piece.h"
#include "trainer/samples/batch.h"
#include "trainer/samples/sample_stream.h"
#include "trainer/tasks/example_file.h"
#include "trainer/tasks/question.h"
#include "trainer/tasks/task_dataset.h"

namespace regatta::trainer::tasks {

// How text becomes samples: the vocabulary's rules and the run file's data and questions sections.
struct TaskText {
  const data::Vocabulary& vocabulary;  // outlives what is made with it
  bool lower_case = true;
  int max_length = 384;  // tokens of a sample, specials included
  contract::QuestionConfig questions;
  int threads = 0;  // 0: all cores; the result does not depend on it
};
[[nodiscard]] TaskText text_of(const TaskDataset& dataset, const contract::RunConfig& config,
                               int threads);

// What is judged or predicted, and what it takes to do so. Immutable.
class JudgedSet {
 public:
  virtual ~JudgedSet() = default;
  // Of the whole set, in a fixed order: windows of questions, or examples.
  [[nodiscard]] virtual const std::vector<samples::Sample>& samples() const = 0;
  // Of each sample as many logits as the head gives: 2 for each token (begin, end, begin, end, …)
  // of QuestionAnswering, labels of Classification, 1 of Regression; [samples] in samples' order.
  using Logits = std::vector<std::vector<float>>;
  // The task's metrics by name, "loss" (the mean over samples with labels, as the heads train it)
  // last. Needs labels. Code::User when a logit is not finite.
  [[nodiscard]] virtual std::vector<contract::Metric> score(const Logits& logits) const = 0;
  // The same of the best constant guess, for each metric alone, without "loss": to answer none of
  // the questions; the commonest class; the mean.
  [[nodiscard]] virtual std::vector<contract::Metric> baseline() const = 0;
  // What was predicted, into a directory that is there: predictions.json, nbest_predictions.json
  // and null_odds.json of questions; predictions.tsv (index, prediction; of classes their
  // probabilities, too) of the others.
  virtual void write_predictions(const Logits& logits, const base::Path& directory,
                                 base::FileSystem& files) const = 0;
};
// may_be_null: whether a question may have no answer; by the set's own questions where labelled.
[[nodiscard]] std::unique_ptr<JudgedSet> judged_questions(QuestionSet questions,
                                                          const TaskText& text, bool may_be_null);
// labels: as the model's; empty of Regression. Examples without labels can only be predicted.
[[nodiscard]] std::unique_ptr<JudgedSet> judged_examples(ExampleSet examples, contract::Task task,
                                                         const TaskText& text);

// What a run of the task trains on. Sample number n is the (n mod N)-th of epoch n / N, each epoch
// all N samples once, in an order that seed and epoch alone decide (samples::Permutation).
class TrainingSet {
 public:
  TrainingSet(const TaskDataset& dataset, const TaskText& text, std::uint64_t seed);
  [[nodiscard]] std::int64_t size() const;  // windows or examples: N
  // Valid as long as this.
  [[nodiscard]] samples::SampleStream stream() const;
  [[nodiscard]] const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  std::vector<samples::Sample> samples_;
  std::uint64_t seed_;
  std::vector<std::string> warnings_;  // of questions left out
};
// Of the first `most` questions or examples; 0: of all.
[[nodiscard]] std::unique_ptr<JudgedSet> evaluation_of(const TaskDataset& dataset,
                                                       const TaskText& text, int most = 0);

// [CLS] text [SEP] second [SEP], longest first cut to max_length (as transformers' truncation
// longest_first); second empty: without it. Unpadded.
[[nodiscard]] samples::Sample example_sample(const data::WordPiece& pieces,
                                             const data::Vocabulary& vocabulary,
                                             const std::string& text, const std::string* second,
                                             int max_length);

}  // namespace regatta::trainer::tasks
