// `regatta-train prepare`: options and output of the command line.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/file_system.h"
#include "base/process.h"
#include "tests/base/faulty_file_system.h"

namespace regatta::tests {
namespace {

using testing::HasSubstr;

constexpr double kPrepareDeadline = 60;  // seconds, on any machine

class PrepareProcess : public testing::Test {
 protected:
  void SetUp() override {
    std::string lines, rows = "id,body\n";
    for (int i = 0; i < 40; ++i) {
      const std::string number = std::to_string(i);
      lines += "{\"body\": \"The boat " + number + ".\\nThe wind.\\n\\nThe end.\"}\n";
      rows += number + ",\"The boat " + number + ".\nThe wind.\n\nThe end.\"\n";
    }
    write("good.jsonl", lines);
    write("broken.jsonl", lines + "{\"body\": }\n");
    write("good.csv", rows);
    write("good.txt", lines);
  }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(directory_.path() / name, std::ios::binary) << text;
  }
  [[nodiscard]] base::Output prepare(std::vector<std::string> arguments) const {
    base::Command command;
    command.arguments = {std::string(REGATTA_BINARY_DIR) + "/trainer/regatta-train", "prepare"};
    arguments[0] = (directory_.path() / arguments[0]).string();
    arguments.insert(arguments.end(), {"--output", (directory_.path() / "data").string(), "--force",
                                       "--train-vocab", "256"});
    command.arguments.insert(command.arguments.end(), arguments.begin(), arguments.end());
    return base::run(command, kPrepareDeadline);
  }
  TemporaryDirectory directory_;
};

TEST_F(PrepareProcess, OptionsChooseFieldColumnAndFormat) {
  const std::vector<std::vector<std::string>> cases = {
      {"good.jsonl", "--field", "body"},
      {"good.csv", "--column", "body"},
      {"good.csv", "--column", "2"},
      {"good.txt", "--format", "jsonl", "--field", "body"},
  };
  for (const std::vector<std::string>& arguments : cases) {
    const base::Output output = prepare(arguments);
    EXPECT_EQ(output.exit.code, 0) << output.errors;
    EXPECT_THAT(output.text, testing::StartsWith("40 documents, 120 sentences, "));
    EXPECT_THAT(output.text, HasSubstr("held out: "));
    EXPECT_THAT(output.text, HasSubstr("tokens per document: mean "));
    EXPECT_EQ(output.errors, "");
  }
}

TEST_F(PrepareProcess, BrokenLinesAreToldOrStrictlyRefused) {
  const base::Output told = prepare({"broken.jsonl", "--field", "body"});
  EXPECT_EQ(told.exit.code, 0) << told.errors;
  EXPECT_THAT(told.text, HasSubstr("1 broken line was left out; the first: "));
  EXPECT_THAT(told.text, HasSubstr("broken.jsonl:41:10: not JSON: a value is expected here"));
  const base::Output refused = prepare({"broken.jsonl", "--field", "body", "--strict"});
  EXPECT_NE(refused.exit.code, 0);
  EXPECT_THAT(refused.errors, HasSubstr("broken.jsonl:41:10: not JSON: a value is expected here"));
}

TEST_F(PrepareProcess, WarningsAndBadOptionsGoToStderr) {
  const base::Output warned = prepare({"good.txt", "--held-out", "0.5"});
  EXPECT_THAT(warned.errors + warned.text, HasSubstr("found 1 document"));
  std::ifstream file(directory_.path() / "good.txt");
  std::string spaced, line;
  while (std::getline(file, line)) spaced += line + "\n\n";
  write("good.txt", spaced);
  const base::Output looks = prepare({"good.txt"});
  EXPECT_EQ(looks.exit.code, 0) << looks.errors;
  EXPECT_THAT(looks.errors, HasSubstr("regatta-train: warning: "));
  EXPECT_THAT(looks.errors, HasSubstr("name it .jsonl or give --format jsonl"));
  for (const std::vector<std::string>& bad :
       {std::vector<std::string>{"good.txt", "--format", "xml"},
        {"good.txt", "--field", ""},
        {"good.txt", "--column", ""}}) {
    EXPECT_EQ(prepare(bad).exit.code, 2) << bad[1];
  }
}

}  // namespace
}  // namespace regatta::tests
