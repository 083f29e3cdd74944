#include "trainer/tasks/question_windows.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <iterator>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/thread_pool.h"
#include "trainer/data/tokenizer.h"
#include "trainer/data/unicode.h"

namespace regatta::trainer::tasks {
namespace {

using data::TokenId;

constexpr int kWindowSpecialTokens = 3;  // [CLS] and two [SEP]

void check_window_options(const WindowOptions& options) {
  constexpr int kMostSequence = 1 << 16;
  constexpr int kMostThreads = 1024;
  const auto fail = [](const std::string& message) {
    throw base::Error(base::Code::User, message);
  };
  if (options.max_sequence > kMostSequence) {
    fail("max_sequence is " + std::to_string(options.max_sequence) + "; use at most " +
         std::to_string(kMostSequence));
  }
  if (options.max_query < 1) {
    fail("max_query is " + std::to_string(options.max_query) + "; use at least 1 (64 is usual)");
  }
  if (options.doc_stride < 1) {
    fail("doc_stride is " + std::to_string(options.doc_stride) + "; use at least 1 (128 is usual)");
  }
  // No sum: max_query may be the largest int.
  if (options.max_query >= options.max_sequence - kWindowSpecialTokens) {
    fail("max_sequence " + std::to_string(options.max_sequence) +
         " leaves no room for text beside max_query " + std::to_string(options.max_query) +
         " and 3 special tokens; raise it (384 is usual), or lower max_query");
  }
  if (options.threads < 0 || options.threads > kMostThreads) {
    fail("cannot use " + std::to_string(options.threads) + " threads; choose 1 to " +
         std::to_string(kMostThreads) + ", or 0 for all cores");
  }
}

class WindowMaker {
 public:
  WindowMaker(const QuestionSet& set, const data::Vocabulary& vocabulary,
              const data::WordPiece& pieces, const WindowOptions& options);
  [[nodiscard]] QuestionWindows run();

 private:
  // Both ends are included.
  struct Span {
    std::size_t first = 0;
    std::size_t last = 0;
  };

  // Of one context or question, for one thread.
  using Task = std::function<void(data::Tokenizer& tokenizer, std::size_t index)>;
  void for_each_index(std::size_t count, const Task& task);

  // Bytes of the separator of words that `text` begins with; 0: it begins with none.
  [[nodiscard]] static std::size_t separator_bytes(std::string_view text);
  [[nodiscard]] static std::vector<ContextWords::Word> split_words(std::string_view text);
  // What Python's str.split() takes for white space, which Google's code normalises answers with.
  [[nodiscard]] static bool is_python_space(char32_t c);
  // The words of an answer with one space between them.
  [[nodiscard]] static std::string normalised_answer(std::string_view text);

  void cut_context(data::Tokenizer& tokenizer, std::size_t index);
  void cut_question(data::Tokenizer& tokenizer, std::size_t index);
  // The words that an answer touches, if its text is in them.
  [[nodiscard]] std::optional<Span> answer_words(const Question& question,
                                                 const GoldAnswer& answer) const;
  // The pieces of an answer; nothing if it is not in the words, or no piece is left of it.
  [[nodiscard]] std::optional<Span> answer_pieces(data::Tokenizer& tokenizer,
                                                  const Question& question) const;
  // Where windows of at most `most` pieces begin and end.
  [[nodiscard]] std::vector<Span> cut(std::size_t pieces, std::size_t most) const;
  [[nodiscard]] static std::vector<std::uint32_t> windows_of_most_context(
      std::size_t pieces, const std::vector<Span>& spans);
  [[nodiscard]] QuestionWindow window(const Question& question, const std::vector<TokenId>& query,
                                      const Span& span) const;

  const QuestionSet& set_;
  const data::SpecialTokens special_;
  const WindowOptions& options_;
  base::ThreadPool pool_;
  std::vector<data::Tokenizer> tokenizers_;           // one a thread
  std::vector<std::vector<TokenId>> ids_;             // the pieces of each context
  std::vector<std::vector<QuestionWindow>> windows_;  // of each question
  std::vector<std::uint8_t> is_left_out_;             // each question, for threads to write apart
  QuestionWindows result_;
};

WindowMaker::WindowMaker(const QuestionSet& set, const data::Vocabulary& vocabulary,
                         const data::WordPiece& pieces, const WindowOptions& options)
    : set_(set),
      special_(vocabulary.special()),
      options_(options),
      pool_(options.threads > 0 ? options.threads : base::usable_cores()),
      ids_(set.contexts.size()),
      windows_(set.questions.size()),
      is_left_out_(set.questions.size()) {
  tokenizers_.reserve(static_cast<std::size_t>(pool_.threads()));
  for (int i = 0; i < pool_.threads(); ++i) tokenizers_.emplace_back(pieces);
  result_.contexts.resize(set.contexts.size());
}

QuestionWindows WindowMaker::run() {
  for_each_index(set_.contexts.size(), [this](data::Tokenizer& tokenizer, std::size_t index) {
    cut_context(tokenizer, index);
  });
  for_each_index(set_.questions.size(), [this](data::Tokenizer& tokenizer, std::size_t index) {
    cut_question(tokenizer, index);
  });
  std::size_t count = 0;
  for (const auto& windows : windows_) count += windows.size();
  result_.windows.reserve(count);
  for (std::size_t i = 0; i < windows_.size(); ++i) {
    std::move(windows_[i].begin(), windows_[i].end(), std::back_inserter(result_.windows));
    if (is_left_out_[i] != 0) result_.left_out.push_back(i);
  }
  return std::move(result_);
}

// Threads draw a few indices at a time, so that none waits for one with a long text.
void WindowMaker::for_each_index(std::size_t count, const Task& task) {
  constexpr std::size_t kDrawn = 32;
  std::atomic<std::size_t> next{0};
  const auto work = [&](std::int64_t worker, std::int64_t) {
    data::Tokenizer& tokenizer = tokenizers_[static_cast<std::size_t>(worker)];
    for (std::size_t i = next.fetch_add(kDrawn); i < count; i = next.fetch_add(kDrawn)) {
      const std::size_t end = std::min(count, i + kDrawn);
      for (std::size_t index = i; index < end; ++index) task(tokenizer, index);
    }
  };
  pool_.parallel_for(pool_.threads(), 1, work);
}

std::size_t WindowMaker::separator_bytes(std::string_view text) {
  constexpr std::string_view kNarrowNoBreakSpace = "\u202F";
  if (data::byte_class(text[0]) == data::kSpaceByte) return 1;
  return text.starts_with(kNarrowNoBreakSpace) ? kNarrowNoBreakSpace.size() : 0;
}

std::vector<ContextWords::Word> WindowMaker::split_words(std::string_view text) {
  base::check(text.size() <= std::numeric_limits<std::uint32_t>::max(), "a context is below 4 GiB");
  std::vector<ContextWords::Word> words;
  bool in_word = false;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t separator = separator_bytes(text.substr(i));
    if (separator == 0 && !in_word) words.push_back({static_cast<std::uint32_t>(i), 0});
    in_word = separator == 0;
    i += in_word ? 1 : separator;
    if (in_word) words.back().end = static_cast<std::uint32_t>(i);
  }
  return words;
}

bool WindowMaker::is_python_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 ||
         c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
         c == 0x205F || c == 0x3000;
}

std::string WindowMaker::normalised_answer(std::string_view text) {
  std::string words;
  bool in_word = false;
  while (!text.empty()) {
    const data::unicode::Decoded next = data::unicode::decode(text);
    const bool is_space = is_python_space(next.code_point);
    if (!is_space && !in_word && !words.empty()) words += ' ';
    if (!is_space) words += text.substr(0, next.length);
    in_word = !is_space;
    text.remove_prefix(next.length);
  }
  return words;
}

void WindowMaker::cut_context(data::Tokenizer& tokenizer, std::size_t index) {
  const std::string_view text = set_.contexts[index];
  ContextWords& context = result_.contexts[index];
  std::vector<TokenId>& ids = ids_[index];
  context.words = split_words(text);
  ids.reserve(2 * context.words.size());
  context.word_of_piece.reserve(2 * context.words.size());
  for (std::size_t i = 0; i < context.words.size(); ++i) {
    const ContextWords::Word& word = context.words[i];
    tokenizer.tokenize(text.substr(word.begin, word.end - word.begin), ids);
    context.word_of_piece.resize(ids.size(), static_cast<std::uint32_t>(i));
  }
}

void WindowMaker::cut_question(data::Tokenizer& tokenizer, std::size_t index) {
  const Question& question = set_.questions[index];
  base::check(question.context < set_.contexts.size(), "a question has a context");
  std::optional<Span> answer;
  if (options_.use == QuestionUse::Training && !question.impossible && !question.answers.empty()) {
    answer = answer_pieces(tokenizer, question);
    if (!answer) {
      is_left_out_[index] = 1;
      return;
    }
  }
  std::vector<TokenId> query;
  tokenizer.tokenize(question.text, query);
  query.resize(std::min(query.size(), static_cast<std::size_t>(options_.max_query)));

  const std::size_t pieces = ids_[question.context].size();
  const std::vector<Span> spans =
      cut(pieces,
          static_cast<std::size_t>(options_.max_sequence - kWindowSpecialTokens) - query.size());
  const std::vector<std::uint32_t> best = windows_of_most_context(pieces, spans);
  std::vector<QuestionWindow>& windows = windows_[index];
  windows.reserve(spans.size());
  for (std::size_t i = 0; i < spans.size(); ++i) {
    const Span& span = spans[i];
    QuestionWindow& made = windows.emplace_back(window(question, query, span));
    made.question = index;
    for (std::size_t piece = span.first; spans.size() > 1 && piece <= span.last; ++piece) {
      made.max_context[piece - span.first] = best[piece] == i;
    }
    if (!answer || answer->first < span.first || answer->last > span.last) continue;
    made.start = static_cast<std::uint32_t>(made.context_begin + answer->first - span.first);
    made.end = static_cast<std::uint32_t>(made.context_begin + answer->last - span.first);
  }
}

// White space belongs to the word before it, as in Google's code.
std::optional<WindowMaker::Span> WindowMaker::answer_words(const Question& question,
                                                           const GoldAnswer& answer) const {
  const std::string_view text = set_.contexts[question.context];
  const std::vector<ContextWords::Word>& words = result_.contexts[question.context].words;
  const std::string wanted = normalised_answer(answer.text);
  if (wanted.empty() || words.empty() || answer.begin > text.size() ||
      answer.text.size() > text.size() - answer.begin) {
    return std::nullopt;
  }
  const auto word_at = [&](std::size_t byte) {
    const auto behind =
        std::upper_bound(words.begin(), words.end(), byte,
                         [](std::size_t at, const auto& word) { return at < word.begin; });
    const auto count = static_cast<std::size_t>(behind - words.begin());
    return count == 0 ? 0 : count - 1;
  };
  const Span span{word_at(answer.begin), word_at(answer.begin + answer.text.size() - 1)};
  std::string actual;
  for (std::size_t i = span.first; i <= span.last; ++i) {
    if (i > span.first) actual += ' ';
    actual += text.substr(words[i].begin, words[i].end - words[i].begin);
  }
  if (actual.find(wanted) == std::string::npos) return std::nullopt;
  return span;
}

std::optional<WindowMaker::Span> WindowMaker::answer_pieces(data::Tokenizer& tokenizer,
                                                            const Question& question) const {
  const GoldAnswer& answer = question.answers.front();
  const std::optional<Span> words = answer_words(question, answer);
  if (!words) return std::nullopt;
  const std::vector<std::uint32_t>& word_of_piece =
      result_.contexts[question.context].word_of_piece;
  const auto first = std::lower_bound(word_of_piece.begin(), word_of_piece.end(), words->first);
  const auto behind = std::upper_bound(first, word_of_piece.end(), words->last);
  if (first == behind) return std::nullopt;
  Span span{static_cast<std::size_t>(first - word_of_piece.begin()),
            static_cast<std::size_t>(behind - word_of_piece.begin()) - 1};
  // The first place, if any, at which exactly the pieces of the answer are.
  std::vector<TokenId> wanted;
  tokenizer.tokenize(answer.text, wanted);
  if (wanted.empty()) return span;
  const auto begin = ids_[question.context].begin();
  const auto end = begin + static_cast<std::ptrdiff_t>(span.last) + 1;
  const auto found = std::search(begin + static_cast<std::ptrdiff_t>(span.first), end,
                                 wanted.begin(), wanted.end());
  if (found != end) {
    span.first = static_cast<std::size_t>(found - begin);
    span.last = span.first + wanted.size() - 1;
  }
  return span;
}

std::vector<WindowMaker::Span> WindowMaker::cut(std::size_t pieces, std::size_t most) const {
  std::vector<Span> spans;
  for (std::size_t first = 0; first < pieces;) {
    const std::size_t length = std::min(most, pieces - first);
    spans.push_back({first, first + length - 1});
    if (first + length == pieces) break;
    first += std::min(length, static_cast<std::size_t>(options_.doc_stride));
  }
  return spans;
}

// For each piece the window in which it has the most text on its shorter side, plus 0.01 for each
// piece of the window; the first of those that are equal. In doubles, which round as Google's do.
std::vector<std::uint32_t> WindowMaker::windows_of_most_context(std::size_t pieces,
                                                                const std::vector<Span>& spans) {
  if (spans.size() <= 1) return {};  // it is the only one
  std::vector<std::uint32_t> best(pieces, 0);
  std::vector<double> best_score(pieces, -1);
  for (std::size_t i = 0; i < spans.size(); ++i) {
    const Span& span = spans[i];
    const double bonus = 0.01 * static_cast<double>(span.last - span.first + 1);
    for (std::size_t piece = span.first; piece <= span.last; ++piece) {
      const double score =
          static_cast<double>(std::min(piece - span.first, span.last - piece)) + bonus;
      if (score <= best_score[piece]) continue;
      best_score[piece] = score;
      best[piece] = static_cast<std::uint32_t>(i);
    }
  }
  return best;
}

QuestionWindow WindowMaker::window(const Question& question, const std::vector<TokenId>& query,
                                   const Span& span) const {
  const auto text = ids_[question.context].begin();
  const std::size_t count = span.last - span.first + 1;
  QuestionWindow made;
  made.context_begin = static_cast<std::uint32_t>(query.size() + 2);
  made.first_piece = static_cast<std::uint32_t>(span.first);
  made.max_context.resize(count, true);
  made.tokens.reserve(query.size() + count + kWindowSpecialTokens);
  made.tokens.push_back(special_.classify);
  made.tokens.insert(made.tokens.end(), query.begin(), query.end());
  made.tokens.push_back(special_.separator);
  made.tokens.insert(made.tokens.end(), text + static_cast<std::ptrdiff_t>(span.first),
                     text + static_cast<std::ptrdiff_t>(span.last) + 1);
  made.tokens.push_back(special_.separator);
  return made;
}

}  // namespace

QuestionWindows make_question_windows(const QuestionSet& set, const data::Vocabulary& vocabulary,
                                      const data::WordPiece& pieces, const WindowOptions& options) {
  check_window_options(options);
  return WindowMaker(set, vocabulary, pieces, options).run();
}

}  // namespace regatta::trainer::tasks
