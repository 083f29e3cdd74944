// The float64 references' gradients against finite differences of their own forward: the oracle of
// every device must itself be right. Loss = Σ weight·output.
#include "tests/trainer/device/reference_ops.h"

#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

namespace regatta::tests {
namespace {

using Doubles = std::vector<double>;

// Central differences of `loss` by every element of `x`; the error is of order step².
template <typename Loss>
Doubles slopes(Doubles x, Loss loss) {
  constexpr double kStep = 1e-5;
  Doubles result;
  for (double& value : x) {
    const double before = value;
    value = before + kStep;
    const double above = loss(x);
    value = before - kStep;
    const double below = loss(x);
    value = before;
    result.push_back((above - below) / (2 * kStep));
  }
  return result;
}

double dot(const Doubles& a, const Doubles& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

void expect_near(const Doubles& actual, const Doubles& expected, const std::string& what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    ASSERT_NEAR(actual[i], expected[i], 2e-8 * (1 + std::abs(expected[i])))
        << what << "[" << i << "]";
  }
}

Doubles numbers(unsigned seed, std::int64_t count) {
  return as<double>(Numbers(seed).floats(count));
}

TEST(ReferenceOps, GeluSlopeIsItsDerivative) {
  for (const bool tanh_form : {false, true}) {
    const Doubles x = as<double>(Numbers(1).floats(50, 4));
    Doubles exact;
    for (const double value : x) exact.push_back(reference::gelu_slope(value, tanh_form));
    const auto loss = [&](const Doubles& at) {
      double sum = 0;
      for (const double value : at) sum += reference::gelu(value, tanh_form);
      return sum;
    };
    expect_near(slopes(x, loss), exact, tanh_form ? "tanh form" : "erf form");
  }
}

TEST(ReferenceOps, GeluHasItsPublishedValues) {
  // Φ(1) = 0.8413447460685429; the tanh form is close to it, not equal.
  EXPECT_NEAR(reference::gelu(1.0, false), 0.8413447460685429, 1e-15);
  EXPECT_NEAR(reference::gelu(1.0, true), 0.8411919906082768, 1e-12);
}

TEST(ReferenceOps, LayerNormBackwardIsItsDerivative) {
  const std::int64_t rows = 3, h = 8;
  const Doubles z = numbers(1, rows * h);
  const Doubles gamma = numbers(2, h);
  const Doubles beta = numbers(3, h);
  const Doubles weight = numbers(4, rows * h);
  const auto result = reference::layer_norm_backward(weight, z, gamma, 1e-3);
  const auto loss = [&](const Doubles& at_z, const Doubles& at_gamma, const Doubles& at_beta) {
    return dot(weight, reference::layer_norm(at_z, at_gamma, at_beta, 1e-3).y);
  };
  expect_near(slopes(z, [&](const Doubles& x) { return loss(x, gamma, beta); }), result.dz, "dz");
  expect_near(slopes(gamma, [&](const Doubles& x) { return loss(z, x, beta); }), result.dgamma,
              "dgamma");
  expect_near(slopes(beta, [&](const Doubles& x) { return loss(z, gamma, x); }), result.dbeta,
              "dbeta");
}

TEST(ReferenceOps, AttentionBackwardIsItsDerivative) {
  const Packed packed({1, 9, 4});
  const int heads = 2;
  const std::int64_t hidden = 6;
  for (const double probability : {0.0, 0.3}) {
    const trainer::device::Dropout dropout = some_dropout(probability, 64);
    const Doubles qkv = numbers(5, packed.tokens() * 3 * hidden);
    const Doubles weight = numbers(6, packed.tokens() * hidden);
    const auto loss = [&](const Doubles& x) {
      return dot(weight, reference::attention(packed, dropout, heads, x).out);
    };
    expect_near(slopes(qkv, loss),
                reference::attention_backward(packed, dropout, heads, qkv, weight), "dqkv");
  }
}

TEST(ReferenceOps, CrossEntropyGradientIsItsDerivative) {
  const std::vector<std::int32_t> labels = {0, 4, 2};
  const Doubles logits = numbers(7, 15);
  const auto loss = [&](const Doubles& x) {
    return 0.25 * reference::cross_entropy(x, labels, 1.0).sum;
  };
  expect_near(slopes(logits, loss), reference::cross_entropy(logits, labels, 0.25).gradient,
              "dlogits");
}

TEST(ReferenceOps, SmoothedCrossEntropyGradientIsItsDerivative) {
  const std::vector<std::int32_t> labels = {0, -1, 2};
  const Doubles logits = numbers(7, 15);
  for (const double smoothing : {0.1, 0.75}) {
    const auto loss = [&](const Doubles& x) {
      return 0.25 * reference::cross_entropy(x, labels, 1.0, {}, smoothing).sum;
    };
    expect_near(slopes(logits, loss),
                reference::cross_entropy(logits, labels, 0.25, {}, smoothing).gradient, "dlogits");
  }
}

// (1 − e)·the loss of the label + e·the mean of the losses of every class: the definition.
TEST(ReferenceOps, SmoothedCrossEntropyMixesTheLossesOfAllClasses) {
  const Doubles logits = numbers(17, 6);
  double mean = 0;
  for (std::int32_t label = 0; label < 6; ++label) {
    mean += reference::cross_entropy(logits, {label}, 1.0).sum / 6;
  }
  const double alone = reference::cross_entropy(logits, {4}, 1.0).sum;
  EXPECT_NEAR(reference::cross_entropy(logits, {4}, 1.0, {}, 0.3).sum, 0.7 * alone + 0.3 * mean,
              1e-14);
}

TEST(ReferenceOps, SpanCrossEntropyGradientIsItsDerivative) {
  const std::vector<std::int32_t> cumulative = {0, 1, 6, 9, 9};
  const std::vector<std::int32_t> answers = {0, 0, 4, 2, -1, 1, -1, -1};
  const Doubles logits = numbers(18, 2 * 11);
  for (const double smoothing : {0.0, 0.2}) {
    const auto loss = [&](const Doubles& x) {
      return 0.5 * reference::span_cross_entropy(x, answers, cumulative, 1.0, {}, smoothing).sum;
    };
    const auto exact =
        reference::span_cross_entropy(logits, answers, cumulative, 0.5, {}, smoothing);
    expect_near(slopes(logits, loss), exact.gradient, "dlogits");
    EXPECT_EQ(exact.labelled, 2);
  }
}

// By hand: the beginnings lose log 2, the ends log(1 + 1/3).
TEST(ReferenceOps, SpanCrossEntropyHasItsValue) {
  const auto loss =
      reference::span_cross_entropy<double>({0, 0, 0, std::log(3.0)}, {1, 1}, {0, 2}, 1.0);
  EXPECT_NEAR(loss.sum, 0.5 * (std::log(2.0) + std::log(4.0 / 3)), 1e-15);
  EXPECT_EQ(loss.correct, 0) << "the beginnings tie";
}

TEST(ReferenceOps, SquaredErrorGradientIsItsDerivative) {
  const std::vector<float> values = {0.5F, std::nanf(""), -1, 0};
  const Doubles logits = numbers(19, 4);
  const auto loss = [&](const Doubles& x) {
    return 0.25 * reference::squared_error(x, values, 1.0).sum;
  };
  const auto exact = reference::squared_error(logits, values, 0.25);
  expect_near(slopes(logits, loss), exact.gradient, "dlogits");
  EXPECT_EQ(exact.labelled, 3);
}

// A large vocabulary of equal logits loses log V: the loss with which training starts.
TEST(ReferenceOps, CrossEntropyOfEqualLogitsIsTheirLogarithm) {
  const auto loss = reference::cross_entropy(Doubles(1000, 0.5), {17}, 1.0);
  EXPECT_NEAR(loss.sum, std::log(1000.0), 1e-12);
  EXPECT_EQ(loss.correct, 0);
}

// Padded tokens have no gradient and change none.
TEST(ReferenceOps, AttentionOfPaddingIsZero) {
  const Packed packed({3, 5});
  const Packed padded = packed.padded(4, 2);
  const trainer::device::Dropout dropout = some_dropout(0.2, 64);
  const std::int64_t hidden = 6;
  const Doubles qkv = numbers(8, padded.tokens() * 3 * hidden);
  const Doubles dout = numbers(9, padded.tokens() * hidden);
  const auto alone = reference::attention_backward<double>(
      packed, dropout, 2, {qkv.begin(), qkv.begin() + packed.tokens() * 3 * hidden},
      {dout.begin(), dout.begin() + packed.tokens() * hidden});
  Doubles expected = alone;
  expected.resize(qkv.size());
  EXPECT_EQ(reference::attention_backward(padded, dropout, 2, qkv, dout), expected);
}

TEST(ReferenceOps, CrossEntropySkipsRowsWithoutALabel) {
  const Doubles logits = numbers(7, 15);
  const auto loss = reference::cross_entropy(logits, {0, -1, 2}, 1.0);
  EXPECT_EQ(loss.labelled, 2);
  for (std::size_t i = 5; i < 10; ++i) EXPECT_EQ(loss.gradient[i], 0.0);
  const Doubles first(logits.begin(), logits.begin() + 5);
  const Doubles last(logits.begin() + 10, logits.end());
  EXPECT_NEAR(
      loss.sum,
      reference::cross_entropy(first, {0}, 1.0).sum + reference::cross_entropy(last, {2}, 1.0).sum,
      1e-14);
}

// The tolerance: twice the naive error, four roundings of the largest, and half a 16-bit unit where
// the result is stored in one.
TEST(ExpectClose, AllowsWhatItSaysAndNoMore) {
  const std::vector<double> exact = {1.0, -0.5};
  const std::vector<float> naive = {1.0F, -0.5F};
  const std::vector<float> off = {1.0F + 0x1p-10F, -0.5F};
  expect_close({1.0F + 0x1p-22F, -0.5F}, exact, naive, "four roundings");
  EXPECT_NONFATAL_FAILURE(expect_close({1.0F + 0x1p-21F, -0.5F}, exact, naive, "more"), "more");
  expect_close({1.0F, -0.5F - 0x1p-9F}, exact, off, "twice the naive error");
  EXPECT_NONFATAL_FAILURE(expect_close({1.0F, -0.5F - 0x1.1p-9F}, exact, off, "more"), "more");
  using trainer::device::Dtype;
  expect_close({1.0F, -0.5F + 0x1p-8F}, exact, naive, "half a unit", Dtype::BFloat16);
  EXPECT_NONFATAL_FAILURE(
      expect_close({1.0F, -0.5F + 0x1p-7F}, exact, naive, "a unit", Dtype::BFloat16), "a unit");
  EXPECT_NONFATAL_FAILURE(
      expect_close({1.0F, -0.5F + 0x1p-8F}, exact, naive, "another type", Dtype::Float16),
      "another type");
  EXPECT_NONFATAL_FAILURE(expect_close({1.0F, std::nanf("")}, exact, off, "nan"), "nan");
}

// About the right share is kept, and the kept ones make up for the others.
TEST(ReferenceOps, DropoutFactorsHaveMeanOne) {
  const Packed packed({200, 200});
  for (const double probability : {0.1, 0.5}) {
    const std::vector<float> factors = row_factors(packed, some_dropout(probability, 16), 64);
    double sum = 0;
    double zeros = 0;
    for (const float factor : factors) {
      sum += static_cast<double>(factor);
      zeros += factor == 0 ? 1 : 0;
    }
    const auto count = static_cast<double>(factors.size());
    EXPECT_NEAR(zeros / count, probability, 0.01);
    EXPECT_NEAR(sum / count, 1.0, 0.02);
  }
}

}  // namespace
}  // namespace regatta::tests
