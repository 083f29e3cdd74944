// What a preparation of a task's dataset has found, and how it is told.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trainer/contract/model_shape.h"

namespace regatta::trainer::tasks {

struct TokenLengths {
  const char* noun = "";  // "question", "context", "example"
  double mean = 0;
  std::int64_t long_tokens = 0;  // 95 % have at most so many
  std::int64_t longest = 0;
};

struct TaskPartReport {
  std::int64_t samples = 0;            // questions or examples
  std::int64_t impossible = 0;         // questions that have no answer
  std::int64_t contexts = 0;           // of questions
  bool pairs = false;                  // examples of two texts
  std::int64_t tokens = 0;             // of all texts, each context once; without special ones
  std::int64_t unknown = 0;            // of them: [UNK]
  std::int64_t invalid_sequences = 0;  // of UTF-8 in examples: replaced by U+FFFD
  // Tokens of questions and of contexts, or of examples with their two or three special ones.
  std::vector<TokenLengths> lengths;
  std::vector<std::int64_t> examples_by_label;  // as TaskPrepareReport::labels
  double least = 0, mean = 0, most = 0;         // of the numbers of Regression

  [[nodiscard]] double unknown_share() const {
    return tokens > 0 ? static_cast<double>(unknown) / static_cast<double>(tokens) : 0;
  }
};

struct TaskPrepareReport {
  contract::Task task = contract::Task::QuestionAnswering;
  bool lower_case = true;
  std::int32_t vocabulary_pieces = 0;
  std::vector<std::string> labels;  // of Classification
  TaskPartReport training, evaluation;
  double seconds = 0;
  std::string fingerprint;
  std::vector<std::string> warnings;  // one line each: a label that evaluation has not, …
};

// Lines for a terminal, without the warnings. `output`: the directory, as it was given.
[[nodiscard]] std::string summary_text(const TaskPrepareReport& report, const std::string& output);

}  // namespace regatta::trainer::tasks
