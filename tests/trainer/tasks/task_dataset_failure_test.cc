// Faults while a dataset of a task is made: it is whole, or it is not there.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include "base/error.h"
#include "tests/base/faulty_file_system.h"
#include "tests/trainer/data/prepared.h"
#include "tests/trainer/tasks/prepared_task.h"
#include "trainer/data/dataset.h"
#include "trainer/data/prepare.h"
#include "trainer/tasks/task_dataset.h"

namespace regatta::trainer {
namespace {

using contract::Task;
using tasks::Part;
using tasks::TaskDataset;
using tasks::TaskPrepareOptions;
using testing::HasSubstr;

constexpr Task kTasks[] = {Task::QuestionAnswering, Task::Classification, Task::Regression};

// Nothing beside the inputs and, maybe, the dataset.
void expect_no_litter(const base::Path& directory) {
  for (const std::string& name : tests::names_in(directory)) {
    EXPECT_THAT(name, testing::AnyOf(testing::StartsWith("training."),
                                     testing::StartsWith("evaluation."), "vocab.txt", "dataset"));
  }
}

TEST(TaskDatasetFailure, EveryFileOperationMayFail) {
  for (const Task task : kTasks) {
    const tests::TemporaryDirectory directory;
    const TaskPrepareOptions options = tests::task_options(directory.path(), task);
    tests::FaultyFileSystem files;
    (void)tasks::prepare_task(options, files);
    const std::int64_t operations = files.operations();
    const auto expected = tests::files_of(options.output);
    std::filesystem::remove_all(options.output);
    ASSERT_GT(operations, 20);
    for (std::int64_t n = 1; n <= operations; ++n) {
      files.fail_at(n, tests::Fault::Once);
      try {
        (void)tasks::prepare_task(options, files);
        ADD_FAILURE() << n;
      } catch (const base::Error& error) {
        EXPECT_EQ(error.code(), base::Code::Operator) << n;
        EXPECT_THAT(error.what(), testing::Not(HasSubstr("\n")));
      }
      files.heal();
      expect_no_litter(directory.path());
      if (!files.exists(options.output)) continue;
      EXPECT_EQ(tests::files_of(options.output), expected) << n;
      std::filesystem::remove_all(options.output);
    }
  }
}

// The process ends before each of its operations; the next preparation cleans up, and goes on.
TEST(TaskDatasetFailure, KilledAnywhereItIsWholeOrAbsent) {
  const tests::TemporaryDirectory directory, of_killed;
  TaskPrepareOptions options = tests::task_options(directory.path(), Task::Classification);
  tests::FaultyFileSystem counted;
  (void)tasks::prepare_task(options, counted);
  const auto first = tests::files_of(options.output);
  tests::write_file(options.evaluation, "sentence\tlabel\na\tgood\n");
  options.force = true;
  const std::int64_t before = counted.operations();
  (void)tasks::prepare_task(options, counted);
  const std::int64_t operations = counted.operations() - before;
  const auto second = tests::files_of(options.output);
  ASSERT_NE(first, second);
  std::set<std::string> states;
  for (const bool replaces : {false, true}) {
    for (std::int64_t n = 1; n <= operations; ++n) {
      tests::write_file(options.evaluation, tests::kEvaluationTable);
      std::filesystem::remove_all(options.output);
      if (replaces) (void)tasks::prepare_task(options, base::posix_file_system());
      tests::write_file(options.evaluation, "sentence\tlabel\na\tgood\n");
      const pid_t child = ::fork();
      if (child == 0) {  // no test framework here
        // What it keeps for a crash goes with the test: it has no time to remove that.
        ::setenv("TEST_TMPDIR", of_killed.path().c_str(), 1);
        tests::FaultyFileSystem files;
        std::int64_t calls = 0;
        files.set_before_each([&] {
          if (++calls == n) ::_exit(0);
        });
        try {
          (void)tasks::prepare_task(options, files);
        } catch (...) {
        }
        ::_exit(1);
      }
      int status = 0;
      ASSERT_EQ(::waitpid(child, &status, 0), child);
      ASSERT_TRUE(WIFEXITED(status));
      if (std::filesystem::exists(options.output)) {
        const auto now = tests::files_of(options.output);
        EXPECT_TRUE(now == second || (replaces && now == first)) << n;
        states.insert(now == second ? "new" : "old");
      } else {
        states.insert("none");
      }
      // Without force: what was to be replaced is put back, and stays.
      options.force = false;
      try {
        (void)tasks::prepare_task(options, base::posix_file_system());
        EXPECT_FALSE(replaces) << n;
      } catch (const base::Error& error) {
        EXPECT_EQ(error.code(), base::Code::Conflict) << n;
      }
      options.force = true;
      expect_no_litter(directory.path());
      (void)TaskDataset::open(options.output, base::posix_file_system());
    }
  }
  EXPECT_EQ(states, (std::set<std::string>{"new", "none", "old"}));
}

TEST(TaskDatasetFailure, SurvivesACrashOfTheMachine) {
  for (const auto crash : {tests::Crash::LoseBytes, tests::Crash::LoseEverything}) {
    const tests::TemporaryDirectory directory;
    const TaskPrepareOptions options =
        tests::task_options(directory.path(), Task::QuestionAnswering);
    tests::FaultyFileSystem files;
    (void)tasks::prepare_task(options, files);
    const auto before = tests::files_of(options.output);
    files.crash(crash);
    EXPECT_EQ(tests::files_of(options.output), before);
    (void)TaskDataset::open(options.output, base::posix_file_system());
  }
}

// Whenever somebody adds a line to a file: the samples that are told are those that are kept.
TEST(TaskDatasetFailure, AFileThatChangesMeanwhileIsNotKept) {
  const tests::TemporaryDirectory directory;
  TaskPrepareOptions options = tests::task_options(directory.path(), Task::Classification);
  options.force = true;
  tests::FaultyFileSystem counted;
  (void)tasks::prepare_task(options, counted);
  int refused = 0, made = 0;
  for (std::int64_t n = 1; n <= counted.operations(); ++n) {
    tests::write_file(options.training, tests::kTrainingTable);
    tests::write_file(options.evaluation, tests::kEvaluationTable);
    std::filesystem::remove_all(options.output);
    tests::FaultyFileSystem files;
    std::int64_t calls = 0;
    files.set_before_each([&] {
      if (++calls != n) return;
      std::ofstream(options.training, std::ios::app) << "the wind\tbad\n";
      std::ofstream(options.evaluation, std::ios::app) << "the wind\tbad\n";
    });
    try {
      const tasks::TaskPrepareReport report = tasks::prepare_task(options, files);
      const TaskDataset dataset = TaskDataset::open(options.output, files);
      EXPECT_EQ(dataset.examples(Part::Training).classes.size(),
                static_cast<std::size_t>(report.training.samples));
      EXPECT_EQ(dataset.examples(Part::Evaluation).classes.size(),
                static_cast<std::size_t>(report.evaluation.samples));
      ++made;
    } catch (const base::Error& error) {
      EXPECT_EQ(error.code(), base::Code::Conflict);
      EXPECT_THAT(error.what(), HasSubstr(" changed while it was read"));
      EXPECT_FALSE(std::filesystem::exists(options.output));
      ++refused;
    }
  }
  EXPECT_GT(refused, 0);
  EXPECT_GT(made, 0);
}

struct Output {
  const char* name;
  const char* message;  // with force; empty: it is replaced
};

// With force, a dataset of the same kind is replaced, and nothing else.
TEST(TaskDatasetFailure, ForceIsForDatasetsOfTasks) {
  const tests::TemporaryDirectory directory;
  const base::Path root = directory.path();
  TaskPrepareOptions options = tests::task_options(root, Task::Classification);
  tests::write_file(root / "corpus.txt", tests::documents_text(0, 20));
  data::PrepareOptions text = tests::small_options(root);
  text.output = root / "text";
  (void)data::prepare(text, base::posix_file_system());
  for (const char* name : {"precious", "empty"}) std::filesystem::create_directory(root / name);
  tests::write_file(root / "precious" / "thesis.txt", "x");
  (void)tasks::prepare_task(options, base::posix_file_system());
  options.output = root / "dataset/";  // as the shell completes it
  for (const bool force : {false, true}) {
    options.force = force;
    for (const Output& output :
         {Output{"text", " is a dataset of another kind; choose another output"},
          Output{"precious", " is not a dataset; choose another output"},
          Output{"empty", " is not a dataset; choose another output"}, Output{"dataset/", ""}}) {
      SCOPED_TRACE(output.name);
      options.output = root / output.name;
      const auto before = tests::files_of(root);
      try {
        (void)tasks::prepare_task(options, base::posix_file_system());
        EXPECT_TRUE(force && *output.message == '\0');
      } catch (const base::Error& error) {
        EXPECT_EQ(error.code(), base::Code::Conflict);
        EXPECT_THAT(error.what(), HasSubstr("exists already"));
        EXPECT_THAT(error.what(), HasSubstr(*output.message == '\0' ? "--force" : output.message));
      }
      EXPECT_EQ(tests::files_of(root), before);
    }
  }
  text.force = true;
  text.output = root / "dataset";
  EXPECT_THROW((void)data::prepare(text, base::posix_file_system()), base::Error);
  (void)TaskDataset::open(root / "dataset", base::posix_file_system());
}

// Set aside by a killed preparation of the other kind, either is put back.
TEST(TaskDatasetFailure, WhatWasSetAsideIsPutBackByEitherKind) {
  const tests::TemporaryDirectory directory;
  const base::Path root = directory.path();
  TaskPrepareOptions task = tests::task_options(root, Task::Classification);
  tests::write_file(root / "corpus.txt", tests::documents_text(0, 20));
  data::PrepareOptions text = tests::small_options(root);
  text.output = root / "text";
  (void)data::prepare(text, base::posix_file_system());
  (void)tasks::prepare_task(task, base::posix_file_system());
  std::filesystem::rename(text.output, text.output.string() + ".old-01234567");
  std::filesystem::rename(task.output, task.output.string() + ".old-01234567");
  std::swap(text.output, task.output);
  EXPECT_THROW((void)data::prepare(text, base::posix_file_system()), base::Error);
  EXPECT_THROW((void)tasks::prepare_task(task, base::posix_file_system()), base::Error);
  (void)TaskDataset::open(text.output, base::posix_file_system());
  data::Dataset::open(task.output).verify();
}

}  // namespace
}  // namespace regatta::trainer
