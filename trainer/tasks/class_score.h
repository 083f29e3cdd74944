// How well classes or numbers were predicted, as GLUE reports it (Wang et al., arXiv 1804.07461):
// accuracy, F1, Matthews correlation; Pearson, Spearman, mean squared error. Never NaN.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace regatta::trainer::tasks {

// Of n examples. What is undefined is 0, as in scikit-learn.
struct ClassScore {
  std::int64_t examples = 0;
  std::int64_t correct = 0;
  double accuracy = 0;  // correct / n
  // F1 of a class: 2·TP / (2·TP + FP + FN). Of two classes: that of class 1, and 0 if neither side
  // has it. Of more: the mean over the classes that either side has ("macro").
  double f1 = 0;
  // From -1 to 1: Gorodkin's R_K (Computational Biology and Chemistry 28, 2004), which is
  // Matthews' coefficient for two classes. 0 if a side is constant.
  double matthews = 0;
};

// Of n examples. A correlation with a constant is undefined: nothing.
struct ValueScore {
  std::int64_t examples = 0;
  double mean_squared_error = 0;   // in the square of the values' unit
  std::optional<double> pearson;   // from -1 to 1
  std::optional<double> spearman;  // Pearson of the ranks; equal values share the mean of theirs
};

// truth[i] and predicted[i]: the class of example i, from 0 to classes − 1. At least one example,
// as many predictions, at least two classes (the program ends otherwise).
[[nodiscard]] ClassScore score_classes(std::span<const std::int32_t> truth,
                                       std::span<const std::int32_t> predicted, int classes);
// truth[i] and predicted[i]: of example i; at least one, and as many predictions (the program ends
// otherwise). Code::User for a prediction that is not finite or above 1e150: training diverged.
// The truth must be finite and at most that (the program ends).
[[nodiscard]] ValueScore score_values(std::span<const double> truth,
                                      std::span<const double> predicted);

// For each metric alone, what the best constant guess scores: what a model has to beat. Accuracy
// and macro F1: of the commonest class; F1 of two classes: of class 1; Matthews: 0.
[[nodiscard]] ClassScore best_constant(std::span<const std::int32_t> truth, int classes);
// The error of the mean, which is the variance of the values; correlations: nothing.
[[nodiscard]] ValueScore best_constant(std::span<const double> truth);

}  // namespace regatta::trainer::tasks
