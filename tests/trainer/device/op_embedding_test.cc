#include <algorithm>
#include <numeric>

#include "tests/trainer/device/op_cases.h"
#include "tests/trainer/device/packed_tokens.h"
#include "tests/trainer/device/reference_ops.h"

namespace regatta::tests {
namespace {

using trainer::device::View;

struct EmbeddingCase {
  std::vector<int> lengths;
  std::int64_t hidden;
  std::int32_t vocabulary;
  double dropout;
  std::int64_t spare_tokens = 0, empty_samples = 0;  // padding

  [[nodiscard]] Packed packed() const {
    return Packed(lengths).padded(spare_tokens, empty_samples);
  }
};

const EmbeddingCase kCases[] = {
    {{1}, 8, 5, 0},
    {{7}, 24, 3, 0.1},
    {{129}, 64, 1000, 0},
    {{1, 7, 129}, 128, 50, 0.1},
    {{60, 60, 61}, 312, 7, 0.25},
    {{33, 2}, 768, 1, 0.1},
    {{400, 300}, 32, 40, 0},
    {{30, 2, 5}, 64, 20, 0.1, 27, 3},
    {{9}, 24, 4, 0, 1, 1},
};
constexpr std::int32_t kTypes = 3;
constexpr std::int64_t kPositions = 512;
constexpr float kEpsilon = 1e-12F;

struct EmbeddingData {
  Packed packed;
  trainer::device::Dropout dropout;
  std::vector<float> factors, word, position, type, gamma, beta, dy;
  std::vector<std::int32_t> ids, types, sorted;

  // Tokens of no sample have no gradient.
  EmbeddingData(const EmbeddingCase& c, const Precision& precision)
      : packed(c.packed()),
        dropout(some_dropout(c.dropout, 16)),
        factors(row_factors(packed, dropout, c.hidden)) {
    Numbers numbers(31);
    word = precision.stored(numbers.floats(c.vocabulary * c.hidden));
    position = precision.stored(numbers.floats(kPositions * c.hidden));
    type = precision.stored(numbers.floats(kTypes * c.hidden));
    gamma = numbers.floats(c.hidden);
    beta = numbers.floats(c.hidden);
    dy = precision.stored(numbers.floats(packed.tokens() * c.hidden));
    std::fill(dy.begin() + packed.used() * c.hidden, dy.end(), 0.0F);
    ids = numbers.below(packed.tokens(), c.vocabulary);
    types = numbers.below(packed.tokens(), kTypes);
    sorted.resize(ids.size());
    std::iota(sorted.begin(), sorted.end(), 0);
    std::stable_sort(sorted.begin(), sorted.end(), [&](std::int32_t a, std::int32_t b) {
      return ids[static_cast<std::size_t>(a)] < ids[static_cast<std::size_t>(b)];
    });
  }
  template <typename Real>
  [[nodiscard]] std::vector<Real> x(std::int64_t hidden, const Precision& precision) const {
    std::vector<Real> sum;
    for (std::size_t t = 0; t < ids.size(); ++t) {
      for (std::int64_t c = 0; c < hidden; ++c) {
        sum.push_back(Real(word[reference::at(ids[t], hidden, c)]) +
                      Real(position[reference::at(packed.position[t], hidden, c)]) +
                      Real(type[reference::at(types[t], hidden, c)]));
      }
    }
    return precision.stored(std::move(sum));
  }
};

std::string name_of(const EmbeddingCase& c) {
  return "tokens " + std::to_string(c.packed().tokens()) + " hidden " + std::to_string(c.hidden) +
         " dropout " + std::to_string(c.dropout);
}

TEST_P(DeviceOps, EmbeddingMatchesItsFormula) {
  for (const EmbeddingCase& c : kCases) {
    SCOPED_TRACE(name_of(c));
    const EmbeddingData data(c, at().precision());
    const std::int64_t count = data.packed.tokens();
    trainer::device::EmbeddingForward op;
    op.ids = at().ints(data.ids);
    op.types = at().ints(data.types);
    op.word = at().activations(data.word);
    op.position = at().activations(data.position);
    op.type = at().activations(data.type);
    op.gamma = at().floats(data.gamma);
    op.beta = at().floats(data.beta);
    op.epsilon = kEpsilon;
    op.dropout = data.dropout;
    op.tokens = data.packed.on(at());
    op.x = at().activation_output(count * c.hidden);
    op.mean = at().output(count);
    op.rstd = at().output(count);
    op.y = at().activation_output(count * c.hidden);
    device().embedding_forward(0, op);
    const std::vector<double> exact_x = data.x<double>(c.hidden, {});
    const std::vector<float> naive_x = data.x<float>(c.hidden, at().precision());
    auto exact = reference::layer_norm<double>(exact_x, as<double>(data.gamma),
                                               as<double>(data.beta), kEpsilon);
    auto naive = reference::layer_norm<float>(naive_x, data.gamma, data.beta, kEpsilon);
    for (std::size_t i = 0; i < exact.y.size(); ++i) {
      exact.y[i] *= static_cast<double>(data.factors[i]);
      naive.y[i] = at().precision().stored(naive.y[i] * data.factors[i]);
    }
    expect_close(at(), op.x, exact_x, naive_x, "x");
    expect_close(at(), op.mean, exact.mean, naive.mean, "mean");
    expect_close(at(), op.rstd, exact.rstd, naive.rstd, "rstd");
    expect_close(at(), op.y, exact.y, naive.y, "y");
  }
}

template <typename Real>
struct EmbeddingGradients {
  std::vector<Real> word, position, type, gamma, beta;
};

template <typename Real>
EmbeddingGradients<Real> expected_gradients(const EmbeddingData& data, const EmbeddingCase& c,
                                            const std::vector<float>& x,
                                            const EmbeddingGradients<float>& start,
                                            const Precision& precision) {
  std::vector<Real> dy = as<Real>(data.dy);
  for (std::size_t i = 0; i < dy.size(); ++i) dy[i] *= Real(data.factors[i]);
  const auto norm = reference::layer_norm_backward<Real>(dy, as<Real>(x), as<Real>(data.gamma),
                                                         Real(kEpsilon), precision);
  EmbeddingGradients<Real> sum{as<Real>(start.word), as<Real>(start.position), as<Real>(start.type),
                               as<Real>(start.gamma), as<Real>(start.beta)};
  const auto add_row = [&](std::vector<Real>* to, std::int64_t row, std::size_t token) {
    for (std::int64_t i = 0; i < c.hidden; ++i) {
      (*to)[reference::at(row, c.hidden, i)] +=
          norm.dz[reference::at(static_cast<std::int64_t>(token), c.hidden, i)];
    }
  };
  for (std::size_t t = 0; t < data.ids.size(); ++t) {
    add_row(&sum.word, data.ids[t], t);
    add_row(&sum.position, data.packed.position[t], t);
    add_row(&sum.type, data.types[t], t);
  }
  for (std::size_t i = 0; i < sum.gamma.size(); ++i) {
    sum.gamma[i] += norm.dgamma[i];
    sum.beta[i] += norm.dbeta[i];
  }
  return sum;
}

TEST_P(DeviceOps, EmbeddingBackwardMatchesItsFormula) {
  for (const EmbeddingCase& c : kCases) {
    SCOPED_TRACE(name_of(c));
    const EmbeddingData data(c, at().precision());
    const std::vector<float> x = data.x<float>(c.hidden, at().precision());
    const auto norm = reference::layer_norm<double>(as<double>(x), as<double>(data.gamma),
                                                    as<double>(data.beta), kEpsilon);
    Numbers numbers(5);
    EmbeddingGradients<float> start;
    start.word = numbers.floats(c.vocabulary * c.hidden);
    start.position = numbers.floats(kPositions * c.hidden);
    start.type = numbers.floats(kTypes * c.hidden);
    start.gamma = numbers.floats(c.hidden);
    start.beta = numbers.floats(c.hidden);
    trainer::device::EmbeddingBackward op;
    op.ids = at().ints(data.ids);
    op.types = at().ints(data.types);
    op.sorted = at().ints(data.sorted);
    op.gamma = at().floats(data.gamma);
    op.x = at().activations(x);
    op.mean = at().floats(std::vector<float>(norm.mean.begin(), norm.mean.end()));
    op.rstd = at().floats(std::vector<float>(norm.rstd.begin(), norm.rstd.end()));
    op.dropout = data.dropout;
    op.tokens = data.packed.on(at());
    op.dy = at().activations(data.dy);
    op.dword = at().floats(start.word);
    op.dposition = at().floats(start.position);
    op.dtype_rows = at().floats(start.type);
    op.dgamma = at().floats(start.gamma);
    op.dbeta = at().floats(start.beta);
    device().embedding_backward(0, op);
    const auto exact = expected_gradients<double>(data, c, x, start, {});
    const auto naive = expected_gradients<float>(data, c, x, start, at().precision());
    expect_close(at(), op.dword, exact.word, naive.word, "dword");
    expect_close(at(), op.dposition, exact.position, naive.position, "dposition");
    expect_close(at(), op.dtype_rows, exact.type, naive.type, "dtype");
    expect_close(at(), op.dgamma, exact.gamma, naive.gamma, "dgamma");
    expect_close(at(), op.dbeta, exact.beta, naive.beta, "dbeta");
  }
}

}  // namespace
}  // namespace regatta::tests
