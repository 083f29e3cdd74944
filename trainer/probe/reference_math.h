// Matrices in float64 and the operations of BERT on them, forward and backward, as their formulas
// say: one thread, one sample, nothing fused, and nothing of the kernels in it.
#pragma once

#include <cstdint>
#include <vector>

namespace regatta::trainer::probe {

struct Matrix {
  std::int64_t rows = 0, columns = 0;
  std::vector<double> values;  // row-major

  Matrix() = default;
  Matrix(std::int64_t r, std::int64_t c)
      : rows(r), columns(c), values(static_cast<std::size_t>(r * c), 0.0) {}
  [[nodiscard]] double* row(std::int64_t r) { return values.data() + r * columns; }
  [[nodiscard]] const double* row(std::int64_t r) const { return values.data() + r * columns; }
  Matrix& operator+=(const Matrix& other);
};

// A weight and its gradient, which is added to, row of a batch by row; `squares` are those of the
// norms of what the rows add.
struct Parameter {
  Matrix value, gradient;
  double squares = 0;
};

// y = x·Wᵀ + b; W [outputs, inputs], b [1, outputs]. Backward returns dx.
[[nodiscard]] Matrix linear(const Matrix& x, const Parameter& weight, const Parameter& bias);
[[nodiscard]] Matrix linear_backward(const Matrix& x, const Matrix& dy, Parameter* weight,
                                     Parameter* bias);

// y = γ·(x − mean)/√(variance + ε) + β, row by row.
[[nodiscard]] Matrix layer_norm(const Matrix& x, const Parameter& gamma, const Parameter& beta,
                                double epsilon);
[[nodiscard]] Matrix layer_norm_backward(const Matrix& x, const Matrix& dy, double epsilon,
                                         Parameter* gamma, Parameter* beta);

enum class GeluForm { Erf, Tanh };
[[nodiscard]] Matrix gelu(const Matrix& x, GeluForm form);
[[nodiscard]] Matrix gelu_backward(const Matrix& x, const Matrix& dy, GeluForm form);

// Element by element.
[[nodiscard]] Matrix product(const Matrix& x, const Matrix& factors);

// Of one head: softmax(q·kᵀ·scale)∘factors·v. `probabilities` takes the softmax.
[[nodiscard]] Matrix attention(const Matrix& q, const Matrix& k, const Matrix& v,
                               const Matrix& factors, double scale, Matrix* probabilities);
struct AttentionGradients {
  Matrix q, k, v;
};
[[nodiscard]] AttentionGradients attention_backward(const Matrix& q, const Matrix& k,
                                                    const Matrix& v, const Matrix& factors,
                                                    double scale, const Matrix& probabilities,
                                                    const Matrix& dy);

// −Σ_c targets[c]·log softmax(logits)[c] of one row, and its gradient.
struct RowLoss {
  double loss = 0;
  std::vector<double> gradient;
};
[[nodiscard]] RowLoss cross_entropy(const double* logits, const std::vector<double>& targets);

[[nodiscard]] Matrix columns_of(const Matrix& x, std::int64_t begin, std::int64_t count);
void put_columns(const Matrix& from, std::int64_t begin, Matrix* into);
[[nodiscard]] Matrix rows_of(const Matrix& x, const std::vector<std::int32_t>& rows);
void add_rows(const Matrix& from, const std::vector<std::int32_t>& rows, Matrix* into);
// The same as the backward of rows_of() a parameter.
void add_to_rows(const Matrix& from, const std::vector<std::int32_t>& rows, Parameter* into);

}  // namespace regatta::trainer::probe
