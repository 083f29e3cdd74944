// Questions' samples, scores and predictions beside plain Python (task_samples.py), published
// counts and closed formulas.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "tests/base/faulty_file_system.h"
#include "tests/shared_data.h"
#include "tests/trainer/tasks/judged_sets.h"
#include "trainer/tasks/question_file.h"
#include "trainer/tasks/task_samples.h"

namespace regatta::tests {
namespace {

using namespace regatta::trainer;  // the subject
using tasks::JudgedSet;
using tasks::Question;
using tasks::QuestionSet;
using tasks::TaskText;
using testing::StartsWith;
using Json = nlohmann::json;
using Logits = JudgedSet::Logits;

constexpr float kRight = 10;  // as in task_samples.py

// At [CLS], begin and end.
Logits null_logits(const JudgedSet& set) {
  Logits logits;
  for (const samples::Sample& sample : set.samples()) {
    logits.emplace_back(2 * sample.ids.size(), 0.0F);
    logits.back()[0] = logits.back()[1] = kRight;
  }
  return logits;
}

Logits random_logits(const JudgedSet& set, unsigned seed) {
  std::mt19937 random(seed);
  Logits logits;
  for (const samples::Sample& sample : set.samples()) {
    for (float& logit : logits.emplace_back(2 * sample.ids.size())) {
      logit = static_cast<float>(static_cast<int>(random() % 4000) - 2000) / 256;
    }
  }
  return logits;
}

QuestionSet questions_of(const base::Path& path) {
  return tasks::read_question_file(path, tasks::QuestionUse::Training, base::posix_file_system());
}

struct QuestionFile {
  base::Path squad;
  base::Path vocabulary;
  int max_length = 384;
  contract::QuestionConfig questions{};
};

// Samples, their labels, scores and predictions are those of plain Python. Returns what it printed.
Json compare_questions(const QuestionFile& what) {
  const Json expected =
      Json::parse(python({"questions", what.squad.string(), what.vocabulary.string(),
                          "--max-length=" + std::to_string(what.max_length),
                          "--doc-stride=" + std::to_string(what.questions.doc_stride),
                          "--max-question=" + std::to_string(what.questions.max_question),
                          "--max-answer=" + std::to_string(what.questions.max_answer)}),
                  nullptr, false);
  base::FileSystem& disk = base::posix_file_system();
  const data::Vocabulary vocabulary = data::Vocabulary::load(what.vocabulary, disk);
  const auto set = tasks::judged_questions(
      questions_of(what.squad), {vocabulary, true, what.max_length, what.questions, 2}, false);
  const Json& windows = expected.at("windows");
  EXPECT_EQ(set->samples().size(), windows.size());
  if (set->samples().size() != windows.size()) return expected;
  Logits logits;
  for (std::size_t i = 0; i < windows.size(); ++i) {
    const samples::Sample& sample = set->samples()[i];
    const Json& window = windows[i];
    const auto second = std::find(sample.types.begin(), sample.types.end(), 1);
    const Json found = {window[0],           sample.ids.size(), second - sample.types.begin(),
                        sample.answer_begin, sample.answer_end, window[5]};
    EXPECT_EQ(found, window);
    EXPECT_EQ(sample.types.size(), sample.ids.size());
    EXPECT_EQ(std::count(second, sample.types.end(), 0), 0);
    std::vector<float>& each = logits.emplace_back(2 * sample.ids.size(), 0.0F);
    const bool reachable = window[5].get<bool>();
    const auto at = [&](std::size_t place) {
      return static_cast<std::size_t>(reachable ? std::max(window[place].get<int>(), 0) : 0);
    };
    each[2 * at(3)] = each[2 * at(4) + 1] = kRight;
  }
  const auto metrics = set->score(logits);
  EXPECT_EQ(metrics.size(), 3U);
  EXPECT_EQ(metrics.back().name, "loss");
  for (const auto& metric : metrics) {
    EXPECT_NEAR(metric.value, expected.at(metric.name).get<double>(), 1e-12) << metric.name;
  }
  const TemporaryDirectory directory;
  set->write_predictions(logits, directory.path(), disk);
  const Json predictions = Json::parse(disk.read(directory.path() / "predictions.json", 1U << 24U));
  EXPECT_EQ(predictions.size(), expected.at("predictions").size());
  for (const auto& [id, text] : expected.at("predictions").items()) {
    EXPECT_EQ(predictions.at(id), text) << id;
  }
  return expected;
}

TEST(JudgedQuestions, OfTheWholeOfSquad20) {
  REGATTA_NEED_SHARED("data/squad");
  const Json expected = compare_questions({shared_path("data/squad/dev-v2.0.reconstructed.json"),
                                           shared_path("data/vocab/bert-base-uncased/vocab.txt")});
  EXPECT_EQ(expected.at("predictions").size(), 11873U);  // as published
  EXPECT_EQ(expected.at("answerable"), 5928);
  EXPECT_EQ(expected.at("windows").size(), 12232U);
  // The first answers of the others have more than 30 pieces. Of those reached, 17 answers are
  // parts of words ("Rhin", "Sky"), or of one in which the tokenizer drops characters.
  EXPECT_EQ(expected.at("reachable"), 5920);
  EXPECT_EQ(expected.at("reachable_exact"), 5903);
}

TEST(JudgedQuestions, OfTheWholeOfSquad11) {
  REGATTA_NEED_SHARED("data/squad");
  const Json expected = compare_questions({shared_path("data/squad/dev-v1.1.reconstructed.json"),
                                           shared_path("data/vocab/bert-base-uncased/vocab.txt")});
  EXPECT_EQ(expected.at("predictions").size(), 10570U);  // as published
  EXPECT_EQ(expected.at("answerable"), 10570);
  EXPECT_EQ(expected.at("reachable"), 10562);
  EXPECT_EQ(expected.at("reachable_exact"), 10518);
}

// No answer at all: the share of impossible questions, as published.
TEST(JudgedQuestions, NullLogitsScoreTheShareOfImpossibleQuestions) {
  REGATTA_NEED_SHARED("data/squad");
  const data::Vocabulary vocabulary = data::Vocabulary::load(
      shared_path("data/vocab/bert-base-uncased/vocab.txt"), base::posix_file_system());
  const TaskText text{vocabulary, true, 384, {}, 2};
  const auto second = tasks::judged_questions(
      questions_of(shared_path("data/squad/dev-v2.0.reconstructed.json")), text, false);
  auto metrics = by_name(second->score(null_logits(*second)));
  EXPECT_DOUBLE_EQ(metrics.at("exact"), 5945 / 11873.0);
  EXPECT_DOUBLE_EQ(metrics.at("f1"), 5945 / 11873.0);
  metrics = by_name(second->baseline());
  EXPECT_EQ(metrics.size(), 2U);
  EXPECT_DOUBLE_EQ(metrics.at("exact"), 5945 / 11873.0);
  EXPECT_DOUBLE_EQ(metrics.at("f1"), 5945 / 11873.0);
  const auto first = tasks::judged_questions(
      questions_of(shared_path("data/squad/dev-v1.1.reconstructed.json")), text, true);
  metrics = by_name(first->baseline());
  EXPECT_EQ(metrics.at("exact"), 0);
  EXPECT_EQ(metrics.at("f1"), 0);
}

TEST(JudgedQuestions, OfASmallFile) {
  const TemporaryDirectory directory;
  const base::Path squad = directory.path() / "squad.json";
  const base::Path vocabulary = directory.path() / "vocab.txt";
  std::ofstream(vocabulary) << letters().text();
  contract::QuestionConfig options;
  options.doc_stride = 3;
  options.max_question = 4;
  options.max_answer = 3;
  for (const bool second_version : {false, true}) {
    SCOPED_TRACE(second_version);
    std::ofstream(squad) << small_squad(second_version);
    const Json expected = compare_questions({squad, vocabulary, 14, options});
    EXPECT_EQ(expected.at("reachable"), 4);
    int unknown = 0;
    for (const Json& window : expected.at("windows")) unknown += window[3] == -1 ? 1 : 0;
    EXPECT_GT(unknown, 0) << "labels of an answer that is not in the words are not known";
  }
}

QuestionSet small_questions(const std::vector<Question>& questions) {
  return {"", {"a b c d", "\u0301", "e f"}, questions};
}

TEST(JudgedQuestions, MayBeNullByTheVersion) {
  const data::Vocabulary vocabulary = letters();
  const Question answered{"answered", "who?", 0, {{"b", 2}}, false};
  const Question impossible{"impossible", "who?", 0, {}, true};
  const Question unknown{"unknown", "who?", 0, {}, false};
  struct Case {
    const char* version;
    std::vector<Question> questions;
    std::optional<bool> told;
  };
  for (const Case& c : {Case{"1.1", {unknown}, false}, Case{"v1.1", {answered, unknown}, false},
                        Case{"1.1", {answered, impossible}, true}, Case{"v2.0", {unknown}, true},
                        Case{"2.0", {answered}, true}, Case{"", {answered}, false},
                        Case{"mine", {answered, unknown}, true}, Case{"", {impossible}, true},
                        Case{"mine", {unknown}, std::nullopt}, Case{"", {unknown}, std::nullopt}}) {
    SCOPED_TRACE(c.version);
    QuestionSet set = small_questions(c.questions);
    set.version = c.version;
    EXPECT_EQ(tasks::may_be_null_by_file(set), c.told);
    for (const bool always : {false, true}) {
      const auto judged = tasks::judged_questions(set, {vocabulary}, true, always);
      const bool null = c.told.value_or(true) && !always;
      for (const tasks::QuestionAnswers& one : judged->answers(null_logits(*judged))) {
        EXPECT_EQ(one.prediction.empty(), null);
      }
      EXPECT_FALSE(always && judged->best_thresholds(null_logits(*judged)));
    }
  }
}

TEST(JudgedQuestions, MayBeNullByTheirLabels) {
  const data::Vocabulary vocabulary = letters();
  const Question answered{"answered", "who?", 0, {{"b", 2}}, false};
  const Question impossible{"impossible", "who?", 0, {}, true};
  const Question unknown{"unknown", "who?", 0, {}, false};
  struct Case {
    const char* name;
    std::vector<Question> questions;
    bool may_be_null, is_null;
  };
  for (const Case& c :
       {Case{"SQuAD 1.1", {answered}, true, false},
        Case{"SQuAD 2.0", {answered, impossible}, false, true},
        Case{"one is impossible, others are not known", {unknown, impossible}, false, true},
        Case{"not known, and may be", {unknown}, true, true},
        Case{"not known, and may not be", {unknown}, false, false},
        Case{"some not known, and may be", {answered, unknown}, true, true}}) {
    SCOPED_TRACE(c.name);
    const auto set =
        tasks::judged_questions(small_questions(c.questions), {vocabulary}, c.may_be_null);
    const TemporaryDirectory directory;
    base::FileSystem& disk = base::posix_file_system();
    set->write_predictions(null_logits(*set), directory.path(), disk);
    const Json text = Json::parse(disk.read(directory.path() / "predictions.json", 1U << 20U));
    EXPECT_EQ(text.at(c.questions[0].id), c.is_null ? "" : "a");
    EXPECT_EQ(disk.exists(directory.path() / "null_odds.json"), c.is_null);
    EXPECT_TRUE(disk.exists(directory.path() / "nbest_predictions.json"));
  }
}

TEST(JudgedQuestions, ThresholdDecidesBetweenTextAndNone) {
  const data::Vocabulary vocabulary = letters();
  for (const double threshold : {19.5, 20.0, 20.5}) {
    contract::QuestionConfig options;
    options.null_threshold = threshold;
    const auto set = tasks::judged_questions(small_questions({{"q", "who?", 2, {}, true}}),
                                             {vocabulary, true, 384, options}, false);
    // The null odds are 20.
    EXPECT_EQ(set->score(null_logits(*set))[0].value, threshold < 20 ? 1 : 0) << threshold;
  }
}

// By hand: from the two impossible questions, +1 for each of the others, −1 for these, by null
// odds.
TEST(JudgedQuestions, TheBestThresholdIsThatOfTheSweep) {
  const data::Vocabulary vocabulary = letters();
  const std::vector<Question> questions = {{"b", "who?", 0, {{"b", 2}}, false},
                                           {"e", "who?", 2, {{"e", 0}}, false},
                                           {"no e", "who?", 2, {}, true},
                                           {"no a", "who?", 0, {}, true}};
  const auto set = tasks::judged_questions(small_questions(questions), {vocabulary}, false);
  ASSERT_EQ(set->samples().size(), 4U);
  const std::size_t token_of_answer[] = {5, 4, 4, 4};
  struct Case {
    const char* name;
    float odds[4];
    double best, threshold;
  };
  for (const Case& c : {Case{"below 0", {-3, -1, -2, 5}, 75, -3},
                        Case{"above 0, where nothing is answered", {3, 2, 4, 5}, 100, 3},
                        Case{"better none at all", {5, 6, 1, 2}, 50, 0}}) {
    SCOPED_TRACE(c.name);
    Logits logits;
    for (std::size_t i = 0; i < 4; ++i) {
      std::vector<float>& each = logits.emplace_back(2 * set->samples()[i].ids.size(), 0.0F);
      each[0] = each[1] = kRight + c.odds[i] / 2;
      each[2 * token_of_answer[i]] = each[2 * token_of_answer[i] + 1] = kRight;
    }
    const auto answers = set->answers(logits);
    ASSERT_EQ(answers.size(), 4U);
    for (std::size_t i = 0; i < 4; ++i) {
      EXPECT_EQ(answers[i].id, questions[i].id);
      EXPECT_DOUBLE_EQ(answers[i].null_odds, static_cast<double>(c.odds[i]));
    }
    const auto best = set->best_thresholds(logits);
    ASSERT_TRUE(best.has_value());
    EXPECT_DOUBLE_EQ(best->exact, c.best);
    EXPECT_DOUBLE_EQ(best->f1, c.best);
    EXPECT_DOUBLE_EQ(best->exact_threshold, c.threshold);
    EXPECT_DOUBLE_EQ(best->f1_threshold, c.threshold);
    logits[0][1] = std::nanf("");
    EXPECT_THAT(refused([&] { (void)set->best_thresholds(logits); }), StartsWith("question 'b'"));
  }
  for (const std::vector<Question>& without :
       {std::vector<Question>{questions[0], questions[1]},
        std::vector<Question>{questions[2], {"unknown", "who?", 0, {}, false}}}) {
    const auto other = tasks::judged_questions(small_questions(without), {vocabulary}, true);
    EXPECT_FALSE(other->best_thresholds(null_logits(*other)).has_value());
  }
}

// The sum over each token of the window is by the formula of a softmax: [CLS] of n tokens.
TEST(JudgedQuestions, LossIsTheMeanOverKnownWindows) {
  const data::Vocabulary vocabulary = letters();
  const auto set = tasks::judged_questions(
      small_questions({{"begin and end", "who?", 0, {{"b c", 2}}, false},
                       {"case is another text", "who?", 0, {{"B", 2}}, false},
                       {"impossible", "?", 2, {}, true}}),
      {vocabulary}, false);
  ASSERT_EQ(set->samples().size(), 3U);  // of 9, 9 and 6 tokens
  Logits logits = null_logits(*set);
  const auto& sample = set->samples()[0];
  ASSERT_EQ(sample.answer_begin, 5);
  ASSERT_EQ(sample.answer_end, 6);
  logits[0].assign(18, 0);
  logits[0][2 * 5] = 2;
  logits[0][2 * 6 + 1] = -1;
  EXPECT_EQ(set->samples()[1].answer_begin, -1);
  EXPECT_EQ(set->samples()[1].answer_end, -1);
  EXPECT_EQ(set->samples()[2].answer_begin, 0);
  const double first = 0.5 * (std::log(std::exp(2) + 8) - 2 + std::log(std::exp(-1) + 8) + 1);
  const double third = std::log(std::exp(10) + 5) - 10;
  const auto loss = [&] { return by_name(set->score(logits)).at("loss"); };
  EXPECT_NEAR(loss(), (first + third) / 2, 1e-15);
  // No overflow.
  for (float& logit : logits[2]) logit = 3e38F;
  EXPECT_NEAR(loss(), (first + std::log(6)) / 2, 1e-15);
}

TEST(JudgedQuestions, DoNotDependOnThreads) {
  const data::Vocabulary vocabulary = letters();
  QuestionSet questions;
  questions.contexts = {"a b c d e f g h i j k l m n", "stores. \u0301", "x y z"};
  for (std::size_t i = 0; i < 500; ++i) {
    Question question{"q" + std::to_string(i), "who?", i % 3, {}, i % 2 == 0};
    if (i % 2 == 1) question.answers = {{questions.contexts[i % 3].substr(0, 1), 0}};
    questions.questions.push_back(std::move(question));
  }
  std::vector<std::string> texts;
  std::vector<std::map<std::string, double>> scores;
  for (const int threads : {1, 2, 7, 0}) {
    const auto set =
        tasks::judged_questions(questions, {vocabulary, true, 14, {3, 5}, threads}, false);
    Logits logits = random_logits(*set, 5);
    scores.push_back(by_name(set->score(logits)));
    const TemporaryDirectory directory;
    base::FileSystem& disk = base::posix_file_system();
    set->write_predictions(logits, directory.path(), disk);
    std::string text;
    for (const char* const name : {"predictions", "nbest_predictions", "null_odds"}) {
      text += disk.read(directory.path() / (std::string(name) + ".json"), 1U << 26U);
    }
    logits[set->samples().size() - 1][3] = std::nanf("");
    logits[set->samples().size() / 2][3] = std::nanf("");
    text += refused([&] { (void)set->score(logits); });
    texts.push_back(std::move(text));
  }
  for (std::size_t i = 1; i < texts.size(); ++i) {
    EXPECT_EQ(texts[i], texts[0]);
    EXPECT_EQ(scores[i], scores[0]);  // to the bit
  }
}

TEST(JudgedQuestions, RefuseWhatCannotBeJudged) {
  const data::Vocabulary vocabulary = letters();
  const Question answered{"an\nid", "who?", 0, {{"b", 2}}, false};
  const Question unknown{"un\nknown", "who?", 0, {}, false};
  auto set =
      tasks::judged_questions(small_questions({answered, answered, answered}), {vocabulary}, false);
  const TemporaryDirectory directory;
  base::FileSystem& disk = base::posix_file_system();
  for (const float bad : {std::nanf(""), HUGE_VALF, -HUGE_VALF}) {
    for (const std::size_t at : {0U, 1U, 17U}) {
      Logits logits = null_logits(*set);
      logits[0][at] = bad;
      const std::string message = "question 'an\\nid': a logit of token " + std::to_string(at / 2) +
                                  " of window 0 is not a finite number; evaluate a checkpoint from "
                                  "before training diverged";
      EXPECT_EQ(refused([&] { (void)set->score(logits); }), message);
      EXPECT_EQ(refused([&] { set->write_predictions(logits, directory.path(), disk); }), message);
      EXPECT_TRUE(disk.list(directory.path()).empty());
    }
  }
  set = tasks::judged_questions(small_questions({answered, unknown}), {vocabulary}, true);
  EXPECT_FALSE(set->labelled());
  const std::string message =
      "1 question of 2 cannot be judged, for want of answers ('un\\nknown' is the first); use a "
      "file that has them, or predict only";
  EXPECT_EQ(refused([&] { (void)set->score(null_logits(*set)); }), message);
  EXPECT_EQ(refused([&] { (void)set->baseline(); }), message);

  const QuestionSet nothing = small_questions({{"q", "who?", 1, {{"\u0301", 0}}, false}});
  const auto cut = [&](const QuestionSet& questions, const TaskText& text) {
    const std::string one = refused([&] { (void)tasks::question_samples(questions, text); });
    EXPECT_EQ(refused([&] { (void)tasks::judged_questions(questions, text, false); }), one);
    return one;
  };
  EXPECT_THAT(cut(nothing, {vocabulary}), StartsWith("none of the 1 question has an answer in"));
  EXPECT_THAT(cut(nothing, {vocabulary, true, 67}),
              StartsWith("data.max_length 67 leaves no room for text beside "
                         "questions.max_question 64 and 3 special tokens"));
}

TEST(JudgedQuestionsDeath, OtherNumbersOfLogits) {
  const data::Vocabulary vocabulary = letters();
  const auto set = tasks::judged_questions(small_questions({{"q", "who?", 0, {{"b", 2}}, false}}),
                                           {vocabulary, true, 384, {}, 1}, false);
  Logits logits = null_logits(*set);
  logits[0].pop_back();
  EXPECT_DEATH((void)set->score(logits), "two logits");
  logits.pop_back();
  EXPECT_DEATH((void)set->score(logits), "each sample has logits");
}

TEST(QuestionSamples, TellWhatIsLeftOut) {
  const data::Vocabulary vocabulary = letters();
  const tasks::TaskSamples made =
      tasks::question_samples(small_questions({{"fine", "who?", 0, {{"b", 2}, {"c", 4}}, false},
                                               {"an\nid", "who?", 0, {{"B", 2}}, false},
                                               {"marks", "who?", 1, {{"\u0301", 0}}, false},
                                               {"none", "who?", 2, {}, true}}),
                              {vocabulary});
  ASSERT_EQ(made.samples.size(), 2U);
  EXPECT_EQ(made.samples[0].answer_begin, 5);  // of the first answer
  EXPECT_EQ(made.samples[0].answer_end, 5);
  EXPECT_EQ(made.samples[0].types, (std::vector<std::int32_t>{0, 0, 0, 0, 1, 1, 1, 1, 1}));
  EXPECT_EQ(made.samples[1].answer_begin, 0);
  EXPECT_EQ(made.samples[1].answer_end, 0);
  EXPECT_EQ(made.warnings,
            (std::vector<std::string>{
                "2 questions of 4 left out of training: the answer is not in the words of the "
                "text, or no piece of it is left ('an\\nid' is the first)"}));
}

}  // namespace
}  // namespace regatta::tests
