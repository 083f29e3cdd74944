// task.json of a dataset of a task: what the directory is made of, and what makes two of them the
// same. docs/formats/task_dataset.md describes it in prose.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "trainer/contract/model_shape.h"
#include "trainer/data/word_piece.h"
#include "trainer/tasks/example_file.h"

namespace regatta::trainer::tasks {

inline constexpr int kTaskDatasetVersion = 1;

enum class Part { Training, Evaluation };
inline constexpr std::array<Part, 2> kParts = {Part::Training, Part::Evaluation};
[[nodiscard]] std::string_view name_of(Part part);  // "training", "evaluation"
[[nodiscard]] inline std::size_t index_of(Part part) { return static_cast<std::size_t>(part); }

struct TaskManifest {
  struct File {
    std::string name;    // in the directory
    std::string format;  // of QuestionAnswering "json", else "tsv", "csv" or "jsonl"
    std::int64_t bytes = 0;
    std::string digest;        // XXH3-128
    std::int64_t samples = 0;  // questions or examples
  };

  contract::Task task = contract::Task::QuestionAnswering;
  data::TokenizerOptions tokenizer;
  std::int64_t vocabulary_size = 0;
  std::string vocabulary_digest;    // of vocab.txt
  std::vector<std::string> labels;  // of Classification, in the order of the classes
  bool header = true;               // these four as ExampleOptions
  std::string text_column, second_text_column, label_column;
  std::array<File, 2> parts;  // by index_of(Part)
  std::string fingerprint;

  [[nodiscard]] const File& file(Part part) const { return parts[index_of(part)]; }
  // How the examples of `part` are read.
  [[nodiscard]] ExampleOptions examples(Part part) const;
};

// Canonical: equal manifests are equal texts.
[[nodiscard]] std::string to_json(const TaskManifest& manifest);
// Throws Code::User with what is wrong ("it is cut off, or not JSON"), without naming the file, for
// every text that to_json() did not make and for a fingerprint that does not fit.
[[nodiscard]] TaskManifest parse_task_manifest(std::string_view text);

// XXH3-128 over format, task, tokenizer rules, vocabulary, labels, columns, and format, digest and
// counts of both files.
[[nodiscard]] std::string fingerprint_of(const TaskManifest& manifest);

// By these names of formats; "json" is none.
[[nodiscard]] ExampleFormat example_format_named(std::string_view name);

}  // namespace regatta::trainer::tasks
