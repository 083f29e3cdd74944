#include "trainer/tasks/task_report.h"

#include <algorithm>
#include <cstddef>

#include "base/text.h"
#include "base/wording.h"

namespace regatta::trainer::tasks {
namespace {

constexpr std::size_t kMostToldLabels = 20;

[[nodiscard]] std::string noun_of_samples(const TaskPrepareReport& report) {
  return report.task == contract::Task::QuestionAnswering ? "question" : "example";
}

[[nodiscard]] std::string part_text(const TaskPrepareReport& report, const TaskPartReport& part,
                                    const char* name) {
  std::string text = std::string(name) + ": " + base::plural(part.samples, noun_of_samples(report));
  if (report.task == contract::Task::QuestionAnswering) {
    text += ", " + std::to_string(part.impossible) + " without an answer, " +
            base::plural(part.contexts, "context");
  } else {
    text += part.pairs ? " of two texts" : " of one text";
  }
  text += "\n";
  for (const TokenLengths& lengths : part.lengths) {
    text += base::formatted("  tokens per %s: mean %.1f, 95 %% at most %lld, longest %lld\n",
                            lengths.noun, lengths.mean, static_cast<long long>(lengths.long_tokens),
                            static_cast<long long>(lengths.longest));
  }
  text += "  unknown pieces: " + base::percent(part.unknown_share()) + "\n";
  if (part.invalid_sequences > 0) {
    text += "  " + base::plural(part.invalid_sequences, "invalid UTF-8 sequence") +
            " replaced by U+FFFD\n";
  }
  if (report.task == contract::Task::Regression) {
    text += "  labels: mean " + base::short_number(part.mean) + ", from " +
            base::short_number(part.least) + " to " + base::short_number(part.most) + "\n";
  }
  return text;
}

[[nodiscard]] std::string share_text(const TaskPartReport& part, std::size_t label) {
  const std::int64_t count = part.examples_by_label[label];
  return base::percent(static_cast<double>(count) / static_cast<double>(part.samples)) + " (" +
         std::to_string(count) + ")";
}

[[nodiscard]] std::string labels_text(const TaskPrepareReport& report) {
  std::string text = base::plural(report.labels.size(), "label") + ":\n";
  const std::size_t told = std::min(report.labels.size(), kMostToldLabels);
  for (std::size_t i = 0; i < told; ++i) {
    text += "  '" + base::printable(report.labels[i]) + "': training " +
            share_text(report.training, i) + ", evaluation " + share_text(report.evaluation, i) +
            "\n";
  }
  if (told < report.labels.size()) {
    text += "  and " + std::to_string(report.labels.size() - told) + " more\n";
  }
  return text;
}

}  // namespace

std::string summary_text(const TaskPrepareReport& report, const std::string& output) {
  std::string text = contract::name_of(report.task) + ", vocabulary of " +
                     base::plural(report.vocabulary_pieces, "piece") + ", " +
                     (report.lower_case ? "lower case" : "case kept") + ", in " +
                     base::human_seconds(report.seconds) + " -> " + base::printable(output) + "\n";
  text += part_text(report, report.training, "training") +
          part_text(report, report.evaluation, "evaluation");
  if (report.task == contract::Task::Classification) text += labels_text(report);
  return text + "fingerprint: " + report.fingerprint + "\n";
}

}  // namespace regatta::trainer::tasks
