// Answers against plain Python on random logits, and what no logits give.
#include "trainer/tasks/answers.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/file_system.h"
#include "base/process.h"
#include "tests/base/faulty_file_system.h"

namespace regatta::tests {
namespace {

using namespace regatta::trainer::tasks;  // the subject
using Cases = nlohmann::ordered_json;

constexpr int kAnswerSeed = 384128;

// Holds what an AnswerInput views. Not copied: the views are into itself.
struct OneQuestion {
  explicit OneQuestion(const Cases& json)
      : id(json.at("id").get<std::string>()), context(json.at("context").get<std::string>()) {
    for (const auto& word : json.at("words")) {
      words.push_back({word.at(0).get<std::size_t>(), word.at(1).get<std::size_t>()});
    }
    for (const auto& one : json.at("windows")) {
      starts.push_back(one.at("start_logits").get<std::vector<float>>());
      ends.push_back(one.at("end_logits").get<std::vector<float>>());
      std::vector<ContextPiece> list;
      for (const auto& piece : one.at("pieces")) {
        list.push_back({piece.at("word").get<std::size_t>(), piece.at("max_context").get<bool>(),
                        piece.at("text").get_ref<const std::string&>()});
      }
      pieces.push_back(std::move(list));
      first_pieces.push_back(one.at("first_piece").get<std::size_t>());
    }
  }
  [[nodiscard]] QuestionAnswers answers(const AnswerOptions& options) const {
    std::vector<AnswerWindow> windows;
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      windows.push_back({starts[i], ends[i], first_pieces[i], pieces[i]});
    }
    return best_answers({id, context, words, windows}, options);
  }

  std::string id;
  std::string context;
  std::vector<ByteRange> words;
  std::vector<std::vector<float>> starts;
  std::vector<std::vector<float>> ends;
  std::vector<std::vector<ContextPiece>> pieces;
  std::vector<std::size_t> first_pieces;
};

AnswerOptions options_of(const Cases& json) {
  AnswerOptions options;
  options.best = json.at("best").get<std::size_t>();
  options.most_pieces = json.at("most_pieces").get<std::size_t>();
  options.lower_case = json.at("lower_case").get<bool>();
  options.may_be_null = json.at("may_be_null").get<bool>();
  options.null_threshold = json.at("null_threshold").get<double>();
  return options;
}

// The text with what is between words as it is in a text of an answer.
std::string with_single_spaces(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const bool space = c == ' ' || c == '\t' || c == '\n' || c == '\r';
    if (!space || (!out.empty() && out.back() != ' ')) out += space ? ' ' : c;
  }
  return out;
}

TEST(Answers, AreThoseOfPlainPython) {
  base::Command command;
  command.arguments = {"python3", "-B",
                       std::string(REGATTA_SOURCE_DIR) + "/tests/trainer/tasks/squad_answers.py",
                       std::to_string(kAnswerSeed)};
  const base::Output output = base::run(command, 200);
  ASSERT_EQ(output.exit.code.value_or(-1), 0) << output.errors;
  const Cases cases = Cases::parse(output.text, nullptr, false);
  ASSERT_EQ(cases.size(), 1000U);
  std::size_t texts = 0;
  for (const auto& json : cases) {
    SCOPED_TRACE(json.at("id").get<std::string>() + " of seed " + std::to_string(kAnswerSeed));
    const OneQuestion question(json);
    const AnswerOptions options = options_of(json);
    const QuestionAnswers found = question.answers(options);
    const auto& want = json.at("want");
    EXPECT_EQ(found.id, question.id);
    EXPECT_EQ(found.prediction, want.at("prediction").get<std::string>());
    if (options.may_be_null) {
      EXPECT_NEAR(found.null_score, want.at("null_score").get<double>(), 1e-9);
      EXPECT_NEAR(found.null_odds, want.at("null_odds").get<double>(), 1e-9);
    }
    ASSERT_EQ(found.answers.size(), want.at("answers").size());
    for (std::size_t i = 0; i < found.answers.size(); ++i) {
      const Answer& answer = found.answers[i];
      const auto& wanted = want.at("answers").at(i);
      EXPECT_EQ(answer.text, wanted.at("text").get<std::string>());
      EXPECT_NEAR(answer.probability, wanted.at("probability").get<double>(), 1e-9);
      EXPECT_EQ(answer.start_logit, wanted.at("start_logit").get<double>());
      EXPECT_EQ(answer.end_logit, wanted.at("end_logit").get<double>());
      ASSERT_EQ(answer.range.has_value(), !answer.text.empty());
      if (!answer.range) continue;
      const std::string there =
          question.context.substr(answer.range->begin, answer.range->end - answer.range->begin);
      EXPECT_EQ(answer.text, with_single_spaces(there));
      ++texts;
    }
  }
  EXPECT_GT(texts, 5000U) << "most cases have answers";
}

// "One two." in one window: [CLS] q [SEP] one two . [SEP]
Cases small_case() {
  return Cases::parse(R"({"id": "x\ny", "context": "One two.", "words": [[0, 3], [4, 8]],
    "windows": [{"first_piece": 3, "start_logits": [0, 9, 0, 3, 1, 0, 0],
                 "end_logits": [0, 9, 0, 1, 3, 0, 9],
                 "pieces": [{"word": 0, "max_context": true, "text": "one"},
                            {"word": 1, "max_context": true, "text": "two"},
                            {"word": 1, "max_context": true, "text": "."}]}]})");
}

TEST(Answers, OfASmallCaseByHand) {
  const OneQuestion question(small_case());
  const QuestionAnswers found = question.answers({});
  EXPECT_EQ(found.prediction, "One two");
  ASSERT_EQ(found.answers.size(), 7U);  // six spans and none
  EXPECT_EQ(found.answers[0].range->begin, 0U);
  EXPECT_EQ(found.answers[0].range->end, 7U);
  EXPECT_EQ(found.null_score, 0);
  EXPECT_EQ(found.null_odds, -6);
  double sum = 0;
  for (const Answer& answer : found.answers) sum += answer.probability;
  EXPECT_NEAR(sum, 1, 1e-12);
  AnswerOptions options;
  options.null_threshold = -6;  // odds are not greater
  EXPECT_EQ(question.answers(options).prediction, "One two");
  options.null_threshold = -6.5;
  EXPECT_EQ(question.answers(options).prediction, "");
  options.may_be_null = false;
  EXPECT_EQ(question.answers(options).prediction, "One two");
}

TEST(Answers, NoneWhereNoSpanQualifies) {
  Cases json = small_case();
  for (auto& piece : json["windows"][0]["pieces"]) piece["max_context"] = false;
  const OneQuestion question(json);
  AnswerOptions options;
  for (const bool may_be_null : {false, true}) {
    options.may_be_null = may_be_null;
    options.null_threshold = 100;
    const QuestionAnswers found = question.answers(options);
    EXPECT_EQ(found.prediction, "");
    EXPECT_EQ(found.null_odds, 0);
    ASSERT_EQ(found.answers.size(), 1U);
    EXPECT_EQ(found.answers[0].text, "");
    EXPECT_EQ(found.answers[0].probability, 1);
    EXPECT_FALSE(found.answers[0].range);
  }
}

TEST(Answers, NoneWhereThereIsNoWindow) {
  Cases json = small_case();
  json["windows"] = Cases::array();
  const QuestionAnswers found = OneQuestion(json).answers({});
  EXPECT_EQ(found.prediction, "");
  EXPECT_EQ(found.null_odds, 0);
  ASSERT_EQ(found.answers.size(), 1U);
  EXPECT_EQ(found.answers[0].text, "");
}

TEST(Answers, ALogitThatIsNotFiniteIsOneErrorOfItsQuestion) {
  using Limits = std::numeric_limits<float>;
  for (const float bad : {Limits::quiet_NaN(), Limits::infinity(), -Limits::infinity()}) {
    for (const std::size_t token : {0, 1, 3, 6}) {
      for (const bool start : {true, false}) {
        OneQuestion question(small_case());
        (start ? question.starts : question.ends)[0][token] = bad;
        try {
          (void)question.answers({});
          ADD_FAILURE() << "token " << token;
        } catch (const base::Error& error) {
          EXPECT_EQ(error.code(), base::Code::User);
          EXPECT_EQ(std::string(error.what()),
                    "question 'x\\ny': a logit of token " + std::to_string(token) +
                        " of window 0 is not a finite number; evaluate a checkpoint from before "
                        "training diverged");
        }
      }
    }
  }
}

TEST(Answers, GreatLogitsKeepProbabilitiesFinite) {
  OneQuestion question(small_case());
  for (float& logit : question.starts[0]) logit *= 1e38F / 9;
  for (float& logit : question.ends[0]) logit *= 1e38F / 9;
  double sum = 0;
  for (const Answer& answer : question.answers({}).answers) sum += answer.probability;
  EXPECT_NEAR(sum, 1, 1e-12);
}

std::vector<QuestionAnswers> two_answered() {
  QuestionAnswers first;
  first.id = "b";
  first.answers = {{"\u00e9t\u00e9 \"x\"\n", 0.75, 1.5, -2, ByteRange{0, 9}},
                   {"", 0.25, 0, 0.1F, {}}};
  first.prediction = first.answers[0].text;
  first.null_odds = -0.5;
  QuestionAnswers second;
  second.id = "a";
  second.answers = {{}};
  second.null_odds = 3;
  return {first, second};
}

TEST(Answers, FilesAreAsOtherToolsWriteThem) {
  const TemporaryDirectory directory;
  base::FileSystem& disk = base::posix_file_system();
  const base::Path path = directory.path() / "file.json";
  const auto text = [&] { return disk.read(path, 1U << 20U); };
  write_predictions(disk, path, two_answered());
  EXPECT_EQ(text(), "{\n    \"b\": \"\u00e9t\u00e9 \\\"x\\\"\\n\",\n    \"a\": \"\"\n}\n");
  write_null_odds(disk, path, two_answered());
  EXPECT_EQ(text(), "{\n    \"b\": -0.5,\n    \"a\": 3.0\n}\n");
  write_best_answers(disk, path, two_answered());
  const Cases json = Cases::parse(text());
  ASSERT_EQ(json.size(), 2U);
  EXPECT_EQ(json.begin().key(), "b");
  EXPECT_EQ(json.at("b").dump(-1, ' ', true),
            R"([{"text":"\u00e9t\u00e9 \"x\"\n","probability":0.75,"start_logit":1.5,)"
            R"("end_logit":-2.0},{"text":"","probability":0.25,"start_logit":0.0,)"
            R"("end_logit":0.10000000149011612}])");
  write_predictions(disk, path, {});
  EXPECT_EQ(text(), "{}\n");
}

TEST(Answers, FilesAreWholeOrAsBefore) {
  using Write = void (*)(base::FileSystem&, const base::Path&, std::span<const QuestionAnswers>);
  for (const Write write :
       {Write{write_predictions}, Write{write_best_answers}, Write{write_null_odds}}) {
    const TemporaryDirectory directory;
    base::FileSystem& disk = base::posix_file_system();
    const base::Path path = directory.path() / "file.json";
    base::replace_file(disk, path, "before");
    for (std::int64_t n = 1;; ++n) {
      FaultyFileSystem faulty(disk);
      faulty.fail_at(n, Fault::Once);
      const std::int64_t before = faulty.operations();
      bool failed = false;
      try {
        write(faulty, path, two_answered());
      } catch (const base::Error&) {
        failed = true;
      }
      const std::string text = disk.read(path, 1U << 20U);
      EXPECT_TRUE(text == "before" || Cases::accept(text)) << text;
      EXPECT_EQ(disk.list(directory.path()).size(), 1U) << "operation " << n;
      if (!failed) {
        EXPECT_GT(faulty.operations() - before, 3);
        EXPECT_NE(text, "before");
        break;
      }
    }
  }
}

}  // namespace
}  // namespace regatta::tests
