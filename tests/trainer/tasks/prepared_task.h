// Small datasets of tasks for the tests of this folder.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/file_system.h"
#include "tests/trainer/data/prepared.h"
#include "trainer/tasks/task_dataset.h"

namespace regatta::tests {

// A SQuAD file of one context, "the boat rows." (5 pieces of the small vocabulary), and `questions`
// questions "boat?" (2, one unknown) with the ids PREFIX0, PREFIX1, …; the last `impossible` of
// them have no answer, the others "boat".
[[nodiscard]] inline std::string small_squad(const std::string& prefix, int questions,
                                             int impossible) {
  std::string list;
  for (int i = 0; i < questions; ++i) {
    const bool is_impossible = i >= questions - impossible;
    list += std::string(i == 0 ? "" : ",") + R"({"id":")" + prefix + std::to_string(i) +
            R"(","question":"boat?","is_impossible":)" + (is_impossible ? "true" : "false") +
            R"(,"answers":[)" + (is_impossible ? "" : R"({"text":"boat","answer_start":4})") + "]}";
  }
  return R"({"version":"v2.0","data":[{"paragraphs":[{"context":"the boat rows.","qas":[)" + list +
         "]}]}]}";
}

inline constexpr char kTrainingTable[] =
    "sentence\tlabel\nthe boat\tgood\nthe wind\tbad\nrow the boat.\tgood\na b c\tgood\n";
inline constexpr char kEvaluationTable[] = "sentence\tlabel\nthe wind rows\tgood\nboats\tbad\n";

// Of training.tsv (or training.json) and evaluation.… of `directory`, which are written, into
// `dataset` there.
[[nodiscard]] inline trainer::tasks::TaskPrepareOptions task_options(const base::Path& directory,
                                                                     trainer::contract::Task task) {
  const bool asks = task == trainer::contract::Task::QuestionAnswering;
  const std::string ending = asks ? ".json" : ".tsv";
  trainer::tasks::TaskPrepareOptions options;
  options.task = task;
  options.training = directory / ("training" + ending);
  options.evaluation = directory / ("evaluation" + ending);
  options.vocabulary = directory / "vocab.txt";
  options.output = directory / "dataset";
  write_file(options.vocabulary, kSmallVocabulary);
  if (asks) {
    write_file(options.training, small_squad("t", 4, 1));
    write_file(options.evaluation, small_squad("e", 3, 1));
  } else if (task == trainer::contract::Task::Regression) {
    write_file(options.training, "text\tscore\nthe boat\t1.5\nthe wind\t-2\na b\t5\n");
    write_file(options.evaluation, "text\tscore\nthe boat\t0\n");
  } else {
    write_file(options.training, kTrainingTable);
    write_file(options.evaluation, kEvaluationTable);
  }
  return options;
}

// Code and message of what `act` throws; "" if it throws nothing.
[[nodiscard]] inline std::pair<base::Code, std::string> task_error(
    const std::function<void()>& act) {
  try {
    act();
  } catch (const base::Error& error) {
    const std::string message = error.what();
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    EXPECT_LT(message.size(), 600U) << message;
    return {error.code(), message};
  }
  return {base::Code::Developer, ""};
}

}  // namespace regatta::tests
