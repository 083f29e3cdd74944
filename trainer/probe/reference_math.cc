#include "trainer/probe/reference_math.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace regatta::trainer::probe {
namespace {

// y += a·x
void add_scaled(double a, const double* x, std::int64_t count, double* y) {
  for (std::int64_t i = 0; i < count; ++i) y[i] += a * x[i];
}

// In four sums, so that an addition need not wait for the one before.
double dot(const double* x, const double* y, std::int64_t count) {
  double sums[4] = {0, 0, 0, 0};
  std::int64_t i = 0;
  for (; i + 4 <= count; i += 4) {
    for (int s = 0; s < 4; ++s) sums[s] += x[i + s] * y[i + s];
  }
  for (; i < count; ++i) sums[0] += x[i] * y[i];
  return sums[0] + sums[1] + sums[2] + sums[3];
}

// Of a row: its mean, and 1 / √(variance + ε).
struct Moments {
  double mean = 0, scale = 0;
};
Moments moments(const double* x, std::int64_t count, double epsilon) {
  Moments found;
  const auto n = static_cast<double>(count);
  for (std::int64_t i = 0; i < count; ++i) found.mean += x[i] / n;
  double variance = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    variance += (x[i] - found.mean) * (x[i] - found.mean) / n;
  }
  found.scale = 1 / std::sqrt(variance + epsilon);
  return found;
}

// Of the tanh form: √(2/π)·(x + 0.044715·x³), and its derivative.
const double kGeluScale = std::sqrt(2 / std::numbers::pi);
constexpr double kGeluCube = 0.044715;

}  // namespace

Matrix& Matrix::operator+=(const Matrix& other) {
  for (std::size_t i = 0; i < values.size(); ++i) values[i] += other.values[i];
  return *this;
}

Matrix linear(const Matrix& x, const Parameter& weight, const Parameter& bias) {
  Matrix y(x.rows, weight.value.rows);
  for (std::int64_t r = 0; r < x.rows; ++r) {
    for (std::int64_t o = 0; o < y.columns; ++o) {
      y.row(r)[o] = bias.value.row(0)[o] + dot(x.row(r), weight.value.row(o), x.columns);
    }
  }
  return y;
}

Matrix linear_backward(const Matrix& x, const Matrix& dy, Parameter* weight, Parameter* bias) {
  Matrix dx(x.rows, x.columns);
  for (std::int64_t r = 0; r < x.rows; ++r) {
    const double squares = dot(dy.row(r), dy.row(r), dy.columns);
    bias->squares += squares;
    weight->squares += squares * dot(x.row(r), x.row(r), x.columns);
    for (std::int64_t o = 0; o < dy.columns; ++o) {
      const double d = dy.row(r)[o];
      bias->gradient.row(0)[o] += d;
      add_scaled(d, x.row(r), x.columns, weight->gradient.row(o));
      add_scaled(d, weight->value.row(o), x.columns, dx.row(r));
    }
  }
  return dx;
}

Matrix layer_norm(const Matrix& x, const Parameter& gamma, const Parameter& beta, double epsilon) {
  Matrix y(x.rows, x.columns);
  for (std::int64_t r = 0; r < x.rows; ++r) {
    const Moments of = moments(x.row(r), x.columns, epsilon);
    for (std::int64_t c = 0; c < x.columns; ++c) {
      y.row(r)[c] =
          gamma.value.row(0)[c] * (x.row(r)[c] - of.mean) * of.scale + beta.value.row(0)[c];
    }
  }
  return y;
}

Matrix layer_norm_backward(const Matrix& x, const Matrix& dy, double epsilon, Parameter* gamma,
                           Parameter* beta) {
  Matrix dx(x.rows, x.columns);
  const auto n = static_cast<double>(x.columns);
  for (std::int64_t r = 0; r < x.rows; ++r) {
    const Moments of = moments(x.row(r), x.columns, epsilon);
    double mean = 0, mean_with_z = 0;  // of dz = dy·γ, and of dz·z
    for (std::int64_t c = 0; c < x.columns; ++c) {
      const double z = (x.row(r)[c] - of.mean) * of.scale;
      const double dz = dy.row(r)[c] * gamma->value.row(0)[c];
      gamma->gradient.row(0)[c] += dy.row(r)[c] * z;
      gamma->squares += dy.row(r)[c] * z * dy.row(r)[c] * z;
      beta->squares += dy.row(r)[c] * dy.row(r)[c];
      beta->gradient.row(0)[c] += dy.row(r)[c];
      mean += dz / n;
      mean_with_z += dz * z / n;
    }
    for (std::int64_t c = 0; c < x.columns; ++c) {
      const double z = (x.row(r)[c] - of.mean) * of.scale;
      const double dz = dy.row(r)[c] * gamma->value.row(0)[c];
      dx.row(r)[c] = of.scale * (dz - mean - z * mean_with_z);
    }
  }
  return dx;
}

Matrix gelu(const Matrix& x, GeluForm form) {
  Matrix y = x;
  for (double& v : y.values) {
    v *= form == GeluForm::Erf ? 0.5 * (1 + std::erf(v / std::numbers::sqrt2))
                               : 0.5 * (1 + std::tanh(kGeluScale * (v + kGeluCube * v * v * v)));
  }
  return y;
}

Matrix gelu_backward(const Matrix& x, const Matrix& dy, GeluForm form) {
  Matrix dx = dy;
  for (std::size_t i = 0; i < x.values.size(); ++i) {
    const double v = x.values[i];
    if (form == GeluForm::Erf) {
      const double density = std::exp(-v * v / 2) / std::sqrt(2 * std::numbers::pi);
      dx.values[i] *= 0.5 * (1 + std::erf(v / std::numbers::sqrt2)) + v * density;
    } else {
      const double t = std::tanh(kGeluScale * (v + kGeluCube * v * v * v));
      const double inner = kGeluScale * (1 + 3 * kGeluCube * v * v);
      dx.values[i] *= 0.5 * (1 + t) + 0.5 * v * (1 - t * t) * inner;
    }
  }
  return dx;
}

Matrix product(const Matrix& x, const Matrix& factors) {
  Matrix y = x;
  for (std::size_t i = 0; i < y.values.size(); ++i) y.values[i] *= factors.values[i];
  return y;
}

Matrix attention(const Matrix& q, const Matrix& k, const Matrix& v, const Matrix& factors,
                 double scale, Matrix* probabilities) {
  *probabilities = Matrix(q.rows, k.rows);
  Matrix y(q.rows, v.columns);
  for (std::int64_t i = 0; i < q.rows; ++i) {
    double* p = probabilities->row(i);
    for (std::int64_t j = 0; j < k.rows; ++j) p[j] = scale * dot(q.row(i), k.row(j), q.columns);
    const double largest = *std::max_element(p, p + k.rows);
    double sum = 0;
    for (std::int64_t j = 0; j < k.rows; ++j) sum += p[j] = std::exp(p[j] - largest);
    for (std::int64_t j = 0; j < k.rows; ++j) {
      p[j] /= sum;
      add_scaled(p[j] * factors.row(i)[j], v.row(j), v.columns, y.row(i));
    }
  }
  return y;
}

AttentionGradients attention_backward(const Matrix& q, const Matrix& k, const Matrix& v,
                                      const Matrix& factors, double scale,
                                      const Matrix& probabilities, const Matrix& dy) {
  AttentionGradients d{Matrix(q.rows, q.columns), Matrix(k.rows, k.columns),
                       Matrix(v.rows, v.columns)};
  std::vector<double> dp(static_cast<std::size_t>(k.rows));
  for (std::int64_t i = 0; i < q.rows; ++i) {
    const double* p = probabilities.row(i);
    double sum = 0;  // Σ_j p_j·dp_j
    for (std::int64_t j = 0; j < k.rows; ++j) {
      const double factor = factors.row(i)[j];
      dp[static_cast<std::size_t>(j)] = factor * dot(dy.row(i), v.row(j), v.columns);
      sum += p[j] * dp[static_cast<std::size_t>(j)];
      add_scaled(p[j] * factor, dy.row(i), v.columns, d.v.row(j));
    }
    for (std::int64_t j = 0; j < k.rows; ++j) {
      const double ds = scale * p[j] * (dp[static_cast<std::size_t>(j)] - sum);
      add_scaled(ds, k.row(j), k.columns, d.q.row(i));
      add_scaled(ds, q.row(i), q.columns, d.k.row(j));
    }
  }
  return d;
}

RowLoss cross_entropy(const double* logits, const std::vector<double>& targets) {
  const auto count = static_cast<std::ptrdiff_t>(targets.size());
  const double largest = *std::max_element(logits, logits + count);
  double sum = 0, weight = 0;
  for (std::ptrdiff_t c = 0; c < count; ++c) {
    sum += std::exp(logits[c] - largest);
    weight += targets[static_cast<std::size_t>(c)];
  }
  RowLoss row;
  row.gradient.resize(targets.size());
  for (std::ptrdiff_t c = 0; c < count; ++c) {
    const double target = targets[static_cast<std::size_t>(c)];
    const double logarithm = logits[c] - largest - std::log(sum);
    row.loss -= target * logarithm;
    row.gradient[static_cast<std::size_t>(c)] = weight * std::exp(logarithm) - target;
  }
  return row;
}

Matrix columns_of(const Matrix& x, std::int64_t begin, std::int64_t count) {
  Matrix part(x.rows, count);
  for (std::int64_t r = 0; r < x.rows; ++r) {
    std::copy_n(x.row(r) + begin, count, part.row(r));
  }
  return part;
}

void put_columns(const Matrix& from, std::int64_t begin, Matrix* into) {
  for (std::int64_t r = 0; r < from.rows; ++r) {
    std::copy_n(from.row(r), from.columns, into->row(r) + begin);
  }
}

Matrix rows_of(const Matrix& x, const std::vector<std::int32_t>& rows) {
  Matrix part(static_cast<std::int64_t>(rows.size()), x.columns);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    std::copy_n(x.row(rows[i]), x.columns, part.row(static_cast<std::int64_t>(i)));
  }
  return part;
}

void add_rows(const Matrix& from, const std::vector<std::int32_t>& rows, Matrix* into) {
  for (std::size_t i = 0; i < rows.size(); ++i) {
    add_scaled(1, from.row(static_cast<std::int64_t>(i)), from.columns, into->row(rows[i]));
  }
}

void add_to_rows(const Matrix& from, const std::vector<std::int32_t>& rows, Parameter* into) {
  add_rows(from, rows, &into->gradient);
  into->squares += dot(from.values.data(), from.values.data(), std::ssize(from.values));
}

}  // namespace regatta::trainer::probe
