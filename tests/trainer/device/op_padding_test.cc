// Padding changes nothing but sizes: rows of samples come out bit for bit as without it, whatever
// the tokens of no sample hold. That sums over rows stay right with padding is among the cases of
// each family's own file.
#include <algorithm>
#include <numeric>

#include "tests/trainer/device/op_cases.h"
#include "tests/trainer/device/packed_tokens.h"
#include "tests/trainer/device/reference_ops.h"

namespace regatta::tests {
namespace {

using trainer::device::View;

constexpr float kJunk = 1e4F;  // finite in every type
constexpr float kEpsilon = 1e-12F;

struct PaddingCase {
  std::vector<int> lengths;
  int heads;
  std::int64_t head_size, spare_tokens, empty_samples;
  double dropout;

  [[nodiscard]] std::int64_t hidden() const { return heads * head_size; }
  [[nodiscard]] Packed alone() const { return Packed(lengths); }
  [[nodiscard]] Packed padded() const { return alone().padded(spare_tokens, empty_samples); }
};

const PaddingCase kCases[] = {
    {{5}, 1, 16, 1, 0, 0.1},       {{5, 1, 64}, 2, 32, 13, 3, 0.1}, {{129}, 1, 64, 127, 1, 0},
    {{33, 31}, 2, 64, 64, 2, 0.2}, {{17, 70}, 1, 128, 9, 5, 0.1},   {{12, 40}, 4, 26, 30, 2, 0.1},
};

std::string name_of(const PaddingCase& c) {
  return std::to_string(c.alone().tokens()) + "+" + std::to_string(c.spare_tokens) + " tokens, " +
         std::to_string(c.heads) + " heads of " + std::to_string(c.head_size);
}

// Rows of a padded batch: those given, then `value` in large numbers of either sign.
std::vector<float> with_junk(std::vector<float> rows, std::int64_t tokens, std::int64_t columns,
                             float value = kJunk) {
  std::size_t i = rows.size();
  rows.resize(static_cast<std::size_t>(tokens * columns));
  for (; i < rows.size(); ++i) rows[i] = i % 3 == 0 ? -value : value;
  return rows;
}

// The first rows are those of the unpadded run; the others are zero where `zeros` says so.
void expect_rows(const std::vector<float>& padded, const std::vector<float>& alone, bool zeros,
                 const std::string& what) {
  ASSERT_GE(padded.size(), alone.size()) << what;
  const auto used = padded.begin() + static_cast<std::ptrdiff_t>(alone.size());
  expect_same({padded.begin(), used}, alone, what);
  if (!zeros) return;
  expect_same({used, padded.end()}, std::vector<float>(padded.size() - alone.size()),
              what + " of no sample");
}

struct AttentionRun {
  std::vector<float> out, lse, dqkv;
};

AttentionRun run_attention(Harness& at, const PaddingCase& c, const Packed& packed,
                           const std::vector<float>& qkv, const std::vector<float>& dout) {
  trainer::device::AttentionForward forward;
  forward.qkv = at.activations(with_junk(qkv, packed.tokens(), 3 * c.hidden()));
  forward.out = at.activation_output(packed.tokens() * c.hidden());
  forward.lse = at.output(c.heads * packed.tokens());
  forward.heads = c.heads;
  forward.dropout = some_dropout(c.dropout, 64);
  forward.tokens = packed.on(at);
  at.device().attention_forward(0, forward);
  trainer::device::AttentionBackward backward;
  backward.qkv = forward.qkv;
  backward.out = forward.out;
  backward.lse = forward.lse;
  backward.dout = at.activations(with_junk(dout, packed.tokens(), c.hidden()));
  backward.dqkv = at.activation_output(packed.tokens() * 3 * c.hidden());
  backward.heads = c.heads;
  backward.dropout = forward.dropout;
  backward.tokens = forward.tokens;
  at.device().attention_backward(0, backward);
  return {at.read(forward.out), at.read(forward.lse), at.read(backward.dqkv)};
}

TEST_P(DeviceOps, AttentionIgnoresPadding) {
  for (const PaddingCase& c : kCases) {
    SCOPED_TRACE(name_of(c));
    Numbers numbers(71);
    const Packed packed = c.alone();
    const std::vector<float> qkv = numbers.floats(packed.tokens() * 3 * c.hidden());
    const std::vector<float> dout = numbers.floats(packed.tokens() * c.hidden());
    const AttentionRun alone = run_attention(at(), c, packed, qkv, dout);
    const AttentionRun padded = run_attention(at(), c, c.padded(), qkv, dout);
    expect_rows(padded.out, alone.out, true, "out");
    expect_rows(padded.dqkv, alone.dqkv, true, "dqkv");
    const auto row = [&](const std::vector<float>& lse, int head) {
      const auto size = static_cast<std::ptrdiff_t>(lse.size()) / c.heads;
      return std::vector<float>(lse.begin() + head * size, lse.begin() + (head + 1) * size);
    };
    for (int head = 0; head < c.heads; ++head) {
      expect_rows(row(padded.lse, head), row(alone.lse, head), true, "lse");
    }
  }
}

// A batch of nothing but padding.
TEST_P(DeviceOps, AttentionOfNoTokensIsZero) {
  const PaddingCase c{{}, 2, 32, 0, 0, 0.1};
  Packed packed({});
  packed.max_length = 8;
  packed = packed.padded(20, 2);
  const AttentionRun run = run_attention(at(), c, packed, {}, {});
  expect_rows(run.out, {}, true, "out");
  expect_rows(run.lse, {}, true, "lse");
  expect_rows(run.dqkv, {}, true, "dqkv");
}

struct NormRun {
  std::vector<float> z, mean, rstd, y, dresidual, dx;
};

NormRun run_norm(Harness& at, const PaddingCase& c, const Packed& packed,
                 const std::vector<std::vector<float>>& rows, const std::vector<float>& gamma) {
  const std::int64_t size = packed.tokens() * c.hidden();
  trainer::device::LayerNormForward forward;
  forward.x = at.activations(with_junk(rows[0], packed.tokens(), c.hidden()));
  forward.residual = at.activations(with_junk(rows[1], packed.tokens(), c.hidden(), 100));
  forward.gamma = at.floats(gamma);
  forward.beta = at.floats(gamma);
  forward.epsilon = kEpsilon;
  forward.dropout = some_dropout(c.dropout, 65);
  forward.tokens = packed.on(at);
  forward.z = at.activation_output(size);
  forward.mean = at.output(packed.tokens());
  forward.rstd = at.output(packed.tokens());
  forward.y = at.activation_output(size);
  at.device().layer_norm_forward(0, forward);
  trainer::device::LayerNormBackward backward;
  backward.dy = at.activations(with_junk(rows[2], packed.tokens(), c.hidden(), 0));
  backward.z = forward.z;
  backward.mean = forward.mean;
  backward.rstd = forward.rstd;
  backward.gamma = forward.gamma;
  backward.dropout = forward.dropout;
  backward.tokens = forward.tokens;
  backward.dresidual = at.activation_output(size);
  backward.dx = at.activation_output(size);
  backward.dgamma = at.floats(gamma);
  backward.dbeta = at.floats(gamma);
  backward.dbias = at.floats(gamma);
  at.device().layer_norm_backward(0, backward);
  return {at.read(forward.z), at.read(forward.mean),       at.read(forward.rstd),
          at.read(forward.y), at.read(backward.dresidual), at.read(backward.dx)};
}

TEST_P(DeviceOps, LayerNormIgnoresPadding) {
  for (const PaddingCase& c : kCases) {
    if (c.hidden() % 8 != 0) continue;
    SCOPED_TRACE(name_of(c));
    Numbers numbers(72);
    const Packed packed = c.alone();
    const std::vector<float> gamma = numbers.floats(c.hidden());
    std::vector<std::vector<float>> rows;
    for (int i = 0; i < 3; ++i) rows.push_back(numbers.floats(packed.tokens() * c.hidden()));
    const NormRun alone = run_norm(at(), c, packed, rows, gamma);
    const NormRun padded = run_norm(at(), c, c.padded(), rows, gamma);
    expect_rows(padded.z, alone.z, false, "z");
    expect_rows(padded.mean, alone.mean, false, "mean");
    expect_rows(padded.rstd, alone.rstd, false, "rstd");
    expect_rows(padded.y, alone.y, false, "y");
    expect_rows(padded.dresidual, alone.dresidual, true, "dz");
    expect_rows(padded.dx, alone.dx, true, "dx");
  }
}

struct EmbeddingRun {
  std::vector<float> x, mean, rstd, y, dx;
};

constexpr std::int32_t kVocabulary = 30;
constexpr std::int64_t kPositions = 200;

EmbeddingRun run_embedding(Harness& at, const PaddingCase& c, const Packed& packed,
                           std::vector<std::int32_t> ids, const std::vector<float>& dy) {
  ids.resize(static_cast<std::size_t>(packed.tokens()), kVocabulary - 1);
  std::vector<std::int32_t> sorted(ids.size());
  std::iota(sorted.begin(), sorted.end(), 0);
  std::stable_sort(sorted.begin(), sorted.end(), [&](std::int32_t a, std::int32_t b) {
    return ids[static_cast<std::size_t>(a)] < ids[static_cast<std::size_t>(b)];
  });
  Numbers numbers(74);
  const std::int64_t h = c.hidden();
  trainer::device::EmbeddingForward forward;
  forward.ids = at.ints(ids);
  forward.types = at.ints(std::vector<std::int32_t>(ids.size(), 1));
  forward.word = at.activations(numbers.floats(kVocabulary * h));
  forward.position = at.activations(numbers.floats(kPositions * h));
  forward.type = at.activations(numbers.floats(2 * h));
  forward.gamma = at.floats(numbers.floats(h));
  forward.beta = at.floats(numbers.floats(h));
  forward.epsilon = kEpsilon;
  forward.dropout = some_dropout(c.dropout, 16);
  forward.tokens = packed.on(at);
  forward.x = at.activation_output(packed.tokens() * h);
  forward.mean = at.output(packed.tokens());
  forward.rstd = at.output(packed.tokens());
  forward.y = at.activation_output(packed.tokens() * h);
  at.device().embedding_forward(0, forward);
  trainer::device::EmbeddingBackward backward;
  backward.ids = forward.ids;
  backward.types = forward.types;
  backward.sorted = at.ints(sorted);
  backward.gamma = forward.gamma;
  backward.x = forward.x;
  backward.mean = forward.mean;
  backward.rstd = forward.rstd;
  backward.dropout = forward.dropout;
  backward.tokens = forward.tokens;
  backward.dy = at.activations(with_junk(dy, packed.tokens(), h, 0));
  backward.dword = at.floats(std::vector<float>(static_cast<std::size_t>(kVocabulary * h)));
  backward.dposition = at.floats(std::vector<float>(static_cast<std::size_t>(kPositions * h)));
  backward.dtype_rows = at.floats(std::vector<float>(static_cast<std::size_t>(2 * h)));
  backward.dgamma = at.floats(std::vector<float>(static_cast<std::size_t>(h)));
  backward.dbeta = at.floats(std::vector<float>(static_cast<std::size_t>(h)));
  at.device().embedding_backward(0, backward);
  return {at.read(forward.x), at.read(forward.mean), at.read(forward.rstd), at.read(forward.y),
          at.read(backward.dy)};
}

TEST_P(DeviceOps, EmbeddingIgnoresPadding) {
  for (const PaddingCase& c : kCases) {
    if (c.hidden() % 8 != 0) continue;
    SCOPED_TRACE(name_of(c));
    Numbers numbers(73);
    const Packed packed = c.alone();
    const std::vector<std::int32_t> ids = numbers.below(packed.tokens(), kVocabulary);
    const std::vector<float> dy = numbers.floats(packed.tokens() * c.hidden());
    const EmbeddingRun alone = run_embedding(at(), c, packed, ids, dy);
    const EmbeddingRun padded = run_embedding(at(), c, c.padded(), ids, dy);
    expect_rows(padded.x, alone.x, false, "x");
    expect_rows(padded.mean, alone.mean, false, "mean");
    expect_rows(padded.rstd, alone.rstd, false, "rstd");
    expect_rows(padded.y, alone.y, false, "y");
    expect_rows(padded.dx, alone.dx, true, "dx");
  }
}

// A product's sizes may choose another order of summation, so the same sizes run twice: what lies
// in rows of no sample must not reach the others, nor a weight gradient when their gradient is
// zero.
TEST_P(DeviceOps, GemmKeepsPaddedRowsApart) {
  const std::int64_t used = 37, tokens = 64, k = 48, n = 40;
  Numbers numbers(75);
  const std::vector<float> x = numbers.floats(used * k);
  const std::vector<float> weight = numbers.floats(k * n);
  const std::vector<float> dy = numbers.floats(used * n);
  std::vector<std::vector<float>> results;
  for (const float junk : {0.0F, kJunk}) {
    trainer::device::Gemm forward;
    forward.m = tokens;
    forward.n = n;
    forward.k = k;
    forward.a = at().activations(with_junk(x, tokens, k, junk));
    forward.b = at().activations(weight);
    forward.c = at().activation_output(tokens * n);
    device().gemm(0, forward);
    std::vector<float> rows = at().read(forward.c);
    rows.resize(static_cast<std::size_t>(used * n));
    trainer::device::Gemm gradient;
    gradient.m = n;
    gradient.n = k;
    gradient.k = tokens;
    gradient.a = at().activations(with_junk(dy, tokens, n, 0));
    gradient.b = forward.a;
    gradient.c = at().floats(std::vector<float>(static_cast<std::size_t>(k * n), 1.0F));
    gradient.transpose_a = true;
    gradient.beta = 1;
    gradient.a_column_sums = at().floats(std::vector<float>(static_cast<std::size_t>(n)));
    device().gemm(0, gradient);
    for (const std::vector<float>& result :
         {at().read(gradient.c), at().read(gradient.a_column_sums)}) {
      rows.insert(rows.end(), result.begin(), result.end());
    }
    results.push_back(rows);
  }
  expect_same(results[1], results[0], "rows, weight gradient, bias gradient");
}

}  // namespace
}  // namespace regatta::tests
