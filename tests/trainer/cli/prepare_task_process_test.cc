// `regatta-train prepare --task`: options and output of the command line.
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

constexpr double kPrepareTaskDeadline = 60;  // seconds, on any machine

class PrepareTaskProcess : public testing::Test {
 protected:
  void SetUp() override {
    write("vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\nThe\nboat\nwind\n");
    write("train.tsv", "sentence\tlabel\nthe boat\tgood\nthe wind\tbad\nthe the\tgood\n");
    write("dev.tsv", "sentence\tlabel\nThe boat\tgood\nboat\tbad\n");
    write("bare.csv", "1.5,the boat,the wind\n2,wind,the\n");
    write("squad.json",
          R"({"version":"1.1","data":[{"paragraphs":[{"context":"the boat","qas":[)"
          R"({"id":"1","question":"the wind","answers":[{"text":"boat","answer_start":4}]}]}]}]})");
    for (const char* name : {"said", "unsaid", "uncased", "none"}) {
      std::filesystem::create_directory(directory_.path() / name);
      if (std::string(name) == "none") continue;
      std::filesystem::copy(directory_.path() / "vocab.txt", directory_.path() / name);
    }
    write("said/tokenizer_config.json", R"({"do_lower_case":false})");
    write("uncased/tokenizer_config.json", R"({"do_lower_case":true})");
    write("unsaid/tokenizer_config.json", R"({"model_max_length":512})");
    write("none/tokenizer.json", "{}");
  }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(directory_.path() / name, std::ios::binary) << text;
  }
  // In the directory of the files.
  [[nodiscard]] base::Output prepare(const std::vector<std::string>& arguments) const {
    base::Command command;
    command.arguments = {"env", "-C", directory_.path().string(),
                         std::string(REGATTA_BINARY_DIR) + "/trainer/regatta-train", "prepare"};
    command.arguments.insert(command.arguments.end(), arguments.begin(), arguments.end());
    command.arguments.insert(command.arguments.end(), {"--output", "data"});
    return base::run(command, kPrepareTaskDeadline);
  }
  [[nodiscard]] bool is_made() const {
    return std::filesystem::exists(directory_.path() / "data" / "task.json");
  }

 private:
  TemporaryDirectory directory_;
};

using Arguments = std::vector<std::string>;

TEST_F(PrepareTaskProcess, PrintsAReportOfEveryTask) {
  struct Case {
    Arguments arguments;
    std::vector<const char*> parts;
  };
  const Case cases[] = {
      {{"--task", "classification", "train.tsv", "dev.tsv", "--vocabulary", "vocab.txt"},
       {"classification, vocabulary of 9 pieces, lower case, in ", "training: 3 examples of one",
        "evaluation: 2 examples", "  'good': training 66.7 % (2), evaluation 50.0 % (1)\n",
        "fingerprint: "}},
      {{"squad.json", "squad.json", "--task=question-answering", "--vocab", "said", "--force"},
       {"question-answering, vocabulary of 9 pieces, case kept, in ",
        "training: 1 question, 0 without an answer, 1 context\n"}},
      {{"bare.csv", "bare.csv", "--task", "regression", "--vocabulary", "vocab.txt", "--no-header",
        "--text-column", "2", "--second-text-column", "3", "--label-column", "1", "--format", "csv",
        "--cased", "--force"},
       {"regression, vocabulary of 9 pieces, case kept, in ", "training: 2 examples of two texts\n",
        "labels: mean 1.75, from 1.5 to 2\n"}},
  };
  for (const Case& c : cases) {
    const base::Output output = prepare(c.arguments);
    EXPECT_EQ(output.exit.code, 0) << output.errors;
    for (const char* part : c.parts) EXPECT_THAT(output.text, HasSubstr(part));
    EXPECT_THAT(output.text, HasSubstr(" -> data\n"));
    EXPECT_TRUE(is_made());
    if (c.arguments[0] == c.arguments[1]) {
      EXPECT_THAT(output.errors, testing::StartsWith("regatta-train: warning: training and evalua"
                                                     "tion are the same file"));
    } else {
      EXPECT_EQ(output.errors, "");
    }
  }
}

// --cased, else what the directory says, else lower case.
TEST_F(PrepareTaskProcess, TheVocabularysDirectorySaysTheCase) {
  struct Case {
    const char* vocabulary;
    bool cased;
    const char* told;
  };
  for (const Case& c :
       {Case{"said", false, ", case kept, "}, Case{"said/", true, ", case kept, "},
        Case{"uncased", false, ", lower case, "}, Case{"uncased", true, ", case kept, "},
        Case{"unsaid", false, ", lower case, "}, Case{"said/vocab.txt", false, ", lower case, "}}) {
    Arguments arguments{"train.tsv",    "dev.tsv",    "--task", "classification",
                        "--vocabulary", c.vocabulary, "--force"};
    if (c.cased) arguments.emplace_back("--cased");
    const base::Output output = prepare(arguments);
    EXPECT_EQ(output.exit.code, 0) << output.errors;
    EXPECT_THAT(output.text, HasSubstr(c.told)) << c.vocabulary;
  }
  ASSERT_EQ(prepare({"--task", "classification", "train.tsv", "dev.tsv", "--vocabulary",
                     "vocab.txt", "--cased", "--force"})
                .exit.code,
            0);
  const base::Output again = prepare(
      {"--task", "classification", "train.tsv", "dev.tsv", "--vocabulary", "data", "--force"});
  EXPECT_EQ(again.exit.code, 0) << again.errors;
  EXPECT_THAT(again.text, HasSubstr(", case kept, ")) << "as the dataset";
}

TEST_F(PrepareTaskProcess, OptionsThatDoNotGoTogetherAreNamed) {
  const Arguments classes{"train.tsv",      "dev.tsv",      "--task",
                          "classification", "--vocabulary", "vocab.txt"};
  const Arguments questions{"squad.json",         "squad.json",   "--task",
                            "question-answering", "--vocabulary", "vocab.txt"};
  struct Case {
    Arguments arguments;
    Arguments more;
    const char* named;
  };
  const Case cases[] = {
      {classes, {"--field", "text"}, "--field"},
      {classes, {"--column", "text"}, "--column"},
      {classes, {"--strict"}, "--strict"},
      {classes, {"--train-vocab", "256"}, "--train-vocab"},
      {classes, {"--word-limit", "100"}, "--word-limit"},
      {classes, {"--held-out", "0.5"}, "--held-out"},
      {classes, {"--threads", "2"}, "--threads"},
      {classes, {"--text-column", ""}, "--text-column"},
      {classes, {"--format", "text"}, "--format text"},
      {classes, {"--second-text-column", "b"}, "--second-text-column needs --text-column"},
      {classes, {"--no-header"}, "--no-header needs --text-column and --label-column"},
      {classes, {"third.tsv"}, "--task takes two files, TRAINING and EVALUATION, and 3 are given"},
      {questions, {"--format", "tsv"}, "--format is of tables"},
      {questions, {"--text-column", "a"}, "--text-column is of tables"},
      {questions, {"--label-column", "a"}, "--label-column is of tables"},
      {questions, {"--no-header"}, "--no-header is of tables"},
      {{"train.tsv", "dev.tsv", "--task", "translation"}, {}, "--task"},
      {{"train.tsv", "dev.tsv", "--task", "pretraining"}, {}, "--task"},
      {{"train.tsv", "dev.tsv", "--task", "classification"}, {}, "with --vocabulary"},
      {{"train.tsv", "--task", "classification", "--vocab", "vocab.txt"}, {}, "and 1 is given"},
      {{"train.tsv", "dev.tsv", "--task", "regression", "--vocab", "none"},
       {},
       "--vocabulary: none has no vocab.txt"},
      {{"train.tsv", "--vocab", "vocab.txt"}, {"--text-column", "a"}, "--task"},
      {{"train.tsv", "--vocab", "vocab.txt"}, {"--label-column", "a"}, "--task"},
      {{"train.tsv", "--vocab", "vocab.txt"}, {"--no-header"}, "--task"},
  };
  for (const Case& c : cases) {
    Arguments arguments = c.arguments;
    arguments.insert(arguments.end(), c.more.begin(), c.more.end());
    const base::Output output = prepare(arguments);
    EXPECT_NE(output.exit.code, 0) << c.named;
    EXPECT_THAT(output.errors, HasSubstr(c.named));
    EXPECT_EQ(output.text, "");
    EXPECT_FALSE(is_made()) << c.named;
  }
}

}  // namespace
}  // namespace regatta::tests
