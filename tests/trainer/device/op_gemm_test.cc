#include "tests/trainer/device/op_cases.h"
#include "tests/trainer/device/reference_ops.h"

namespace regatta::tests {
namespace {

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

template <typename Real>
std::vector<Real> expected(const GemmCase& c, const std::vector<float>& a,
                           const std::vector<float>& b, const std::vector<float>& start,
                           const std::vector<float>& bias) {
  std::vector<Real> result =
      reference::product(c.m, c.n, c.k, as<Real>(a), c.transpose_a, as<Real>(b), c.transpose_b);
  for (std::int64_t i = 0; i < c.m; ++i) {
    for (std::int64_t j = 0; j < c.n; ++j) {
      Real& value = result[reference::at(i, c.n, j)];
      if (c.beta != 0) value += Real(start[reference::at(i, c.n, j)]);
      if (c.bias) value += Real(bias[reference::at(0, c.n, j)]);
    }
  }
  return result;
}

TEST_P(DeviceOps, GemmMatchesItsFormula) {
  for (const GemmCase& c : kCases) {
    SCOPED_TRACE(std::to_string(c.m) + "x" + std::to_string(c.n) + "x" + std::to_string(c.k) +
                 (c.transpose_a ? " aT" : "") + (c.transpose_b ? " bT" : "") +
                 (c.beta != 0 ? " beta" : "") + (c.bias ? " bias" : ""));
    Numbers numbers(7);
    const std::vector<float> a = numbers.floats(c.m * c.k);
    const std::vector<float> b = numbers.floats(c.k * c.n);
    const std::vector<float> start = numbers.floats(c.m * c.n);
    const std::vector<float> bias = numbers.floats(c.n);
    trainer::Gemm op;
    op.m = c.m;
    op.n = c.n;
    op.k = c.k;
    op.a = at().floats(a);
    op.b = at().floats(b);
    op.c = c.beta != 0 ? at().floats(start) : at().output(c.m * c.n);
    op.transpose_a = c.transpose_a;
    op.transpose_b = c.transpose_b;
    op.beta = c.beta;
    if (c.bias) op.bias = at().floats(bias);
    device().gemm(0, op);
    expect_close(at().read(op.c), expected<double>(c, a, b, start, bias),
                 expected<float>(c, a, b, start, bias), "c");
  }
}

// Small integers: every sum is exact in float32, so every element must be too.
TEST_P(DeviceOps, GemmOfIntegersIsExact) {
  for (const bool transpose_a : {false, true}) {
    for (const bool transpose_b : {false, true}) {
      const std::int64_t m = 131, n = 67, k = 301;
      Numbers numbers(3);
      std::vector<float> a = numbers.floats(m * k, 8);
      std::vector<float> b = numbers.floats(k * n, 8);
      for (float& value : a) value = std::floor(value);
      for (float& value : b) value = std::floor(value);
      trainer::Gemm op;
      op.m = m;
      op.n = n;
      op.k = k;
      op.a = at().floats(a);
      op.b = at().floats(b);
      op.c = at().output(m * n);
      op.transpose_a = transpose_a;
      op.transpose_b = transpose_b;
      device().gemm(0, op);
      expect_same(at().read(op.c), reference::product(m, n, k, a, transpose_a, b, transpose_b),
                  "c");
    }
  }
}

// A view that starts and ends inside a larger matrix: nothing outside it may change.
TEST_P(DeviceOps, GemmWritesNothingOutsideItsResult) {
  const std::int64_t m = 19, n = 21, k = 5;
  Numbers numbers(5);
  const std::vector<float> a = numbers.floats(m * k);
  const std::vector<float> b = numbers.floats(k * n);
  std::vector<float> around(static_cast<std::size_t>(m * n + 200), 42.0F);
  const trainer::View whole = at().floats(around);
  trainer::Gemm op;
  op.m = m;
  op.n = n;
  op.k = k;
  op.a = at().floats(a);
  op.b = at().floats(b);
  op.c = whole.slice(100, m * n);
  device().gemm(0, op);
  std::vector<float> result = at().read(whole);
  for (std::size_t i = 0; i < 100; ++i) {
    ASSERT_EQ(result[i], 42.0F) << i;
    ASSERT_EQ(result[result.size() - 1 - i], 42.0F) << i;
  }
}

}  // namespace
}  // namespace regatta::tests
