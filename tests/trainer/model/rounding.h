// What rounding does to the operations of the tape, one by one: each returns Σ (d·v)² over all
// values v that the simplest program rounds, d being the derivative of the tape's result by v
// (Tape::rounding).
#pragma once

#include <cstddef>
#include <vector>

namespace regatta::tests {

struct Node;

[[nodiscard]] inline double square(double x) { return x * x; }

// exp, log, tanh and erf may be wrong by a whole unit in the last place.
constexpr double kFunctionRounding = 4;

// Terms added up in turn, and the squares of all that is rounded meanwhile.
class RoundedSum {
 public:
  explicit RoundedSum(double begin = 0) : sum_(begin) {}
  void add(double term) {
    sum_ += term;
    squares_ += sum_ * sum_;
  }
  void add_product(double product) {
    squares_ += product * product;
    add(product);
  }
  [[nodiscard]] double sum() const { return sum_; }
  [[nodiscard]] double squares() const { return squares_; }

 private:
  double sum_;
  double squares_ = 0;
};

// Of one element of GELU, whose gradient is 1:
// y = (0.5·x)·(1 + erf(x·(1/√2))), and y = (0.5·x)·(1 + tanh(√(2/π)·(x + 0.044715·((x·x)·x)))).
[[nodiscard]] double gelu_rounding(double x, double y, bool tanh_form);

// One row of a LayerNorm y = z·γ + β: mean, differences, the mean of their squares, z by the
// reciprocal of its root.
struct NormRow {
  const double* x;
  const double* gamma;
  const double* y;
  const double* gradient;  // of y
  std::size_t columns;
  double epsilon;
};
[[nodiscard]] double norm_rounding(const NormRow& row);

// y = softmax(q·kᵀ·scale)∘factors·v; p: the probabilities, all rows.
struct AttentionRows {
  const Node *q, *k, *v, *y;
  const std::vector<double>& p;
  const std::vector<double>& factors;
  double scale;
};
// Of query i.
[[nodiscard]] double attention_rounding(const AttentionRows& rows, std::size_t i);

// One row of a cross-entropy, whose gradient is 1.
[[nodiscard]] double cross_entropy_rounding(const double* logits, std::size_t columns,
                                            std::size_t label);

// How far from the exact result float32 (u = 2⁻²⁴) may be, by Tape::rounding(). Roundings are taken
// to be independent and of mean 0, so that λ·u·√rounding is exceeded with a probability of at most
// 2·exp(−λ²/2) (Hoeffding's inequality; N. Higham and T. Mary, "A new approach to probabilistic
// rounding error analysis", SIAM J. Sci. Comput. 41(5), 2019). With this λ, one of `results`
// results is beyond its limit with a probability of at most 10⁻⁶.
[[nodiscard]] double float32_error(double rounding, std::size_t results);

}  // namespace regatta::tests
