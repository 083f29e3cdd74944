#include "tests/trainer/model/rounding.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "tests/trainer/model/tape.h"

namespace regatta::tests {

double gelu_rounding(double x, double y, bool tanh_form) {
  double function = 0, inner = 0;
  if (tanh_form) {
    const double root = std::sqrt(2.0 / std::numbers::pi);
    const double cubic = 0.044715 * x * x * x;
    function = std::tanh(root * (x + cubic));
    inner = square(0.5 * x * (1 - function * function) * root) *
            (4 * square(cubic) + 3 * square(x + cubic));  // 2 products, 2 of a constant; sum, root
  } else {
    function = std::erf(x / std::numbers::sqrt2);
    inner = square(x * x * std::exp(-0.5 * x * x) / std::sqrt(2 * std::numbers::pi)) * 2;
  }
  return inner + kFunctionRounding * square(0.5 * x * function) + 2 * square(y);
}

double attention_rounding(const AttentionRows& a, std::size_t i) {
  const std::size_t n = a.q->rows;
  const std::size_t size = a.q->columns;
  const auto at = [](const Node* node, std::size_t r, std::size_t c) {
    return node->value[r * node->columns + c];
  };
  std::vector<double> scores(n), slopes(n, 0.0);  // slopes: of the probabilities
  double total = 0, mean_slope = 0;
  std::vector<double> of_scores(n);
  for (std::size_t j = 0; j < n; ++j) {
    RoundedSum dot;
    for (std::size_t c = 0; c < size; ++c) dot.add_product(at(a.q, i, c) * at(a.k, j, c));
    scores[j] = dot.sum() * a.scale;
    of_scores[j] = square(a.scale) * dot.squares() + 2 * square(scores[j]);  // the scale, too
    for (std::size_t c = 0; c < a.v->columns; ++c) {
      slopes[j] += a.y->gradient[i * a.y->columns + c] * at(a.v, j, c) * a.factors[i * n + j];
    }
    mean_slope += slopes[j] * a.p[i * n + j];
  }
  const double largest = *std::max_element(scores.begin(), scores.end());
  RoundedSum powers;
  for (std::size_t j = 0; j < n; ++j) {
    const double p = a.p[i * n + j];
    powers.add(std::exp(scores[j] - largest));
    total += square(p * (slopes[j] - mean_slope)) *
             (of_scores[j] + square(scores[j] - largest) + kFunctionRounding);
    const bool dropped_out = a.factors[i * n + j] != 1;
    total += (dropped_out ? 3 : 1) * square(p * slopes[j]);  // division; the factor, the product
  }
  total += square(mean_slope) * powers.squares() / square(powers.sum());
  for (std::size_t c = 0; c < a.v->columns; ++c) {
    RoundedSum sum;
    for (std::size_t j = 0; j < n; ++j) {
      sum.add_product(a.p[i * n + j] * a.factors[i * n + j] * at(a.v, j, c));
    }
    total += square(a.y->gradient[i * a.y->columns + c]) * sum.squares();
  }
  return total;
}

double norm_rounding(const NormRow& row) {
  const auto n = static_cast<double>(row.columns);
  RoundedSum sum, squares;
  for (std::size_t c = 0; c < row.columns; ++c) sum.add(row.x[c]);
  const double mean = sum.sum() / n;
  for (std::size_t c = 0; c < row.columns; ++c) squares.add_product(square(row.x[c] - mean));
  const double variance = squares.sum() / n;
  const double inverse = 1 / std::sqrt(variance + row.epsilon);
  double slope = 0, dot = 0;  // Σ g, Σ g·z, where y = z·γ + β and g is the gradient of z
  for (std::size_t c = 0; c < row.columns; ++c) {
    const double g = row.gradient[c] * row.gamma[c];
    slope += g;
    dot += g * (row.x[c] - mean) * inverse;
  }
  double total = 0;
  for (std::size_t c = 0; c < row.columns; ++c) {
    const double difference = row.x[c] - mean;
    const double z = difference * inverse;
    const double g = row.gradient[c] * row.gamma[c];
    total += square(inverse * (g - z * dot / n) * difference);
    total += 2 * square(g * z) + square(row.gradient[c] * row.y[c]);
  }
  total += square(inverse * slope) * (sum.squares() / (n * n) + square(mean));
  total += square(0.5 * inverse * inverse * dot) *
           (squares.squares() / (n * n) + square(variance) + square(variance + row.epsilon));
  return total + 2 * square(dot);
}

double cross_entropy_rounding(const double* logits, std::size_t columns, std::size_t label) {
  const double largest = *std::max_element(logits, logits + columns);
  RoundedSum powers;
  for (std::size_t c = 0; c < columns; ++c) powers.add(std::exp(logits[c] - largest));
  double total = powers.squares() / square(powers.sum());
  for (std::size_t c = 0; c < columns; ++c) {
    const double p = std::exp(logits[c] - largest) / powers.sum();
    total += square(p) * (square(logits[c] - largest) + kFunctionRounding);
  }
  const double log = std::log(powers.sum());
  const double below = logits[label] - largest;
  return total + kFunctionRounding * square(log) + square(below) + square(log - below);
}

double float32_error(double rounding, std::size_t results) {
  constexpr double kUnit = 0x1p-24;
  constexpr double kProbability = 1e-6;
  const double lambda = std::sqrt(2 * std::log(2 * static_cast<double>(results) / kProbability));
  return lambda * kUnit * std::sqrt(rounding);
}

}  // namespace regatta::tests
