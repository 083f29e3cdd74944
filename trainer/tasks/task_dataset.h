// A dataset of a task: a directory with the files that people have (SQuAD's, TSV, CSV, JSONL), as
// they were, the vocabulary, and a manifest; made by `regatta-train prepare --task`.
//
//   task.json        format, task, tokenizer, labels, columns; of each file name, bytes, XXH3-128,
//                    samples
//   vocab.txt
//   training.EXT     as it was given
//   evaluation.EXT
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/file_system.h"
#include "trainer/contract/model_shape.h"
#include "trainer/data/vocabulary.h"
#include "trainer/tasks/example_file.h"
#include "trainer/tasks/question.h"

namespace regatta::trainer::tasks {

enum class Part { Training, Evaluation };

struct TaskPrepareOptions {
  contract::Task task = contract::Task::QuestionAnswering;
  base::Path training, evaluation;  // one file each
  base::Path vocabulary;            // vocab.txt; of the model that is to be fine-tuned
  bool lower_case = true;
  ExampleOptions examples;  // of Classification and Regression; labels: those of the training file
  base::Path output;        // the directory to make
  bool force = false;       // replace `output` if it is a dataset of a task
};

struct TaskPrepareReport {
  std::int64_t training = 0, evaluation = 0;  // questions or examples
  std::int64_t impossible = 0;                // of the training's questions
  std::vector<std::string> labels;            // of Classification
  std::string fingerprint;
  std::vector<std::string> warnings;  // one line each: a label that evaluation has not, …
};

// Reads and checks everything; the directory appears whole or not at all. Code::User, NotFound,
// Conflict or Operator as data::prepare (trainer/data/prepare.h).
[[nodiscard]] TaskPrepareReport prepare_task(const TaskPrepareOptions& options,
                                             base::FileSystem& files);

// Immutable: any thread may read.
class TaskDataset {
 public:
  // Whether there is one: a directory with a task.json.
  [[nodiscard]] static bool is_there(const base::Path& directory, base::FileSystem& files);
  // Code::NotFound without a manifest; Code::User, with the advice to prepare again, for a file
  // that is absent or changed (sizes and digests of all files are checked).
  [[nodiscard]] static TaskDataset open(const base::Path& directory, base::FileSystem& files);

  [[nodiscard]] contract::Task task() const { return task_; }
  [[nodiscard]] const data::Vocabulary& vocabulary() const { return vocabulary_; }
  [[nodiscard]] bool lower_case() const { return lower_case_; }
  // Over everything that training depends on; 32 hexadecimal digits.
  [[nodiscard]] const std::string& fingerprint() const { return fingerprint_; }
  [[nodiscard]] const base::Path& directory() const { return directory_; }
  [[nodiscard]] const std::vector<std::string>& labels() const { return labels_; }
  // Questions or examples, by the manifest.
  [[nodiscard]] std::int64_t samples(Part part) const;

  // Of QuestionAnswering, and of the two others: reads the file. Throws as its reader does.
  [[nodiscard]] QuestionSet questions(Part part) const;
  [[nodiscard]] ExampleSet examples(Part part) const;

 private:
  struct File {
    std::string name;
    std::int64_t bytes = 0;
    std::string digest;
    std::int64_t samples = 0;
  };
  TaskDataset(base::Path directory, data::Vocabulary vocabulary);

  base::Path directory_;
  data::Vocabulary vocabulary_;
  contract::Task task_ = contract::Task::QuestionAnswering;
  bool lower_case_ = true;
  std::string fingerprint_;
  std::vector<std::string> labels_;
  ExampleOptions examples_;
  File files_[2];
};

}  // namespace regatta::trainer::tasks
