// What a matrix product may do besides: activations forward and backward, and column sums. Each is
// what a separate operation would do, so that the naive reference stores the product first.
#include "tests/trainer/device/op_cases.h"
#include "tests/trainer/device/reference_ops.h"

namespace regatta::tests {
namespace {

using trainer::device::Activation;
using trainer::device::Dtype;
using trainer::device::View;

struct EpilogueCase {
  std::int64_t m, n, k;
  bool transpose_b;
  bool extra;  // a bias forward, column sums backward
};

const EpilogueCase kCases[] = {
    {1, 1, 1, false, false},   {7, 24, 8, true, true},      {129, 33, 17, true, true},
    {64, 128, 64, true, true}, {130, 72, 40, false, false}, {200, 312, 24, false, true},
    {39, 7, 300, true, false}, {1030, 16, 24, true, true},
};

std::string name_of(const EpilogueCase& c, Activation activation) {
  return std::to_string(c.m) + "x" + std::to_string(c.n) + "x" + std::to_string(c.k) +
         (c.transpose_b ? " bT" : "") + (c.extra ? " extra" : "") +
         (activation == Activation::GeluTanh ? " tanh" : " erf");
}

struct EpilogueData {
  std::vector<float> a, b, bias, gelu_input, sums;
  EpilogueData(const EpilogueCase& c, const Precision& precision) {
    Numbers numbers(17);
    a = precision.stored(numbers.floats(c.m * c.k));
    b = precision.stored(numbers.floats(c.k * c.n));
    bias = precision.stored(numbers.floats(c.n));
    gelu_input = precision.stored(numbers.floats(c.m * c.n, 4));
    sums = numbers.floats(c.n);
  }
};

trainer::device::Gemm product_of(Harness& at, const EpilogueCase& c, const EpilogueData& data,
                                 Activation activation) {
  trainer::device::Gemm op;
  op.m = c.m;
  op.n = c.n;
  op.k = c.k;
  op.a = at.activations(data.a);
  op.b = at.activations(data.b);
  op.c = at.activation_output(c.m * c.n);
  op.transpose_b = c.transpose_b;
  op.activation = activation;
  return op;
}

template <typename Real>
std::vector<Real> product_with_bias(const EpilogueCase& c, const EpilogueData& data, bool bias,
                                    const Precision& precision) {
  std::vector<Real> result = reference::product(c.m, c.n, c.k, as<Real>(data.a), false,
                                                as<Real>(data.b), c.transpose_b, precision);
  for (std::size_t i = 0; bias && i < result.size(); ++i) {
    result[i] += Real(data.bias[i % data.bias.size()]);
  }
  return precision.stored(std::move(result));
}

template <typename Real>
std::vector<Real> gelu_of(std::vector<Real> x, bool tanh_form, const Precision& precision) {
  for (Real& value : x) value = precision.stored(reference::gelu(value, tanh_form));
  return x;
}

TEST_P(DeviceOps, GemmWithForwardActivationMatchesItsFormula) {
  for (const Activation activation : {Activation::GeluTanh, Activation::GeluErf}) {
    for (const EpilogueCase& c : kCases) {
      SCOPED_TRACE(name_of(c, activation));
      const EpilogueData data(c, at().precision());
      trainer::device::Gemm op = product_of(at(), c, data, activation);
      if (c.extra) op.bias = at().activations(data.bias);
      op.pre_activation = at().activation_output(c.m * c.n);
      device().gemm(0, op);
      const auto exact = product_with_bias<double>(c, data, c.extra, {});
      const auto naive = product_with_bias<float>(c, data, c.extra, at().precision());
      const bool tanh_form = activation == Activation::GeluTanh;
      expect_close(at(), op.pre_activation, exact, naive, "pre-activation");
      expect_close(at(), op.c, gelu_of(exact, tanh_form, {}),
                   gelu_of(naive, tanh_form, at().precision()), "c");
    }
  }
}

template <typename Real>
struct BackwardResult {
  std::vector<Real> c, sums;
};

template <typename Real>
BackwardResult<Real> expected_backward(const EpilogueCase& c, const EpilogueData& data,
                                       bool tanh_form, const Precision& precision) {
  BackwardResult<Real> result{product_with_bias<Real>(c, data, false, precision),
                              as<Real>(data.sums)};
  for (std::size_t i = 0; i < result.c.size(); ++i) {
    result.c[i] =
        precision.stored(result.c[i] * reference::gelu_slope(Real(data.gelu_input[i]), tanh_form));
    result.sums[i % result.sums.size()] += result.c[i];
  }
  return result;
}

TEST_P(DeviceOps, GemmWithBackwardActivationMatchesItsFormula) {
  for (const Activation activation : {Activation::GeluTanh, Activation::GeluErf}) {
    for (const EpilogueCase& c : kCases) {
      SCOPED_TRACE(name_of(c, activation));
      const EpilogueData data(c, at().precision());
      trainer::device::Gemm op = product_of(at(), c, data, activation);
      op.gelu_input = at().activations(data.gelu_input);
      if (c.extra) op.c_column_sums = at().floats(data.sums);
      device().gemm(0, op);
      const bool tanh_form = activation == Activation::GeluTanh;
      const auto exact = expected_backward<double>(c, data, tanh_form, {});
      const auto naive = expected_backward<float>(c, data, tanh_form, at().precision());
      expect_close(at(), op.c, exact.c, naive.c, "c");
      if (c.extra) expect_close(at(), op.c_column_sums, exact.sums, naive.sums, "column sums");
    }
  }
}

struct SumsCase {
  std::int64_t m, n, k;
  bool transpose_b;
  float beta;
  bool bias;
};

const SumsCase kSumsCases[] = {
    {1, 1, 1, false, 0, false},     {24, 8, 129, false, 1, false}, {33, 17, 65, false, 1, false},
    {128, 64, 300, false, 0, true}, {200, 40, 64, true, 1, false}, {312, 24, 1000, false, 1, true},
};

// Weight gradients in float32 (or in the compute type) with the bias gradient beside them.
// Integers: sums and products are exact, so every element must be.
TEST_P(DeviceOps, GemmWithSumsOfItsInputIsExactOnIntegers) {
  for (const SumsCase& c : kSumsCases) {
    for (const Dtype type : {Dtype::Float32, compute()}) {
      SCOPED_TRACE(std::to_string(c.m) + "x" + std::to_string(c.n) + "x" + std::to_string(c.k) +
                   (is_sixteen_bit(type) ? " 16 bit" : ""));
      Numbers numbers(8);
      const auto integers = [&](std::int64_t count) {
        std::vector<float> values = numbers.floats(count, 4);
        for (float& value : values) value = std::floor(value);
        return values;
      };
      const std::vector<float> a = integers(c.m * c.k);
      const std::vector<float> b = integers(c.k * c.n);
      const std::vector<float> start = integers(c.m * c.n);
      const std::vector<float> bias = integers(c.n);
      std::vector<float> sums = integers(c.m);
      trainer::device::Gemm op;
      op.m = c.m;
      op.n = c.n;
      op.k = c.k;
      op.a = at().activations(a);
      op.b = at().activations(b);
      op.c = c.beta != 0 ? at().values_of(type, start) : at().output_of(type, c.m * c.n);
      op.transpose_a = true;
      op.transpose_b = c.transpose_b;
      op.beta = c.beta;
      if (c.bias) op.bias = at().values_of(type, bias);
      op.a_column_sums = at().floats(sums);
      device().gemm(0, op);
      std::vector<float> expected = reference::product(c.m, c.n, c.k, a, true, b, c.transpose_b);
      for (std::size_t i = 0; i < expected.size(); ++i) {
        if (c.beta != 0) expected[i] += start[i];
        if (c.bias) expected[i] += bias[i % bias.size()];
      }
      for (std::size_t i = 0; i < a.size(); ++i) sums[i % sums.size()] += a[i];
      expect_same(at().read(op.c), Precision{type}.stored(expected), "c");
      expect_same(at().read(op.a_column_sums), sums, "column sums");
    }
  }
}

// And with numbers of any size, the sums are those of a as it is stored.
TEST_P(DeviceOps, GemmWithSumsOfItsInputMatchesItsFormula) {
  const std::int64_t m = 72, n = 40, k = 515;
  Numbers numbers(9);
  const std::vector<float> a = at().rounded(numbers.floats(m * k));
  const std::vector<float> b = at().rounded(numbers.floats(k * n));
  const std::vector<float> start = numbers.floats(m);
  trainer::device::Gemm op;
  op.m = m;
  op.n = n;
  op.k = k;
  op.a = at().activations(a);
  op.b = at().activations(b);
  op.c = at().output(m * n);
  op.transpose_a = true;
  op.a_column_sums = at().floats(start);
  device().gemm(0, op);
  std::vector<double> exact = as<double>(start);
  std::vector<float> naive = start;
  for (std::size_t i = 0; i < a.size(); ++i) {
    exact[i % exact.size()] += static_cast<double>(a[i]);
    naive[i % naive.size()] += a[i];
  }
  expect_close(at(), op.a_column_sums, exact, naive, "column sums");
  expect_close(at(), op.c, reference::product(m, n, k, as<double>(a), true, as<double>(b), false),
               reference::product(m, n, k, a, true, b, false, at().precision()), "c");
}

// Both results of a forward activation lie inside larger matrices that must not change.
TEST_P(DeviceOps, GemmWithActivationWritesNothingOutsideItsResults) {
  const EpilogueCase c{19, 21, 5, true, false};
  const EpilogueData data(c, at().precision());
  const std::vector<float> around(static_cast<std::size_t>(c.m * c.n + 200), 42.0F);
  trainer::device::Gemm op = product_of(at(), c, data, Activation::GeluErf);
  const View first = at().activations(around);
  const View second = at().activations(around);
  op.c = first.slice(100, c.m * c.n);
  op.pre_activation = second.slice(100, c.m * c.n);
  device().gemm(0, op);
  for (const View& whole : {first, second}) {
    const std::vector<float> result = at().read(whole);
    for (std::size_t i = 0; i < 100; ++i) {
      ASSERT_EQ(result[i], 42.0F) << i;
      ASSERT_EQ(result[result.size() - 1 - i], 42.0F) << i;
    }
  }
}

TEST_P(DeviceOps, GemmWithEpiloguesOfNoRowsChangesNothing) {
  const EpilogueCase c{0, 8, 16, true, true};
  const EpilogueData data(c, at().precision());
  trainer::device::Gemm forward = product_of(at(), c, data, Activation::GeluTanh);
  forward.bias = at().activations(data.bias);
  forward.pre_activation = at().activations({});
  device().gemm(0, forward);
  trainer::device::Gemm backward = product_of(at(), c, data, Activation::GeluTanh);
  backward.gelu_input = at().activations({});
  backward.c_column_sums = at().floats(data.sums);
  device().gemm(0, backward);
  expect_same(at().read(backward.c_column_sums), data.sums, "column sums");
}

}  // namespace
}  // namespace regatta::tests
