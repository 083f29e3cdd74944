// What the tables of operations do not ask of the memory-bound kernels: rows too long for
// registers, words that fill many chunks, scratch that is too small for all features or results,
// and every form that rows of logits can take. Device memory of the emulated GPU is host memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <deque>
#include <limits>
#include <numeric>

#include "tests/trainer/device/op_cases.h"
#include "tests/trainer/device/packed_tokens.h"
#include "tests/trainer/device/reference_ops.h"
#include "trainer/cuda/kernels/kernels.h"

namespace regatta::tests {
namespace {

using trainer::device::Dtype;
using trainer::device::View;

// Memory of one problem and the scratch of its launches, which starts as NaN.
class Bench {
 public:
  explicit Bench(Dtype dtype, std::int64_t scratch_bytes = std::int64_t{8} << 20)
      : dtype_(dtype), scratch_(static_cast<std::size_t>(scratch_bytes) / 16) {
    std::memset(scratch_.data(), 0xFF, scratch_.size() * 16);
    launch_.facts = {90, 4, 232448};
    launch_.scratch = scratch_.data();
    launch_.scratch_bytes = static_cast<std::int64_t>(scratch_.size()) * 16;
  }
  [[nodiscard]] trainer::cuda::KernelLaunch& at() { return launch_; }
  [[nodiscard]] View floats(const std::vector<float>& values) {
    return keep(values.data(), values.size(), Dtype::Float32);
  }
  [[nodiscard]] View ints(const std::vector<std::int32_t>& values) {
    return keep(values.data(), values.size(), Dtype::Int32);
  }
  // Rounded to the type; begins `shift` elements into aligned memory.
  [[nodiscard]] View activations(const std::vector<float>& values, std::int64_t shift = 0) {
    std::vector<float> shifted(static_cast<std::size_t>(shift));
    shifted.insert(shifted.end(), values.begin(), values.end());
    const View all = floats(shifted);
    View result = all;
    if (dtype_ != Dtype::Float32) {
      std::vector<std::uint16_t> halves;
      for (const float x : shifted) {
        halves.push_back(dtype_ == Dtype::BFloat16 ? trainer::device::bf16_from_float(x)
                                                   : trainer::device::fp16_from_float(x));
      }
      result = keep(halves.data(), halves.size(), dtype_);
    }
    return result.slice(shift, static_cast<std::int64_t>(values.size()));
  }
  [[nodiscard]] View output(std::int64_t count, Dtype dtype) {
    const std::vector<float> nan(static_cast<std::size_t>(count),
                                 std::numeric_limits<float>::quiet_NaN());
    return dtype == Dtype::Float32 ? floats(nan) : activations(nan);
  }
  [[nodiscard]] static std::vector<float> read(const View& view) {
    std::vector<float> values;
    for (std::int64_t i = 0; i < view.size; ++i) {
      const auto* halves = static_cast<const std::uint16_t*>(view.data);
      values.push_back(view.dtype == Dtype::Float32 ? view.floats()[i]
                       : view.dtype == Dtype::BFloat16
                           ? trainer::device::float_from_bf16(halves[i])
                           : trainer::device::float_from_fp16(halves[i]));
    }
    return values;
  }
  [[nodiscard]] trainer::device::TokenIdentity tokens(const Packed& packed) {
    return {ints(packed.ordinal), ints(packed.position), ints(packed.cumulative),
            ints({packed.step}), packed.max_length};
  }
  [[nodiscard]] std::vector<float> rounded(std::vector<float> values) const {
    for (float& x : values) x = stored_as(dtype_, x);
    return values;
  }

 private:
  struct alignas(16) Piece {
    unsigned char bytes[16];
  };
  View keep(const void* data, std::size_t count, Dtype dtype) {
    const std::size_t bytes = count * static_cast<std::size_t>(trainer::device::size_of(dtype));
    memory_.emplace_back(bytes / 16 + 1);
    if (bytes > 0) std::memcpy(memory_.back().data(), data, bytes);
    return {memory_.back().data(), static_cast<std::int64_t>(count), dtype};
  }

  Dtype dtype_;
  std::deque<std::vector<Piece>> memory_;
  std::vector<Piece> scratch_;
  trainer::cuda::KernelLaunch launch_;
};

// Every element within `roundings` float32 roundings, and one of the stored type, of its own size,
// a tenth of the largest, or `least`, whichever is most.
void expect_near(const std::vector<float>& actual, const std::vector<double>& exact,
                 double roundings, Dtype stored, const std::string& what, double least = 0) {
  ASSERT_EQ(actual.size(), exact.size()) << what;
  double largest = 0;
  for (const double x : exact) largest = std::max(largest, std::abs(x));
  for (std::size_t i = 0; i < exact.size(); ++i) {
    const double size = std::max({std::abs(exact[i]), largest / 10, least});
    const double allowed = roundings * size * 0x1p-24 + half_ulp(stored, size * 1.01);
    ASSERT_NEAR(static_cast<double>(actual[i]), exact[i], allowed) << what << "[" << i << "]";
  }
}

constexpr float kEpsilon = 1e-12F;
constexpr Dtype kTypes[] = {Dtype::Float32, Dtype::BFloat16, Dtype::Float16};

class RowKernels : public testing::TestWithParam<Dtype> {};
std::string type_name(const testing::TestParamInfo<Dtype>& type) {
  return type.param == Dtype::Float32    ? "Float32"
         : type.param == Dtype::BFloat16 ? "BFloat16"
                                         : "Float16";
}
INSTANTIATE_TEST_SUITE_P(AllTypes, RowKernels, testing::ValuesIn(kTypes), type_name);

// Hidden sizes around those where the kernels change: 256 features a group of a warp, at most 2,048
// in registers forward and 3,072 backward.
TEST_P(RowKernels, NormsOfEveryLengthAgree) {
  for (const std::int64_t h : {256, 264, 520, 776, 1032, 2048, 2056, 3072, 3080}) {
    SCOPED_TRACE(h);
    Bench bench(GetParam());
    const Packed packed({4, 9});
    const std::int64_t size = packed.tokens() * h;
    const trainer::device::Dropout dropout = some_dropout(0.1, 65);
    const std::vector<float> factors = row_factors(packed, dropout, h);
    Numbers numbers(static_cast<unsigned>(h));
    const std::vector<float> x = bench.rounded(numbers.floats(size));
    const std::vector<float> residual = bench.rounded(numbers.floats(size));
    const std::vector<float> gamma = numbers.floats(h);
    trainer::device::LayerNormForward forward;
    forward.x = bench.activations(x);
    forward.residual = bench.activations(residual);
    forward.gamma = forward.beta = bench.floats(gamma);
    forward.epsilon = kEpsilon;
    forward.dropout = dropout;
    forward.tokens = bench.tokens(packed);
    forward.z = bench.output(size, GetParam());
    forward.y = bench.output(size, GetParam());
    forward.mean = bench.output(packed.tokens(), Dtype::Float32);
    forward.rstd = bench.output(packed.tokens(), Dtype::Float32);
    trainer::cuda::layer_norm_forward(bench.at(), forward);
    std::vector<double> sum;
    for (std::size_t i = 0; i < x.size(); ++i) {
      sum.push_back(static_cast<double>(x[i]) * static_cast<double>(factors[i]) +
                    static_cast<double>(residual[i]));
    }
    const std::vector<float> z = Bench::read(forward.z);
    expect_near(z, sum, 8, GetParam(), "z");
    const auto exact = reference::layer_norm<double>(as<double>(z), as<double>(gamma),
                                                     as<double>(gamma), double{kEpsilon});
    expect_near(Bench::read(forward.mean), exact.mean, 32, Dtype::Float32, "mean");
    expect_near(Bench::read(forward.rstd), exact.rstd, 16, Dtype::Float32, "rstd");
    expect_near(Bench::read(forward.y), exact.y, 32, GetParam(), "y");

    const std::vector<float> dy = bench.rounded(numbers.floats(size));
    trainer::device::LayerNormBackward backward;
    backward.dy = backward.dresidual = bench.activations(dy);
    backward.z = forward.z;
    backward.mean = forward.mean;
    backward.rstd = forward.rstd;
    backward.gamma = forward.gamma;
    backward.dropout = dropout;
    backward.tokens = forward.tokens;
    backward.dx = bench.output(size, GetParam());
    backward.dgamma = bench.floats(gamma);
    backward.dbeta = bench.floats(gamma);
    backward.dbias = bench.floats(gamma);
    trainer::cuda::layer_norm_backward(bench.at(), backward);
    auto gradient = reference::layer_norm_backward<double>(as<double>(dy), as<double>(z),
                                                           as<double>(gamma), double{kEpsilon});
    std::vector<double> bias = as<double>(gamma);
    std::vector<double> dx = gradient.dz;
    for (std::size_t i = 0; i < dx.size(); ++i) {
      dx[i] *= static_cast<double>(factors[i]);
      bias[i % gamma.size()] += dx[i];
    }
    for (std::size_t i = 0; i < gamma.size(); ++i) {
      gradient.dgamma[i] += static_cast<double>(gamma[i]);
      gradient.dbeta[i] += static_cast<double>(gamma[i]);
    }
    expect_near(Bench::read(backward.dresidual), gradient.dz, 64, GetParam(), "dz");
    expect_near(Bench::read(backward.dx), dx, 64, GetParam(), "dx");
    expect_near(Bench::read(backward.dgamma), gradient.dgamma, 64, Dtype::Float32, "dgamma");
    expect_near(Bench::read(backward.dbeta), gradient.dbeta, 64, Dtype::Float32, "dbeta");
    expect_near(Bench::read(backward.dbias), bias, 64, Dtype::Float32, "dbias");
  }
}

struct WordCase {
  const char* name;
  std::vector<int> lengths;
  int padding;
  std::int64_t hidden;
  std::int32_t vocabulary;
};
const WordCase kWordCases[] = {
    {"one word, one chunk", {64}, 0, 8, 1},
    {"one word, two chunks", {128}, 0, 40, 1},
    {"one word, a part of a chunk", {100, 29}, 62, 8, 1},
    {"ends on borders", {64, 64}, 64, 16, 3},
    {"few words, many chunks", {300, 400}, 35, 24, 2},
    {"several feature tiles", {100, 60}, 40, 2056, 4},
    {"many short samples", std::vector<int>(200, 3), 40, 16, 90},
};

template <typename Real>
struct TableGradients {
  std::vector<Real> word, position, type;
};
struct TableProblem {
  Packed packed;
  std::size_t used;  // tokens that are no padding, which has word 0 and no gradient
  std::vector<std::int32_t> ids, types, sorted;
  std::vector<float> x, dy, gamma;
  TableGradients<float> start;

  explicit TableProblem(const WordCase& c) : packed(c.lengths), used(packed.position.size()) {
    packed.position.resize(used + static_cast<std::size_t>(c.padding), 1);
    packed.ordinal.resize(packed.position.size(), 0);
    const auto tokens = static_cast<std::int64_t>(packed.position.size());
    Numbers numbers(9);
    ids = numbers.below(tokens, c.vocabulary);
    std::fill(ids.begin() + static_cast<std::ptrdiff_t>(used), ids.end(), 0);
    types = numbers.below(tokens, 3);
    sorted.resize(ids.size());
    std::iota(sorted.begin(), sorted.end(), 0);
    std::stable_sort(sorted.begin(), sorted.end(), [&](std::int32_t a, std::int32_t b) {
      return ids[static_cast<std::size_t>(a)] < ids[static_cast<std::size_t>(b)];
    });
    x = numbers.floats(tokens * c.hidden);
    dy = numbers.floats(tokens * c.hidden);
    std::fill(dy.begin() + static_cast<std::ptrdiff_t>(used) * c.hidden, dy.end(), 0.0F);
    gamma = numbers.floats(c.hidden);
    start = {numbers.floats(c.vocabulary * c.hidden), numbers.floats(packed.max_length * c.hidden),
             numbers.floats(3 * c.hidden)};
  }

  // Runs the kernels; *dx takes what they left in dy, which is what the tables' gradients sum.
  [[nodiscard]] TableGradients<float> run(Dtype dtype, std::int64_t scratch_bytes,
                                          int multiprocessors, std::vector<float>* dx) const {
    Bench bench(dtype, scratch_bytes);
    bench.at().facts.multiprocessors = multiprocessors;
    trainer::device::EmbeddingBackward op;
    op.ids = bench.ints(ids);
    op.types = bench.ints(types);
    op.sorted = bench.ints(sorted);
    op.gamma = bench.floats(gamma);
    op.x = bench.activations(x);
    op.mean = bench.floats(std::vector<float>(ids.size(), 0.01F));
    op.rstd = bench.floats(std::vector<float>(ids.size(), 1.5F));
    op.dropout = some_dropout(0.1, 16);
    op.tokens = bench.tokens(packed);
    op.dy = bench.activations(dy);
    op.dword = bench.floats(start.word);
    op.dposition = bench.floats(start.position);
    op.dtype_rows = bench.floats(start.type);
    op.dgamma = bench.floats(gamma);
    op.dbeta = bench.floats(gamma);
    trainer::cuda::embedding_backward(bench.at(), op);
    *dx = Bench::read(op.dy);
    return {Bench::read(op.dword), Bench::read(op.dposition), Bench::read(op.dtype_rows)};
  }

  [[nodiscard]] TableGradients<double> exact(const std::vector<float>& dx) const {
    TableGradients<double> sum{as<double>(start.word), as<double>(start.position),
                               as<double>(start.type)};
    const std::size_t h = gamma.size();
    for (std::size_t t = 0; t < ids.size(); ++t) {
      for (std::size_t i = 0; i < h; ++i) {
        const auto value = static_cast<double>(dx[t * h + i]);
        sum.word[static_cast<std::size_t>(ids[t]) * h + i] += value;
        sum.type[static_cast<std::size_t>(types[t]) * h + i] += value;
        if (t < used) sum.position[static_cast<std::size_t>(packed.position[t]) * h + i] += value;
      }
    }
    return sum;
  }
};

TEST_P(RowKernels, TablesGetTheGradientsOfTheirTokens) {
  for (const WordCase& c : kWordCases) {
    SCOPED_TRACE(c.name);
    const TableProblem problem(c);
    std::vector<float> dx;
    const auto actual = problem.run(GetParam(), std::int64_t{8} << 20, 4, &dx);
    const auto exact = problem.exact(dx);
    expect_near(actual.word, exact.word, 64, Dtype::Float32, "dword");
    expect_near(actual.position, exact.position, 64, Dtype::Float32, "dposition");
    expect_near(actual.type, exact.type, 64, Dtype::Float32, "dtype");

    // Scratch that holds the partial rows of some features only, and another machine: words have
    // one order whatever the launch.
    const auto sliced = problem.run(GetParam(), 4 * 3 * c.hidden + 4096, 132, &dx);
    EXPECT_EQ(sliced.word, actual.word);
    expect_near(sliced.position, exact.position, 64, Dtype::Float32, "dposition");
    expect_near(sliced.type, exact.type, 64, Dtype::Float32, "dtype");
  }
}

struct LogitsCase {
  std::int64_t classes, stride, shift;  // shift: elements after an aligned address
};
// 4,096 and 32,768 elements are what rows in registers may have.
const LogitsCase kLogitsCases[] = {
    {1, 1, 0},         {2, 2, 0},         {2, 8, 0},         {5, 8, 0},         {5, 8, 1},
    {256, 256, 0},     {250, 264, 0},     {4096, 4096, 0},   {4090, 4104, 0},   {4104, 4104, 0},
    {517, 4096, 0},    {30522, 30522, 0}, {30522, 30592, 0}, {30522, 30592, 8}, {30522, 30592, 1},
    {32768, 32768, 0}, {32700, 32776, 0},
};

TEST_P(RowKernels, LogitsOfEveryFormGiveOneLoss) {
  for (const LogitsCase& c : kLogitsCases) {
    SCOPED_TRACE(std::to_string(c.classes) + " of " + std::to_string(c.stride) + " at " +
                 std::to_string(c.shift));
    const float smoothing = c.classes % 2 == 0 ? 0 : 0.125F;
    const double others = static_cast<double>(smoothing) / static_cast<double>(c.classes);
    Bench bench(GetParam());
    constexpr std::int64_t kRows = 4;
    Numbers numbers(3);
    std::vector<std::int32_t> labels = numbers.below(kRows, static_cast<std::int32_t>(c.classes));
    labels[1] = -1;
    // What lies between rows is not looked at.
    std::vector<float> logits(static_cast<std::size_t>(kRows * c.stride),
                              std::numeric_limits<float>::quiet_NaN());
    std::vector<double> exact(logits.size());
    double loss = 1;
    for (std::int64_t r = 0; r < kRows; ++r) {
      std::vector<float> row = bench.rounded(numbers.floats(c.classes, 8));
      const auto label = static_cast<std::size_t>(std::max(labels[static_cast<std::size_t>(r)], 0));
      row[label] = 9;  // always the prediction
      const auto place = static_cast<std::size_t>(r * c.stride);
      std::copy(row.begin(), row.end(), logits.begin() + static_cast<std::ptrdiff_t>(place));
      if (r == 1) continue;
      double sum = 0;
      for (const float x : row) sum += std::exp(static_cast<double>(x) - 9);
      loss += std::log(sum);
      for (std::size_t j = 0; j < row.size(); ++j) {
        const double above = static_cast<double>(row[j]) - 9;
        const double target = others + (j == label ? 1 - static_cast<double>(smoothing) : 0);
        loss -= target * above;
        exact[place + j] = 0.25 * (std::exp(above) / sum - target);
      }
    }
    trainer::device::CrossEntropy op;
    op.logits = bench.activations(logits, c.shift);
    op.labels = bench.ints(labels);
    op.classes = c.classes;
    op.stride = c.stride;
    op.label_smoothing = smoothing;
    op.scale = bench.floats({0.25F});
    op.sums = bench.floats({1, 2, 3});
    trainer::device::CrossEntropy evaluation = op;
    evaluation.logits = bench.activations(logits, c.shift);
    evaluation.evaluate = true;
    evaluation.scale = {};
    evaluation.sums = bench.floats({1, 2, 3});
    trainer::cuda::cross_entropy(bench.at(), op);
    trainer::cuda::cross_entropy(bench.at(), evaluation);
    // Near the label, p − 1 cancels.
    expect_near(Bench::read(op.logits), exact, 64, GetParam(), "gradient", 0.25 / 16);
    const std::vector<float> sums = Bench::read(op.sums);
    EXPECT_NEAR(static_cast<double>(sums[0]), loss, loss * 1e-6);
    EXPECT_EQ(sums[1], 2 + kRows - 1);
    EXPECT_EQ(sums[2], 3 + kRows - 1);
    EXPECT_EQ(Bench::read(evaluation.sums), sums);
  }
}

// Scratch for four results makes many launches of one operation.
TEST_P(RowKernels, LossesOfSamplesFitIntoAnyScratch) {
  std::vector<std::int32_t> cumulative = {0}, answers;
  for (const int length : {1, 255, 256, 257, 0, 512, 3, 40, 0, 7, 31}) {
    cumulative.push_back(cumulative.back() + length);
    const bool labelled = length > 0 && length != 40;
    answers.insert(answers.end(), {labelled ? length / 2 : -1, labelled ? length - 1 : -1});
  }
  const std::int64_t tokens = cumulative.back() + 300;
  Numbers numbers(5);
  const std::vector<float> logits = numbers.floats(2 * tokens, 4);
  const std::vector<float> values = numbers.floats(2 * tokens);
  std::vector<std::vector<float>> gradients, sums;
  for (const std::int64_t scratch_bytes : {std::int64_t{8} << 20, std::int64_t{48}}) {
    for (const std::int64_t shift : {0, 2}) {
      Bench bench(GetParam(), scratch_bytes);
      trainer::device::SpanCrossEntropy op;
      op.logits = bench.activations(logits, shift);
      op.answers = bench.ints(answers);
      op.cumulative = bench.ints(cumulative);
      op.label_smoothing = 0.125F;
      op.scale = bench.floats({0.25F});
      op.sums = bench.floats({0, 0, 0});
      trainer::cuda::span_cross_entropy(bench.at(), op);
      trainer::device::SquaredError error;
      error.logits = bench.activations(logits, shift + 1);
      error.values = bench.floats(values);
      error.scale = op.scale;
      error.sums = bench.floats({0, 0, 0});
      trainer::cuda::squared_error(bench.at(), error);
      gradients.push_back(Bench::read(op.logits));
      const std::vector<float> errors = Bench::read(error.logits);
      gradients.back().insert(gradients.back().end(), errors.begin(), errors.end());
      sums.push_back(Bench::read(op.sums));
      sums.back().push_back(Bench::read(error.sums)[0]);
    }
  }
  const auto exact = reference::span_cross_entropy<double>(
      as<double>(Bench(GetParam()).rounded(logits)), answers, cumulative, 0.25, {}, 0.125);
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    EXPECT_EQ(gradients[i], gradients[0]) << i;
    EXPECT_NEAR(static_cast<double>(sums[i][0]), exact.sum, 1e-5 * exact.sum) << i;
    EXPECT_EQ(sums[i][2], static_cast<float>(exact.labelled)) << i;
    EXPECT_NEAR(sums[i][3], sums[0][3], 1e-6F * sums[0][3]) << i;
  }
}

}  // namespace
}  // namespace regatta::tests
