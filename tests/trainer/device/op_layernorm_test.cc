#include "tests/trainer/device/op_cases.h"
#include "tests/trainer/device/packed_tokens.h"
#include "tests/trainer/device/reference_ops.h"

namespace regatta::tests {
namespace {

using trainer::device::View;

struct NormCase {
  std::vector<int> lengths;
  std::int64_t hidden;
  double dropout;
  bool residual;
  std::int64_t spare_tokens = 0, empty_samples = 0;  // padding

  [[nodiscard]] Packed packed() const {
    return Packed(lengths).padded(spare_tokens, empty_samples);
  }
};

const NormCase kCases[] = {
    {{1}, 8, 0, true},
    {{7}, 24, 0, false},
    {{129}, 64, 0, true},
    {{1, 7, 129}, 128, 0.1, true},
    {{7}, 312, 0.1, true},
    {{33, 2}, 768, 0.5, false},
    {{129}, 8, 0.1, false},
    {{5, 60, 1}, 24, 0.25, true},
    {{1}, 768, 0, true},
    {{300, 212}, 128, 0, true},
    {{40, 3}, 64, 0.1, true, 21, 2},
};

std::string name_of(const NormCase& c) {
  return "tokens " + std::to_string(c.packed().tokens()) + " hidden " + std::to_string(c.hidden) +
         " dropout " + std::to_string(c.dropout);
}

struct NormData {
  Packed packed;
  trainer::device::Dropout dropout;
  std::vector<float> factors, x, residual, gamma, beta, dy;

  // Tokens of no sample have no gradient.
  NormData(const NormCase& c, const Precision& precision)
      : packed(c.packed()),
        dropout(some_dropout(c.dropout, 65)),
        factors(row_factors(packed, dropout, c.hidden)) {
    Numbers numbers(21);
    const std::int64_t size = packed.tokens() * c.hidden;
    x = precision.stored(numbers.floats(size, 2));
    residual = c.residual ? precision.stored(numbers.floats(size)) : std::vector<float>();
    gamma = numbers.floats(c.hidden);
    beta = numbers.floats(c.hidden);
    dy = precision.stored(numbers.floats(size));
    std::fill(dy.begin() + packed.used() * c.hidden, dy.end(), 0.0F);
  }
  template <typename Real>
  [[nodiscard]] std::vector<Real> z(const Precision& precision) const {
    std::vector<Real> sum;
    for (std::size_t i = 0; i < x.size(); ++i) {
      sum.push_back(Real(x[i]) * Real(factors[i]) +
                    (residual.empty() ? Real(0) : Real(residual[i])));
    }
    return precision.stored(std::move(sum));
  }
};

constexpr float kEpsilon = 1e-12F;

TEST_P(DeviceOps, LayerNormMatchesItsFormula) {
  for (const NormCase& c : kCases) {
    SCOPED_TRACE(name_of(c));
    const NormData data(c, at().precision());
    const std::int64_t size = data.packed.tokens() * c.hidden;
    trainer::device::LayerNormForward op;
    op.x = at().activations(data.x);
    if (c.residual) op.residual = at().activations(data.residual);
    op.gamma = at().floats(data.gamma);
    op.beta = at().floats(data.beta);
    op.epsilon = kEpsilon;
    op.dropout = data.dropout;
    if (c.dropout != 0) op.tokens = data.packed.on(at());
    op.z = at().activation_output(size);
    op.mean = at().output(data.packed.tokens());
    op.rstd = at().output(data.packed.tokens());
    op.y = at().activation_output(size);
    device().layer_norm_forward(0, op);
    const std::vector<double> exact_z = data.z<double>({});
    const std::vector<float> naive_z = data.z<float>(at().precision());
    const auto exact = reference::layer_norm<double>(exact_z, as<double>(data.gamma),
                                                     as<double>(data.beta), kEpsilon);
    const auto naive =
        reference::layer_norm<float>(naive_z, data.gamma, data.beta, kEpsilon, at().precision());
    expect_close(at(), op.z, exact_z, naive_z, "z");
    expect_close(at(), op.mean, exact.mean, naive.mean, "mean");
    expect_close(at(), op.rstd, exact.rstd, naive.rstd, "rstd");
    expect_close(at(), op.y, exact.y, naive.y, "y");
    View z = at().activations(data.x);  // z may be x
    op.x = z;
    op.z = z;
    const std::vector<float> apart = at().read(op.y);
    device().layer_norm_forward(0, op);
    expect_same(at().read(op.y), apart, "y with z over x");
  }
}

TEST_P(DeviceOps, LayerNormBackwardMatchesItsFormula) {
  for (const NormCase& c : kCases) {
    SCOPED_TRACE(name_of(c));
    const NormData data(c, at().precision());
    const std::int64_t size = data.packed.tokens() * c.hidden;
    const std::vector<float> z = data.z<float>(at().precision());
    const std::vector<float> start = Numbers(4).floats(c.hidden);
    const auto norm = reference::layer_norm<double>(as<double>(z), as<double>(data.gamma),
                                                    as<double>(data.beta), kEpsilon);
    trainer::device::LayerNormBackward op;
    op.dy = at().activations(data.dy);
    op.z = at().activations(z);
    op.mean = at().floats(std::vector<float>(norm.mean.begin(), norm.mean.end()));
    op.rstd = at().floats(std::vector<float>(norm.rstd.begin(), norm.rstd.end()));
    op.gamma = at().floats(data.gamma);
    op.dropout = data.dropout;
    if (c.dropout != 0) op.tokens = data.packed.on(at());
    op.dresidual = op.dy;  // dz may take dy's place
    op.dx = c.dropout != 0 ? at().activation_output(size) : op.dy;
    op.dgamma = at().floats(start);
    op.dbeta = at().floats(start);
    if (c.residual) op.dbias = at().floats(start);
    device().layer_norm_backward(0, op);

    auto exact = reference::layer_norm_backward<double>(as<double>(data.dy), as<double>(z),
                                                        as<double>(data.gamma), kEpsilon);
    auto naive =
        reference::layer_norm_backward<float>(data.dy, z, data.gamma, kEpsilon, at().precision());
    for (std::size_t i = 0; i < start.size(); ++i) {
      exact.dgamma[i] += static_cast<double>(start[i]);
      exact.dbeta[i] += static_cast<double>(start[i]);
      naive.dgamma[i] += start[i];
      naive.dbeta[i] += start[i];
    }
    expect_close(at(), op.dresidual, exact.dz, naive.dz, "dz");
    expect_close(at(), op.dgamma, exact.dgamma, naive.dgamma, "dgamma");
    expect_close(at(), op.dbeta, exact.dbeta, naive.dbeta, "dbeta");
    for (std::size_t i = 0; i < exact.dz.size(); ++i) {
      exact.dz[i] *= static_cast<double>(data.factors[i]);
      naive.dz[i] = at().precision().stored(naive.dz[i] * data.factors[i]);
    }
    expect_close(at(), op.dx, exact.dz, naive.dz, "dx");
    if (!c.residual) continue;
    std::vector<double> exact_bias = as<double>(start);
    std::vector<float> naive_bias = start;
    for (std::size_t i = 0; i < exact.dz.size(); ++i) {
      exact_bias[i % start.size()] += exact.dz[i];
      naive_bias[i % start.size()] += naive.dz[i];
    }
    expect_close(at(), op.dbias, exact_bias, naive_bias, "dbias");
  }
}

// x = 1 shows the mask itself, and it must be the contract's, bit for bit.
TEST_P(DeviceOps, HiddenDropoutMasksAreThoseOfTheContract) {
  for (const std::int64_t hidden : {8, 24, 128, 312, 768}) {
    for (const double probability : {0.1, 0.5, 0.999, 1e-9}) {
      SCOPED_TRACE(std::to_string(hidden) + " p " + std::to_string(probability));
      const Packed packed({1, 7, 40});
      const trainer::device::Dropout dropout = some_dropout(probability, 0xFFFF0003U);
      const std::int64_t size = packed.tokens() * hidden;
      const View h = at().floats(std::vector<float>(static_cast<std::size_t>(hidden), 1.0F));
      trainer::device::LayerNormForward op;
      op.x = at().activations(std::vector<float>(static_cast<std::size_t>(size), 1.0F));
      op.gamma = h;
      op.beta = h;
      op.epsilon = kEpsilon;
      op.dropout = dropout;
      op.tokens = packed.on(at());
      op.z = at().activation_output(size);
      op.mean = at().output(packed.tokens());
      op.rstd = at().output(packed.tokens());
      op.y = at().activation_output(size);
      device().layer_norm_forward(0, op);
      expect_same(at().read(op.z), at().rounded(row_factors(packed, dropout, hidden)), "mask");
    }
  }
}

// A row of one value has variance 0; epsilon keeps it finite.
TEST_P(DeviceOps, LayerNormOfAConstantRowIsBeta) {
  const std::vector<float> beta = Numbers(3).floats(24);
  trainer::device::LayerNormForward op;
  op.x = at().activations(std::vector<float>(24, 3.0F));
  op.gamma = at().floats(std::vector<float>(24, 1.0F));
  op.beta = at().floats(beta);
  op.epsilon = kEpsilon;
  op.z = at().activation_output(24);
  op.mean = at().output(1);
  op.rstd = at().output(1);
  op.y = at().activation_output(24);
  device().layer_norm_forward(0, op);
  expect_same(at().read(op.y), at().rounded(beta), "y");
  EXPECT_NEAR(at().read(op.rstd)[0], 1e6F, 1.0F);
}

}  // namespace
}  // namespace regatta::tests
