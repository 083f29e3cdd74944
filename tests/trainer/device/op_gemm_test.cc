#include "tests/trainer/device/op_cases.h"
#include "tests/trainer/device/reference_ops.h"

namespace regatta::tests {
namespace {

using trainer::device::Dtype;

struct GemmCase {
  std::int64_t m, n, k;
  bool transpose_a, transpose_b;
  float beta;
  bool bias;
};

const GemmCase kCases[] = {
    {1, 1, 1, false, false, 0, false},      {1, 2, 128, false, true, 0, true},
    {7, 24, 8, false, true, 0, true},       {129, 33, 17, false, true, 1, false},
    {129, 128, 64, false, true, 0, true},   {64, 64, 64, false, false, 0, false},
    {129, 312, 24, false, false, 1, true},  {7, 39, 1000, false, false, 0, true},
    {97, 300, 257, false, false, 1, false}, {24, 8, 129, true, false, 0, false},
    {128, 24, 7, true, false, 1, false},    {312, 65, 129, true, false, 0, true},
    {300, 270, 513, true, false, 1, false}, {33, 17, 9, true, true, 0, true},
    {200, 100, 300, true, true, 1, false},  {1030, 40, 31, false, true, 0, true},
};

std::string name_of(const GemmCase& c) {
  return std::to_string(c.m) + "x" + std::to_string(c.n) + "x" + std::to_string(c.k) +
         (c.transpose_a ? " aT" : "") + (c.transpose_b ? " bT" : "") +
         (c.beta != 0 ? " beta" : "") + (c.bias ? " bias" : "");
}

// The result may have the type of the operands, or float32.
std::vector<Dtype> result_types(Dtype compute) {
  if (compute == Dtype::Float32) return {compute};
  return {compute, Dtype::Float32};
}

struct GemmData {
  std::vector<float> a, b, start, bias;
};

template <typename Real>
std::vector<Real> expected(const GemmCase& c, const GemmData& data, const Precision& products,
                           const Precision& result_type) {
  std::vector<Real> result = reference::product(c.m, c.n, c.k, as<Real>(data.a), c.transpose_a,
                                                as<Real>(data.b), c.transpose_b, products);
  for (std::int64_t i = 0; i < c.m; ++i) {
    for (std::int64_t j = 0; j < c.n; ++j) {
      Real& value = result[reference::at(i, c.n, j)];
      if (c.beta != 0) value += Real(data.start[reference::at(i, c.n, j)]);
      if (c.bias) value += Real(data.bias[reference::at(0, c.n, j)]);
    }
  }
  return result_type.stored(std::move(result));
}

void check_gemm(Harness& at, const GemmCase& c, Dtype type) {
  SCOPED_TRACE(name_of(c) + (is_sixteen_bit(type) ? " 16 bit" : ""));
  const Precision result_type{type};
  Numbers numbers(7);
  GemmData data;
  data.a = at.rounded(numbers.floats(c.m * c.k));
  data.b = at.rounded(numbers.floats(c.k * c.n));
  data.start = result_type.stored(numbers.floats(c.m * c.n));
  data.bias = result_type.stored(numbers.floats(c.n));
  trainer::device::Gemm op;
  op.m = c.m;
  op.n = c.n;
  op.k = c.k;
  op.a = at.activations(data.a);
  op.b = at.activations(data.b);
  op.c = c.beta != 0 ? at.values_of(type, data.start) : at.output_of(type, c.m * c.n);
  op.transpose_a = c.transpose_a;
  op.transpose_b = c.transpose_b;
  op.beta = c.beta;
  if (c.bias) op.bias = at.values_of(type, data.bias);
  at.device().gemm(0, op);
  expect_close(at, op.c, expected<double>(c, data, {}, {}),
               expected<float>(c, data, at.precision(), result_type), "c");
}

TEST_P(DeviceOps, GemmMatchesItsFormula) {
  for (const Dtype type : result_types(compute())) {
    for (const GemmCase& c : kCases) check_gemm(at(), c, type);
  }
}

// Small integers: every sum is exact in float32, so every element must be too, rounded once where c
// has 16 bits.
TEST_P(DeviceOps, GemmOfIntegersIsExact) {
  for (const Dtype type : result_types(compute())) {
    for (const bool transpose_a : {false, true}) {
      for (const bool transpose_b : {false, true}) {
        const std::int64_t m = 131, n = 67, k = 301;
        Numbers numbers(3);
        std::vector<float> a = numbers.floats(m * k, 8);
        std::vector<float> b = numbers.floats(k * n, 8);
        for (float& value : a) value = std::floor(value);
        for (float& value : b) value = std::floor(value);
        trainer::device::Gemm op;
        op.m = m;
        op.n = n;
        op.k = k;
        op.a = at().activations(a);
        op.b = at().activations(b);
        op.c = at().output_of(type, m * n);
        op.transpose_a = transpose_a;
        op.transpose_b = transpose_b;
        device().gemm(0, op);
        const auto exact = reference::product(m, n, k, a, transpose_a, b, transpose_b);
        expect_same(at().read(op.c), Precision{type}.stored(exact), "c");
      }
    }
  }
}

// A view that starts and ends inside a larger matrix: nothing outside it may change.
TEST_P(DeviceOps, GemmWritesNothingOutsideItsResult) {
  const std::int64_t m = 19, n = 21, k = 5;
  for (const Dtype type : result_types(compute())) {
    Numbers numbers(5);
    std::vector<float> around(static_cast<std::size_t>(m * n + 200), 42.0F);
    const trainer::device::View whole = at().values_of(type, around);
    trainer::device::Gemm op;
    op.m = m;
    op.n = n;
    op.k = k;
    op.a = at().activations(numbers.floats(m * k));
    op.b = at().activations(numbers.floats(k * n));
    op.c = whole.slice(100, m * n);
    device().gemm(0, op);
    const std::vector<float> result = at().read(whole);
    for (std::size_t i = 0; i < 100; ++i) {
      ASSERT_EQ(result[i], 42.0F) << i;
      ASSERT_EQ(result[result.size() - 1 - i], 42.0F) << i;
    }
  }
}

// Operands at any element of a larger matrix: their rows need no alignment.
TEST_P(DeviceOps, GemmReadsUnalignedOperands) {
  const std::int64_t m = 40, n = 48, k = 24;
  Numbers numbers(6);
  const std::vector<float> a = at().rounded(numbers.floats(m * k + 3));
  const std::vector<float> b = at().rounded(numbers.floats(k * n + 5));
  trainer::device::Gemm op;
  op.m = m;
  op.n = n;
  op.k = k;
  op.a = at().activations(a).slice(3, m * k);
  op.b = at().activations(b).slice(5, k * n);
  op.c = at().activation_output(m * n + 1).slice(1, m * n);
  device().gemm(0, op);
  GemmData data{{a.begin() + 3, a.end()}, {b.begin() + 5, b.end()}, {}, {}};
  const GemmCase c{m, n, k, false, false, 0, false};
  expect_close(at(), op.c, expected<double>(c, data, {}, {}),
               expected<float>(c, data, at().precision(), at().precision()), "c");
}

TEST_P(DeviceOps, GemmOfNoRowsChangesNothing) {
  trainer::device::Gemm op;
  op.n = 8;
  op.k = 16;
  op.a = at().activations({});
  op.b = at().activations(Numbers(1).floats(8 * 16));
  op.c = at().activations({});
  op.bias = at().activations(Numbers(2).floats(8));
  device().gemm(0, op);
  EXPECT_TRUE(at().read(op.c).empty());
}

}  // namespace
}  // namespace regatta::tests
