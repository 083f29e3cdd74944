// A task as the engine sees it: numbered training samples, a fixed evaluation set, and the score of
// a model's logits on it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/file_system.h"
#include "trainer/contract/journal.h"
#include "trainer/contract/model_shape.h"
#include "trainer/contract/run_config.h"
#include "trainer/data/vocabulary.h"
#include "trainer/data/word_piece.h"
#include "trainer/samples/batch.h"
#include "trainer/samples/sample_stream.h"
#include "trainer/tasks/answer_score.h"
#include "trainer/tasks/answers.h"
#include "trainer/tasks/example_file.h"
#include "trainer/tasks/question.h"
#include "trainer/tasks/task_dataset.h"

namespace regatta::trainer::tasks {

// How text becomes samples: the vocabulary's rules and the run file's data and questions sections.
struct TaskText {
  const data::Vocabulary& vocabulary;  // outlives what is made with it
  bool lower_case = true;
  int max_length = 384;  // tokens of a sample, specials included
  contract::QuestionConfig questions{};
  int threads = 0;  // 0: all cores; the result does not depend on it
};
// The dataset outlives it.
[[nodiscard]] TaskText text_of(const TaskDataset& dataset, const contract::RunConfig& config,
                               int threads);

// What is judged or predicted, and what it takes to do so. Immutable.
class JudgedSet {
 public:
  virtual ~JudgedSet() = default;
  // Of the whole set, in a fixed order: windows of questions, or examples. A question whose text
  // has no piece has no sample, and is predicted to have no answer.
  [[nodiscard]] virtual const std::vector<samples::Sample>& samples() const = 0;
  // Whether all of it has labels, so that it can be scored.
  [[nodiscard]] virtual bool labelled() const = 0;
  // Of each sample as many logits as the head gives: 2 for each token (begin, end, begin, end, …)
  // of QuestionAnswering, labels of Classification, 1 of Regression; [samples] in samples' order.
  // Other numbers of them end the program.
  using Logits = std::vector<std::vector<float>>;
  // The task's metrics by name, "loss" last, which is the mean over the samples with labels:
  //   questions: exact, f1 (of the official scripts), ½·(cross-entropy of begin + of end);
  //   classes: accuracy, f1, matthews (class_score.h; of equal logits the first is predicted),
  //   cross-entropy; values: pearson, spearman, mean squared error.
  // Shares and correlations: 1 is perfect. A correlation with a constant is 0. In double precision.
  // Code::User when a logit is not finite, or something has no label.
  [[nodiscard]] virtual std::vector<contract::Metric> score(const Logits& logits) const = 0;
  // The same of the best constant guess, for each metric alone, without "loss": to answer none of
  // the questions, which is right for the impossible ones; the commonest class; the mean, whose
  // correlations are 0. Code::User without
  // labels.
  [[nodiscard]] virtual std::vector<contract::Metric> baseline() const = 0;
  // What was predicted, into a directory that is there. Of questions predictions.json,
  // nbest_predictions.json and, if they may have no answer, null_odds.json (answers.h). Of examples
  // predictions.tsv: index (from 0), prediction (a label, or a number), and of classes a column for
  // each label with its probability; tabs in labels become spaces, control characters are escaped.
  // Each file is written whole or not at all. Code::User, before any is written, when a logit is
  // not finite.
  virtual void write_predictions(const Logits& logits, const base::Path& directory,
                                 base::FileSystem& files) const = 0;
  // Of questions that have labels, some of them impossible: the thresholds of null odds that would
  // have scored best, and the scores with them (percent; answer_score.h), where each question's
  // answer is its best one with a text. Nothing of all else, nor where each was to have an answer.
  // Code::User when a logit is not finite.
  [[nodiscard]] virtual std::optional<BestThresholds> best_thresholds(const Logits&) const {
    return std::nullopt;
  }
};
class JudgedQuestionSet : public JudgedSet {
 public:
  // Of each question, in their order. Code::User when a logit is not finite.
  [[nodiscard]] virtual std::vector<QuestionAnswers> answers(const Logits& logits) const = 0;
};
// Whether questions of a file may have no answer. They may where one of them is marked impossible;
// else its version decides (1.1 or 2.0), and of an unknown one the answers: they may not where all
// have one, they may where only some do. Nothing for a file without either.
[[nodiscard]] std::optional<bool> may_be_null_by_file(const QuestionSet& questions);
// may_be_null: whether a question may have no answer, where the file does not tell.
// always_answered: none may, whatever the file says.
//
// The windows are those of prediction, and have the labels that training would have, for the loss:
// of the question's answers the first that is wholly in the window, no answer (0, 0) if none is;
// answers beyond the first 16 different ones are not looked at. Not known (−1) if none of them is
// in the words of the text, which training leaves out.
// Code::User if max_length leaves no room for text, or nothing is left of any text.
[[nodiscard]] std::unique_ptr<JudgedQuestionSet> judged_questions(QuestionSet questions,
                                                                  const TaskText& text,
                                                                  bool may_be_null,
                                                                  bool always_answered = false);
// At least one example. labels: as the model's; empty of Regression. Examples without labels can
// only be predicted.
[[nodiscard]] std::unique_ptr<JudgedSet> judged_examples(ExampleSet examples, contract::Task task,
                                                         const TaskText& text);
// Of the dataset's evaluation part: of its first `most` questions or examples; 0: of all.
[[nodiscard]] std::unique_ptr<JudgedSet> evaluation_of(const TaskDataset& dataset,
                                                       const TaskText& text, int most = 0);

struct TaskSamples {
  std::vector<samples::Sample> samples;
  std::vector<std::string> warnings;  // of questions left out, one line each
};
// Windows to train on (question_windows.h), by question. Code::User as judged_questions.
[[nodiscard]] TaskSamples question_samples(const QuestionSet& questions, const TaskText& text);
// Classification or Regression; one sample for each example.
[[nodiscard]] TaskSamples example_samples(const ExampleSet& examples, contract::Task task,
                                          const TaskText& text);
// [CLS] text [SEP] second [SEP], of segments 0 and 1; [CLS] text [SEP] without `second` (null). Cut
// to max_length (at least 3) from the end of the longer, of equal ones of the second, piece by
// piece: Google's run_classifier, and "longest_first" of transformers' Python tokenizers. Unpadded.
// A text of which no piece is left (combining marks alone) has no tokens. The label is not known.
[[nodiscard]] samples::Sample example_sample(const data::WordPiece& pieces,
                                             const data::Vocabulary& vocabulary,
                                             const std::string& text, const std::string* second,
                                             int max_length);

// What a run of the task trains on. Sample number n is one of epoch n / N, each epoch all N samples
// once, in an order that seed and epoch alone decide (samples::Permutation).
class TrainingSet {
 public:
  // Of the dataset's training part. Throws as its readers and question_samples().
  TrainingSet(const TaskDataset& dataset, const TaskText& text, std::uint64_t seed);
  // At least one sample.
  TrainingSet(TaskSamples samples, std::uint64_t seed);
  [[nodiscard]] std::int64_t size() const;  // windows or examples: N
  // Valid as long as this, also where it is moved to.
  [[nodiscard]] samples::SampleStream stream() const;
  [[nodiscard]] const std::vector<std::string>& warnings() const { return samples_.warnings; }

 private:
  TaskSamples samples_;
  std::uint64_t seed_;
};

}  // namespace regatta::trainer::tasks
