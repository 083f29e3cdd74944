#include "trainer/tasks/question_windows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/process.h"
#include "base/sha256.h"
#include "tests/base/faulty_file_system.h"
#include "tests/shared_data.h"
#include "trainer/data/unicode.h"

namespace regatta::tests {
namespace {

using namespace regatta::trainer;  // the subject
using tasks::QuestionSet;
using tasks::QuestionUse;
using tasks::QuestionWindow;
using tasks::QuestionWindows;
using tasks::WindowOptions;
using testing::HasSubstr;

constexpr char kStoreVocabulary[] =
    "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\nman\nwent\nto\nstore\n##s\nand\nbought\na\ngallon\n"
    "of\nmilk\nwho\n?\n(\n)\n-\n.\n1895\n1943\njohn\njose\n10\n\u4E2D\n\u6587\n,\n##b\nb\n1\n##9\n"
    "9\n\u03C3\n\u03C2\n##\u03C2\n##\u03C3\n";

// A vocabulary and what cuts words with it.
struct WordCutter {
  WordCutter(const std::string& text, bool lower_case = true)
      : vocabulary(data::Vocabulary::parse(text, "vocab.txt")),
        pieces(vocabulary, {lower_case, 200}) {}
  [[nodiscard]] QuestionWindows cut(const QuestionSet& set, const WindowOptions& options) const {
    return tasks::make_question_windows(set, vocabulary, pieces, options);
  }
  [[nodiscard]] std::string shown(const QuestionWindow& window) const {
    std::string text;
    for (const data::TokenId id : window.tokens) {
      text += (text.empty() ? "" : " ") + vocabulary.piece(id);
    }
    return text;
  }
  data::Vocabulary vocabulary;
  data::WordPiece pieces;
};

QuestionSet one_question(const std::string& context, const std::string& question,
                         const std::string& answer, std::size_t begin) {
  QuestionSet set;
  set.contexts = {context};
  set.questions.push_back({"q", question, 0, {{answer, begin}}, false});
  return set;
}

std::string window_bits(const std::vector<bool>& bits) {
  std::string text;
  for (const bool bit : bits) text += bit ? '1' : '0';
  return text;
}

// The published example of the script: "bought" is shown best by the third window.
TEST(QuestionWindows, CutsByHand) {
  const WordCutter cutter(kStoreVocabulary);
  const QuestionSet set = one_question("The man went to the store and bought a gallon of milk",
                                       "Who?", "to the store", 13);
  const QuestionWindows made = cutter.cut(set, {10, 3, 6, 1, QuestionUse::Training});
  struct Expected {
    const char* tokens;
    std::uint32_t first_piece;
    const char* max_context;
    std::uint32_t start, end;
  };
  const Expected expected[] = {
      {"[CLS] who ? [SEP] the man went to the [SEP]", 0, "11110", 0, 0},
      {"[CLS] who ? [SEP] to the store and bought [SEP]", 3, "01110", 4, 6},
      {"[CLS] who ? [SEP] and bought a gallon of [SEP]", 6, "01110", 0, 0},
      {"[CLS] who ? [SEP] gallon of milk [SEP]", 9, "011", 0, 0},
  };
  ASSERT_EQ(made.windows.size(), 4U);
  for (std::size_t i = 0; i < 4; ++i) {
    SCOPED_TRACE(expected[i].tokens);
    const QuestionWindow& window = made.windows[i];
    EXPECT_EQ(cutter.shown(window), expected[i].tokens);
    EXPECT_EQ(window.question, 0U);
    EXPECT_EQ(window.context_begin, 4U);
    EXPECT_EQ(window.first_piece, expected[i].first_piece);
    EXPECT_EQ(window.pieces(), window.tokens.size() - 5);
    EXPECT_EQ(window_bits(window.max_context), expected[i].max_context);
    EXPECT_EQ(window.start, expected[i].start);
    EXPECT_EQ(window.end, expected[i].end);
  }
  EXPECT_TRUE(made.left_out.empty());
  for (const QuestionWindow& window :
       cutter.cut(set, {10, 3, 6, 1, QuestionUse::Prediction}).windows) {
    EXPECT_EQ(window.start + window.end, 0U);
  }
}

TEST(QuestionWindows, QueriesAreCutAndLongStridesLeaveNoGap) {
  const WordCutter cutter(kStoreVocabulary);
  const QuestionSet set =
      one_question("the man went to the store", "who bought milk?", "the man", 0);
  const auto shown = [&](const WindowOptions& options) {
    std::vector<std::string> windows;
    for (const QuestionWindow& window : cutter.cut(set, options).windows) {
      windows.push_back(cutter.shown(window));
    }
    return windows;
  };
  EXPECT_EQ(shown({9, 100, 2}),
            (std::vector<std::string>{"[CLS] who bought [SEP] the man went to [SEP]",
                                      "[CLS] who bought [SEP] the store [SEP]"}));
  EXPECT_EQ(shown({11, 1, 2}),
            (std::vector<std::string>{"[CLS] who bought [SEP] the man went to the store [SEP]"}));
  EXPECT_EQ(shown({5, 7, 1}).size(), 6U);  // a piece each
  EXPECT_EQ(shown({384, 128, 64}).at(0),
            "[CLS] who bought milk ? [SEP] the man went to the store [SEP]");
}

TEST(QuestionWindows, WordsAreRangesOfBytes) {
  const WordCutter cutter(kStoreVocabulary);
  struct Case {
    const char* name;
    std::string context;
    std::vector<std::string> words;
    std::vector<std::uint32_t> word_of_piece;
  };
  const Case cases[] = {
      {"spaces", "the man", {"the", "man"}, {0, 1}},
      {"runs of white space", "\n the \t\r\n man ", {"the", "man"}, {0, 1}},
      {"narrow no-break space", "the\u202Fman\u202F", {"the", "man"}, {0, 1}},
      {"no-break space is of a word", "the\u00A0man", {"the\u00A0man"}, {0, 0}},
      {"ideographic space is of a word", "the\u3000man", {"the\u3000man"}, {0, 0}},
      {"form feed is of a word", "the\fman", {"the\fman"}, {0}},
      {"line separator is of a word", "the\u2028man", {"the\u2028man"}, {0, 0}},
      {"pieces", "stores (1895-1943).", {"stores", "(1895-1943)."}, {0, 0, 1, 1, 1, 1, 1, 1}},
      {"ideographs", "\u4E2D\u6587 the", {"\u4E2D\u6587", "the"}, {0, 0, 1}},
      {"nothing is left of a word", "the \u00AD man", {"the", "\u00AD", "man"}, {0, 2}},
      {"nothing is left", "\u0301", {"\u0301"}, {}},
      {"no word", " \n", {}, {}},
      {"empty", "", {}, {}},
      {"begins as the narrow one does", "a\u202Eb \u2020", {"a\u202Eb", "\u2020"}, {0, 0, 1}},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    const QuestionWindows made = cutter.cut(one_question(c.context, "who?", "", 0),
                                            {384, 128, 64, 1, QuestionUse::Prediction});
    std::vector<std::string> words;
    for (const auto& word : made.contexts.at(0).words) {
      words.push_back(c.context.substr(word.begin, word.end - word.begin));
    }
    EXPECT_EQ(words, c.words);
    EXPECT_EQ(made.contexts[0].word_of_piece, c.word_of_piece);
    EXPECT_EQ(made.windows.size(), c.word_of_piece.empty() ? 0U : 1U);
  }
}

TEST(QuestionWindows, AnswersBecomeTokens) {
  const WordCutter cutter(kStoreVocabulary);
  struct Case {
    const char* name;
    std::string context;
    std::string answer;
    std::size_t begin;
    std::string pieces;  // "": left out
    std::uint32_t first = 0;
  };
  const Case cases[] = {
      {"a word", "the man went", "man", 4, "man", 1},
      {"words", "the man went", "man went", 4, "man went", 1},
      {"all", "the man went", "the man went", 0, "the man went", 0},
      {"narrowed at both ends", "john (1895-1943).", "1895", 6, "1895", 2},
      {"narrowed at the front", "john (1895-1943).", "1943).", 11, "1943 ) .", 4},
      {"narrowed inside a word's pieces", "the stores", "store", 4, "store", 1},
      {"part of a piece", "the stores", "tore", 5, "store ##s", 1},
      {"end of a word", "the stores", "s", 9, "store ##s", 1},
      {"the first of equal pieces", "to a-a.", "a", 5, "a", 1},
      {"the word it is in", "to to to", "to", 3, "to", 1},
      {"capitals and accents", "a Jos\u00E9.", "Jos\u00E9", 2, "jose", 1},
      {"other case is another text", "a man", "Man", 2, ""},
      {"another text", "a man", "milk", 2, ""},
      {"white space in front", "the man went", " went", 7, "went", 2},
      {"white space behind", "the man went", "man ", 4, "man", 1},
      {"more white space between", "the \n man", "the \n man", 0, "the man", 0},
      {"white space at the very start", " \tthe man", "\tthe", 1, "the", 0},
      {"narrow no-break space between", "the\u202Fman", "the\u202Fman", 0, "the man", 0},
      {"begins with one", "the\u202Fman", "\u202Fman", 3, "man", 1},
      {"no-break space is normalised in the answer alone", "10\u00A0milk", "10\u00A0milk", 0, ""},
      {"and not beside it", "10\u00A0milk", "10", 0, "10", 0},
      {"ideographs", "\u4E2D\u6587", "\u6587", 3, "\u6587", 1},
      {"an unknown word", "the zebra went", "zebra", 4, "[UNK]", 1},
      {"nothing is left of it", "the \u00AD man", "\u00AD", 4, ""},
      {"nothing is left of it in a word", "the man\u00AD", "\u00AD", 7, "man", 1},
      {"nothing is left of it at the end", "the \u0301", "\u0301", 4, ""},
      {"blank", "the man", " ", 3, ""},
      {"empty", "the man", "", 0, ""},
      {"ends beyond the context", "the man", "man went", 4, ""},
      {"begins beyond the context", "the man", "man", 400, ""},
      {"ends beyond any", "the man", "man", std::numeric_limits<std::size_t>::max(), ""},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    const QuestionWindows made = cutter.cut(one_question(c.context, "who?", c.answer, c.begin), {});
    EXPECT_EQ(made.left_out.size(), c.pieces.empty() ? 1U : 0U);
    ASSERT_EQ(made.windows.size(), c.pieces.empty() ? 0U : 1U);
    if (c.pieces.empty()) continue;
    const QuestionWindow& window = made.windows[0];
    std::string found;
    for (std::uint32_t i = window.start; i <= window.end; ++i) {
      found += (i > window.start ? " " : "") + cutter.vocabulary.piece(window.tokens.at(i));
    }
    EXPECT_EQ(found, c.pieces);
    EXPECT_EQ(window.start, window.context_begin + c.first);
  }
}

TEST(QuestionWindows, QuestionsShareContextsAndOrder) {
  const WordCutter cutter(kStoreVocabulary);
  QuestionSet set;
  set.contexts = {"the man", "a gallon of milk", "\u0301"};
  set.questions = {{"0", "who?", 1, {{"milk", 12}}, false},
                   {"1", "who?", 0, {{"milk", 0}}, false},  // not there
                   {"2", "who?", 1, {}, true},
                   {"3", "\u0301", 0, {{"man", 4}, {"milk", 0}}, false},  // no piece is left
                   {"4", "who?", 2, {}, true},
                   {"5", "who?", 0, {}, false}};
  const QuestionWindows made = cutter.cut(set, {});
  std::vector<std::size_t> questions;
  for (const QuestionWindow& window : made.windows) questions.push_back(window.question);
  EXPECT_EQ(questions, (std::vector<std::size_t>{0, 2, 3, 5}));
  EXPECT_EQ(made.left_out, (std::vector<std::size_t>{1}));
  EXPECT_EQ(made.contexts.size(), 3U);
  EXPECT_EQ(made.windows[1].start + made.windows[1].end, 0U);
  EXPECT_EQ(cutter.shown(made.windows[2]), "[CLS] [SEP] the man [SEP]");
  EXPECT_EQ(made.windows[2].start, 3U);
  WindowOptions options;
  options.use = QuestionUse::Prediction;
  EXPECT_EQ(cutter.cut(set, options).windows.size(), 5U);
  EXPECT_TRUE(cutter.cut(set, options).left_out.empty());
  EXPECT_TRUE(cutter.cut({}, {}).windows.empty());
}

TEST(QuestionWindows, RefusesOptions) {
  constexpr int kMost = std::numeric_limits<int>::max();
  constexpr int kLeast = std::numeric_limits<int>::min();
  const WordCutter cutter(kStoreVocabulary);
  struct Bad {
    WindowOptions options;
    const char* message;
  };
  for (const Bad& bad :
       {Bad{{67, 128, 64}, "max_sequence 67 leaves no room for text"},
        Bad{{0, 128, 64}, "max_sequence 0 leaves no room"},
        Bad{{kLeast + 3, 128, 64}, "leaves no room"},
        Bad{{384, 128, kMost}, "leaves no room for text beside max_query 2147483647"},
        Bad{{65537, 128, 64}, "max_sequence is 65537; use at most 65536"},
        Bad{{384, 0, 64}, "doc_stride is 0; use at least 1"},
        Bad{{384, kLeast, 64}, "doc_stride is -2147483648"},
        Bad{{384, 128, 0}, "max_query is 0; use at least 1"},
        Bad{{384, 128, -1}, "max_query is -1"}, Bad{{384, 128, 64, -1}, "cannot use -1 threads"},
        Bad{{384, 128, 64, 1025}, "cannot use 1025 threads; choose 1 to 1024"}}) {
    try {
      (void)cutter.cut(one_question("the man", "who?", "man", 4), bad.options);
      ADD_FAILURE() << bad.message;
    } catch (const base::Error& error) {
      EXPECT_EQ(error.code(), base::Code::User);
      EXPECT_THAT(error.what(), HasSubstr(bad.message));
    }
  }
  EXPECT_EQ(cutter.cut(one_question("the man", "who?", "man", 4), {68, kMost, 64}).windows.size(),
            1U);
}

// As squad_windows.py prints them.
std::string sixteen_digits(const std::string& text) {
  const base::Sha256 digest = base::sha256(text);
  std::string digits;
  for (std::size_t i = 0; i < 8; ++i) {
    char two[3];
    std::snprintf(two, sizeof two, "%02x", static_cast<unsigned>(digest[i]));
    digits += two;
  }
  return digits;
}

std::vector<std::string> window_lines(const QuestionSet& set, const QuestionWindows& made,
                                      std::size_t every) {
  std::vector<std::string> lines;
  std::size_t next = 0;
  auto left_out = made.left_out.begin();
  for (std::size_t question = 0; question < set.questions.size(); ++question) {
    const bool is_asked = question % every == 0;
    if (left_out != made.left_out.end() && *left_out == question) {
      ++left_out;
      if (is_asked) lines.push_back(set.questions[question].id + " left out");
    }
    for (; next < made.windows.size() && made.windows[next].question == question; ++next) {
      if (!is_asked) continue;
      const QuestionWindow& window = made.windows[next];
      std::ostringstream ids;
      for (std::size_t i = 0; i < window.tokens.size(); ++i) {
        ids << (i == 0 ? "" : ",") << window.tokens[i];
      }
      std::ostringstream line;
      line << set.questions[question].id << ' ' << window.first_piece << ' ' << window.pieces()
           << ' ' << sixteen_digits(ids.str()) << ' ' << window.context_begin << ' ' << window.start
           << ' ' << window.end << ' ' << sixteen_digits(window_bits(window.max_context));
      lines.push_back(line.str());
    }
  }
  EXPECT_EQ(next, made.windows.size());
  return lines;
}

struct WindowComparison {
  base::Path squad;
  base::Path vocabulary;
  WindowOptions options{};
  bool lower_case = true;
  std::size_t every = 1;  // of how many questions one is compared
};

// The lines of the plain implementation are those of this one, with any number of threads. Returns
// them.
std::vector<std::string> compare_windows(const WindowComparison& what) {
  base::Command command;
  command.arguments = {"python3",
                       "-B",
                       std::string(REGATTA_SOURCE_DIR) + "/tests/trainer/tasks/squad_windows.py",
                       what.squad.string(),
                       what.vocabulary.string(),
                       "--max-sequence=" + std::to_string(what.options.max_sequence),
                       "--doc-stride=" + std::to_string(what.options.doc_stride),
                       "--max-query=" + std::to_string(what.options.max_query),
                       "--every=" + std::to_string(what.every)};
  if (!what.lower_case) command.arguments.push_back("--cased");
  const base::Output output = base::run(command, 200);
  EXPECT_EQ(output.exit.code.value_or(-1), 0) << output.errors;
  EXPECT_FALSE(output.cut);
  std::vector<std::string> expected;
  std::istringstream text(output.text);
  for (std::string line; std::getline(text, line);) expected.push_back(line);

  base::FileSystem& files = base::posix_file_system();
  const WordCutter cutter(files.read(what.vocabulary, 1U << 22U), what.lower_case);
  const QuestionSet set = tasks::read_question_file(what.squad, QuestionUse::Training, files);
  for (const int threads : {1, 3, 16}) {
    WindowOptions options = what.options;
    options.threads = threads;
    const auto found = window_lines(set, cutter.cut(set, options), what.every);
    EXPECT_EQ(found.size(), expected.size());
    int shown = 0;
    for (std::size_t i = 0; i < std::min(found.size(), expected.size()) && shown < 5; ++i) {
      if (found[i] == expected[i]) continue;
      ++shown;
      ADD_FAILURE() << "found    " << found[i] << "\nexpected " << expected[i];
    }
  }
  return expected;
}

// Text on which the rules turn: separators of words and what only looks like one, marks, characters
// that are dropped, words that begin alike.
std::string drawn_text(std::mt19937* random, int most) {
  static const char* const kPool[] = {
      " ",   " ",     " ",         "\t",     "\r\n",   "\u202F", "\u00A0",  "\u3000", "\u2028",
      "\f",  "\x1C",  "\u0085",    "\u00AD", "\u200D", "\u0301", "\u4E2D",  "\u6587", "the",
      "Man", "store", "stores",    "1895",   "(1895",  "1943).", "-",       ",",      "a",
      "b",   "aab",   "Jos\u00E9", "10",     "199",    "\u03A3", "b\u03A3", "zebra",  "\U0001F600",
      "who", "?",     "\uFFFD",    "milk",   "\u2020", " of ",   " to ",    " and ",  "\u202E"};
  std::string text;
  const int count = 1 + static_cast<int>((*random)() % static_cast<unsigned>(most));
  for (int i = 0; i < count; ++i) text += kPool[(*random)() % std::size(kPool)];
  return text;
}

// A file of questions whose answers are any parts of their contexts.
std::string drawn_squad(unsigned seed) {
  std::mt19937 random(seed);
  nlohmann::json paragraphs = nlohmann::json::array();
  for (int p = 0; p < 60; ++p) {
    const std::string context = "milk" + drawn_text(&random, 60);
    std::vector<std::size_t> bounds;  // of code points
    for (std::size_t i = 0; i < context.size();
         i += data::unicode::decode(std::string_view(context).substr(i)).length) {
      bounds.push_back(i);
    }
    bounds.push_back(context.size());
    nlohmann::json questions = nlohmann::json::array();
    for (int q = 0; q < 6; ++q) {
      nlohmann::json question{{"id", std::to_string(p) + "-" + std::to_string(q)},
                              {"question", "who" + drawn_text(&random, 12)}};
      std::size_t first = random() % (bounds.size() - 1);
      std::size_t end = std::min(first + 1 + random() % 9, bounds.size() - 1);
      const std::string answer = context.substr(bounds[first], bounds[end] - bounds[first]);
      // A letter or digit in it: the answer is not blank.
      const bool is_text = std::any_of(answer.begin(), answer.end(), [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
      });
      question["answers"] = nlohmann::json::array();
      question["is_impossible"] = !is_text;
      if (is_text) question["answers"].push_back({{"text", answer}, {"answer_start", first}});
      questions.push_back(question);
    }
    paragraphs.push_back({{"context", context}, {"qas", questions}});
  }
  return nlohmann::json{{"data", {{{"paragraphs", paragraphs}}}}}.dump();
}

TEST(QuestionWindows, AreThoseOfPlainPythonForDrawnText) {
  const TemporaryDirectory directory;
  WindowComparison what{directory.path() / "squad.json", directory.path() / "vocab.txt"};
  std::ofstream(what.vocabulary) << kStoreVocabulary;
  for (unsigned seed = 1; seed <= 4; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::ofstream(what.squad) << drawn_squad(seed);
    what.lower_case = seed % 2 == 1;
    what.options.max_sequence = seed < 3 ? 24 : 40;
    what.options.max_query = 8;
    what.options.doc_stride = seed < 3 ? 5 : 29;
    const std::vector<std::string> lines = compare_windows(what);
    const auto left_out = std::count_if(lines.begin(), lines.end(), [](const std::string& line) {
      return line.find("left out") != std::string::npos;
    });
    EXPECT_GT(left_out, 5);
    EXPECT_LT(left_out, 200);
  }
}

// 10,833 windows of SQuAD 1.1 is what other users of Google's script count (neuralmagic/sparseml
// issue 1464).
TEST(QuestionWindows, AreThoseOfPlainPythonForPublishedSets) {
  REGATTA_NEED_SHARED("data/squad");
  REGATTA_NEED_SHARED("data/vocab");
  const base::Path squad = shared_path("data/squad");
  const auto vocabulary = [](const char* name) {
    return shared_path("data/vocab") / name / "vocab.txt";
  };
  const base::Path uncased = vocabulary("bert-base-uncased");
  EXPECT_EQ(compare_windows({squad / "dev-v2.0.reconstructed.json", uncased}).size(), 12232U);
  EXPECT_EQ(compare_windows({squad / "dev-v1.1.reconstructed.json", uncased}).size(), 10833U);
  compare_windows({squad / "xquad.zh.json", vocabulary("bert-base-chinese")});
  WindowComparison small{squad / "train-v2.0.first10articles.json", vocabulary("bert-base-cased")};
  small.options.max_sequence = 96;
  small.options.doc_stride = 31;
  small.options.max_query = 12;
  small.lower_case = false;
  small.every = 7;
  compare_windows(small);
}

// Ties between windows of other lengths; with the stride of 202 the rounding of doubles, which are
// Google's, decides two of them. Each piece is shown best exactly once.
TEST(QuestionWindows, EveryPieceIsShownBestOnce) {
  const TemporaryDirectory directory;
  WindowComparison what{directory.path() / "squad.json", directory.path() / "vocab.txt"};
  std::ofstream(what.vocabulary) << kStoreVocabulary;
  std::string context = "a";
  nlohmann::json paragraphs = nlohmann::json::array();
  for (int pieces = 1; pieces < 700; ++pieces, context += " a") {
    if (pieces < 300) continue;
    paragraphs.push_back({{"context", context},
                          {"qas",
                           {{{"id", std::to_string(pieces)},
                             {"question", "who"},
                             {"answers", {{{"text", "a"}, {"answer_start", 0}}}}}}}});
  }
  std::ofstream(what.squad) << nlohmann::json{{"data", {{{"paragraphs", paragraphs}}}}}.dump();
  what.options.max_query = 4;
  what.options.max_sequence = 344;  // 340 of the context
  for (const int stride : {101, 202}) {
    what.options.doc_stride = stride;
    EXPECT_GT(compare_windows(what).size(), 800U);
    const WordCutter cutter(kStoreVocabulary);
    const QuestionSet set =
        tasks::read_question_file(what.squad, QuestionUse::Training, base::posix_file_system());
    const QuestionWindows made = cutter.cut(set, what.options);
    std::vector<std::vector<int>> best(set.questions.size());
    for (const QuestionWindow& window : made.windows) {
      std::vector<int>& counts = best[window.question];
      counts.resize(std::max<std::size_t>(counts.size(), window.first_piece + window.pieces()));
      for (std::size_t i = 0; i < window.pieces(); ++i) {
        counts[window.first_piece + i] += window.max_context[i] ? 1 : 0;
      }
    }
    for (std::size_t question = 0; question < best.size(); ++question) {
      EXPECT_EQ(best[question], std::vector<int>(300 + question, 1));
    }
  }
}

}  // namespace
}  // namespace regatta::tests
