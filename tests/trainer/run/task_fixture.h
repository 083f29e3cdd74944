// Datasets of tasks, made of rules that a small model can learn, and run files for them.
#pragma once

#include <string>

#include "base/file_system.h"
#include "tests/trainer/data/prepared.h"
#include "trainer/contract/model_shape.h"
#include "trainer/tasks/task_dataset.h"

namespace regatta::tests {

// Two sentences in three have the boat and are good, the others the wind and are bad.
[[nodiscard]] inline std::string sentences(int count) {
  const char* const words[] = {"a", "b", "c", "the", "row"};
  std::string rows = "sentence\tlabel\n";
  for (int i = 0; i < count; ++i) {
    const bool good = i % 3 != 0;
    rows += std::string(words[i % 5]) + (good ? " boat " : " wind ") + words[i * 2 % 5] + " " +
            words[i * 3 % 4] + "\t" + (good ? "good" : "bad") + "\n";
  }
  return rows;
}

// The answer is the text's only digit; every fourth text has none, and its question no answer.
[[nodiscard]] inline std::string questions(int count) {
  const char* const words[] = {"the", "boat", "row", "a", "b", "c"};
  std::string paragraphs;
  for (int i = 0; i < count; ++i) {
    const bool impossible = i % 4 == 3;
    std::string text, answers;
    for (int word = 0; word < 7; ++word) {
      if (word > 0) text += ' ';
      if (word == i % 6 && !impossible) {
        const std::string digit = std::to_string(i * 7 % 10);
        answers =
            R"({"text": ")" + digit + R"(", "answer_start": )" + std::to_string(text.size()) + "}";
        text += digit;
      } else {
        text += words[(i + word * 5) % 6];
      }
    }
    paragraphs += std::string(i == 0 ? "" : ", ") + R"({"context": ")" + text +
                  R"(", "qas": [{"id": "q)" + std::to_string(i) +
                  R"(", "question": "the row.", "is_impossible": )" +
                  (impossible ? "true" : "false") + R"(, "answers": [)" + answers + "]}]}";
  }
  return R"({"version": "v2.0", "data": [{"title": "t", "paragraphs": [)" + paragraphs + "]}]}";
}

constexpr int kEvaluatedSentences = 12;  // 8 good, 4 bad
constexpr int kEvaluatedQuestions = 8;   // 2 without an answer

// 40 sentences or 20 questions to train on, in directory/dataset; the directory is made.
[[nodiscard]] inline base::Path make_task_fixture(const base::Path& directory,
                                                  trainer::contract::Task task) {
  const bool asks = task == trainer::contract::Task::QuestionAnswering;
  base::posix_file_system().create_directory(directory);
  trainer::tasks::TaskPrepareOptions options;
  options.task = task;
  options.training = directory / (asks ? "training.json" : "training.tsv");
  options.evaluation = directory / (asks ? "evaluation.json" : "evaluation.tsv");
  options.vocabulary = directory / "vocab.txt";
  options.output = directory / "dataset";
  write_file(options.vocabulary, kSmallVocabulary);
  write_file(options.training, asks ? questions(20) : sentences(40));
  write_file(options.evaluation,
             asks ? questions(kEvaluatedQuestions) : sentences(kEvaluatedSentences));
  (void)trainer::tasks::prepare_task(options, base::posix_file_system());
  return options.output;
}

[[nodiscard]] inline std::string task_run_file(trainer::contract::Task task,
                                               const base::Path& dataset, int steps,
                                               const std::string& more = "") {
  const bool asks = task == trainer::contract::Task::QuestionAnswering;
  return "name: tuned\ntask: " + trainer::contract::name_of(task) +
         "\nmodel: {layers: 2, hidden: 32, heads: 2, feed_forward: 64, max_positions: 48}\n"
         "data: {path: " +
         dataset.string() + ", max_length: 32}\n" +
         (asks ? "questions: {doc_stride: 8, max_question: 8, max_answer: 3}\n" : "") +
         "batch: {size: 8}\noptimizer: {learning_rate: 0.005}\nevaluate: {every: 5}\n"
         "checkpoint: {every: 10, keep_last: 99}\nstatistics: {peak_tflops: 1}\nthreads: 1\n"
         "steps: " +
         std::to_string(steps) + "\n" + more;
}

}  // namespace regatta::tests
