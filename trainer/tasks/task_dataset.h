// A dataset of a task: a directory with the files that people have (SQuAD's, TSV, CSV, JSONL), as
// they were, the vocabulary, and a manifest; made by `regatta-train prepare --task`.
//
//   task.json        format, task, tokenizer, labels, columns; of each file name, format, bytes,
//                    XXH3-128, samples (task_manifest.h)
//   vocab.txt
//   training.EXT     byte for byte as it was given; EXT: json, tsv, csv or jsonl, then .gz or .zst
//   evaluation.EXT   where the given name ended so
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/file_system.h"
#include "trainer/contract/model_shape.h"
#include "trainer/data/staging.h"
#include "trainer/data/vocabulary.h"
#include "trainer/tasks/example_file.h"
#include "trainer/tasks/question.h"
#include "trainer/tasks/task_manifest.h"
#include "trainer/tasks/task_report.h"

namespace regatta::trainer::tasks {

struct TaskPrepareOptions {
  contract::Task task = contract::Task::QuestionAnswering;
  base::Path training, evaluation;  // one regular file each
  base::Path vocabulary;            // vocab.txt; of the model that is to be fine-tuned
  bool lower_case = true;
  // Of Classification and Regression. kind is the task's; labels: empty, or the classes in the
  // order that they are to have, else they are the training file's.
  ExampleOptions examples;
  base::Path output;                        // the directory to make
  bool force = false;                       // replace `output` if it is a dataset of a task
  data::PartialDataset* partial = nullptr;  // for whoever has to end it from outside
};

// Reads and checks everything; the directory appears whole or not at all, and what a killed one has
// left beside it goes with the next (data/staging.h). Code::NotFound for an absent file; Code::User
// with file and place for what is wrong in one, for an evaluation label that training has not, and
// for parts of which only one has pairs; Code::Conflict if `output` exists (and is no dataset of a
// task, with force), or a file changes meanwhile; Code::Operator for a full disk.
[[nodiscard]] TaskPrepareReport prepare_task(const TaskPrepareOptions& options,
                                             base::FileSystem& files);

// Immutable: any thread may read.
class TaskDataset {
 public:
  // Whether there is one: a directory with a task.json.
  [[nodiscard]] static bool is_there(const base::Path& directory, base::FileSystem& files);
  // Code::NotFound without a manifest; Code::User, with the advice to prepare again, for a file
  // that is absent or changed (sizes and digests of all files are checked). `files` outlives it.
  [[nodiscard]] static TaskDataset open(const base::Path& directory, base::FileSystem& files);

  [[nodiscard]] contract::Task task() const { return manifest_.task; }
  [[nodiscard]] const data::Vocabulary& vocabulary() const { return vocabulary_; }
  [[nodiscard]] bool lower_case() const { return manifest_.tokenizer.lower_case; }
  // Over everything that training depends on; 32 hexadecimal digits.
  [[nodiscard]] const std::string& fingerprint() const { return manifest_.fingerprint; }
  [[nodiscard]] const TaskManifest& manifest() const { return manifest_; }
  [[nodiscard]] const base::Path& directory() const { return directory_; }
  // Of Classification, in the order of the classes; of the others none.
  [[nodiscard]] const std::vector<std::string>& labels() const { return manifest_.labels; }
  // Questions or examples, by the manifest.
  [[nodiscard]] std::int64_t samples(Part part) const { return manifest_.file(part).samples; }

  // Of QuestionAnswering, and of the two others (else the program ends): reads the file. Throws as
  // its reader does.
  [[nodiscard]] QuestionSet questions(Part part) const;
  [[nodiscard]] ExampleSet examples(Part part) const;

 private:
  TaskDataset(base::Path directory, TaskManifest manifest, data::Vocabulary vocabulary,
              base::FileSystem& files);
  [[nodiscard]] base::Path path_of(Part part) const;

  base::Path directory_;
  TaskManifest manifest_;
  data::Vocabulary vocabulary_;
  base::FileSystem* files_;
};

}  // namespace regatta::trainer::tasks
