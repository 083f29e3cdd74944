// From logits to answers, by the published rules of Google's run_squad (Devlin et al., arXiv
// 1810.04805): n-best spans over a text's windows, null scores, and predictions.json.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file_system.h"

namespace regatta::trainer::tasks {

// Bytes of a context, end not included.
struct ByteRange {
  std::size_t begin = 0;
  std::size_t end = 0;
};
struct ContextPiece {
  std::size_t word = 0;      // index into AnswerInput::words
  bool max_context = false;  // of all windows this one has the most context around the piece
  std::string_view text;     // as in the vocabulary: "##ing" goes on with a word
};
// One window of the model. Token 0 is [CLS].
struct AnswerWindow {
  std::span<const float> start_logits;   // one per token
  std::span<const float> end_logits;     // one per token
  std::size_t first_piece = 0;           // the token that is pieces[0]; at least 1
  std::span<const ContextPiece> pieces;  // in the order of the context
};
// Views into what the caller keeps for the length of the call.
struct AnswerInput {
  std::string_view id;
  std::string_view context;               // UTF-8
  std::span<const ByteRange> words;       // in order, without overlap
  std::span<const AnswerWindow> windows;  // none: of the text no piece is left; no answer
};

struct AnswerOptions {
  std::size_t best = 20;         // start and end tokens of each window, and answers
  std::size_t most_pieces = 30;  // of an answer
  bool lower_case = true;        // the vocabulary's tokenizer does it
  bool may_be_null = true;       // SQuAD 2.0: a question may have no answer
  double null_threshold = 0;     // it is predicted to have none if its null odds are greater
};

struct Answer {
  std::string text;        // empty: no answer
  double probability = 0;  // softmax over start_logit + end_logit of the answers
  double start_logit = 0;
  double end_logit = 0;
  // Where the text stands in the context, without a value if it is empty. Words are joined by one
  // space in `text`, whatever is between them there.
  std::optional<ByteRange> range{};
};
struct QuestionAnswers {
  std::string id;
  std::vector<Answer> answers;  // the best first; at least one
  std::string prediction;       // of the best answer with a text, or empty
  // If may_be_null. The least sum of [CLS]'s logits over the windows, and by how much it is above
  // that of the best answer with a text; where no span qualifies that counts as 0,
  // as the score does where there is no window.
  double null_score = 0;
  double null_odds = 0;
};

// Spans begin and end at one of a window's `best` tokens (of equal logits the earlier one), in the
// context, no later than they end, with at most most_pieces pieces, and begin where the window has
// the most context. Of these, and of no answer if may_be_null, the `best` with the greatest sum and
// distinct texts are the answers; no answer comes after them if it is not among them.
// The text of a span is that of its words, less what of it the pieces do not have ("(1999)," and
// the piece "1999" give "1999"), found by aligning the characters other than spaces with those of
// the tokenizer's words; the words as they are if they do not align.
// Throws base::Error (Code::User) naming the question and the token if a logit is not finite.
[[nodiscard]] QuestionAnswers best_answers(const AnswerInput& input, const AnswerOptions& options);

// The files of run_squad, in the order of the questions and in UTF-8: {id: prediction}; {id:
// [{text, probability, start_logit, end_logit}]}; {id: null odds}. Each is written whole or not at
// all (base::replace_file), and throws what that throws.
void write_predictions(base::FileSystem& files, const base::Path& path,
                       std::span<const QuestionAnswers> questions);
void write_best_answers(base::FileSystem& files, const base::Path& path,
                        std::span<const QuestionAnswers> questions);
void write_null_odds(base::FileSystem& files, const base::Path& path,
                     std::span<const QuestionAnswers> questions);

}  // namespace regatta::trainer::tasks
