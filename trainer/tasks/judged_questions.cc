// Questions as samples, and the score of their answers.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "base/thread_pool.h"
#include "base/wording.h"
#include "trainer/tasks/answer_score.h"
#include "trainer/tasks/answers.h"
#include "trainer/tasks/question_windows.h"
#include "trainer/tasks/softmax.h"
#include "trainer/tasks/task_samples.h"

namespace regatta::trainer::tasks {
namespace {

// Answers of a question that its windows' labels may be: SQuAD has at most 6. Bounds what a
// question costs.
constexpr std::size_t kMostLabelAnswers = 16;

QuestionWindows windows_of(const QuestionSet& questions, const TaskText& text) {
  constexpr int kSpecials = 3;
  const int longest = text.questions.max_question;
  if (longest >= text.max_length - kSpecials) {
    throw base::Error(base::Code::User,
                      "data.max_length " + std::to_string(text.max_length) +
                          " leaves no room for text beside questions.max_question " +
                          std::to_string(longest) +
                          " and 3 special tokens; raise it (384 is usual), or lower max_question");
  }
  WindowOptions options;
  options.max_sequence = text.max_length;
  options.doc_stride = text.questions.doc_stride;
  options.max_query = longest;
  options.threads = text.threads;
  const data::WordPiece pieces(text.vocabulary, {.lower_case = text.lower_case});
  return make_question_windows(questions, text.vocabulary, pieces, options);
}

// Without labels. Takes the tokens.
samples::Sample sample_of(QuestionWindow& window) {
  samples::Sample sample;
  sample.types.assign(window.tokens.size(), 1);
  std::fill_n(sample.types.begin(), window.context_begin, 0);
  sample.ids = std::move(window.tokens);
  return sample;
}

void set_label(samples::Sample& sample, const QuestionWindow& window) {
  sample.answer_begin = static_cast<std::int32_t>(window.start);
  sample.answer_end = static_cast<std::int32_t>(window.end);
}

[[noreturn]] void fail_without_windows(std::size_t questions) {
  throw base::Error(base::Code::User,
                    "none of the " + base::plural(questions, "question") +
                        " has an answer in the words of its text, or a text of which a piece is "
                        "left; check the file, and that the vocabulary is of its language");
}

// Each question without its answers, and behind it again with each of them alone.
struct QuestionForms {
  QuestionSet set;
  std::vector<std::size_t> begins;  // of each question its first form, and their end
};

// Takes the contexts.
QuestionForms forms_of(QuestionSet& questions) {
  QuestionForms forms;
  forms.set.contexts = std::move(questions.contexts);
  for (const Question& question : questions.questions) {
    std::vector<Question>& all = forms.set.questions;
    forms.begins.push_back(all.size());
    all.push_back({{}, question.text, question.context, {}, question.impossible});
    for (const GoldAnswer& answer : question.answers) {
      const auto first = all.begin() + static_cast<std::ptrdiff_t>(forms.begins.back()) + 1;
      if (all.end() - first == kMostLabelAnswers) break;
      const bool known = std::any_of(first, all.end(), [&answer](const Question& form) {
        return form.answers[0].begin == answer.begin && form.answers[0].text == answer.text;
      });
      if (!known) all.push_back({{}, question.text, question.context, {answer}, false});
    }
  }
  forms.begins.push_back(forms.set.questions.size());
  return forms;
}

class JudgedQuestions final : public JudgedQuestionSet {
 public:
  JudgedQuestions(QuestionSet questions, const TaskText& text, bool may_be_null,
                  bool always_answered);

  [[nodiscard]] const std::vector<samples::Sample>& samples() const override { return samples_; }
  [[nodiscard]] bool labelled() const override { return without_label_ == 0; }
  [[nodiscard]] std::vector<contract::Metric> score(const Logits& logits) const override;
  [[nodiscard]] std::vector<contract::Metric> baseline() const override;
  void write_predictions(const Logits& logits, const base::Path& directory,
                         base::FileSystem& files) const override;
  [[nodiscard]] std::optional<BestThresholds> best_thresholds(const Logits& logits) const override;
  [[nodiscard]] std::vector<QuestionAnswers> answers(const Logits& logits) const override;

 private:
  void cut(const TaskText& text);
  // windows: of all forms of the question at `next`, which becomes the next question's.
  void add_samples(std::vector<QuestionWindow>& windows, std::size_t* next,
                   std::span<const std::size_t, 2> forms);
  void check_labels() const;
  void check_logits(const Logits& logits) const;
  [[nodiscard]] QuestionAnswers answers_of(const Logits& logits, std::size_t question) const;
  // All of them, in no order and on several threads.
  void for_each_answer(const Logits& logits,
                       const std::function<void(std::size_t, QuestionAnswers)>& use) const;
  [[nodiscard]] double loss_of(const Logits& logits) const;

  QuestionSet set_;
  const data::Vocabulary& vocabulary_;
  int threads_;
  AnswerOptions options_;
  std::size_t without_label_ = 0;                          // questions of which no answer is known
  std::vector<std::vector<ByteRange>> words_;              // of each context
  std::vector<std::vector<std::uint32_t>> word_of_piece_;  // of each context
  std::vector<QuestionWindow> windows_;                    // as samples_; without tokens
  std::vector<std::size_t> first_windows_;                 // of each question, and their end
  std::vector<samples::Sample> samples_;
};

bool has_label(const Question& question) {
  return question.impossible || !question.answers.empty();
}

JudgedQuestions::JudgedQuestions(QuestionSet questions, const TaskText& text, bool may_be_null,
                                 bool always_answered)
    : set_(std::move(questions)),
      vocabulary_(text.vocabulary),
      threads_(text.threads > 0 ? text.threads : base::usable_cores()) {
  for (const Question& question : set_.questions) without_label_ += has_label(question) ? 0 : 1;
  options_.best = static_cast<std::size_t>(text.questions.best);
  options_.most_pieces = static_cast<std::size_t>(text.questions.max_answer);
  options_.lower_case = text.lower_case;
  options_.may_be_null = !always_answered && may_be_null_by_file(set_).value_or(may_be_null);
  options_.null_threshold = text.questions.null_threshold;
  cut(text);
}

void JudgedQuestions::cut(const TaskText& text) {
  QuestionForms forms = forms_of(set_);
  QuestionWindows made = windows_of(forms.set, text);
  set_.contexts = std::move(forms.set.contexts);
  for (ContextWords& context : made.contexts) {
    std::vector<ByteRange>& words = words_.emplace_back();
    words.reserve(context.words.size());
    for (const auto& word : context.words) words.push_back({word.begin, word.end});
    word_of_piece_.push_back(std::move(context.word_of_piece));
  }
  std::size_t next = 0;
  for (std::size_t i = 0; i < set_.questions.size(); ++i) {
    first_windows_.push_back(windows_.size());
    add_samples(made.windows, &next, std::span<const std::size_t, 2>(forms.begins.data() + i, 2));
  }
  first_windows_.push_back(windows_.size());
  if (windows_.empty()) fail_without_windows(set_.questions.size());
}

void JudgedQuestions::add_samples(std::vector<QuestionWindow>& windows, std::size_t* next,
                                  std::span<const std::size_t, 2> forms) {
  const std::size_t first = samples_.size();
  const Question& question = set_.questions[first_windows_.size() - 1];
  const auto of_form = [&](std::size_t form) {
    return *next < windows.size() && windows[*next].question == form;
  };
  for (; of_form(forms[0]); ++*next) {
    QuestionWindow& window = windows[*next];
    samples_.push_back(sample_of(window));
    if (question.impossible) set_label(samples_.back(), window);
    windows_.push_back(std::move(window));
  }
  for (std::size_t form = forms[0] + 1; form < forms[1]; ++form) {
    for (std::size_t i = first; of_form(form); ++*next, ++i) {
      if (samples_[i].answer_begin <= 0) set_label(samples_[i], windows[*next]);
    }
  }
}

void JudgedQuestions::check_labels() const {
  if (labelled()) return;
  const auto first = std::find_if_not(set_.questions.begin(), set_.questions.end(), has_label);
  throw base::Error(base::Code::User,
                    base::plural(without_label_, "question") + " of " +
                        std::to_string(set_.questions.size()) +
                        " cannot be judged, for want of answers ('" + base::printable(first->id) +
                        "' is the first); use a file that has them, or predict only");
}

// The first of the logits that are not finite is named, whatever threads do.
void JudgedQuestions::check_logits(const Logits& logits) const {
  base::check(logits.size() == samples_.size(), "each sample has logits");
  for (std::size_t i = 0; i < logits.size(); ++i) {
    base::check(logits[i].size() == 2 * samples_[i].ids.size(), "each token has two logits");
  }
  for (std::size_t question = 0; question < set_.questions.size(); ++question) {
    for (std::size_t i = first_windows_[question]; i < first_windows_[question + 1]; ++i) {
      const bool finite = std::all_of(logits[i].begin(), logits[i].end(),
                                      [](float logit) { return std::isfinite(logit); });
      if (!finite) (void)answers_of(logits, question);  // throws, with the token
    }
  }
}

// Of each token, column 0 or 1.
std::vector<float> column_of(const std::vector<float>& logits, std::size_t column) {
  std::vector<float> one;
  one.reserve(logits.size() / 2);
  for (std::size_t i = column; i < logits.size(); i += 2) one.push_back(logits[i]);
  return one;
}

QuestionAnswers JudgedQuestions::answers_of(const Logits& logits, std::size_t question) const {
  const Question& asked = set_.questions[question];
  const std::size_t first = first_windows_[question];
  const std::size_t count = first_windows_[question + 1] - first;
  std::vector<std::vector<float>> columns;
  std::vector<std::vector<ContextPiece>> pieces(count);
  for (std::size_t i = 0; i < count; ++i) {
    const QuestionWindow& window = windows_[first + i];
    columns.push_back(column_of(logits[first + i], 0));
    columns.push_back(column_of(logits[first + i], 1));
    pieces[i].reserve(window.pieces());
    for (std::size_t piece = 0; piece < window.pieces(); ++piece) {
      const std::int32_t id = samples_[first + i].ids[window.context_begin + piece];
      pieces[i].push_back({word_of_piece_[asked.context][window.first_piece + piece],
                           window.max_context[piece], vocabulary_.piece(id)});
    }
  }
  std::vector<AnswerWindow> views;
  for (std::size_t i = 0; i < count; ++i) {
    views.push_back(
        {columns[2 * i], columns[2 * i + 1], windows_[first + i].context_begin, pieces[i]});
  }
  return best_answers({asked.id, set_.contexts[asked.context], words_[asked.context], views},
                      options_);
}

void JudgedQuestions::for_each_answer(
    const Logits& logits, const std::function<void(std::size_t, QuestionAnswers)>& use) const {
  constexpr std::int64_t kGrain = 32;
  const auto work = [&](std::int64_t begin, std::int64_t end) {
    for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i) {
      use(i, answers_of(logits, i));
    }
  };
  base::ThreadPool(threads_).parallel_for(static_cast<std::int64_t>(set_.questions.size()), kGrain,
                                          work);
}

double JudgedQuestions::loss_of(const Logits& logits) const {
  double sum = 0;
  std::int64_t labelled_windows = 0;
  for (std::size_t i = 0; i < samples_.size(); ++i) {
    if (samples_[i].answer_begin < 0) continue;
    const std::vector<float> begins = column_of(logits[i], 0);
    const std::vector<float> ends = column_of(logits[i], 1);
    const auto begin = static_cast<std::size_t>(samples_[i].answer_begin);
    const auto end = static_cast<std::size_t>(samples_[i].answer_end);
    sum += 0.5 *
           (Softmax(begins).cross_entropy(begins[begin]) + Softmax(ends).cross_entropy(ends[end]));
    ++labelled_windows;
  }
  return labelled_windows == 0 ? 0 : sum / static_cast<double>(labelled_windows);
}

std::vector<contract::Metric> answer_metrics(double exact, double f1) {
  return {{contract::name_of(contract::TargetMetric::Exact), exact},
          {contract::name_of(contract::TargetMetric::F1), f1}};
}

std::vector<contract::Metric> JudgedQuestions::score(const Logits& logits) const {
  constexpr double kPercent = 100;
  check_labels();
  check_logits(logits);
  Predictions predictions(set_.questions.size());
  for_each_answer(logits, [&predictions](std::size_t question, QuestionAnswers answers) {
    predictions[question] = std::move(answers.prediction);
  });
  const AnswerScore score = score_answers(set_, predictions, {.rules = answer_rules_of(set_)});
  std::vector<contract::Metric> metrics =
      answer_metrics(score.exact / kPercent, score.f1 / kPercent);
  metrics.push_back({contract::name_of(contract::TargetMetric::Loss), loss_of(logits)});
  return metrics;
}

std::vector<contract::Metric> JudgedQuestions::baseline() const {
  check_labels();
  const auto impossible = std::count_if(set_.questions.begin(), set_.questions.end(),
                                        [](const Question& one) { return one.impossible; });
  const double share = static_cast<double>(impossible) / static_cast<double>(set_.questions.size());
  return answer_metrics(share, share);
}

std::vector<QuestionAnswers> JudgedQuestions::answers(const Logits& logits) const {
  check_logits(logits);
  std::vector<QuestionAnswers> all(set_.questions.size());
  for_each_answer(logits, [&all](std::size_t question, QuestionAnswers found) {
    all[question] = std::move(found);
  });
  return all;
}

std::optional<BestThresholds> JudgedQuestions::best_thresholds(const Logits& logits) const {
  const bool all_have_answers = std::none_of(set_.questions.begin(), set_.questions.end(),
                                             [](const Question& one) { return one.impossible; });
  if (all_have_answers || !labelled() || !options_.may_be_null) return std::nullopt;
  Predictions predictions;
  NullScores null_scores;
  for (const QuestionAnswers& question : answers(logits)) {
    const auto best = std::find_if(question.answers.begin(), question.answers.end(),
                                   [](const Answer& one) { return !one.text.empty(); });
    null_scores.push_back({predictions.size(), question.null_odds});
    predictions.emplace_back(best == question.answers.end() ? "" : best->text);
  }
  return score_answers(set_, predictions,
                       {.rules = answer_rules_of(set_), .null_scores = &null_scores})
      .best;
}

void JudgedQuestions::write_predictions(const Logits& logits, const base::Path& directory,
                                        base::FileSystem& files) const {
  const std::vector<QuestionAnswers> all = answers(logits);
  tasks::write_predictions(files, directory / "predictions.json", all);
  write_best_answers(files, directory / "nbest_predictions.json", all);
  if (options_.may_be_null) write_null_odds(files, directory / "null_odds.json", all);
}

}  // namespace

std::optional<bool> may_be_null_by_file(const QuestionSet& questions) {
  const std::vector<Question>& all = questions.questions;
  if (std::any_of(all.begin(), all.end(), [](const Question& one) { return one.impossible; })) {
    return true;
  }
  std::string_view version = questions.version;
  if (version.starts_with('v')) version.remove_prefix(1);
  if (version.starts_with('1') || version.starts_with('2')) return version.starts_with('2');
  const auto labelled = std::count_if(all.begin(), all.end(), has_label);
  if (labelled == 0) return std::nullopt;
  return labelled < std::ssize(all);
}

std::unique_ptr<JudgedQuestionSet> judged_questions(QuestionSet questions, const TaskText& text,
                                                    bool may_be_null, bool always_answered) {
  return std::make_unique<JudgedQuestions>(std::move(questions), text, may_be_null,
                                           always_answered);
}

TaskSamples question_samples(const QuestionSet& questions, const TaskText& text) {
  QuestionWindows made = windows_of(questions, text);
  TaskSamples result;
  result.samples.reserve(made.windows.size());
  for (QuestionWindow& window : made.windows) {
    result.samples.push_back(sample_of(window));
    set_label(result.samples.back(), window);
  }
  const std::size_t count = questions.questions.size();
  if (result.samples.empty()) fail_without_windows(count);
  if (!made.left_out.empty()) {
    const Question& first = questions.questions[made.left_out.front()];
    result.warnings.push_back(base::plural(made.left_out.size(), "question") + " of " +
                              std::to_string(count) +
                              " left out of training: the answer is not in the words of the text, "
                              "or no piece of it is left ('" +
                              base::printable(first.id) + "' is the first)");
  }
  return result;
}

}  // namespace regatta::trainer::tasks
