#include "tests/trainer/model/tape.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "tests/trainer/model/rounding.h"

namespace regatta::tests {
Node* Tape::make(std::size_t rows, std::size_t columns) {
  nodes_.push_back(std::make_unique<Node>());
  Node* node = nodes_.back().get();
  node->rows = rows;
  node->columns = columns;
  node->value.assign(rows * columns, 0.0);
  node->gradient.assign(rows * columns, 0.0);
  return node;
}

Node* Tape::input(std::size_t rows, std::size_t columns, const std::vector<double>& value) {
  Node* node = make(rows, columns);
  node->magnitude.assign(rows * columns, 0.0);
  node->value.assign(value.begin(), value.begin() + static_cast<std::ptrdiff_t>(rows * columns));
  return node;
}

Node* Tape::linear(Node* x, Node* weight, Node* bias) {
  Node* y = make(x->rows, weight->rows);
  for (std::size_t r = 0; r < x->rows; ++r) {
    for (std::size_t o = 0; o < weight->rows; ++o) {
      double sum = bias->value[o];
      for (std::size_t i = 0; i < x->columns; ++i) sum += x->at(r, i) * weight->at(o, i);
      y->at(r, o) = sum;
    }
  }
  on_backward([=] {
    for (std::size_t r = 0; r < x->rows; ++r) {
      for (std::size_t o = 0; o < weight->rows; ++o) {
        const double g = y->grad(r, o);
        bias->add_to_gradient(o, g);
        for (std::size_t i = 0; i < x->columns; ++i) {
          x->grad(r, i) += g * weight->at(o, i);
          weight->add_to_gradient(o * weight->columns + i, g * x->at(r, i));
        }
      }
    }
  });
  on_rounding([=] {
    double total = 0;
    for (std::size_t r = 0; r < x->rows; ++r) {
      for (std::size_t o = 0; o < weight->rows; ++o) {
        if (y->grad(r, o) == 0) continue;
        RoundedSum sum(bias->value[o]);
        for (std::size_t i = 0; i < x->columns; ++i)
          sum.add_product(x->at(r, i) * weight->at(o, i));
        total += square(y->grad(r, o)) * sum.squares();
      }
    }
    return total;
  });
  return y;
}

Node* Tape::add(Node* x, Node* y) {
  Node* z = make(x->rows, x->columns);
  for (std::size_t i = 0; i < z->value.size(); ++i) z->value[i] = x->value[i] + y->value[i];
  on_backward([=] {
    for (std::size_t i = 0; i < z->value.size(); ++i) {
      x->gradient[i] += z->gradient[i];
      y->gradient[i] += z->gradient[i];
    }
  });
  on_rounding([=] {
    double total = 0;
    for (std::size_t i = 0; i < z->value.size(); ++i) total += square(z->gradient[i] * z->value[i]);
    return total;
  });
  return z;
}

Node* Tape::gelu(Node* x, bool tanh_form) {
  Node* y = make(x->rows, x->columns);
  const double root = std::sqrt(2.0 / std::numbers::pi);
  for (std::size_t i = 0; i < x->value.size(); ++i) {
    const double v = x->value[i];
    y->value[i] = tanh_form ? 0.5 * v * (1 + std::tanh(root * (v + 0.044715 * v * v * v)))
                            : 0.5 * v * std::erfc(-v / std::numbers::sqrt2);
  }
  on_backward([=] {
    for (std::size_t i = 0; i < x->value.size(); ++i) {
      const double v = x->value[i];
      double slope = 0;
      if (tanh_form) {
        const double t = std::tanh(root * (v + 0.044715 * v * v * v));
        slope = 0.5 * (1 + t) + 0.5 * v * (1 - t * t) * root * (1 + 3 * 0.044715 * v * v);
      } else {
        slope = 0.5 * std::erfc(-v / std::numbers::sqrt2) +
                v * std::exp(-0.5 * v * v) / std::sqrt(2 * std::numbers::pi);
      }
      x->gradient[i] += slope * y->gradient[i];
    }
  });
  on_rounding([=] {
    double total = 0;
    for (std::size_t i = 0; i < x->value.size(); ++i) {
      total += square(y->gradient[i]) * gelu_rounding(x->value[i], y->value[i], tanh_form);
    }
    return total;
  });
  return y;
}

Node* Tape::tanh(Node* x) {
  Node* y = make(x->rows, x->columns);
  for (std::size_t i = 0; i < x->value.size(); ++i) y->value[i] = std::tanh(x->value[i]);
  on_backward([=] {
    for (std::size_t i = 0; i < x->value.size(); ++i) {
      x->gradient[i] += (1 - y->value[i] * y->value[i]) * y->gradient[i];
    }
  });
  on_rounding([=] {
    double total = 0;
    for (std::size_t i = 0; i < x->value.size(); ++i) {
      total += kFunctionRounding * square(y->gradient[i] * y->value[i]);
    }
    return total;
  });
  return y;
}

Node* Tape::layer_norm(Node* x, Node* gamma, Node* beta, double epsilon) {
  Node* y = make(x->rows, x->columns);
  const auto n = static_cast<double>(x->columns);
  std::vector<double> normal(x->value.size());
  std::vector<double> inverse(x->rows);
  for (std::size_t r = 0; r < x->rows; ++r) {
    double mean = 0;
    double variance = 0;
    for (std::size_t c = 0; c < x->columns; ++c) mean += x->at(r, c) / n;
    for (std::size_t c = 0; c < x->columns; ++c) variance += std::pow(x->at(r, c) - mean, 2) / n;
    inverse[r] = 1 / std::sqrt(variance + epsilon);
    for (std::size_t c = 0; c < x->columns; ++c) {
      normal[r * x->columns + c] = (x->at(r, c) - mean) * inverse[r];
      y->at(r, c) = normal[r * x->columns + c] * gamma->value[c] + beta->value[c];
    }
  }
  on_backward([=] {
    for (std::size_t r = 0; r < x->rows; ++r) {
      double sum = 0;
      double dot = 0;
      for (std::size_t c = 0; c < x->columns; ++c) {
        const double g = y->grad(r, c) * gamma->value[c];
        const double z = normal[r * x->columns + c];
        sum += g / n;
        dot += g * z / n;
        gamma->add_to_gradient(c, y->grad(r, c) * z);
        beta->add_to_gradient(c, y->grad(r, c));
      }
      for (std::size_t c = 0; c < x->columns; ++c) {
        const double g = y->grad(r, c) * gamma->value[c];
        x->grad(r, c) += inverse[r] * (g - sum - normal[r * x->columns + c] * dot);
      }
    }
  });
  on_rounding([=] {
    double total = 0;
    for (std::size_t r = 0; r < x->rows; ++r) {
      const std::size_t begin = r * x->columns;
      total += norm_rounding({&x->value[begin], gamma->value.data(), &y->value[begin],
                              &y->gradient[begin], x->columns, epsilon});
    }
    return total;
  });
  return y;
}

Node* Tape::scale_elements(Node* x, const std::vector<double>& factors) {
  Node* y = make(x->rows, x->columns);
  for (std::size_t i = 0; i < x->value.size(); ++i) y->value[i] = x->value[i] * factors[i];
  on_backward([=] {
    for (std::size_t i = 0; i < x->value.size(); ++i) x->gradient[i] += y->gradient[i] * factors[i];
  });
  on_rounding([=] {
    double total = 0;
    for (std::size_t i = 0; i < y->value.size(); ++i) {
      if (factors[i] != 1) total += 2 * square(y->gradient[i] * y->value[i]);  // the factor, too
    }
    return total;
  });
  return y;
}

Node* Tape::gather(Node* x, const std::vector<int>& rows) {
  Node* y = make(rows.size(), x->columns);
  for (std::size_t r = 0; r < rows.size(); ++r) {
    for (std::size_t c = 0; c < x->columns; ++c) {
      y->at(r, c) = x->at(static_cast<std::size_t>(rows[r]), c);
    }
  }
  on_backward([=] {
    for (std::size_t r = 0; r < rows.size(); ++r) {
      for (std::size_t c = 0; c < x->columns; ++c) {
        x->add_to_gradient(static_cast<std::size_t>(rows[r]) * x->columns + c, y->grad(r, c));
      }
    }
  });
  return y;
}

Node* Tape::columns(Node* x, std::size_t begin, std::size_t count) {
  Node* y = make(x->rows, count);
  for (std::size_t r = 0; r < x->rows; ++r) {
    for (std::size_t c = 0; c < count; ++c) y->at(r, c) = x->at(r, begin + c);
  }
  on_backward([=] {
    for (std::size_t r = 0; r < x->rows; ++r) {
      for (std::size_t c = 0; c < count; ++c) x->grad(r, begin + c) += y->grad(r, c);
    }
  });
  return y;
}

Node* Tape::join_columns(const std::vector<Node*>& parts) {
  std::size_t width = 0;
  for (const Node* part : parts) width += part->columns;
  Node* y = make(parts[0]->rows, width);
  const auto each =
      [=](const std::function<void(Node*, std::size_t, std::size_t, std::size_t)>& f) {
        std::size_t begin = 0;
        for (Node* part : parts) {
          for (std::size_t r = 0; r < part->rows; ++r) {
            for (std::size_t c = 0; c < part->columns; ++c) f(part, r, c, begin + c);
          }
          begin += part->columns;
        }
      };
  each([&](Node* part, std::size_t r, std::size_t c, std::size_t to) {
    y->at(r, to) = part->at(r, c);
  });
  on_backward([=] {
    each([&](Node* part, std::size_t r, std::size_t c, std::size_t from) {
      part->grad(r, c) += y->grad(r, from);
    });
  });
  return y;
}

Node* Tape::join_rows(const std::vector<Node*>& parts) {
  std::size_t height = 0;
  for (const Node* part : parts) height += part->rows;
  Node* y = make(height, parts[0]->columns);
  std::size_t begin = 0;
  for (const Node* part : parts) {
    std::copy(part->value.begin(), part->value.end(),
              y->value.begin() + static_cast<std::ptrdiff_t>(begin));
    begin += part->value.size();
  }
  on_backward([=] {
    std::size_t from = 0;
    for (Node* part : parts) {
      for (std::size_t i = 0; i < part->value.size(); ++i)
        part->gradient[i] += y->gradient[from + i];
      from += part->value.size();
    }
  });
  return y;
}

Node* Tape::attention(Node* q, Node* k, Node* v, double scale, const std::vector<double>& factors) {
  const std::size_t n = q->rows;
  std::vector<double> p(n * n);
  for (std::size_t i = 0; i < n; ++i) {
    double largest = -1e300;
    for (std::size_t j = 0; j < n; ++j) {
      double dot = 0;
      for (std::size_t c = 0; c < q->columns; ++c) dot += q->at(i, c) * k->at(j, c);
      p[i * n + j] = dot * scale;
      largest = std::max(largest, p[i * n + j]);
    }
    double sum = 0;
    for (std::size_t j = 0; j < n; ++j) sum += p[i * n + j] = std::exp(p[i * n + j] - largest);
    for (std::size_t j = 0; j < n; ++j) p[i * n + j] /= sum;
  }
  Node* y = make(n, v->columns);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      for (std::size_t c = 0; c < v->columns; ++c) {
        y->at(i, c) += p[i * n + j] * factors[i * n + j] * v->at(j, c);
      }
    }
  }
  on_backward([=] {
    for (std::size_t i = 0; i < n; ++i) {
      std::vector<double> dp(n, 0.0);
      double dot = 0;
      for (std::size_t j = 0; j < n; ++j) {
        for (std::size_t c = 0; c < v->columns; ++c) {
          dp[j] += y->grad(i, c) * v->at(j, c) * factors[i * n + j];
          v->grad(j, c) += y->grad(i, c) * p[i * n + j] * factors[i * n + j];
        }
        dot += dp[j] * p[i * n + j];
      }
      for (std::size_t j = 0; j < n; ++j) {
        const double ds = p[i * n + j] * (dp[j] - dot) * scale;
        for (std::size_t c = 0; c < q->columns; ++c) {
          q->grad(i, c) += ds * k->at(j, c);
          k->grad(j, c) += ds * q->at(i, c);
        }
      }
    }
  });
  on_rounding([=] {
    double total = 0;
    for (std::size_t i = 0; i < n; ++i)
      total += attention_rounding({q, k, v, y, p, factors, scale}, i);
    return total;
  });
  return y;
}

Node* Tape::cross_entropy(Node* logits, const std::vector<int>& labels, double weight) {
  Node* loss = make(1, 1);
  std::vector<double> p(logits->value.size());
  for (std::size_t r = 0; r < logits->rows; ++r) {
    double largest = -1e300;
    for (std::size_t c = 0; c < logits->columns; ++c) largest = std::max(largest, logits->at(r, c));
    double sum = 0;
    for (std::size_t c = 0; c < logits->columns; ++c) sum += std::exp(logits->at(r, c) - largest);
    for (std::size_t c = 0; c < logits->columns; ++c) {
      p[r * logits->columns + c] = std::exp(logits->at(r, c) - largest) / sum;
    }
    loss->value[0] +=
        weight * (std::log(sum) + largest - logits->at(r, static_cast<std::size_t>(labels[r])));
  }
  on_backward([=] {
    for (std::size_t r = 0; r < logits->rows; ++r) {
      for (std::size_t c = 0; c < logits->columns; ++c) {
        const double hit = c == static_cast<std::size_t>(labels[r]) ? 1.0 : 0.0;
        logits->grad(r, c) += loss->gradient[0] * weight * (p[r * logits->columns + c] - hit);
      }
    }
  });
  on_rounding([=] {
    double total = 0;
    RoundedSum losses;
    for (std::size_t r = 0; r < logits->rows; ++r) {
      const auto label = static_cast<std::size_t>(labels[r]);
      const double* const x = &logits->value[r * logits->columns];
      total += cross_entropy_rounding(x, logits->columns, label);
      losses.add(-std::log(p[r * logits->columns + label]));
    }
    return square(loss->gradient[0] * weight) * (total + losses.squares() + square(losses.sum()));
  });
  return loss;
}

Node* Tape::soft_cross_entropy(Node* logits, const std::vector<double>& targets, double weight) {
  Node* loss = make(1, 1);
  std::vector<double> slope(logits->value.size());  // of the loss by each logit
  for (std::size_t r = 0; r < logits->rows; ++r) {
    double sum = 0, share = 0, expected = 0;
    for (std::size_t c = 0; c < logits->columns; ++c) {
      const double target = targets[r * logits->columns + c];
      sum += std::exp(logits->at(r, c));  // small enough in every test
      share += target;
      expected += target * logits->at(r, c);
    }
    loss->value[0] += weight * (share * std::log(sum) - expected);
    for (std::size_t c = 0; c < logits->columns; ++c) {
      const std::size_t i = r * logits->columns + c;
      slope[i] = weight * (share * std::exp(logits->value[i]) / sum - targets[i]);
    }
  }
  on_backward([=] {
    for (std::size_t i = 0; i < slope.size(); ++i) {
      logits->gradient[i] += loss->gradient[0] * slope[i];
    }
  });
  return loss;
}

Node* Tape::squared_error(Node* x, const std::vector<double>& values, double weight) {
  Node* loss = make(1, 1);
  std::vector<double> slope(x->value.size(), 0.0);
  for (std::size_t i = 0; i < slope.size(); ++i) {
    if (std::isnan(values[i])) continue;
    const double error = x->value[i] - values[i];
    loss->value[0] += weight * error * error;
    slope[i] = weight * 2 * error;
  }
  on_backward([=] {
    for (std::size_t i = 0; i < slope.size(); ++i) {
      x->gradient[i] += loss->gradient[0] * slope[i];
    }
  });
  return loss;
}

Node* Tape::row_of(Node* x) {
  Node* row = make(1, x->value.size());
  row->value = x->value;
  on_backward([=] {
    for (std::size_t i = 0; i < row->value.size(); ++i) x->gradient[i] += row->gradient[i];
  });
  return row;
}

void Tape::backward(Node* result, const std::vector<double>& weights) {
  for (const auto& node : nodes_) {
    std::fill(node->gradient.begin(), node->gradient.end(), 0.0);
    std::fill(node->magnitude.begin(), node->magnitude.end(), 0.0);
  }
  result->gradient = weights;
  for (auto step = steps_.rbegin(); step != steps_.rend(); ++step) (*step)();
}

double Tape::rounding() const {
  double total = 0;
  for (const auto& squares : roundings_) total += squares();
  return total;
}

}  // namespace regatta::tests
