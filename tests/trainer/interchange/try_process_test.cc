// `regatta-train fill`, `answer` and `predict`: options and output of the command lines.
#include <gmock/gmock.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/trainer/interchange/tried_model.h"
#include "trainer/interchange/predict_file.h"
#include "trainer/interchange/try_model.h"

namespace regatta::tests {
namespace {

using namespace regatta::trainer;  // the subject
using contract::Task;
using nlohmann::json;
using testing::HasSubstr;

constexpr double kTryDeadline = 200;  // seconds, on any machine

class TryProcess : public TriedModel {
 protected:
  // In path().
  [[nodiscard]] base::Output call(const std::vector<std::string>& arguments) const {
    base::Command command;
    command.arguments = {"env", "-C", path().string(),
                         std::string(REGATTA_BINARY_DIR) + "/trainer/regatta-train"};
    command.arguments.insert(command.arguments.end(), arguments.begin(), arguments.end());
    return base::run(command, kTryDeadline);
  }
  [[nodiscard]] json told(std::vector<std::string> arguments) const {
    arguments.emplace_back("--json");
    const base::Output output = call(arguments);
    EXPECT_EQ(output.exit.code, 0) << output.errors;
    return json::parse(output.text, nullptr, false);
  }
};

TEST_F(TryProcess, FillsMasks) {
  const std::string model = model_of(Task::Pretraining).string();
  interchange::FillOptions options;
  options.model = model;
  options.text = "the [MASK] wind [MASK]";
  options.best = 2;
  options.use.threads = 1;
  const interchange::FilledText filled =
      interchange::fill_masks(disk(), base::system_clock(), options);
  EXPECT_EQ(told({"fill", model, "the [MASK] wind [MASK]", "--top", "2", "--threads", "1"}),
            json::parse(interchange::to_json(filled)));
  const base::Output table = call({"fill", model, "[MASK]"});
  EXPECT_EQ(table.exit.code, 0) << table.errors;
  EXPECT_THAT(table.text, HasSubstr("mask 1 of 1\n"));
  EXPECT_EQ(std::count(table.text.begin(), table.text.end(), '\n'), 4 + 5) << "five are told";
}

TEST_F(TryProcess, Answers) {
  const std::string model = run_of(Task::QuestionAnswering).run.string();
  write_text(path() / "context.txt", "the boat is at sea");
  const std::vector<std::string> asked = {"answer",         model, "--question", "what is at sea",
                                          "--max-question", "8"};
  std::vector<std::string> direct = asked;
  direct.insert(direct.end(), {"--context", "the boat is at sea", "--top", "2"});
  std::vector<std::string> by_file = asked;
  by_file.insert(by_file.end(), {"--context-file", "context.txt", "--top=2"});
  const json answer = told(direct);
  EXPECT_EQ(answer.at("best").size(), 2U);
  EXPECT_TRUE(answer.contains("null_odds"));
  EXPECT_EQ(told(by_file), answer);
  by_file.insert(by_file.end(), {"--null-threshold", "-1e6"});
  EXPECT_EQ(told(by_file).at("answer"), nullptr);
  direct.emplace_back("--answerable");
  EXPECT_NE(told(direct).at("answer"), nullptr);
  const base::Output table = call(direct);
  EXPECT_THAT(table.text, HasSubstr("probability  characters  answer\n"));
}

TEST_F(TryProcess, Predicts) {
  const std::string model = model_of(Task::Classification).string();
  write_text(path() / "some.tsv", "text\tlabel\nsea\tyes\nthe boat\tno\n");
  const std::vector<std::string> asked = {"predict", model, "some.tsv", "--output", "out"};
  const base::Output table = call(asked);
  EXPECT_EQ(table.exit.code, 0) << table.errors;
  for (const char* const line : {"model                   model\n", "examples                2\n",
                                 "accuracy                ", "predictions             out\n"}) {
    EXPECT_THAT(table.text, HasSubstr(line));
  }
  EXPECT_TRUE(disk().exists(path() / "out" / "predictions.tsv"));
  const base::Output again = call(asked);
  EXPECT_NE(again.exit.code, 0);
  EXPECT_THAT(again.errors, HasSubstr("out exists already"));
  std::vector<std::string> unlabelled = asked;
  unlabelled.insert(unlabelled.end(), {"--force", "--no-labels"});
  EXPECT_FALSE(told(unlabelled).contains("accuracy"));
  // The names take one word of the command line, not those behind them.
  write_text(path() / "numbered.tsv", "text\tlabel\nsea\t2\n");
  EXPECT_TRUE(told({"predict", model, "--labels", "0,1,2", "numbered.tsv", "--output", "numbers"})
                  .contains("accuracy"));
}

TEST_F(TryProcess, RefusesInOneLine) {
  const std::string fills = model_of(Task::Pretraining).string();
  const std::string answers = model_of(Task::QuestionAnswering).string();
  write_text(path() / "some.tsv", "text\tlabel\nsea\tyes\n");
  struct Case {
    std::vector<std::string> arguments;
    const char* says;
    bool is_usage = false;  // the command line is wrong: code 2
  };
  const Case cases[] = {
      {{"fill", fills, "no mask"}, "the text has no [MASK]"},
      {{"fill", fills, "[MASK] \xFF"}, "the text is not UTF-8"},
      {{"fill", answers, "[MASK]"}, "try it with `regatta-train answer`"},
      {{"fill", "none", "[MASK]"}, "no model at none"},
      {{"fill", fills, ""}, "text", true},
      {{"fill", fills}, "text is required", true},
      {{"fill", "", "[MASK]"}, "model", true},
      {{"fill", fills, "[MASK]", "--top", "0"}, "--top", true},
      {{"fill", fills, "[MASK]", "--device", "tpu"}, "--device", true},
      {{"answer", answers, "--question", "what"}, "--context or --context-file"},
      {{"answer", answers, "--context", "sea"}, "--question is required", true},
      {{"answer", answers, "--question", "", "--context", "sea"}, "--question", true},
      {{"answer", answers, "--question", "what", "--context-file", "none"}, "none"},
      {{"answer", answers, "--question", "a", "--context", "b", "--context-file", "c"},
       "--context",
       true},
      {{"answer", answers, "--question", "a", "--context", "b", "--answerable", "--null-threshold",
        "1"},
       "--answerable",
       true},
      {{"answer", answers, "--question", "a", "--context", "b", "--null-threshold", "nan"},
       "--null-threshold",
       true},
      {{"answer", fills, "--question", "a", "--context", "b"}, "try it with `regatta-train fill`"},
      {{"predict", fills, "some.tsv", "--output", "out"}, "`regatta-train fill`"},
      {{"predict", answers, "some.tsv"}, "--output is required", true},
      {{"predict", answers, "some.tsv", "--output", "out", "--no-header"}, "--no-header", true},
      {{"predict", answers, "none.json", "--output", "out"}, "none.json"},
      {{"predict", answers, "some.tsv", "--output", "out", "--text-column", "text"},
       "its files are SQuAD's"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(testing::PrintToString(c.arguments));
    const base::Output output = call(c.arguments);
    EXPECT_EQ(output.text, "");
    EXPECT_THAT(output.errors, HasSubstr(c.says));
    EXPECT_EQ(output.exit.code == 2, c.is_usage);
    EXPECT_NE(output.exit.code, 0);
    if (!c.is_usage) {
      EXPECT_EQ(std::count(output.errors.begin(), output.errors.end(), '\n'), 1) << output.errors;
    }
    EXPECT_FALSE(disk().exists(path() / "out"));
  }
}

}  // namespace
}  // namespace regatta::tests
