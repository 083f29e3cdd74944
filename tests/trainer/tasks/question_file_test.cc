#include "trainer/tasks/question_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "base/error.h"
#include "tests/base/faulty_file_system.h"
#include "tests/shared_data.h"

namespace regatta::tests {
namespace {

using testing::HasSubstr;
using trainer::tasks::parse_questions;
using trainer::tasks::QuestionSet;
using trainer::tasks::QuestionUse;

// A file with one paragraph, of which the list `qas` is given.
std::string squad_text(const std::string& context, const std::string& qas) {
  return R"({"version":"v2.0","data":[{"title":"t","paragraphs":[{"context":")" + context +
         R"(","qas":[)" + qas + "]}]}]}";
}

// One question with the id "q", whose other fields are given.
std::string squad_question(const std::string& context, const std::string& fields) {
  return squad_text(context, R"({"id":"q","question":"who?",)" + fields + "}");
}

std::string squad_answer(const std::string& context, const std::string& text,
                         const std::string& start) {
  return squad_question(context,
                        R"("answers":[{"text":")" + text + R"(","answer_start":)" + start + "}]");
}

std::string squad_refusal(const std::string& text, QuestionUse use) {
  try {
    (void)parse_questions(text, "dev.json", use);
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), base::Code::User);
    EXPECT_THAT(error.what(), testing::StartsWith("dev.json: "));
    EXPECT_THAT(error.what(), testing::Not(HasSubstr("\n")));
    EXPECT_LT(std::string(error.what()).size(), 400U);
    return error.what();
  }
  return "was read";
}

TEST(QuestionFile, ReadsBothVersions) {
  const QuestionSet set = parse_questions(
      R"({"version":"v2.0","other":[[1]],"data":[{"title":"a","paragraphs":[
        {"context":"Row, row the boat.","qas":[
          {"id":"1","question":"What is rowed?","is_impossible":false,
           "answers":[{"text":"boat","answer_start":13},{"text":"the boat","answer_start":9}]},
          {"id":"2","question":"Who rows?","is_impossible":true,"answers":[],
           "plausible_answers":[{"text":"nobody","answer_start":700}]}]},
        {"context":"Nobody asks.","qas":[]}]},
       {"paragraphs":[{"qas":[{"question":"How?","id":"3",
           "answers":[{"answer_start":0,"text":"gently"}]}],"context":"gently"}]},
       {"paragraphs":[]}]})",
      "dev.json", QuestionUse::Training);
  EXPECT_EQ(set.version, "v2.0");
  EXPECT_EQ(set.contexts,
            (std::vector<std::string>{"Row, row the boat.", "Nobody asks.", "gently"}));
  ASSERT_EQ(set.questions.size(), 3U);
  EXPECT_EQ(set.questions[0].id, "1");
  EXPECT_EQ(set.questions[0].text, "What is rowed?");
  EXPECT_EQ(set.questions[0].context, 0U);
  EXPECT_FALSE(set.questions[0].impossible);
  ASSERT_EQ(set.questions[0].answers.size(), 2U);
  EXPECT_EQ(set.questions[0].answers[1].text, "the boat");
  EXPECT_EQ(set.questions[0].answers[1].begin, 9U);
  EXPECT_TRUE(set.questions[1].impossible);
  EXPECT_TRUE(set.questions[1].answers.empty());
  EXPECT_EQ(set.questions[2].context, 2U);
}

TEST(QuestionFile, StartsCountCodePoints) {
  struct Case {
    const char* name;
    std::string context;
    std::string answer;
    const char* start;
    std::size_t begin;
  };
  const Case cases[] = {
      {"ascii", "in 1895 or so", "1895", "3", 3},
      {"the whole context", "a", "a", "0", 0},
      {"at the end", "in Lom\u00E9", "Lom\u00E9", "3", 3},
      {"behind two bytes", "\u00E9\u00E9 x", "x", "3", 5},
      {"behind three bytes", "\u4E2D\u6587 x", "x", "3", 7},
      {"behind four bytes, two units of UTF-16", "\U0001F600 x", "x", "2", 5},
      {"behind an escaped pair of surrogates", "\\ud83d\\ude00 x", "x", "2", 5},
      {"behind a mark that combines", "e\u0301 x", "x", "3", 4},
      {"the last of four bytes", "a\U0001F600", "\U0001F600", "1", 1},
      {"behind an escape", "a\\tb", "b", "2", 2},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    const std::string text = squad_answer(c.context, c.answer, c.start);
    for (const std::string& mark : {std::string(), std::string("\xEF\xBB\xBF")}) {
      const QuestionSet set = parse_questions(mark + text, "dev.json", QuestionUse::Training);
      EXPECT_EQ(set.questions.at(0).answers.at(0).begin, c.begin);
      EXPECT_EQ(set.questions[0].answers[0].text, c.answer);
    }
  }
}

TEST(QuestionFile, PredictionNeedsNoAnswers) {
  for (const std::string& fields : {std::string(R"("title":1)"), std::string(R"("answers":[])"),
                                    std::string(R"("is_impossible":false,"answers":[])"),
                                    std::string(R"("is_impossible":true)")}) {
    const QuestionSet set =
        parse_questions(squad_question("a boat", fields), "dev.json", QuestionUse::Prediction);
    EXPECT_TRUE(set.questions.at(0).answers.empty()) << fields;
    EXPECT_EQ(set.version, "v2.0");
  }
  EXPECT_EQ(parse_questions(R"({"data":[{"paragraphs":[{"context":"c","qas":[{"id":"1",)"
                            R"("question":"q"}]}]}]})",
                            "dev.json", QuestionUse::Prediction)
                .version,
            "");
  EXPECT_TRUE(parse_questions(squad_question("a boat", R"("is_impossible":true)"), "dev.json",
                              QuestionUse::Training)
                  .questions.at(0)
                  .impossible);
}

struct BadSquad {
  const char* name;
  std::string text;
  const char* message;  // behind "dev.json: "
};

void expect_squad_refusals(const std::vector<BadSquad>& cases, QuestionUse use) {
  for (const BadSquad& c : cases)
    EXPECT_THAT(squad_refusal(c.text, use), HasSubstr(c.message)) << c.name;
}

TEST(QuestionFile, RefusesWhatIsNoSquadFile) {
  const std::string good = squad_answer("a boat", "boat", "2");
  const std::vector<BadSquad> cases = {
      {"empty", "", "not JSON, or cut short (0 bytes)"},
      {"a word", "boat", "not JSON"},
      {"cut", good.substr(0, good.size() - 3), "not JSON, or cut short"},
      {"two documents", good + good, "not JSON"},
      {"NUL behind it", good + std::string(1, '\0'), "not JSON"},
      {"half a surrogate", squad_answer("\\ud83d x", "x", "2"), "not JSON"},
      {"Latin-1", squad_answer("caf\xE9 x", "x", "5"), "not UTF-8 at byte 68; convert the file"},
      {"UTF-16", std::string("\xFF\xFE{\0", 4), "not UTF-8 at byte 0"},
      {"a surrogate in UTF-8", squad_answer("\xED\xA0\x80 x", "x", "2"), "not UTF-8 at byte 65"},
      {"too deep", std::string(100000, '['), "nests deeper than 32 levels"},
      {"too deep inside", R"({"data":[],"x":)" + std::string(40, '[') + std::string(40, ']') + "}",
       "nests deeper than 32 levels"},
      {"a list", "[1,2]", "is '[1,2]', not an object with `data`"},
      {"null", "null", "is 'null', not an object"},
      {"a long list", "[\"" + std::string(100000, 'x') + "\"]", "xxx...', not an object"},
      {"no data", R"({"version":"1.1"})", "data is missing"},
      {"data an object", R"({"data":{}})", "data is '{}', not a list"},
      {"version a number", R"({"version":2,"data":[]})", "version is '2', not a text"},
      {"no question", R"({"data":[]})", "has no question"},
      {"no question in paragraphs", squad_text("a boat", ""), "has no question"},
      {"an article a text", R"({"data":["x"]})", R"(data[0] is '"x"', not an object)"},
      {"no paragraphs", R"({"data":[{"paragraphs":[]},{}]})", "data[1].paragraphs is missing"},
      {"a paragraph a list", R"({"data":[{"paragraphs":[[]]}]})",
       "data[0].paragraphs[0] is '[]', not an object"},
      {"no context", R"({"data":[{"paragraphs":[{"qas":[]}]}]})",
       "data[0].paragraphs[0].context is missing"},
      {"context a number", R"({"data":[{"paragraphs":[{"context":3,"qas":[]}]}]})",
       "data[0].paragraphs[0].context is '3', not a text"},
      {"no qas", R"({"data":[{"paragraphs":[{"context":"a"}]}]})",
       "data[0].paragraphs[0].qas is missing"},
      {"qas null", R"({"data":[{"paragraphs":[{"context":"a","qas":null}]}]})",
       "data[0].paragraphs[0].qas is 'null', not a list"},
      {"context empty", squad_text("", ""), "paragraphs[0].context is empty"},
      {"context blank", squad_text(" \\t\\n\u00A0\u3000\u200B", ""),
       "paragraphs[0].context is blank"},
      {"context too long", squad_text(std::string((1U << 20U) + 1, 'a'), ""),
       "data[0].paragraphs[0].context has 1048577 bytes of UTF-8; at most 1048576"},
  };
  expect_squad_refusals(cases, QuestionUse::Prediction);
  EXPECT_EQ(squad_refusal(squad_answer(std::string(1U << 20U, 'a'), "a", "1048575"),
                          QuestionUse::Training),
            "was read");
}

TEST(QuestionFile, RefusesQuestionsByPlaceAndId) {
  const auto with = [](const std::string& question) {
    return squad_text("a boat", R"({"id":"first","question":"?"},)" + question);
  };
  const char* const at = "data[0].paragraphs[0].qas[1]";
  const std::string place = at;
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"7", " is '7', not an object"},
      {R"({"question":"q"})", ".id is missing"},
      {R"({"id":7,"question":"q"})", ".id is '7', not a text"},
      {R"({"id":"","question":"q"})", ".id is empty"},
      {R"({"id":")" + std::string(1025, 'i') + R"(","question":"q"})", ".id has 1025 bytes"},
      {R"({"id":"first","question":"q"})",
       ".id (id 'first') is a duplicate, of data[0].paragraphs[0].qas[0]"},
      {R"({"id":"x"})", ".question (id 'x') is missing"},
      {R"({"id":"x","question":["q"]})", ".question (id 'x') is '[\"q\"]', not a text"},
      {R"({"id":"x","question":""})", ".question (id 'x') is empty"},
      {R"({"id":"x","question":" \n "})", ".question (id 'x') is blank"},
      {R"({"id":"x","question":")" + std::string(100000, 'q') + R"("})",
       ".question (id 'x') has 100000 bytes of UTF-8; at most 65536"},
      {R"({"id":"x\n\u001b","question":""})", R"(.question (id 'x\n\x1b') is empty)"},
      {R"({"id":"x","question":"q","is_impossible":"false"})",
       ".is_impossible (id 'x') is '\"false\"', not true or false"},
      {R"({"id":"x","question":"q","is_impossible":0})",
       ".is_impossible (id 'x') is '0', not true or false"},
      {R"({"id":"x","question":"q","answers":{}})", ".answers (id 'x') is '{}', not a list"},
      {R"({"id":"x","question":"q","answers":["boat"]})",
       ".answers[0] (id 'x') is '\"boat\"', not an object"},
      {R"({"id":"x","question":"q","is_impossible":true,"answers":[{}]})",
       ".answers (id 'x') is not empty, but is_impossible is true"},
  };
  for (const auto& [question, message] : cases) {
    EXPECT_THAT(squad_refusal(with(question), QuestionUse::Prediction), HasSubstr(place + message));
  }
  // An id may stand in another paragraph.
  EXPECT_THAT(
      squad_refusal(R"({"data":[{"paragraphs":[{"context":"c","qas":[{"id":"1","question":"q"}]},)"
                    R"({"context":"c","qas":[{"id":"1","question":"q"}]}]}]})",
                    QuestionUse::Prediction),
      HasSubstr("data[0].paragraphs[1].qas[0].id (id '1') is a duplicate, of "
                "data[0].paragraphs[0].qas[0]"));
}

TEST(QuestionFile, RefusesAnswers) {
  const std::string place = "data[0].paragraphs[0].qas[0].answers[0]";
  const std::string start = ".answer_start (id 'q') ";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {squad_question("a boat", R"("answers":[{"answer_start":2}])"), ".text (id 'q') is missing"},
      {squad_question("a boat", R"("answers":[{"text":1,"answer_start":2}])"),
       ".text (id 'q') is '1', not a text"},
      {squad_answer("a boat", "", "2"), ".text (id 'q') is empty"},
      {squad_answer("a boat", " ", "1"), ".text (id 'q') is blank"},
      {squad_question("a boat", R"("answers":[{"text":"boat"}])"), start + "is missing"},
      {squad_answer("a boat", "boat", "\"2\""), start + "is '\"2\"', not a whole number"},
      {squad_answer("a boat", "boat", "2.0"), start + "is '2.0', not a whole number"},
      {squad_answer("a boat", "boat", "-1"), start + "is '-1', not a whole number of at least 0"},
      {squad_answer("a boat", "boat", "true"), start + "is 'true', not a whole number"},
      {squad_answer("a boat", "boat", "null"), start + "is 'null', not a whole number"},
      {squad_answer("a boat", "boat", "6"), start + "is '6', beyond the context of 6 characters"},
      {squad_answer("a boat", "t", "18446744073709551615"),
       start + "is '18446744073709551615', beyond"},
      {squad_answer("a boat", "t", "18446744073709551616"),
       start + "is '1.8446744073709552e+19', not"},
      {squad_answer("\u00E9\u00E9 x", "x", "5"),
       start + "is '5', beyond the context of 4 characters"},
      {squad_answer("a boat", "boat", "1"),
       start + "is '1', where ' boat' begins, not the answer 'boat'"},
      {squad_answer("a boat", "boats", "2"), start + "is '2', where 'boat' begins, not the answer"},
      {squad_answer("a boat", "Boat", "2"), start + "is '2', where 'boat' begins"},
      {squad_answer("\u00E9\u00E9 boat", "boat", "5"), start + "is '5', where 'at' begins"},
      {squad_answer("b" + std::string(50, 'a') + "\\n", std::string(60, 'b'), "0"),
       start + "is '0', where 'b" + std::string(39, 'a') + "...' begins, not the answer '" +
           std::string(40, 'b') + "...'"},
      // 40 bytes end within a character.
      {squad_answer(
           "a\u4E2D\u4E2D\u4E2D\u4E2D\u4E2D\u4E2D\u4E2D\u4E2D\u4E2D\u4E2D\u4E2D\u4E2D\u4E2D!", "b",
           "0"),
       "\u4E2D...' begins"},
  };
  for (const auto& [text, message] : cases) {
    for (const QuestionUse use : {QuestionUse::Training, QuestionUse::Prediction}) {
      const std::string found = squad_refusal(text, use);
      EXPECT_THAT(found, HasSubstr(message));
      EXPECT_THAT(found, HasSubstr(place));
    }
  }
}

TEST(QuestionFile, TrainingNeedsAnswers) {
  const std::string place = "data[0].paragraphs[0].qas[0].answers (id 'q') ";
  for (const auto& [fields, message] : std::vector<std::pair<std::string, std::string>>{
           {R"("title":1)", "is missing"},
           {R"("answers":[])", "is empty, and training needs one"},
           {R"("is_impossible":false)", "is missing"},
           {R"("is_impossible":false,"answers":[])", "is empty, and training needs one"}}) {
    EXPECT_THAT(squad_refusal(squad_question("a boat", fields), QuestionUse::Training),
                HasSubstr(place + message));
    EXPECT_EQ(squad_refusal(squad_question("a boat", fields), QuestionUse::Prediction), "was read");
  }
}

TEST(QuestionFile, Files) {
  const TemporaryDirectory directory;
  base::FileSystem& files = base::posix_file_system();
  const base::Path path = directory.path() / "dev.json";
  const auto expect = [&](base::Code code, const std::string& message) {
    try {
      (void)trainer::tasks::read_question_file(path, QuestionUse::Training, files);
      ADD_FAILURE() << message;
    } catch (const base::Error& error) {
      EXPECT_EQ(error.code(), code);
      EXPECT_THAT(error.what(), HasSubstr(message));
      EXPECT_THAT(error.what(), HasSubstr(path.string()));
    }
  };
  expect(base::Code::NotFound, "");
  std::ofstream(path) << "\xEF\xBB\xBF" << squad_answer("a boat", "boat", "2");
  EXPECT_EQ(trainer::tasks::read_question_file(path, QuestionUse::Training, files)
                .questions.at(0)
                .answers.at(0)
                .begin,
            2U);
  std::ofstream(path) << "{}";
  expect(base::Code::User, "data is missing");
  std::filesystem::resize_file(path, (std::uintmax_t{2} << 30U) + 1);  // a hole
  expect(base::Code::User, "larger than 2 GiB");
}

TEST(QuestionFile, PublishedSets) {
  REGATTA_NEED_SHARED("data/squad");
  struct Published {
    const char* name;
    const char* version;
    std::size_t contexts, questions, impossible;  // as ../shared/data/README.md counts them
  };
  // Every answer is found at its place, by bytes.
  for (const Published& set : {Published{"dev-v2.0.reconstructed.json", "v2.0", 1204, 11873, 5945},
                               Published{"dev-v1.1.reconstructed.json", "1.1", 2067, 10570, 0},
                               Published{"train-v2.0.first10articles.json", "v2.0", 0, 4719, 348},
                               Published{"xquad.zh.json", "1.1", 240, 1190, 0},
                               Published{"xquad.en.json", "1.1", 240, 1190, 0},
                               Published{"cs224n_dev-v2.0.json", "v2.0", 0, 6078, 0}}) {
    SCOPED_TRACE(set.name);
    const QuestionSet read = trainer::tasks::read_question_file(
        shared_path("data/squad") / set.name, QuestionUse::Training, base::posix_file_system());
    EXPECT_EQ(read.version, set.version);
    EXPECT_EQ(read.questions.size(), set.questions);
    if (set.contexts != 0) {
      EXPECT_EQ(read.contexts.size(), set.contexts);
    }
    std::size_t impossible = 0;
    for (const auto& question : read.questions) {
      impossible += question.impossible ? 1 : 0;
      EXPECT_EQ(question.answers.empty(), question.impossible);
      for (const auto& answer : question.answers) {
        EXPECT_EQ(read.contexts.at(question.context)
                      .compare(answer.begin, answer.text.size(), answer.text),
                  0)
            << question.id;
      }
    }
    if (set.impossible != 0) {
      EXPECT_EQ(impossible, set.impossible);
    }
  }
}

}  // namespace
}  // namespace regatta::tests
