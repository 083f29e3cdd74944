#include "trainer/tasks/class_score.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/wording.h"

namespace regatta::trainer::tasks {
namespace {

constexpr double kLargestValue = 1e150;  // whose square is finite

// Of one class. The count of examples is below 2³¹, so products of two counts fit.
struct ClassCounts {
  std::int64_t truth = 0;
  std::int64_t predicted = 0;
  std::int64_t both = 0;  // true positives
};

// 2·TP + FP + FN is the sum of both sides; 0 if neither has the class.
[[nodiscard]] double class_f1_of(const ClassCounts& counts) {
  const std::int64_t sides = counts.truth + counts.predicted;
  return sides == 0 ? 0 : static_cast<double>(2 * counts.both) / static_cast<double>(sides);
}

[[nodiscard]] double class_f1_of(const std::vector<ClassCounts>& counts) {
  if (counts.size() == 2) return class_f1_of(counts[1]);
  double sum = 0;
  std::int64_t present = 0;
  for (const ClassCounts& each : counts) {
    sum += class_f1_of(each);
    present += each.truth + each.predicted > 0 ? 1 : 0;
  }
  return sum / static_cast<double>(present);
}

// (c·n − Σ p·t) / √((n² − Σ p²)·(n² − Σ t²)), with c correct of n, p times predicted, t times true.
[[nodiscard]] double matthews_of(const std::vector<ClassCounts>& counts, std::int64_t examples) {
  std::int64_t covariance = 0;
  std::int64_t of_predicted = examples * examples;
  std::int64_t of_truth = examples * examples;
  for (const ClassCounts& each : counts) {
    covariance += each.both * examples - each.predicted * each.truth;
    of_predicted -= each.predicted * each.predicted;
    of_truth -= each.truth * each.truth;
  }
  if (of_predicted == 0 || of_truth == 0) return 0;
  const auto numerator = static_cast<double>(covariance);
  // The root of a square, where it is one, so that ±1 is exact.
  if (of_predicted == of_truth) return numerator / static_cast<double>(of_truth);
  return numerator / std::sqrt(static_cast<double>(of_predicted)) /
         std::sqrt(static_cast<double>(of_truth));
}

void check_count(std::size_t truth, std::size_t predicted) {
  base::check(truth > 0 && truth == predicted, "a score has examples, each with a prediction");
  base::check(truth <= std::size_t{std::numeric_limits<std::int32_t>::max()},
              "a score has fewer than 2^31 examples");
}

[[nodiscard]] ClassScore class_score_of(const std::vector<ClassCounts>& counts,
                                        std::int64_t examples) {
  ClassScore score;
  score.examples = examples;
  for (const ClassCounts& each : counts) score.correct += each.both;
  score.accuracy = static_cast<double>(score.correct) / static_cast<double>(examples);
  score.f1 = class_f1_of(counts);
  score.matthews = matthews_of(counts, examples);
  return score;
}

// Σ a·b / √(Σ a²·Σ b²) of two lists that are not constant and have the mean 0. In long double, so
// that no square leaves its range and what is rounded is rounded once.
[[nodiscard]] double cosine(const std::vector<long double>& a, const std::vector<long double>& b) {
  long double product = 0;
  long double square_a = 0;
  long double square_b = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    product += a[i] * b[i];
    square_a += a[i] * a[i];
    square_b += b[i] * b[i];
  }
  // As for Matthews: a line gives exactly ±1.
  const long double root =
      square_a == square_b ? square_a : std::sqrt(square_a) * std::sqrt(square_b);
  return std::clamp(static_cast<double>(product / root), -1.0, 1.0);
}

// The values without their mean. The first is subtracted before, which loses least where they are
// close together.
[[nodiscard]] std::vector<long double> centred(std::span<const double> values) {
  std::vector<long double> out;
  out.reserve(values.size());
  long double sum = 0;
  for (const double value : values) {
    out.push_back(static_cast<long double>(value) - static_cast<long double>(values[0]));
    sum += out.back();
  }
  const long double mean = sum / static_cast<long double>(values.size());
  for (long double& value : out) value -= mean;
  return out;
}

// Twice each value's mean rank (from 1), without the mean of these, n + 1: whole numbers.
[[nodiscard]] std::vector<long double> centred_ranks(std::span<const double> values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [values](std::size_t a, std::size_t b) { return values[a] < values[b]; });
  std::vector<long double> ranks(values.size());
  for (std::size_t begin = 0, end = 0; begin < order.size(); begin = end) {
    while (end < order.size() && values[order[end]] == values[order[begin]]) ++end;
    const auto rank = static_cast<std::int64_t>(begin + 1 + end);
    for (std::size_t i = begin; i < end; ++i) {
      ranks[order[i]] =
          static_cast<long double>(rank - static_cast<std::int64_t>(values.size()) - 1);
    }
  }
  return ranks;
}

[[nodiscard]] bool is_constant(std::span<const double> values) {
  return std::all_of(values.begin(), values.end(),
                     [values](double value) { return value == values[0]; });
}

// Also false for what is no number.
[[nodiscard]] bool is_usable(double value) { return std::abs(value) <= kLargestValue; }

[[nodiscard]] long double square_sum(const std::vector<long double>& values) {
  return std::inner_product(values.begin(), values.end(), values.begin(), 0.0L);
}

}  // namespace

ClassScore score_classes(std::span<const std::int32_t> truth,
                         std::span<const std::int32_t> predicted, int classes) {
  check_count(truth.size(), predicted.size());
  base::check(classes >= 2, "there are two classes or more");
  std::vector<ClassCounts> counts(static_cast<std::size_t>(classes));
  for (std::size_t i = 0; i < truth.size(); ++i) {
    base::check(truth[i] >= 0 && truth[i] < classes && predicted[i] >= 0 && predicted[i] < classes,
                "a class is from 0 to classes - 1");
    ++counts[static_cast<std::size_t>(truth[i])].truth;
    ++counts[static_cast<std::size_t>(predicted[i])].predicted;
    if (truth[i] == predicted[i]) ++counts[static_cast<std::size_t>(truth[i])].both;
  }
  return class_score_of(counts, static_cast<std::int64_t>(truth.size()));
}

ClassScore best_constant(std::span<const std::int32_t> truth, int classes) {
  std::vector<std::int32_t> guesses(truth.size());
  const auto guess = [&](std::int32_t label) {
    std::fill(guesses.begin(), guesses.end(), label);
    return score_classes(truth, guesses, classes);
  };
  ClassScore best = guess(0);
  for (std::int32_t label = 1; label < classes; ++label) {
    const ClassScore score = guess(label);
    if (score.correct > best.correct) best = score;
  }
  if (classes == 2) best.f1 = guess(1).f1;
  return best;
}

ValueScore score_values(std::span<const double> truth, std::span<const double> predicted) {
  check_count(truth.size(), predicted.size());
  base::check(std::all_of(truth.begin(), truth.end(), is_usable),
              "what is to be predicted is finite and at most 1e150");
  ValueScore score;
  score.examples = static_cast<std::int64_t>(truth.size());
  std::vector<long double> errors;
  errors.reserve(truth.size());
  for (std::size_t i = 0; i < truth.size(); ++i) {
    if (!is_usable(predicted[i])) {
      throw base::Error(base::Code::User, "the prediction for example " + std::to_string(i + 1) +
                                              " is " + base::short_number(predicted[i]) +
                                              ": training diverged; lower learning_rate");
    }
    errors.push_back(static_cast<long double>(predicted[i]) - static_cast<long double>(truth[i]));
  }
  score.mean_squared_error =
      static_cast<double>(square_sum(errors) / static_cast<long double>(truth.size()));
  if (is_constant(truth) || is_constant(predicted)) return score;
  score.pearson = cosine(centred(truth), centred(predicted));
  score.spearman = cosine(centred_ranks(truth), centred_ranks(predicted));
  return score;
}

ValueScore best_constant(std::span<const double> truth) {
  check_count(truth.size(), truth.size());
  base::check(std::all_of(truth.begin(), truth.end(), is_usable),
              "what is to be predicted is finite and at most 1e150");
  ValueScore score;
  score.examples = static_cast<std::int64_t>(truth.size());
  score.mean_squared_error =
      static_cast<double>(square_sum(centred(truth)) / static_cast<long double>(truth.size()));
  return score;
}

}  // namespace regatta::trainer::tasks
