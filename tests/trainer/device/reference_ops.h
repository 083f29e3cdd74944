// The operations written as their formulas, for any real type: float64 is the oracle, float32 the
// naive computation that sets the tolerance; with the precision of a device, the naive computation
// rounds wherever the contract stores activations. Loops only, and no code shared with a device.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "tests/trainer/device/packed_tokens.h"

namespace regatta::tests::reference {

template <typename Real>
using Vector = std::vector<Real>;

inline std::size_t at(std::int64_t row, std::int64_t columns, std::int64_t column) {
  return static_cast<std::size_t>(row * columns + column);
}
template <typename Real>
Vector<Real> zeros(std::int64_t count) {
  return Vector<Real>(static_cast<std::size_t>(count), Real{0});
}

// Not rounded: what is done with it decides in which type it is stored.
template <typename Real>
Vector<Real> product(std::int64_t m, std::int64_t n, std::int64_t k, const Vector<Real>& a_in,
                     bool transpose_a, const Vector<Real>& b_in, bool transpose_b,
                     const Precision& precision = {}) {
  const Vector<Real> a = precision.factors(a_in);
  const Vector<Real> b = precision.factors(b_in);
  Vector<Real> c = zeros<Real>(m * n);
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      Real sum = 0;
      for (std::int64_t p = 0; p < k; ++p) {
        sum += (transpose_a ? a[at(p, m, i)] : a[at(i, k, p)]) *
               (transpose_b ? b[at(j, k, p)] : b[at(p, n, j)]);
      }
      c[at(i, n, j)] = sum;
    }
  }
  return c;
}

constexpr double kPi = 3.14159265358979323846;

template <typename Real>
Real gelu(Real x, bool tanh_form) {
  if (tanh_form) {
    const Real u = std::sqrt(Real(2 / kPi)) * (x + Real(0.044715) * x * x * x);
    return Real(0.5) * x * (1 + std::tanh(u));
  }
  return Real(0.5) * x * (1 + std::erf(x / std::sqrt(Real(2))));
}

template <typename Real>
Real gelu_slope(Real x, bool tanh_form) {
  if (tanh_form) {
    const Real root = std::sqrt(Real(2 / kPi));
    const Real t = std::tanh(root * (x + Real(0.044715) * x * x * x));
    return Real(0.5) * (1 + t) +
           Real(0.5) * x * (1 - t * t) * root * (1 + 3 * Real(0.044715) * x * x);
  }
  return Real(0.5) * (1 + std::erf(x / std::sqrt(Real(2)))) +
         x * std::exp(-x * x / 2) / std::sqrt(Real(2 * kPi));
}

template <typename Real>
struct Norm {
  Vector<Real> mean, rstd, y;
};

template <typename Real>
Norm<Real> layer_norm(const Vector<Real>& z, const Vector<Real>& gamma, const Vector<Real>& beta,
                      Real epsilon, const Precision& precision = {}) {
  const auto h = static_cast<std::int64_t>(gamma.size());
  const auto rows = static_cast<std::int64_t>(z.size()) / h;
  Norm<Real> norm{zeros<Real>(rows), zeros<Real>(rows), zeros<Real>(rows * h)};
  for (std::int64_t r = 0; r < rows; ++r) {
    Real mean = 0;
    for (std::int64_t c = 0; c < h; ++c) mean += z[at(r, h, c)];
    mean /= Real(h);
    Real variance = 0;
    for (std::int64_t c = 0; c < h; ++c) {
      variance += (z[at(r, h, c)] - mean) * (z[at(r, h, c)] - mean);
    }
    const Real rstd = 1 / std::sqrt(variance / Real(h) + epsilon);
    norm.mean[at(r, 1, 0)] = mean;
    norm.rstd[at(r, 1, 0)] = rstd;
    for (std::int64_t c = 0; c < h; ++c) {
      norm.y[at(r, h, c)] =
          precision.stored((z[at(r, h, c)] - mean) * rstd * gamma[at(0, h, c)] + beta[at(0, h, c)]);
    }
  }
  return norm;
}

template <typename Real>
struct NormGradients {
  Vector<Real> dz, dgamma, dbeta;
};

// By the chain rule through mean and variance, one element at a time.
template <typename Real>
NormGradients<Real> layer_norm_backward(const Vector<Real>& dy, const Vector<Real>& z,
                                        const Vector<Real>& gamma, Real epsilon,
                                        const Precision& precision = {}) {
  const auto h = static_cast<std::int64_t>(gamma.size());
  const auto rows = static_cast<std::int64_t>(z.size()) / h;
  const Norm<Real> norm = layer_norm(z, gamma, gamma, epsilon);
  NormGradients<Real> result{zeros<Real>(rows * h), zeros<Real>(h), zeros<Real>(h)};
  for (std::int64_t r = 0; r < rows; ++r) {
    const Real mean = norm.mean[at(r, 1, 0)];
    const Real rstd = norm.rstd[at(r, 1, 0)];
    Real by_variance = 0;
    Real by_mean = 0;
    for (std::int64_t c = 0; c < h; ++c) {
      const Real normal = (z[at(r, h, c)] - mean) * rstd;
      result.dgamma[at(0, h, c)] += dy[at(r, h, c)] * normal;
      result.dbeta[at(0, h, c)] += dy[at(r, h, c)];
      const Real by_normal = dy[at(r, h, c)] * gamma[at(0, h, c)];
      by_variance += by_normal * (z[at(r, h, c)] - mean) * Real(-0.5) * rstd * rstd * rstd;
      by_mean -= by_normal * rstd;
    }
    for (std::int64_t c = 0; c < h; ++c) {
      const Real by_normal = dy[at(r, h, c)] * gamma[at(0, h, c)];
      result.dz[at(r, h, c)] =
          precision.stored(by_normal * rstd + by_variance * 2 * (z[at(r, h, c)] - mean) / Real(h) +
                           by_mean / Real(h));
    }
  }
  return result;
}

template <typename Real>
struct Attention {
  Vector<Real> out, lse;
};

// One head of one sample: where its elements are.
struct HeadIndex {
  std::int64_t first, length, hidden, size, head;
  [[nodiscard]] std::size_t qkv(std::int64_t which, std::int64_t token, std::int64_t c) const {
    return at(first + token, 3 * hidden, which * hidden + head * size + c);
  }
  [[nodiscard]] std::size_t out(std::int64_t token, std::int64_t c) const {
    return at(first + token, hidden, head * size + c);
  }
};
inline HeadIndex head_of(const Packed& packed, std::int64_t hidden, int heads, std::int64_t sample,
                         std::int64_t head) {
  const std::int64_t first = packed.cumulative[static_cast<std::size_t>(sample)];
  const std::int64_t next = packed.cumulative[static_cast<std::size_t>(sample) + 1];
  return {first, next - first, hidden, hidden / heads, head};
}

// Softmax of one query's scores; `lse` receives log Σ exp.
template <typename Real>
Vector<Real> probabilities(const HeadIndex& index, const Vector<Real>& qkv, std::int64_t query,
                           Real* lse) {
  Vector<Real> p = zeros<Real>(index.length);
  for (std::int64_t key = 0; key < index.length; ++key) {
    Real sum = 0;
    for (std::int64_t c = 0; c < index.size; ++c) {
      sum += qkv[index.qkv(0, query, c)] * qkv[index.qkv(1, key, c)];
    }
    p[at(0, 1, key)] = sum / std::sqrt(Real(index.size));
  }
  const Real most = *std::max_element(p.begin(), p.end());
  Real total = 0;
  for (Real& value : p) {
    value = std::exp(value - most);
    total += value;
  }
  for (Real& value : p) value /= total;
  *lse = most + std::log(total);
  return p;
}

// Dropped probabilities times values, for one query: its row of the output.
template <typename Real>
Vector<Real> weighted_values(const HeadIndex& index, const Vector<Real>& qkv,
                             const Vector<Real>& weights) {
  Vector<Real> out = zeros<Real>(index.size);
  for (std::int64_t j = 0; j < index.length; ++j) {
    for (std::int64_t c = 0; c < index.size; ++c) {
      out[at(0, 1, c)] += weights[at(0, 1, j)] * qkv[index.qkv(2, j, c)];
    }
  }
  return out;
}

// Probabilities after dropout, as the product with the values reads them.
template <typename Real>
Vector<Real> dropped(const Packed& packed, const trainer::device::Dropout& dropout,
                     std::int64_t sample, std::int64_t head, std::int64_t query,
                     const Vector<Real>& p, const Precision& precision) {
  Vector<Real> weights = p;
  for (std::size_t j = 0; j < p.size(); ++j) {
    const float factor =
        attention_factor(packed, dropout, sample, head, query, static_cast<std::int64_t>(j));
    weights[j] = precision.stored(p[j] * Real(factor));
  }
  return weights;
}

template <typename Real>
Attention<Real> attention(const Packed& packed, const trainer::device::Dropout& dropout, int heads,
                          const Vector<Real>& qkv, const Precision& precision = {}) {
  const auto hidden = static_cast<std::int64_t>(qkv.size()) / 3 / packed.tokens();
  Attention<Real> result{zeros<Real>(packed.tokens() * hidden),
                         zeros<Real>(heads * packed.tokens())};
  for (std::int64_t sample = 0; sample < packed.samples(); ++sample) {
    for (std::int64_t head = 0; head < heads; ++head) {
      const HeadIndex index = head_of(packed, hidden, heads, sample, head);
      for (std::int64_t i = 0; i < index.length; ++i) {
        const Vector<Real> p =
            probabilities(index, qkv, i, &result.lse[at(head, packed.tokens(), index.first + i)]);
        const Vector<Real> out =
            weighted_values(index, qkv, dropped(packed, dropout, sample, head, i, p, precision));
        for (std::int64_t c = 0; c < index.size; ++c) {
          result.out[index.out(i, c)] = precision.stored(out[at(0, 1, c)]);
        }
      }
    }
  }
  return result;
}

// The softmax's own term is dout·out, with `out` as it was stored.
template <typename Real>
Vector<Real> attention_backward(const Packed& packed, const trainer::device::Dropout& dropout,
                                int heads, const Vector<Real>& qkv, const Vector<Real>& dout,
                                const Precision& precision = {}) {
  const auto hidden = static_cast<std::int64_t>(qkv.size()) / 3 / packed.tokens();
  Vector<Real> dqkv = zeros<Real>(packed.tokens() * 3 * hidden);
  for (std::int64_t sample = 0; sample < packed.samples(); ++sample) {
    for (std::int64_t head = 0; head < heads; ++head) {
      const HeadIndex index = head_of(packed, hidden, heads, sample, head);
      for (std::int64_t i = 0; i < index.length; ++i) {
        Real lse = 0;
        const Vector<Real> p = probabilities(index, qkv, i, &lse);
        const Vector<Real> weights = dropped(packed, dropout, sample, head, i, p, precision);
        const Vector<Real> out = weighted_values(index, qkv, weights);
        Real inner = 0;
        for (std::int64_t c = 0; c < index.size; ++c) {
          inner += dout[index.out(i, c)] * precision.stored(out[at(0, 1, c)]);
        }
        for (std::int64_t j = 0; j < index.length; ++j) {
          const Real factor = Real(attention_factor(packed, dropout, sample, head, i, j));
          Real dp = 0;
          for (std::int64_t c = 0; c < index.size; ++c) {
            dp += dout[index.out(i, c)] * qkv[index.qkv(2, j, c)] * factor;
            dqkv[index.qkv(2, j, c)] += weights[at(0, 1, j)] * dout[index.out(i, c)];
          }
          const Real ds = precision.stored(p[at(0, 1, j)] * (dp - inner));
          const Real scaled = ds / std::sqrt(Real(index.size));
          for (std::int64_t c = 0; c < index.size; ++c) {
            dqkv[index.qkv(0, i, c)] += scaled * qkv[index.qkv(1, j, c)];
            dqkv[index.qkv(1, j, c)] += scaled * qkv[index.qkv(0, i, c)];
          }
        }
      }
    }
  }
  return precision.stored(std::move(dqkv));
}

template <typename Real>
struct Loss {
  Real sum = 0;
  std::int64_t correct = 0, labelled = 0;
  Vector<Real> gradient;
};

// Of the label: 1 − smoothing + smoothing/classes; of the others: smoothing/classes.
template <typename Real>
Loss<Real> cross_entropy(const Vector<Real>& logits, const std::vector<std::int32_t>& labels,
                         Real scale, const Precision& precision = {}, Real smoothing = 0) {
  const auto rows = static_cast<std::int64_t>(labels.size());
  const auto n = static_cast<std::int64_t>(logits.size()) / rows;
  Loss<Real> loss;
  loss.gradient = zeros<Real>(rows * n);
  for (std::int64_t r = 0; r < rows; ++r) {
    const auto begin = logits.begin() + r * n;
    const auto most = std::max_element(begin, begin + n);
    const std::int64_t label = labels[at(r, 1, 0)];
    if (label < 0) continue;
    ++loss.labelled;
    if (most - begin == label) ++loss.correct;
    Real total = 0;
    for (std::int64_t j = 0; j < n; ++j) total += std::exp(logits[at(r, n, j)] - *most);
    Vector<Real> target(static_cast<std::size_t>(n), smoothing / Real(n));
    target[at(label, 1, 0)] += 1 - smoothing;
    loss.sum += std::log(total) + *most;
    for (std::int64_t j = 0; j < n; ++j) {
      const Real q = target[at(j, 1, 0)];
      const Real p = std::exp(logits[at(r, n, j)] - *most) / total;
      loss.sum -= q == 0 ? Real(0) : q * logits[at(r, n, j)];
      loss.gradient[at(r, n, j)] = precision.stored((p - q) * scale);
    }
  }
  return loss;
}

// logits [T, 2]; tokens from cumulative's last on keep a gradient of zero.
template <typename Real>
Loss<Real> span_cross_entropy(const Vector<Real>& logits, const std::vector<std::int32_t>& answers,
                              const std::vector<std::int32_t>& cumulative, Real scale,
                              const Precision& precision = {}, Real smoothing = 0) {
  Loss<Real> loss;
  loss.gradient = zeros<Real>(static_cast<std::int64_t>(logits.size()));
  for (std::size_t s = 0; s + 1 < cumulative.size(); ++s) {
    if (answers[2 * s] < 0 || answers[2 * s + 1] < 0) continue;
    bool both = true;
    for (std::int64_t c = 0; c < 2; ++c) {
      Vector<Real> column;
      for (std::int64_t t = cumulative[s]; t < cumulative[s + 1]; ++t) {
        column.push_back(logits[at(t, 2, c)]);
      }
      const Loss<Real> one = cross_entropy<Real>(
          column, {answers[2 * s + static_cast<std::size_t>(c)]}, scale / 2, precision, smoothing);
      loss.sum += one.sum / 2;
      both = both && one.correct == 1;
      for (std::size_t i = 0; i < column.size(); ++i) {
        loss.gradient[at(cumulative[s] + static_cast<std::int64_t>(i), 2, c)] = one.gradient[i];
      }
    }
    ++loss.labelled;
    if (both) ++loss.correct;
  }
  return loss;
}

template <typename Real>
Loss<Real> squared_error(const Vector<Real>& logits, const std::vector<float>& values, Real scale,
                         const Precision& precision = {}) {
  Loss<Real> loss;
  for (std::size_t s = 0; s < logits.size(); ++s) {
    const bool counts = !std::isnan(values[s]);
    const Real error = counts ? logits[s] - Real(values[s]) : Real(0);
    loss.sum += error * error;
    loss.gradient.push_back(precision.stored(2 * error * scale));
    if (counts) ++loss.labelled;
  }
  return loss;
}

// The optimizer's settings; all tensors share them.
template <typename Real>
struct Adam {
  Real rate, beta1, beta2, epsilon, decay, correction1, correction2, clip, squared_norm,
      inverse_scale;
  bool lamb;
};
template <typename Real>
struct AdamState {
  Vector<Real> w, m, v;
};

template <typename Real>
void update(const Adam<Real>& adam, const trainer::device::OptimizerTensor& tensor,
            const Vector<Real>& gradients, AdamState<Real>* state) {
  const Real norm = std::sqrt(adam.squared_norm) * adam.inverse_scale;
  const Real clip = adam.clip > 0 && norm > adam.clip ? adam.clip / norm : Real(1);
  const Real factor = clip * adam.inverse_scale;
  Vector<Real> u;
  Real weights = 0;
  Real updates = 0;
  for (std::int64_t k = tensor.offset; k < tensor.offset + tensor.size; ++k) {
    const auto i = static_cast<std::size_t>(k);
    const Real g = gradients[i] * factor;
    state->m[i] = adam.beta1 * state->m[i] + (1 - adam.beta1) * g;
    state->v[i] = adam.beta2 * state->v[i] + (1 - adam.beta2) * g * g;
    const Real first = state->m[i] / adam.correction1;
    const Real second = state->v[i] / adam.correction2;
    u.push_back(first / (std::sqrt(second) + adam.epsilon) +
                (tensor.weight_decay ? adam.decay : Real(0)) * state->w[i]);
    weights += state->w[i] * state->w[i];
    updates += u.back() * u.back();
  }
  Real ratio = 1;
  if (adam.lamb && tensor.trust_ratio && weights > 0 && updates > 0) {
    ratio = std::sqrt(weights) / std::sqrt(updates);
  }
  for (std::int64_t k = 0; k < tensor.size; ++k) {
    state->w[static_cast<std::size_t>(tensor.offset + k)] -=
        adam.rate * Real(tensor.learning_rate) * ratio * u[static_cast<std::size_t>(k)];
  }
}

}  // namespace regatta::tests::reference
