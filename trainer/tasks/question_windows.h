// Questions and their texts to windows of tokens: [CLS] question [SEP] part of the text [SEP], as
// Google's run_squad cuts them (google-research/bert, run_squad.py).
//
// A text is cut into words at space, tab, CR, LF and U+202F, and each word into pieces by itself. A
// window has as many pieces of the text as fit; the next one begins doc_stride pieces later, until
// one reaches the end of the text. Windows are not padded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "trainer/data/vocabulary.h"
#include "trainer/data/word_piece.h"
#include "trainer/tasks/question.h"
#include "trainer/tasks/question_file.h"

namespace regatta::trainer::tasks {

struct WindowOptions {
  int max_sequence = 384;  // tokens of a window, the three special ones included
  int doc_stride = 128;    // pieces
  int max_query = 64;      // pieces of a question; what is beyond is cut off
  int threads = 0;         // 0: all cores. The result does not depend on it.
  QuestionUse use = QuestionUse::Training;
};

// Where the words of a context are, and which of them each of its pieces is a part of.
struct ContextWords {
  struct Word {  // bytes [begin, end) of the context
    std::uint32_t begin = 0;
    std::uint32_t end = 0;
  };
  std::vector<Word> words;
  std::vector<std::uint32_t> word_of_piece;  // rising; a word of which nothing is left has no piece
};

struct QuestionWindow {
  std::size_t question = 0;  // index into QuestionSet::questions
  std::vector<data::TokenId> tokens;
  // tokens[context_begin] is the first piece of the context. It and those behind it, the last [SEP]
  // included, are of segment 1, those before it of segment 0.
  std::uint32_t context_begin = 0;
  std::uint32_t first_piece = 0;  // which piece of the context that is
  // One for each piece of the window: whether no other window of the question shows more text on
  // both sides of it. True of each piece of a context in exactly one window.
  std::vector<bool> max_context;
  // First and last token of the answer. Both 0, the [CLS]: the question has no answer, or it is not
  // wholly in this window, or the windows are for prediction.
  std::uint32_t start = 0;
  std::uint32_t end = 0;

  // Of the context. tokens[context_begin + i] belongs to the word
  // contexts[questions[question].context].word_of_piece[first_piece + i].
  [[nodiscard]] std::size_t pieces() const { return max_context.size(); }
};

struct QuestionWindows {
  std::vector<ContextWords> contexts;   // as QuestionSet::contexts
  std::vector<QuestionWindow> windows;  // by question, then by first_piece
  // For training: questions (indices, rising) without windows since their answer is not in the
  // words of the context, or no piece of it is left.
  std::vector<std::size_t> left_out;
};

// A question with several answers is trained on the first. The answer's tokens are those of the
// words that it touches; if the pieces of the answer alone are among them, those ("(1895-1943)."
// and "1895"). A context of which no piece is left (combining marks alone) has no window.
// Code::User for options that leave no room for text, or are out of their range.
[[nodiscard]] QuestionWindows make_question_windows(const QuestionSet& set,
                                                    const data::Vocabulary& vocabulary,
                                                    const data::WordPiece& pieces,
                                                    const WindowOptions& options);

}  // namespace regatta::trainer::tasks
