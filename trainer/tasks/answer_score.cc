#include "trainer/tasks/answer_score.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "trainer/data/unicode.h"

namespace regatta::trainer::tasks {
namespace {

namespace unicode = data::unicode;

// What Python's \w matches, the underscore aside: characters of which str.isalnum() is true, by
// Unicode 14.0.0. Pairs of how many others come first and how many of them follow; the test
// compares them with Python's.
// clang-format off
constexpr std::uint32_t kWordRuns[] = {
    48, 10, 7, 26, 6, 26, 47, 1, 7, 2, 1, 1, 3, 2, 1, 3, 1, 23, 1, 31, 1, 458, 4, 12, 14, 5, 7, 1,
    1, 1, 129, 5, 1, 2, 2, 4, 1, 1, 6, 1, 1, 3, 1, 1, 1, 20, 1, 83, 1, 139, 8, 166, 1, 38, 2, 1, 6,
    41, 71, 27, 4, 4, 45, 43, 21, 10, 4, 2, 1, 99, 1, 1, 15, 2, 7, 15, 2, 1, 16, 1, 1, 30, 29, 89,
    11, 1, 14, 43, 9, 2, 4, 1, 5, 22, 4, 1, 9, 1, 3, 1, 23, 25, 7, 11, 5, 24, 1, 6, 17, 42, 58, 54,
    3, 1, 18, 1, 7, 10, 4, 10, 1, 16, 4, 8, 2, 2, 2, 22, 1, 7, 1, 1, 3, 4, 3, 1, 16, 1, 13, 2, 1, 3,
    4, 12, 2, 6, 2, 1, 8, 6, 4, 2, 2, 22, 1, 7, 1, 2, 1, 2, 1, 2, 31, 4, 1, 1, 7, 10, 2, 3, 16, 9,
    1, 3, 1, 22, 1, 7, 1, 2, 1, 5, 3, 1, 18, 1, 15, 2, 4, 10, 9, 1, 11, 8, 2, 2, 2, 22, 1, 7, 1, 2,
    1, 5, 3, 1, 30, 2, 1, 3, 4, 10, 1, 7, 11, 1, 1, 6, 3, 3, 1, 4, 3, 2, 1, 1, 1, 2, 3, 2, 3, 3, 3,
    12, 22, 1, 21, 13, 18, 8, 1, 3, 1, 23, 1, 16, 3, 1, 26, 3, 2, 1, 2, 2, 4, 10, 8, 7, 1, 1, 4, 8,
    1, 3, 1, 23, 1, 10, 1, 5, 3, 1, 31, 2, 1, 2, 4, 10, 1, 2, 17, 9, 1, 3, 1, 41, 2, 1, 16, 1, 5, 3,
    1, 10, 4, 19, 1, 6, 5, 18, 3, 24, 1, 9, 1, 1, 2, 7, 31, 10, 17, 48, 1, 2, 12, 7, 9, 10, 39, 2,
    1, 1, 1, 5, 1, 24, 1, 1, 1, 10, 1, 2, 9, 1, 2, 5, 1, 1, 9, 10, 2, 4, 32, 1, 31, 20, 12, 8, 1,
    36, 27, 5, 115, 43, 20, 11, 6, 6, 4, 4, 3, 1, 3, 2, 7, 3, 4, 13, 12, 1, 1, 10, 6, 38, 1, 1, 5,
    1, 2, 43, 1, 333, 1, 4, 2, 7, 1, 1, 1, 4, 2, 41, 1, 4, 2, 33, 1, 4, 2, 7, 1, 1, 1, 4, 2, 15, 1,
    57, 1, 4, 2, 67, 14, 20, 3, 16, 16, 86, 2, 6, 3, 620, 2, 17, 1, 26, 5, 75, 3, 11, 7, 18, 13, 19,
    14, 18, 14, 13, 1, 3, 15, 52, 35, 1, 4, 1, 3, 10, 6, 10, 22, 10, 6, 89, 7, 5, 2, 34, 1, 1, 5,
    70, 10, 31, 39, 40, 2, 5, 11, 44, 4, 26, 6, 11, 37, 23, 9, 53, 43, 10, 6, 10, 13, 1, 93, 47, 17,
    8, 3, 10, 41, 30, 13, 56, 26, 36, 28, 10, 3, 49, 2, 9, 7, 43, 2, 3, 41, 4, 1, 6, 1, 2, 3, 1, 5,
    192, 64, 278, 2, 6, 2, 38, 2, 6, 2, 8, 1, 1, 1, 1, 1, 1, 1, 31, 2, 53, 1, 7, 1, 1, 3, 3, 1, 7,
    3, 4, 2, 6, 4, 13, 5, 3, 1, 7, 115, 2, 2, 6, 5, 11, 6, 13, 101, 1, 4, 1, 2, 10, 1, 1, 3, 5, 6,
    1, 1, 1, 1, 1, 1, 4, 1, 11, 2, 4, 5, 5, 4, 1, 1, 58, 726, 60, 78, 22, 630, 30, 1132, 229, 6, 4,
    3, 2, 9, 1, 2, 38, 1, 1, 5, 1, 2, 56, 7, 1, 16, 23, 9, 7, 1, 7, 1, 7, 1, 7, 1, 7, 1, 7, 1, 7, 1,
    7, 80, 1, 469, 3, 25, 9, 7, 5, 2, 5, 4, 86, 6, 3, 1, 90, 1, 4, 5, 43, 1, 94, 3, 4, 10, 32, 48,
    16, 32, 10, 30, 8, 1, 15, 32, 10, 39, 15, 320, 6592, 64, 22157, 67, 46, 2, 269, 3, 28, 20, 47,
    16, 31, 2, 80, 39, 9, 2, 103, 2, 64, 5, 2, 1, 1, 1, 5, 24, 16, 1, 3, 1, 4, 1, 23, 13, 6, 10, 52,
    14, 50, 28, 10, 24, 6, 3, 1, 1, 2, 1, 38, 10, 23, 25, 29, 7, 47, 28, 11, 6, 5, 1, 25, 1, 41, 23,
    3, 1, 8, 4, 10, 6, 23, 3, 1, 3, 50, 1, 1, 3, 2, 2, 5, 2, 1, 1, 1, 24, 3, 2, 11, 7, 3, 12, 6, 2,
    6, 2, 6, 9, 7, 1, 7, 1, 43, 1, 14, 6, 115, 13, 10, 6, 11172, 12, 23, 4, 49, 8452, 366, 2, 106,
    38, 7, 12, 5, 5, 1, 1, 10, 1, 13, 1, 5, 1, 1, 1, 2, 1, 2, 1, 108, 33, 363, 18, 64, 2, 54, 40,
    12, 116, 5, 1, 135, 19, 10, 7, 26, 6, 26, 11, 89, 3, 6, 2, 6, 2, 6, 2, 3, 35, 12, 1, 26, 1, 19,
    1, 2, 1, 15, 2, 14, 34, 123, 12, 45, 12, 57, 17, 2, 244, 29, 3, 49, 16, 27, 4, 36, 9, 30, 5, 38,
    10, 30, 2, 36, 4, 8, 1, 5, 42, 158, 2, 10, 6, 36, 4, 36, 4, 40, 8, 52, 12, 11, 1, 15, 1, 7, 1,
    2, 1, 11, 1, 15, 1, 7, 1, 2, 67, 311, 9, 22, 10, 8, 24, 6, 1, 42, 1, 9, 69, 6, 2, 1, 1, 44, 1,
    2, 3, 1, 2, 23, 2, 31, 2, 38, 8, 9, 48, 19, 1, 2, 5, 33, 4, 26, 70, 56, 4, 20, 2, 47, 15, 4, 1,
    3, 1, 29, 10, 9, 23, 31, 1, 32, 32, 8, 1, 28, 6, 5, 16, 54, 10, 22, 2, 27, 5, 26, 23, 7, 80, 73,
    55, 51, 13, 51, 7, 42, 12, 10, 294, 31, 1, 42, 6, 2, 78, 40, 8, 22, 11, 4, 27, 18, 46, 28, 20,
    23, 12, 53, 26, 30, 1, 2, 2, 1, 13, 45, 32, 25, 7, 10, 9, 36, 15, 10, 4, 1, 2, 1, 8, 35, 3, 1,
    12, 48, 14, 4, 11, 11, 1, 1, 4, 20, 11, 18, 1, 25, 84, 7, 1, 1, 1, 4, 1, 15, 1, 10, 7, 47, 17,
    10, 11, 8, 2, 2, 2, 22, 1, 7, 1, 2, 1, 5, 3, 1, 18, 1, 12, 5, 158, 53, 18, 4, 5, 10, 5, 3, 30,
    48, 20, 2, 1, 1, 8, 10, 166, 47, 41, 4, 36, 48, 20, 1, 11, 10, 38, 43, 13, 1, 7, 10, 54, 27, 21,
    12, 4, 7, 185, 44, 116, 83, 12, 8, 2, 1, 2, 8, 1, 2, 1, 24, 15, 1, 1, 1, 14, 10, 70, 8, 2, 39,
    16, 1, 1, 1, 28, 1, 10, 40, 7, 1, 21, 1, 11, 46, 19, 1, 18, 73, 263, 9, 1, 37, 17, 1, 15, 29, 5,
    30, 112, 7, 1, 2, 1, 38, 21, 1, 9, 10, 6, 6, 1, 2, 1, 32, 14, 1, 7, 10, 310, 19, 189, 1, 15, 21,
    43, 922, 102, 111, 17, 196, 2636, 97, 15, 1071, 4049, 583, 8633, 569, 7, 31, 1, 10, 6, 79, 1,
    10, 6, 30, 18, 48, 16, 4, 12, 10, 1, 7, 1, 21, 5, 19, 688, 87, 105, 75, 5, 1, 66, 13, 64, 2, 1,
    1, 28, 6136, 8, 1238, 42, 9, 8935, 4, 1, 7, 1, 2, 1, 291, 45, 3, 17, 4, 8, 396, 2308, 107, 5,
    13, 3, 9, 7, 10, 5702, 20, 108, 25, 135, 85, 1, 71, 1, 2, 2, 1, 2, 2, 2, 4, 1, 12, 1, 1, 1, 7,
    1, 65, 1, 4, 2, 8, 1, 7, 1, 28, 1, 4, 1, 5, 1, 1, 3, 7, 1, 340, 2, 25, 1, 25, 1, 31, 1, 25, 1,
    31, 1, 25, 1, 31, 1, 25, 1, 31, 1, 25, 1, 8, 2, 50, 1792, 31, 481, 45, 10, 7, 2, 10, 4, 1, 321,
    30, 18, 44, 4, 10, 1254, 7, 1, 4, 1, 2, 1, 15, 1, 197, 2, 9, 48, 68, 7, 1, 4, 10, 791, 59, 1, 3,
    1, 4, 76, 45, 1, 15, 194, 4, 1, 27, 1, 2, 1, 1, 2, 1, 1, 10, 1, 4, 1, 1, 1, 1, 6, 1, 4, 1, 1, 1,
    1, 1, 1, 3, 1, 2, 1, 1, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 1, 1, 2, 4, 1, 7, 1, 4, 1, 4, 1, 1,
    1, 10, 1, 17, 5, 3, 1, 5, 1, 17, 580, 13, 2787, 10, 1030, 42720, 32, 4153, 7, 222, 2, 5762, 14,
    7473, 3103, 542, 1506, 4939,
};
// clang-format on

// One flag per code point, built once.
const std::vector<bool>& word_characters() {
  static const std::vector<bool> flags = [] {
    std::vector<bool> all(0x110000, false);
    std::size_t at = 0;
    for (std::size_t i = 0; i < std::size(kWordRuns); i += 2) {
      at += kWordRuns[i];
      for (std::uint32_t k = 0; k < kWordRuns[i + 1]; ++k) all[at++] = true;
    }
    return all;
  }();
  return flags;
}

// What Python's str.split() splits at.
bool separates_tokens(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 ||
         c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
         c == 0x205F || c == 0x3000;
}

bool is_ascii_punctuation(char32_t c) {
  return (c >= 33 && c <= 47) || (c >= 58 && c <= 64) || (c >= 91 && c <= 96) ||
         (c >= 123 && c <= 126);
}

// A capital sigma at `at` ends a word: a cased letter before it and none after it, whatever is
// case-ignorable between them aside (Unicode's Final_Sigma).
bool ends_word(const std::u32string& text, std::size_t at) {
  const unicode::Characters& characters = unicode::Characters::instance();
  std::size_t before = at;
  while (before > 0 && characters.case_ignorable(text[before - 1])) --before;
  if (before == 0 || !characters.cased(text[before - 1])) return false;
  std::size_t after = at + 1;
  while (after < text.size() && characters.case_ignorable(text[after])) ++after;
  return after == text.size() || !characters.cased(text[after]);
}

std::u32string lowered(std::string_view text) {
  std::u32string given;
  for (std::size_t i = 0; i < text.size();) {
    const unicode::Decoded next = unicode::decode(text.substr(i));
    given.push_back(next.code_point);
    i += next.length;
  }
  std::u32string lower;
  for (std::size_t i = 0; i < given.size(); ++i) {
    if (given[i] == unicode::kCapitalSigma) {
      lower.push_back(ends_word(given, i) ? unicode::kFinalSigma : unicode::kSmallSigma);
    } else {
      unicode::Characters::instance().append_lower(given[i], lower);
    }
  }
  return lower;
}

std::vector<std::string> answer_tokens(std::string_view text) {
  std::u32string lower = lowered(text);
  lower.erase(std::remove_if(lower.begin(), lower.end(), is_ascii_punctuation), lower.end());
  const std::vector<bool>& is_word = word_characters();
  std::vector<std::string> tokens;
  bool in_token = false;
  for (std::size_t i = 0; i < lower.size();) {
    // A run of word characters has its boundaries at its ends and nowhere else.
    std::size_t end = i;
    while (end < lower.size() && is_word[lower[end]]) ++end;
    const std::u32string_view run(lower.data() + i, std::max(end - i, std::size_t{1}));
    const bool article = run == U"a" || run == U"an" || run == U"the";
    if (article || (end == i && separates_tokens(lower[i]))) {
      in_token = false;
    } else {
      if (!in_token) tokens.emplace_back();
      in_token = true;
      for (const char32_t c : run) unicode::append_utf8(c, tokens.back());
    }
    i += run.size();
  }
  return tokens;
}

double f1_of(const std::vector<std::string>& predicted, const std::vector<std::string>& gold,
             AnswerRules rules) {
  if (predicted.empty() || gold.empty()) {
    return rules == AnswerRules::Squad20 && predicted.empty() == gold.empty() ? 1 : 0;
  }
  std::map<std::string_view, std::int64_t> left;
  for (const std::string& token : gold) ++left[token];
  std::int64_t common = 0;
  for (const std::string& token : predicted) {
    const auto it = left.find(token);
    if (it != left.end() && it->second-- > 0) ++common;
  }
  if (common == 0) return 0;
  const double precision = static_cast<double>(common) / static_cast<double>(predicted.size());
  const double recall = static_cast<double>(common) / static_cast<double>(gold.size());
  return 2 * precision * recall / (precision + recall);
}

std::unordered_map<std::string_view, std::size_t> index_of_ids(const QuestionSet& questions) {
  std::unordered_map<std::string_view, std::size_t> index;
  for (std::size_t i = 0; i < questions.questions.size(); ++i) {
    const std::string& id = questions.questions[i].id;
    if (!index.emplace(id, i).second) {
      throw base::Error(base::Code::User, "two questions have the id '" + base::printable(id) +
                                              "', so that a prediction is of neither; give each "
                                              "question its own");
    }
  }
  return index;
}

// One object, ids to values of one kind, in the order of the file and without a tree: a tree that
// keeps the order looks through all keys for each new one. Every event is told to sax_parse().
class ValueReader : public nlohmann::json_sax<nlohmann::json> {
 public:
  enum class Kind { Text, Number };
  ValueReader(Kind kind, std::string source, std::string_view text, const QuestionSet& questions)
      : kind_(kind),
        source_(std::move(source)),
        text_(text),
        index_(index_of_ids(questions)),
        predictions_(questions.questions.size()),
        seen_(questions.questions.size(), false) {}

  bool null() override { return other("null"); }
  bool boolean(bool) override { return other("true or false"); }
  bool number_integer(number_integer_t value) override {
    return number(static_cast<double>(value));
  }
  bool number_unsigned(number_unsigned_t value) override {
    return number(static_cast<double>(value));
  }
  bool number_float(number_float_t value, const string_t&) override { return number(value); }
  bool string(string_t& value) override {
    if (!open_ || kind_ != Kind::Text) return other("text");
    if (question_) predictions_[*question_] = std::move(value);
    return true;
  }
  bool binary(binary_t&) override { return other("bytes"); }
  bool start_object(std::size_t) override {
    if (open_) return other("an object");
    open_ = true;
    return true;
  }
  bool end_object() override { return true; }
  bool start_array(std::size_t) override { return other("a list"); }
  bool end_array() override { return true; }
  bool key(string_t& id) override {
    id_ = id;
    const auto it = index_.find(id);
    question_ = it == index_.end() ? std::nullopt : std::optional(it->second);
    if (!question_) {
      if (unknown_++ == 0) first_unknown_ = id;
    } else if (seen_[*question_]) {
      fail("the id '" + base::printable(id) + "' is there twice; keep one of them");
    } else {
      seen_[*question_] = true;
    }
    return true;
  }
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::json::exception& error) override {
    constexpr int kTooLarge = 406;  // nlohmann's number for a number that is not finite
    const std::string_view rest = text_.substr(std::min(position - (position > 0), text_.size()));
    if (error.id == kTooLarge || rest.starts_with("NaN") || rest.starts_with("Infinity")) {
      fail("the value of '" + base::printable(id_) + "' is not a finite number; write it again");
    }
    fail("not JSON from byte " + std::to_string(position) + " on; write it again");
  }
  void read() {
    // The parser takes a NUL byte for the end of its input.
    if (text_.find('\0') != std::string_view::npos) fail("has a NUL byte; write it again");
    nlohmann::json::sax_parse(text_, this);
    if (unknown_ == 0) return;
    fail("no question has " + std::to_string(unknown_) + " of its ids ('" +
         base::printable(first_unknown_) +
         "' is the first); pass the file that was made for these questions");
  }
  [[nodiscard]] Predictions& predictions() { return predictions_; }
  [[nodiscard]] NullScores& null_scores() { return null_scores_; }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw base::Error(base::Code::User, source_ + ": " + what);
  }
  bool other(const std::string& found) const {
    const std::string wanted = kind_ == Kind::Text ? "text" : "a number";
    if (!open_) fail("is " + found + ", not an object of ids and " + wanted);
    fail("the value of '" + base::printable(id_) + "' is " + found + ", not " + wanted);
  }
  bool number(double value) {
    if (!open_ || kind_ != Kind::Number) return other("a number");
    if (question_) null_scores_.push_back({*question_, value});
    return true;
  }

  Kind kind_;
  std::string source_;
  std::string_view text_;
  std::unordered_map<std::string_view, std::size_t> index_;

  Predictions predictions_;
  NullScores null_scores_;
  std::vector<bool> seen_;
  bool open_ = false;
  std::string id_;
  std::optional<std::size_t> question_;
  std::int64_t unknown_ = 0;
  std::string first_unknown_;
};

constexpr std::uint64_t kMostScoredBytes = std::uint64_t{1}
                                           << 30U;  // a file of predictions or scores

struct QuestionScore {
  bool missing = true;
  bool has_answer = false;
  bool says_nothing = false;  // the prediction is empty as it stands
  double exact = 0;
  double f1 = 0;
};

std::vector<std::string_view> gold_answers(const Question& question, AnswerRules rules) {
  std::vector<std::string_view> gold;
  for (const GoldAnswer& answer : question.answers) {
    if (rules == AnswerRules::Squad11 || !answer_tokens(answer.text).empty()) {
      gold.emplace_back(answer.text);
    }
  }
  if (rules == AnswerRules::Squad20 && gold.empty()) gold.emplace_back("");
  if (gold.empty()) {
    throw base::Error(base::Code::User, "question '" + base::printable(question.id) +
                                            "' has no answers to compare with; score a file that "
                                            "has them");
  }
  return gold;
}

QuestionScore score_of(const Question& question, const std::optional<std::string>& prediction,
                       AnswerRules rules) {
  QuestionScore score;
  score.has_answer = !question.answers.empty();
  const std::vector<std::string_view> gold = gold_answers(question, rules);
  if (!prediction) return score;
  score.missing = false;
  score.says_nothing = prediction->empty();
  const std::vector<std::string> predicted = answer_tokens(*prediction);
  for (const std::string_view answer : gold) {
    const std::vector<std::string> tokens = answer_tokens(answer);
    if (predicted == tokens) score.exact = 1;
    score.f1 = std::max(score.f1, f1_of(predicted, tokens, rules));
  }
  return score;
}

// The best sum of what `member` is, as a percentage, and the threshold where it is reached.
std::pair<double, double> best_threshold(const std::vector<QuestionScore>& scores,
                                         const NullScores& in_order,
                                         double QuestionScore::*member) {
  double sum = 0;
  for (const QuestionScore& score : scores) sum += score.missing || score.has_answer ? 0 : 1;
  double best = sum;
  double threshold = 0;
  for (const NullScore& next : in_order) {
    const QuestionScore& score = scores[next.question];
    if (score.missing) continue;
    sum += score.has_answer ? score.*member : score.says_nothing ? 0 : -1;
    if (sum > best) {
      best = sum;
      threshold = next.value;
    }
  }
  return {scores.empty() ? 0 : 100 * best / static_cast<double>(scores.size()), threshold};
}

void check_null_scores(const QuestionSet& questions, const std::vector<QuestionScore>& scores,
                       const NullScores& null_scores) {
  std::vector<bool> has(scores.size(), false);
  for (const NullScore& one : null_scores) {
    base::check(one.question < has.size() && !has[one.question] && std::isfinite(one.value),
                "null scores are finite, and at most one for each question");
    has[one.question] = true;
  }
  std::int64_t without = 0;
  std::string first;
  for (std::size_t i = 0; i < scores.size(); ++i) {
    if (has[i] || scores[i].missing) continue;
    if (without++ == 0) first = questions.questions[i].id;
  }
  if (without == 0) return;
  throw base::Error(base::Code::User,
                    std::to_string(without) + " predicted questions have no null score ('" +
                        base::printable(first) +
                        "' is the first); pass the scores that were written with the predictions");
}

struct Sum {
  double exact = 0;
  double f1 = 0;
  std::int64_t total = 0;

  [[nodiscard]] double percent(double Sum::*member) const {
    return total == 0 ? 0 : 100 * (this->*member) / static_cast<double>(total);
  }
};

}  // namespace

AnswerRules answer_rules_of(const QuestionSet& questions) {
  const std::string_view version = questions.version;
  const bool second = version.starts_with("2") || version.starts_with("v2") ||
                      std::any_of(questions.questions.begin(), questions.questions.end(),
                                  [](const Question& one) { return one.impossible; });
  return second ? AnswerRules::Squad20 : AnswerRules::Squad11;
}

std::string normalised_answer(std::string_view text) {
  return base::join(answer_tokens(text), " ");
}

bool exact_match(std::string_view prediction, std::string_view gold) {
  return answer_tokens(prediction) == answer_tokens(gold);
}

double answer_f1(std::string_view prediction, std::string_view gold, AnswerRules rules) {
  return f1_of(answer_tokens(prediction), answer_tokens(gold), rules);
}

Predictions read_predictions(base::FileSystem& files, const base::Path& path,
                             const QuestionSet& questions) {
  const std::string text = files.read(path, kMostScoredBytes);
  ValueReader reader(ValueReader::Kind::Text, path.string(), text, questions);
  reader.read();
  return std::move(reader.predictions());
}

NullScores read_null_scores(base::FileSystem& files, const base::Path& path,
                            const QuestionSet& questions) {
  const std::string text = files.read(path, kMostScoredBytes);
  ValueReader reader(ValueReader::Kind::Number, path.string(), text, questions);
  reader.read();
  return std::move(reader.null_scores());
}

AnswerScore score_answers(const QuestionSet& questions, const Predictions& predictions,
                          const AnswerScoring& scoring) {
  base::check(predictions.size() == questions.questions.size(),
              "there is a prediction, or none, for each question");
  (void)index_of_ids(questions);  // throws where two are the same
  std::vector<QuestionScore> scores;
  for (std::size_t i = 0; i < predictions.size(); ++i) {
    scores.push_back(score_of(questions.questions[i], predictions[i], scoring.rules));
  }
  AnswerScore result;
  std::vector<bool> no_answer(scores.size(), false);  // by its null score
  if (scoring.null_scores != nullptr) {
    check_null_scores(questions, scores, *scoring.null_scores);
    const double threshold = scoring.threshold.value_or(1);
    for (const NullScore& one : *scoring.null_scores) {
      no_answer[one.question] = one.value > threshold;
    }
    NullScores in_order = *scoring.null_scores;
    std::stable_sort(in_order.begin(), in_order.end(),
                     [](const NullScore& a, const NullScore& b) { return a.value < b.value; });
    BestThresholds& best = result.best.emplace();
    std::tie(best.exact, best.exact_threshold) =
        best_threshold(scores, in_order, &QuestionScore::exact);
    std::tie(best.f1, best.f1_threshold) = best_threshold(scores, in_order, &QuestionScore::f1);
  }
  Sum all;
  Sum with;
  Sum without;
  for (std::size_t i = 0; i < scores.size(); ++i) {
    QuestionScore& score = scores[i];
    result.missing_predictions += score.missing ? 1 : 0;
    if (no_answer[i] && !score.missing) score.exact = score.f1 = score.has_answer ? 0 : 1;
    for (Sum* sum : {&all, score.has_answer ? &with : &without}) {
      sum->exact += score.exact;
      sum->f1 += score.f1;
      ++sum->total;
    }
  }
  const auto fill = [](const Sum& sum, double& exact, double& f1, std::int64_t& total) {
    exact = sum.percent(&Sum::exact);
    f1 = sum.percent(&Sum::f1);
    total = sum.total;
  };
  fill(all, result.exact, result.f1, result.total);
  fill(with, result.has_answer_exact, result.has_answer_f1, result.has_answer_total);
  fill(without, result.no_answer_exact, result.no_answer_f1, result.no_answer_total);
  return result;
}

}  // namespace regatta::trainer::tasks
