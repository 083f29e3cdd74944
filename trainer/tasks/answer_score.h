// How good predicted answers are: exact match and F1 by the rules of the official scripts of SQuAD
// 1.1 and 2.0 (Rajpurkar et al., arXiv 1606.05250 and 1806.03822).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/file_system.h"
#include "trainer/tasks/question.h"

namespace regatta::trainer::tasks {

// Which official script. They differ in two places: 1.1 compares with every gold answer, 2.0 only
// with those of which something is left when normalised (a question without one has the empty
// answer); and two texts without tokens have an F1 of 0 in 1.1, of 1 in 2.0.
enum class AnswerRules { Squad11, Squad20 };
// Squad20 if the version of the file begins with 2 (or v2), or a question is impossible.
[[nodiscard]] AnswerRules answer_rules_of(const QuestionSet& questions);

// Lower case as Python's str.lower(), no ASCII punctuation, no words a, an, the, single spaces.
// Characters by Unicode 14.0.0; ill-formed UTF-8 counts as U+FFFD.
[[nodiscard]] std::string normalised_answer(std::string_view text);
// Of a prediction against one gold answer: whether they are equal when normalised, and F1 in [0, 1]
// of their tokens as multisets.
[[nodiscard]] bool exact_match(std::string_view prediction, std::string_view gold);
[[nodiscard]] double answer_f1(std::string_view prediction, std::string_view gold,
                               AnswerRules rules);

// One for each question, in the order of the set; nothing where there is no prediction.
using Predictions = std::vector<std::optional<std::string>>;
// How likely it is that a question has no answer: a probability, or the null odds of answers.h.
// Finite; at most one for each question.
struct NullScore {
  std::size_t question = 0;  // index into QuestionSet::questions
  double value = 0;
};
// In the order of the file, which decides between equal values in the sweep of thresholds.
using NullScores = std::vector<NullScore>;

// {id: text} and {id: number}. Throws base::Error (Code::User) naming the file, and the id or the
// byte in it: not JSON (NaN and Infinity are none), not an object, another kind of value, an id
// twice, or ids that no question has, with their number.
[[nodiscard]] Predictions read_predictions(base::FileSystem& files, const base::Path& path,
                                           const QuestionSet& questions);
[[nodiscard]] NullScores read_null_scores(base::FileSystem& files, const base::Path& path,
                                          const QuestionSet& questions);

// Thresholds are null scores. `exact` and `f1`: percent of all questions.
struct BestThresholds {
  double exact = 0;
  double exact_threshold = 0;
  double f1 = 0;
  double f1_threshold = 0;
};
// exact, f1: percent of the questions that are counted beside them; 0 where there are none.
// has_answer_, no_answer_: of the questions with gold answers, and of those without.
struct AnswerScore {
  double exact = 0;
  double f1 = 0;
  std::int64_t total = 0;
  double has_answer_exact = 0;
  double has_answer_f1 = 0;
  std::int64_t has_answer_total = 0;
  double no_answer_exact = 0;
  double no_answer_f1 = 0;
  std::int64_t no_answer_total = 0;
  std::int64_t missing_predictions = 0;  // counted in the totals, with a score of 0
  std::optional<BestThresholds> best;    // where there are null scores
};

struct AnswerScoring {
  AnswerRules rules = AnswerRules::Squad20;
  const NullScores* null_scores = nullptr;  // none: predictions stand as they are
  // A question whose null score is greater is predicted to have no answer.
  std::optional<double> threshold{};  // none: 1, as the official script; its scores are
                                      // probabilities
};

// The best thresholds are found as the official script does: from no answer at all, questions in
// the order of their null scores get their predictions, one by one also among equal scores; the
// first best sum counts, and no answer at all has the threshold 0. There a prediction for an
// impossible question is wrong unless it is empty as it stands.
// Throws base::Error (Code::User): two questions of one id, a predicted question without a null
// score, or, by the rules of 1.1, a question without gold answers.
[[nodiscard]] AnswerScore score_answers(const QuestionSet& questions,
                                        const Predictions& predictions,
                                        const AnswerScoring& scoring);

}  // namespace regatta::trainer::tasks
