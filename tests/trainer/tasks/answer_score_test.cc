// Scores against the published figures of published predictions, and against plain Python.
#include "trainer/tasks/answer_score.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "base/file_system.h"
#include "base/process.h"
#include "tests/base/faulty_file_system.h"
#include "tests/shared_data.h"
#include "trainer/data/unicode.h"

namespace regatta::tests {
namespace {

using namespace regatta::trainer::tasks;  // the subject
using nlohmann::ordered_json;

constexpr int kScoreSeed = 20181;

// What scoring looks at: ids, the answers' texts, and what is impossible.
QuestionSet set_for_scores(const std::string& file) {
  const ordered_json json = ordered_json::parse(file_text(shared_path("data/squad/" + file)));
  QuestionSet set;
  set.version = json.at("version").get<std::string>();
  for (const auto& article : json.at("data")) {
    for (const auto& paragraph : article.at("paragraphs")) {
      for (const auto& one : paragraph.at("qas")) {
        Question question;
        question.id = one.at("id").get<std::string>();
        question.impossible = one.value("is_impossible", false);
        for (const auto& answer : one.at("answers")) {
          question.answers.push_back({answer.at("text").get<std::string>(), 0});
        }
        set.questions.push_back(question);
      }
    }
  }
  return set;
}

void expect_close(double found, double wanted, const std::string& what) {
  EXPECT_LE(std::abs(found - wanted), 1e-9 * std::abs(wanted))
      << what << ": " << found << " for " << wanted;
}

TEST(AnswerScore, ReproducesEveryPublishedFigure) {
  REGATTA_NEED_SHARED("data/squad/expected_metrics.json");
  const auto published =
      ordered_json::parse(file_text(shared_path("data/squad/expected_metrics.json")));
  ASSERT_EQ(published.size(), 3U);
  for (const auto& [file, figures] : published.items()) {
    SCOPED_TRACE(file);
    const bool second = file.find("v2.0") != std::string::npos;
    const QuestionSet set =
        set_for_scores(second ? "dev-v2.0.reconstructed.json" : "dev-v1.1.reconstructed.json");
    const AnswerRules rules = answer_rules_of(set);
    EXPECT_EQ(rules, second ? AnswerRules::Squad20 : AnswerRules::Squad11);
    const Predictions predictions =
        read_predictions(base::posix_file_system(), shared_path("data/squad/" + file), set);
    const AnswerScore score = score_answers(set, predictions, {rules});
    std::unordered_map<std::string, double> ours{
        {"exact", score.exact},
        {"f1", score.f1},
        {"total", static_cast<double>(score.total)},
        {"HasAns_exact", score.has_answer_exact},
        {"HasAns_f1", score.has_answer_f1},
        {"HasAns_total", static_cast<double>(score.has_answer_total)},
        {"NoAns_exact", score.no_answer_exact},
        {"NoAns_f1", score.no_answer_f1},
        {"NoAns_total", static_cast<double>(score.no_answer_total)},
        {"missing_predictions", static_cast<double>(score.missing_predictions)}};
    for (const auto& [name, figure] : figures.items()) {
      ASSERT_EQ(ours.count(name), 1U) << name;
      expect_close(ours[name], figure.get<double>(), name);
    }
    EXPECT_FALSE(score.best) << "there are no null scores";
  }
}

// The plain Python of squad_score.py; run once.
const ordered_json& score_oracle() {
  static const ordered_json answer = [] {
    base::Command command;
    command.arguments = {"python3", "-B",
                         std::string(REGATTA_SOURCE_DIR) + "/tests/trainer/tasks/squad_score.py",
                         std::to_string(kScoreSeed)};
    const base::Output output = base::run(command, 200);
    EXPECT_EQ(output.exit.code.value_or(-1), 0) << output.errors;
    return ordered_json::parse(output.text, nullptr, false);
  }();
  return answer;
}

TEST(AnswerScore, NormalisesAsPython) {
  const ordered_json& oracle = score_oracle();
  ASSERT_TRUE(oracle.is_object());
  for (const auto& pair : oracle.at("normalised")) {
    EXPECT_EQ(normalised_answer(pair.at(0).get<std::string>()), pair.at(1).get<std::string>())
        << pair.at(0);
  }
}

void expect_code_points(const ordered_json& runs,
                        const std::function<bool(const std::string&)>& has, const char* what) {
  std::vector<bool> wanted(0x110000, false);
  for (const auto& run : runs) {
    for (auto c = run.at(0).get<std::size_t>(); c <= run.at(1).get<std::size_t>(); ++c) {
      wanted[c] = true;
    }
  }
  int wrong = 0;
  for (char32_t c = 0; c < 0x110000; ++c) {
    if (c >= 0xD800 && c < 0xE000) continue;
    std::string text;
    trainer::data::unicode::append_utf8(c, text);
    if (has(text) == wanted[c]) continue;
    if (++wrong < 10) ADD_FAILURE() << what << ": U+" << std::hex << static_cast<unsigned>(c);
  }
  EXPECT_EQ(wrong, 0) << what;
}

TEST(AnswerScore, KnowsEveryWordCharacterAndSpaceOfPython) {
  const ordered_json& oracle = score_oracle();
  ASSERT_TRUE(oracle.is_object());
  if (oracle.at("unicode") != trainer::data::unicode::kVersion) {
    GTEST_SKIP() << "NOT COMPARED: this Python has Unicode " << oracle.at("unicode")
                 << ", the trainer " << trainer::data::unicode::kVersion;
  }
  const auto keeps_article = [](const std::string& c) {
    return normalised_answer("a" + c).starts_with("a");
  };
  const auto separates = [](const std::string& c) {
    return normalised_answer("b" + c + "b").find(' ') != std::string::npos;
  };
  expect_code_points(oracle.at("keeps_article"), keeps_article, "a word goes on");
  expect_code_points(oracle.at("separates"), separates, "a token ends");
}

QuestionSet set_of_case(const ordered_json& json) {
  QuestionSet set;
  for (const auto& one : json.at("questions")) {
    Question question;
    question.id = one.at("id").get<std::string>();
    for (const auto& text : one.at("answers")) {
      question.answers.push_back({text.get<std::string>(), 0});
    }
    question.impossible = question.answers.empty();
    set.questions.push_back(question);
  }
  return set;
}

TEST(AnswerScore, ScoresAndThresholdsAreThoseOfPlainPython) {
  const ordered_json& oracle = score_oracle();
  ASSERT_TRUE(oracle.is_object());
  const TemporaryDirectory directory;
  const base::Path file = directory.path() / "file.json";
  int swept = 0;
  for (const auto& json : oracle.at("cases")) {
    SCOPED_TRACE(json.dump());
    const QuestionSet set = set_of_case(json);
    AnswerScoring scoring;
    scoring.rules = json.at("version") == 1 ? AnswerRules::Squad11 : AnswerRules::Squad20;
    base::replace_file(base::posix_file_system(), file, json.at("predictions").dump());
    const Predictions predictions = read_predictions(base::posix_file_system(), file, set);
    NullScores nulls;
    if (!json.at("null_scores").is_null()) {
      base::replace_file(base::posix_file_system(), file, json.at("null_scores").dump(2));
      nulls = read_null_scores(base::posix_file_system(), file, set);
      scoring.null_scores = &nulls;
      scoring.threshold = json.at("threshold").get<double>();
      ++swept;
    }
    const AnswerScore score = score_answers(set, predictions, scoring);
    const ordered_json& want = json.at("want");
    expect_close(score.exact, want.at("exact").get<double>(), "exact");
    expect_close(score.f1, want.at("f1").get<double>(), "f1");
    EXPECT_EQ(score.total, want.at("total").get<int>());
    expect_close(score.has_answer_exact, want.at("has_answer_exact").get<double>(), "exact, has");
    expect_close(score.has_answer_f1, want.at("has_answer_f1").get<double>(), "f1, has");
    EXPECT_EQ(score.has_answer_total, want.at("has_answer_total").get<int>());
    expect_close(score.no_answer_exact, want.at("no_answer_exact").get<double>(), "exact, no");
    expect_close(score.no_answer_f1, want.at("no_answer_f1").get<double>(), "f1, no");
    EXPECT_EQ(score.no_answer_total, want.at("no_answer_total").get<int>());
    EXPECT_EQ(score.missing_predictions, want.at("missing_predictions").get<int>());
    ASSERT_EQ(score.best.has_value(), scoring.null_scores != nullptr);
    if (!score.best) continue;
    expect_close(score.best->exact, want.at("best_exact").get<double>(), "best exact");
    EXPECT_EQ(score.best->exact_threshold, want.at("best_exact_threshold").get<double>());
    expect_close(score.best->f1, want.at("best_f1").get<double>(), "best f1");
    EXPECT_EQ(score.best->f1_threshold, want.at("best_f1_threshold").get<double>());
  }
  EXPECT_EQ(swept, 400);
}

QuestionSet two_questions() {
  QuestionSet set;
  for (const char* id : {"one", "two"}) {
    Question question;
    question.id = id;
    question.answers = {{"x", 0}};
    set.questions.push_back(question);
  }
  return set;
}

// "" where the call returns.
std::string user_error(const std::function<void()>& call) {
  try {
    call();
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), base::Code::User);
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
    return error.what();
  }
  return "";
}

struct BadFile {
  const char* name;
  std::string text;
  const char* predictions;  // what the message says; "": it is read
  const char* null_scores;
};

TEST(AnswerScore, SaysWhatIsWrongWithAFile) {
  const std::vector<BadFile> files = {
      {"nothing", "", "not JSON from byte", "not JSON from byte"},
      {"empty object", "{}", "", ""},
      {"text", R"({"one": "a"})", "", "value of 'one' is text, not a number"},
      {"number", R"({"one": 1})", "value of 'one' is a number, not text", ""},
      {"fraction", R"({"two": -1.5e3})", "value of 'two' is a number, not text", ""},
      {"cut", R"({"one": "a)", "not JSON from byte", "not JSON from byte"},
      {"rest", R"({"one": "a"} x)", "not JSON from byte", "is text"},
      {"list", R"(["one"])", "is a list, not an object of ids and text", "of ids and a number"},
      {"bare text", R"("one")", "is text, not an object", "is text, not an object"},
      {"bare number", "7", "is a number, not an object", "is a number, not an object"},
      {"null", R"({"one": null})", "'one' is null, not text", "'one' is null, not a number"},
      {"true", R"({"one": true})", "is true or false", "is true or false"},
      {"nested list", R"({"one": []})", "'one' is a list", "'one' is a list"},
      {"nested object", R"({"one": {"one": 1}})", "'one' is an object", "'one' is an object"},
      {"deep", R"({"one": )" + std::string(100000, '['), "'one' is a list", "'one' is a list"},
      {"NaN", R"({"one": NaN})", "'one' is not a finite number", "'one' is not a finite number"},
      {"infinity", R"({"one": -Infinity})", "not a finite number", "not a finite number"},
      {"too large", R"({"one": 1e999})", "not a finite number", "not a finite number"},
      {"twice", R"({"one": "a", "one": "b"})", "id 'one' is there twice", "is text"},
      {"number twice", R"({"one": 1, "one": 1})", "is a number", "id 'one' is there twice"},
      {"unknown", R"({"one": "a", "x\n": "b", "y": ""})", "no question has 2 of its ids ('x\\n'",
       "is text"},
      {"unknown numbers", R"({"z": 1, "one": 2})", "is a number", "no question has 1 of its ids"},
      {"no UTF-8", "{\"one\": \"\xFF\"}", "not JSON from byte", "not JSON from byte"},
      {"NUL", std::string("{\"one\": 1}\0 x", 13), "has a NUL byte", "has a NUL byte"},
      {"BOM", "\xEF\xBB\xBF{\"one\": \"a\"}", "", "is text"}};
  const TemporaryDirectory directory;
  base::FileSystem& disk = base::posix_file_system();
  const QuestionSet set = two_questions();
  for (const BadFile& bad : files) {
    SCOPED_TRACE(bad.name);
    const base::Path path = directory.path() / "given.json";
    base::replace_file(disk, path, bad.text);
    const auto expect = [&](const std::string& found, const std::string& part) {
      EXPECT_EQ(found.empty(), part.empty()) << found;
      EXPECT_NE(found.find(part), std::string::npos) << found;
      if (!part.empty()) {
        EXPECT_EQ(found.rfind(path.string() + ": ", 0), 0U) << found;
      }
    };
    expect(user_error([&] { (void)read_predictions(disk, path, set); }), bad.predictions);
    expect(user_error([&] { (void)read_null_scores(disk, path, set); }), bad.null_scores);
  }
  EXPECT_THROW((void)read_predictions(disk, directory.path() / "absent", set), base::Error);
}

TEST(AnswerScore, SaysWhatCannotBeScored) {
  QuestionSet set = two_questions();
  const Predictions both = {"a", "b"};
  const NullScores one = {{0, 0.5}};
  EXPECT_EQ(user_error([&] {
              (void)score_answers(set, both, {AnswerRules::Squad20, &one});
            }).rfind("1 predicted questions have no null score ('two'", 0),
            0U);
  EXPECT_EQ(user_error([&] {
              (void)score_answers(set, {"a", std::nullopt}, {AnswerRules::Squad20, &one});
            }),
            "");
  set.questions[1].answers.clear();
  EXPECT_EQ(user_error([&] { (void)score_answers(set, both, {AnswerRules::Squad20}); }), "");
  EXPECT_NE(user_error([&] {
              (void)score_answers(set, both, {AnswerRules::Squad11});
            }).find("'two' has no answers"),
            std::string::npos);
  set.questions[1].id = "one";
  EXPECT_NE(user_error([&] { (void)score_answers(set, both, {}); }).find("two questions"),
            std::string::npos);
  const AnswerScore nothing = score_answers({}, {}, {});
  EXPECT_EQ(nothing.exact, 0);
  EXPECT_EQ(nothing.total, 0);
}

TEST(AnswerScore, RulesFollowTheVersion) {
  struct Row {
    const char* version;
    bool impossible;
    AnswerRules rules;
  };
  for (const Row& row :
       {Row{"1.1", false, AnswerRules::Squad11}, Row{"", false, AnswerRules::Squad11},
        Row{"v2.0", false, AnswerRules::Squad20}, Row{"2.0", false, AnswerRules::Squad20},
        Row{"", true, AnswerRules::Squad20}}) {
    QuestionSet set = two_questions();
    set.version = row.version;
    set.questions[1].impossible = row.impossible;
    EXPECT_EQ(answer_rules_of(set), row.rules) << row.version;
  }
  EXPECT_EQ(answer_f1("the", "", AnswerRules::Squad20), 1);
  EXPECT_EQ(answer_f1("the", "", AnswerRules::Squad11), 0);
  EXPECT_EQ(answer_f1("the cat", "a cat cat", AnswerRules::Squad11), 2.0 / 3.0);
  EXPECT_TRUE(exact_match("The cat!", "cat"));
  EXPECT_FALSE(exact_match("cats", "cat"));
}

}  // namespace
}  // namespace regatta::tests
