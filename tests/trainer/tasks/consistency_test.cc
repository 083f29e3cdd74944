// The same files give the same dataset of a task on every machine; and what of other spellings of
// the same table is the same.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "tests/trainer/data/compressed.h"
#include "tests/trainer/data/conditions.h"
#include "tests/trainer/tasks/prepared_task.h"
#include "trainer/tasks/task_dataset.h"

namespace regatta::tests {
namespace {

using base::Path;
using trainer::contract::Task;
using trainer::tasks::Part;
using trainer::tasks::TaskDataset;
using trainer::tasks::TaskPrepareOptions;
using Files = std::map<std::string, std::string>;

// Labels whose order and case a locale has its own opinion of.
constexpr char kTravellingTable[] =
    "sentence\tlabel\nthe boat İZMİR\tIndigo\nthe wind 1,5\t\u0131lk\nrow the boat.\tillusion\n"
    "a b c Straße\tZebra\nb caf\u00E9\tzebra\nc\t\u00C4rger\n";

class ConsistentTask : public testing::TestWithParam<Task> {
 protected:
  void SetUp() override {
    write(task_options(path(), GetParam()));
    expected_ = prepared(options());
  }
  void write(const TaskPrepareOptions& options) const {
    if (GetParam() != Task::Classification) return;
    write_file(options.training, kTravellingTable);
    write_file(options.evaluation, kTravellingTable);
  }
  [[nodiscard]] Path path() const { return directory_.path(); }
  [[nodiscard]] TaskPrepareOptions options() const {
    TaskPrepareOptions options = task_options(path(), GetParam());
    write(options);
    return options;
  }
  [[nodiscard]] static Files prepared(const TaskPrepareOptions& options) {
    const auto report = trainer::tasks::prepare_task(options, base::posix_file_system());
    EXPECT_EQ(TaskDataset::open(options.output, base::posix_file_system()).fingerprint(),
              report.fingerprint);
    Files files = files_of(options.output);
    std::filesystem::remove_all(options.output);
    return files;
  }
  Files expected_;

 private:
  TemporaryDirectory directory_;
};
INSTANTIATE_TEST_SUITE_P(Tasks, ConsistentTask,
                         testing::Values(Task::QuestionAnswering, Task::Classification,
                                         Task::Regression));

TEST_P(ConsistentTask, InAnyLocaleTimeZoneAndUmask) {
  for_each_condition(
      [&](const std::string& name) { EXPECT_EQ(prepared(options()), expected_) << name; });
}

TEST_P(ConsistentTask, FromAnyPathAndFilesOfAnyName) {
  const TaskPrepareOptions made = options();
  const Path folder = path() / "a folder" / "\u00FCber";
  std::filesystem::create_directories(folder);
  TaskPrepareOptions moved = made;
  moved.training = folder / ("z" + made.training.extension().string());
  moved.evaluation = folder / ("A" + made.evaluation.extension().string());
  std::filesystem::copy_file(made.training, moved.training);
  std::filesystem::copy_file(made.evaluation, moved.evaluation);
  EXPECT_EQ(prepared(moved), expected_);
  std::filesystem::create_symlink(folder, path() / "link");
  moved.training = path() / "link" / moved.training.filename();
  EXPECT_EQ(prepared(moved), expected_);
  const Path here = std::filesystem::current_path();
  std::filesystem::current_path(folder);
  moved.training = moved.training.filename();
  moved.evaluation = "./" + moved.evaluation.filename().string();
  EXPECT_EQ(prepared(moved), expected_);
  std::filesystem::current_path(here);
}

// A dataset of a task keeps the files as they are, so that another spelling is another dataset,
// with another fingerprint; what a model sees of it is the same.
TEST(ConsistentTables, LineEndsAndCompressionChangeTheFingerprintAndNoSample) {
  const std::string table = kTravellingTable;
  std::string windows;
  for (const char c : table) windows += c == '\n' ? std::string("\r\n") : std::string(1, c);
  struct Samples {
    std::string fingerprint;
    std::vector<std::string> labels;
    std::vector<std::string> texts;
    std::vector<std::int32_t> classes;
  };
  const auto made = [](const std::string& ending, const std::string& bytes) {
    const TemporaryDirectory directory;
    TaskPrepareOptions options = task_options(directory.path(), Task::Classification);
    options.training = directory.path() / ("training.tsv" + ending);
    write_file(options.training, bytes);
    write_file(options.evaluation, kTravellingTable);
    Samples samples;
    samples.fingerprint =
        trainer::tasks::prepare_task(options, base::posix_file_system()).fingerprint;
    const auto dataset = TaskDataset::open(options.output, base::posix_file_system());
    const auto examples = dataset.examples(Part::Training);
    samples.labels = dataset.labels();
    samples.texts = examples.texts;
    samples.classes = examples.classes;
    return samples;
  };
  const Samples expected = made("", table);
  EXPECT_THAT(expected.labels, testing::ElementsAre("Indigo", "Zebra", "illusion", "zebra",
                                                    "\u00C4rger", "\u0131lk"));  // by their bytes
  for (const auto& [ending, bytes] : {std::pair(std::string(), windows),
                                      {std::string(), "\xEF\xBB\xBF" + table},
                                      {std::string(".gz"), gzip(table)},
                                      {std::string(".zst"), zstandard(windows)}}) {
    const Samples other = made(ending, bytes);
    EXPECT_NE(other.fingerprint, expected.fingerprint);
    EXPECT_EQ(other.labels, expected.labels);
    EXPECT_EQ(other.texts, expected.texts);
    EXPECT_EQ(other.classes, expected.classes);
  }
}

}  // namespace
}  // namespace regatta::tests
