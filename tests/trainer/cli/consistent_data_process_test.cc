// `regatta-train prepare` gives the same bytes whatever the environment says of languages, time and
// file modes.
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/process.h"
#include "tests/base/faulty_file_system.h"
#include "tests/trainer/data/conditions.h"

namespace regatta::tests {
namespace {

using Files = std::map<std::string, std::string>;

constexpr double kConsistentDeadline = 60;  // seconds, on any machine

class ConsistentDataProcess : public testing::Test {
 protected:
  void SetUp() override {
    write_file(path() / "vocab.txt", kSmallVocabulary);
    write_file(path() / "corpus.txt", travelling_text(30));
    for (const char* name : {"train.tsv", "dev.tsv"}) {
      write_file(path() / name, "sentence\tlabel\nthe boat 1,5\tIndigo\nthe wind\t\u0131lk\n");
    }
  }
  [[nodiscard]] base::Path path() const { return directory_.path(); }
  // The files of the dataset, which is removed again.
  [[nodiscard]] Files prepared(std::vector<std::string> arguments,
                               const std::map<std::string, std::string>& environment) const {
    const base::Path output = path() / "made";
    base::Command command;
    command.arguments = {std::string(REGATTA_BINARY_DIR) + "/trainer/regatta-train", "prepare"};
    command.arguments.insert(command.arguments.end(), arguments.begin(), arguments.end());
    command.arguments.insert(command.arguments.end(), {"--output", output.string()});
    command.environment = environment;
    command.directory = path();
    const base::Output told = base::run(command, kConsistentDeadline);
    EXPECT_EQ(told.exit.code, 0) << told.errors;
    Files files = files_of(output);
    std::filesystem::remove_all(output);
    return files;
  }

 private:
  TemporaryDirectory directory_;
};

TEST_F(ConsistentDataProcess, OfTextAndOfATaskInAnyEnvironment) {
  const std::vector<std::vector<std::string>> commands = {
      {"corpus.txt", "--vocab", "vocab.txt", "--held-out", "0.25", "--threads", "1"},
      {"corpus.txt", "--train-vocab", "256", "--held-out", "0.25"},
      {"--task", "classification", "train.tsv", "dev.tsv", "--vocabulary", "vocab.txt"},
  };
  const TemporaryDirectory locales;
  std::vector<std::map<std::string, std::string>> environments = {
      {{"LC_ALL", "C"}, {"TZ", "UTC0"}},
      {{"LC_ALL", "C.UTF-8"}, {"TZ", "Asia/Kathmandu"}},
      {{"LC_ALL", "no_SUCH.UTF-8"}, {"LANG", "nothing"}, {"LANGUAGE", "tlh"}, {"TZ", "?"}},
      {{"OMP_NUM_THREADS", "2"}, {"MALLOC_ARENA_MAX", "1"}},
  };
  for (const char* name : {"de_DE", "tr_TR"}) {
    if (!make_locale(locales.path(), name)) {
      say_no_locale(name);
      continue;
    }
    const std::string whole = std::string(name) + ".UTF-8";
    environments.push_back(
        {{"LOCPATH", locales.path().string()}, {"LC_ALL", whole}, {"LANG", whole}});
  }
  for (const auto& command : commands) {
    const Files expected = prepared(command, {});
    EXPECT_GE(expected.size(), 4U);
    for (const auto& environment : environments) {
      EXPECT_EQ(prepared(command, environment), expected)
          << command[0] << ", " << environment.begin()->second;
    }
    for (const mode_t mask : {mode_t{0}, mode_t{077}}) {
      const FileMask condition(mask);
      EXPECT_EQ(prepared(command, {}), expected) << command[0] << ", umask " << mask;
    }
  }
  EXPECT_NE(prepared(commands[0], {}), prepared(commands[1], {}));  // a comparison that can fail
}

}  // namespace
}  // namespace regatta::tests
