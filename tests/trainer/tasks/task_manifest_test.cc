// What a dataset's fingerprint and manifest are of, and what opens no more.
#include "trainer/tasks/task_manifest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "base/error.h"
#include "tests/base/faulty_file_system.h"
#include "tests/trainer/data/compressed.h"
#include "tests/trainer/tasks/prepared_task.h"
#include "trainer/tasks/task_dataset.h"

namespace regatta::trainer {
namespace {

using base::Code;
using base::Path;
using contract::Task;
using tasks::ExampleFormat;
using tasks::TaskDataset;
using tasks::TaskPrepareOptions;
using testing::HasSubstr;

// The same files under other names and in other places are the same dataset; all else is another.
TEST(TaskManifests, FingerprintIsOfWhatItCovers) {
  using Change = std::function<void(TaskPrepareOptions&, const Path&)>;
  struct Case {
    const char* name;
    Change change;
    bool is_other;
  };
  const Case cases[] = {
      {"again", [](auto&, auto&) {}, false},
      {"output", [](auto& o, auto& d) { o.output = d / "elsewhere"; }, false},
      {"force", [](auto& o, auto&) { o.force = true; }, false},
      {"name",
       [](auto& o, auto& d) {
         std::filesystem::rename(o.training, d / "t.tsv");
         o.training = d / "t.tsv";
       },
       false},
      {"format that the name says", [](auto& o, auto&) { o.examples.format = ExampleFormat::Tsv; },
       false},
      {"line ends of the vocabulary",
       [](auto& o, auto&) {
         std::string text;
         for (const char c : std::string(tests::kSmallVocabulary)) {
           text += c == '\n' ? "\r\n" : std::string(1, c);
         }
         tests::write_file(o.vocabulary, text);
       },
       false},
      {"labels that are the file's",
       [](auto& o, auto&) {
         o.examples.labels = {"0", "1"};
       },
       false},
      {"case", [](auto& o, auto&) { o.lower_case = false; }, true},
      {"task", [](auto& o, auto&) { o.task = Task::Regression; }, true},
      {"vocabulary",
       [](auto& o, auto&) {
         tests::write_file(o.vocabulary, std::string(tests::kSmallVocabulary) + "zzz\n");
       },
       true},
      {"order of labels",
       [](auto& o, auto&) {
         o.examples.labels = {"1", "0"};
       },
       true},
      {"text column", [](auto& o, auto&) { o.examples.text_column = "text"; }, true},
      {"second text column",
       [](auto& o, auto&) {
         o.examples.text_column = "text";
         o.examples.second_text_column = "other";
       },
       true},
      {"another second text column",
       [](auto& o, auto&) {
         o.examples.text_column = "text";
         o.examples.second_text_column = "third";
       },
       true},
      {"label column", [](auto& o, auto&) { o.examples.label_column = "other"; }, true},
      {"header",
       [](auto& o, auto&) {
         o.examples = {ExampleFormat::Automatic, false, "3", "", "4", {}, false, {}};
       },
       true},
      {"a byte of training",
       [](auto& o, auto&) { std::ofstream(o.training, std::ios::app) << "\n"; }, true},
      {"a byte of evaluation",
       [](auto& o, auto&) { std::ofstream(o.evaluation, std::ios::app) << "\n"; }, true},
      {"parts the other way round", [](auto& o, auto&) { std::swap(o.training, o.evaluation); },
       true},
      {"compression",
       [](auto& o, auto&) {
         tests::write_file(o.training, tests::gzip(tests::read_file(o.training)));
       },
       true},
  };
  std::map<std::string, std::string> names;  // by fingerprint
  std::string first;
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    const tests::TemporaryDirectory directory;
    TaskPrepareOptions options = tests::task_options(directory.path(), Task::Classification);
    const std::string table = "text\tlabel\tother\tthird\n1\t0\t1\t0\n0\t1\t0\t1\n";
    tests::write_file(options.training, table + "a\t0\t1\tb\n");
    tests::write_file(options.evaluation, table);
    // Without a header, its names are an example of their own.
    c.change(options, directory.path());
    if (!options.examples.header) {
      options.examples.labels.clear();
    }
    const std::string made = tasks::prepare_task(options, base::posix_file_system()).fingerprint;
    EXPECT_EQ(TaskDataset::open(options.output, base::posix_file_system()).fingerprint(), made);
    if (first.empty()) first = made;
    EXPECT_EQ(made != first, c.is_other);
    if (!c.is_other) continue;
    EXPECT_TRUE(names.emplace(made, c.name).second) << "as " << names[made];
  }
}

// Files of one format read as another are other samples.
TEST(TaskManifests, FingerprintIsOfTheFormat) {
  std::set<std::string> made;
  for (const char* name : {"both.tsv", "both.csv"}) {
    const tests::TemporaryDirectory directory;
    TaskPrepareOptions options = tests::task_options(directory.path(), Task::Classification);
    options.training = directory.path() / name;
    tests::write_file(options.training, "x,sentence,label\t,sentence\tlabel,\n");
    options.examples = {ExampleFormat::Automatic, false, "1", "", "2", {}, false, {}};
    tests::write_file(options.training, "a,\"\tgood,b\"\nb,\"\tbad,b\"\n");
    tests::write_file(options.evaluation, tests::read_file(options.training));
    options.evaluation = options.training;
    made.insert(tasks::prepare_task(options, base::posix_file_system()).fingerprint);
  }
  EXPECT_EQ(made.size(), 2U);
}

std::string opening_error(const Path& dataset) {
  const auto [code, message] =
      tests::task_error([&] { (void)TaskDataset::open(dataset, base::posix_file_system()); });
  if (message.empty()) return "";
  EXPECT_EQ(code, Code::User) << message;
  EXPECT_THAT(message, testing::StartsWith("dataset " + dataset.string() + " is damaged: "));
  EXPECT_THAT(message, testing::EndsWith("; prepare it again"));
  return message;
}

TEST(TaskManifests, AChangedByteOfAnyFileIsRefused) {
  for (const Task task : {Task::QuestionAnswering, Task::Classification, Task::Regression}) {
    const tests::TemporaryDirectory directory;
    const TaskPrepareOptions options = tests::task_options(directory.path(), task);
    (void)tasks::prepare_task(options, base::posix_file_system());
    const auto made = tests::files_of(options.output);
    ASSERT_EQ(made.size(), 4U);
    for (const auto& [name, bytes] : made) {
      SCOPED_TRACE(name);
      for (std::size_t i = 0; i < bytes.size(); ++i) {
        std::string changed = bytes;
        // Another digit, letter or bracket: what an editor may leave.
        changed[i] = static_cast<char>(changed[i] ^ (i % 3 == 0 ? 0x20 : 1));
        tests::write_file(options.output / name, changed);
        ASSERT_THAT(opening_error(options.output), HasSubstr(name)) << "byte " << i;
      }
      tests::write_file(options.output / name, bytes.substr(0, bytes.size() - 1));
      EXPECT_THAT(opening_error(options.output), HasSubstr(name));
      tests::write_file(options.output / name, bytes + "\n");
      EXPECT_THAT(opening_error(options.output), HasSubstr(name));
      std::filesystem::remove(options.output / name);
      if (name != "task.json") {
        EXPECT_THAT(opening_error(options.output), HasSubstr(name + " is missing"));
      }
      tests::write_file(options.output / name, bytes);
    }
    EXPECT_EQ(opening_error(options.output), "");
  }
}

TEST(TaskManifests, WhatIsNoDatasetIsRefused) {
  const tests::TemporaryDirectory directory;
  const TaskPrepareOptions options = tests::task_options(directory.path(), Task::Regression);
  const auto open = [&](const Path& path) {
    return tests::task_error([&] { (void)TaskDataset::open(path, base::posix_file_system()); });
  };
  for (const Path& path : {directory.path(), directory.path() / "absent"}) {
    EXPECT_EQ(open(path).first, Code::NotFound);
    EXPECT_THAT(open(path).second, HasSubstr("is not a dataset of a task (no task.json); make"));
  }
  EXPECT_EQ(open(options.vocabulary).first, Code::User);
  EXPECT_THAT(open(options.vocabulary).second, HasSubstr("is a file, and a dataset is a folder"));
  (void)tasks::prepare_task(options, base::posix_file_system());
  const std::string good = tests::read_file(options.output / "task.json");
  const auto with = [&](const std::string& what, const std::string& instead) {
    std::string text = good;
    return text.replace(text.find(what), what.size(), instead);
  };
  tasks::TaskManifest outside = tasks::parse_task_manifest(good);
  outside.parts[0].name = "training.tsv/../../vocab.txt";
  const std::pair<std::string, const char*> cases[] = {
      {"", "it is cut off, or not JSON"},
      {"[]", "it is cut off, or not JSON"},
      {std::string(100, '['), "it is cut off, or not JSON"},
      {good + std::string(1, '\0'), "it is cut off, or not JSON"},
      {"{}", "it is not the manifest of a dataset of a task"},
      {with("regatta-task-dataset", "regatta-dataset"), "it is not the manifest"},
      {with("\"version\": 1", "\"version\": 2"),
       "it has format version 2, and this program reads version 1"},
      {with("regression", "pretraining"), "its task is unknown"},
      {with("regression", "translation"), "its task is unknown"},
      {with("\"labels\": []", "\"labels\": 1"), "it has a field too few, or of another kind"},
      {with("\"columns\"", "\"rows\""), "it has a field too few, or of another kind"},
      {with("\"samples\": 3", "\"samples\": 4"), "its fingerprint does not fit"},
      {with("\"word_limit\": 200", "\"word_limit\": 300"),
       "its fingerprint does not fit: tokenizer.word_limit is 300, and was 200"},
      {with("\"lower_case\": true", "\"lower_case\": false"),
       "its fingerprint does not fit: tokenizer.lower_case is false, and was true"},
      {with("\"unicode\": \"14", "\"unicode\": \"13"),
       "it has changed at line 9, which should be '    \"unicode\": \"14.0.0\"'"},
      {with("\"header\": true", "\"header\": true, \"more\": 1"), "it has changed at line 17"},
      {good + "\n", "it has changed at line 38, where it should end"},
      {to_json(outside), "its training file has a wrong name"},
  };
  for (const auto& [text, message] : cases) {
    tests::write_file(options.output / "task.json", text);
    EXPECT_THAT(opening_error(options.output), HasSubstr("task.json: " + std::string(message)));
  }
}

}  // namespace
}  // namespace regatta::trainer
