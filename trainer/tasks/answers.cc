#include "trainer/tasks/answers.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "base/portable_math.h"
#include "base/text.h"
#include "trainer/data/basic_tokenizer.h"
#include "trainer/data/unicode.h"

namespace regatta::trainer::tasks {
namespace {

// A piece that goes on with the word before it begins so.
constexpr std::string_view kContinuation = "##";
constexpr int kIndent = 4;  // of run_squad's files

struct Candidate {
  const AnswerWindow* window = nullptr;  // none: no answer
  std::size_t begin = 0;                 // index into the window's pieces
  std::size_t end = 0;                   // the last one
  double start_logit = 0;
  double end_logit = 0;

  [[nodiscard]] double sum() const { return start_logit + end_logit; }
};

void check_window(const AnswerInput& input, std::size_t index) {
  const AnswerWindow& window = input.windows[index];
  base::check(window.start_logits.size() == window.end_logits.size() && window.first_piece > 0 &&
                  window.first_piece + window.pieces.size() <= window.start_logits.size(),
              "a window has two logits for each token, and [CLS] before its pieces");
  for (const std::span<const float> logits : {window.start_logits, window.end_logits}) {
    const auto bad = std::find_if(logits.begin(), logits.end(),
                                  [](float logit) { return !std::isfinite(logit); });
    if (bad == logits.end()) continue;
    throw base::Error(base::Code::User,
                      "question '" + base::printable(input.id) + "': a logit of token " +
                          std::to_string(bad - logits.begin()) + " of window " +
                          std::to_string(index) +
                          " is not a finite number; evaluate a checkpoint from before training "
                          "diverged");
  }
}

// The tokens of the greatest logits, of equal ones the earlier first.
std::vector<std::size_t> best_tokens(std::span<const float> logits, std::size_t best) {
  std::vector<std::size_t> tokens(logits.size());
  std::iota(tokens.begin(), tokens.end(), std::size_t{0});
  const auto kept = tokens.begin() + static_cast<std::ptrdiff_t>(std::min(best, tokens.size()));
  std::partial_sort(tokens.begin(), kept, tokens.end(), [logits](std::size_t a, std::size_t b) {
    return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
  });
  tokens.erase(kept, tokens.end());
  return tokens;
}

void add_spans(const AnswerWindow& window, const AnswerOptions& options,
               std::vector<Candidate>& spans) {
  const std::vector<std::size_t> ends = best_tokens(window.end_logits, options.best);
  const std::size_t first = window.first_piece;
  const std::size_t after = first + window.pieces.size();
  for (const std::size_t start : best_tokens(window.start_logits, options.best)) {
    if (start < first || start >= after || !window.pieces[start - first].max_context) continue;
    for (const std::size_t end : ends) {
      if (end < start || end >= after || end - start >= options.most_pieces) continue;
      spans.push_back({&window, start - first, end - first, window.start_logits[start],
                       window.end_logits[end]});
    }
  }
}

Candidate null_candidate(std::span<const AnswerWindow> windows) {
  std::optional<Candidate> least;
  for (const AnswerWindow& window : windows) {
    const Candidate span{nullptr, 0, 0, window.start_logits[0], window.end_logits[0]};
    if (!least || span.sum() < least->sum()) least = span;
  }
  return least.value_or(Candidate{});
}

std::string text_of_pieces(std::span<const ContextPiece> pieces) {
  std::string text;
  for (const ContextPiece& piece : pieces) {
    if (piece.text.starts_with(kContinuation)) {
      text += piece.text.substr(kContinuation.size());
    } else {
      if (!text.empty()) text += ' ';
      text += piece.text;
    }
  }
  return text;
}

// The words of a span, joined by single spaces, and where they stand.
class SpanWords {
 public:
  SpanWords(std::string_view context, std::span<const ByteRange> words) : words_(words) {
    for (const ByteRange& word : words) {
      if (!text_.empty()) text_ += ' ';
      const std::size_t begin = text_.size();
      text_ += context.substr(word.begin, word.end - word.begin);
      for (std::size_t i = begin; i < text_.size();) {
        const std::size_t length = data::unicode::decode(std::string_view(text_).substr(i)).length;
        if (text_[i] != ' ') {
          const std::size_t at = word.begin + (i - begin);
          characters_.push_back({{i, i + length}, {at, at + length}});
        }
        i += length;
      }
    }
  }

  // Without a range if there is no text.
  [[nodiscard]] std::pair<std::string, std::optional<ByteRange>> all() const {
    if (characters_.empty()) return {"", std::nullopt};
    return {text_, ByteRange{words_.front().begin, words_.back().end}};
  }
  // The characters of the words that `pieces` is made of.
  [[nodiscard]] std::pair<std::string, std::optional<ByteRange>> projected(
      const std::string& pieces, data::BasicTokenizer& tokenizer) const {
    std::string normalised;
    for (const data::BasicTokenizer::Word& word : tokenizer.split(text_)) {
      if (!normalised.empty()) normalised += ' ';
      normalised += word.text;
    }
    const std::size_t found = normalised.find(pieces);
    if (pieces.empty() || found == std::string::npos ||
        characters_in(normalised) != characters_.size()) {
      return all();
    }
    const std::size_t first = characters_in(std::string_view(normalised).substr(0, found));
    const Character& begin = characters_[first];
    const Character& end = characters_[first + characters_in(pieces) - 1];
    return {text_.substr(begin.in_text.begin, end.in_text.end - begin.in_text.begin),
            ByteRange{begin.in_context.begin, end.in_context.end}};
  }

 private:
  struct Character {
    ByteRange in_text;
    ByteRange in_context;
  };
  // Code points other than spaces, of UTF-8.
  [[nodiscard]] static std::size_t characters_in(std::string_view text) {
    return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char byte) {
      return byte != ' ' && (static_cast<unsigned char>(byte) & 0xC0U) != 0x80;
    }));
  }

  std::span<const ByteRange> words_;
  std::string text_;
  std::vector<Character> characters_;  // other than spaces
};

Answer answer_of(const Candidate& span, const AnswerInput& input, data::BasicTokenizer& tokenizer) {
  Answer answer;
  answer.start_logit = span.start_logit;
  answer.end_logit = span.end_logit;
  if (span.window == nullptr) return answer;
  const auto pieces = span.window->pieces.subspan(span.begin, span.end - span.begin + 1);
  const std::size_t first = pieces.front().word;
  const std::size_t last = pieces.back().word;
  base::check(first <= last && last < input.words.size(), "pieces are of the context's words");
  const SpanWords words(input.context, input.words.subspan(first, last - first + 1));
  std::tie(answer.text, answer.range) = words.projected(text_of_pieces(pieces), tokenizer);
  return answer;
}

void set_probabilities(std::vector<Answer>& answers) {
  double greatest = -HUGE_VAL;
  for (const Answer& one : answers) greatest = std::max(greatest, one.start_logit + one.end_logit);
  double sum = 0;
  for (Answer& one : answers) {
    one.probability = base::portable_exp(one.start_logit + one.end_logit - greatest);
    sum += one.probability;
  }
  for (Answer& one : answers) one.probability /= sum;
}

using AnswerJson = nlohmann::ordered_json;

// Appended without the tree's search for the same key, which looks at all before it.
void append_member(AnswerJson& object, const std::string& key, AnswerJson value) {
  object.get_ref<AnswerJson::object_t&>().emplace_back(key, std::move(value));
}

}  // namespace

QuestionAnswers best_answers(const AnswerInput& input, const AnswerOptions& options) {
  base::check(options.best > 0, "at least one answer is asked for");
  std::vector<Candidate> spans;
  for (std::size_t i = 0; i < input.windows.size(); ++i) {
    check_window(input, i);
    add_spans(input.windows[i], options, spans);
  }
  const Candidate null = null_candidate(input.windows);
  if (options.may_be_null) spans.push_back(null);
  std::stable_sort(spans.begin(), spans.end(),
                   [](const Candidate& a, const Candidate& b) { return a.sum() > b.sum(); });

  QuestionAnswers result;
  result.id = input.id;
  data::BasicTokenizer tokenizer(options.lower_case);
  const auto seen = [&result](const std::string& text) {
    return std::any_of(result.answers.begin(), result.answers.end(),
                       [&text](const Answer& one) { return one.text == text; });
  };
  for (const Candidate& span : spans) {
    if (result.answers.size() == options.best) break;
    Answer answer = answer_of(span, input, tokenizer);
    if (!seen(answer.text)) result.answers.push_back(std::move(answer));
  }
  if (options.may_be_null ? !seen("") : result.answers.empty()) {
    result.answers.push_back(options.may_be_null ? answer_of(null, input, tokenizer) : Answer{});
  }
  set_probabilities(result.answers);

  const auto best = std::find_if(result.answers.begin(), result.answers.end(),
                                 [](const Answer& one) { return !one.text.empty(); });
  const bool found = best != result.answers.end();
  if (options.may_be_null) {
    result.null_score = null.sum();
    result.null_odds = result.null_score - (found ? best->start_logit + best->end_logit : 0);
  }
  const bool says_null = options.may_be_null && result.null_odds > options.null_threshold;
  if (found && !says_null) result.prediction = best->text;
  return result;
}

void write_predictions(base::FileSystem& files, const base::Path& path,
                       std::span<const QuestionAnswers> questions) {
  AnswerJson json = AnswerJson::object();
  for (const QuestionAnswers& one : questions) append_member(json, one.id, one.prediction);
  base::replace_file(files, path, base::json_text(json, kIndent) + "\n");
}

void write_best_answers(base::FileSystem& files, const base::Path& path,
                        std::span<const QuestionAnswers> questions) {
  AnswerJson json = AnswerJson::object();
  for (const QuestionAnswers& one : questions) {
    AnswerJson list = AnswerJson::array();
    for (const Answer& answer : one.answers) {
      list.push_back(AnswerJson{{"text", answer.text},
                                {"probability", answer.probability},
                                {"start_logit", answer.start_logit},
                                {"end_logit", answer.end_logit}});
    }
    append_member(json, one.id, std::move(list));
  }
  base::replace_file(files, path, base::json_text(json, kIndent) + "\n");
}

void write_null_odds(base::FileSystem& files, const base::Path& path,
                     std::span<const QuestionAnswers> questions) {
  AnswerJson json = AnswerJson::object();
  for (const QuestionAnswers& one : questions) append_member(json, one.id, one.null_odds);
  base::replace_file(files, path, base::json_text(json, kIndent) + "\n");
}

}  // namespace regatta::trainer::tasks
