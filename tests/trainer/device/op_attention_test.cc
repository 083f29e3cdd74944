#include "tests/trainer/device/op_cases.h"
#include "tests/trainer/device/packed_tokens.h"
#include "tests/trainer/device/reference_ops.h"

namespace regatta::tests {
namespace {

using trainer::device::View;

struct AttentionCase {
  std::vector<int> lengths;
  int heads;
  std::int64_t head_size;
  double dropout;
  float size;  // of the inputs: large ones make sharp probabilities
  std::int64_t spare_tokens = 0, empty_samples = 0;  // padding

  [[nodiscard]] Packed packed() const {
    return Packed(lengths).padded(spare_tokens, empty_samples);
  }
};

const AttentionCase kCases[] = {
    {{1}, 1, 16, 0, 1},
    {{7}, 2, 16, 0.1, 1},
    {{129}, 2, 32, 0, 1},
    {{1, 7, 129}, 2, 64, 0.1, 1},
    {{128, 128}, 1, 64, 0.1, 3},
    {{64, 65, 63}, 1, 128, 0.5, 1},
    {{8, 16, 3}, 12, 26, 0.1, 1},
    {{5}, 8, 1, 0, 2},
    {{40, 2}, 3, 8, 0.1, 10},
    {{33, 200}, 1, 39, 0.25, 1},
    {{300, 17}, 2, 20, 0.1, 1},
    {{33, 64}, 2, 64, 0.1, 1, 31, 3},
    {{9}, 3, 24, 0, 1, 1, 0},
    {{130}, 1, 32, 0.1, 1, 0, 1},
    {{17, 80}, 1, 128, 0, 2, 200, 2},
    {{66, 9}, 3, 5, 0.1, 1},
    {{65}, 2, 80, 0.1, 1, 2, 0},
};

std::string name_of(const AttentionCase& c) {
  return "tokens " + std::to_string(c.packed().tokens()) + " heads " + std::to_string(c.heads) +
         " of " + std::to_string(c.head_size) + " dropout " + std::to_string(c.dropout) +
         " spare " + std::to_string(c.spare_tokens);
}

// Runs forward and backward of one case and compares everything.
void check_attention(Harness& at, const AttentionCase& c) {
  SCOPED_TRACE(name_of(c));
  const Packed packed = c.packed();
  const trainer::device::Dropout dropout = some_dropout(c.dropout, 64);
  const std::int64_t hidden = c.heads * c.head_size;
  Numbers numbers(41);
  const std::vector<float> qkv = at.rounded(numbers.floats(packed.tokens() * 3 * hidden, c.size));
  const std::vector<float> dout = at.rounded(numbers.floats(packed.tokens() * hidden));
  trainer::device::AttentionForward forward;
  forward.qkv = at.activations(qkv);
  forward.out = at.activation_output(packed.tokens() * hidden);
  forward.lse = at.output(c.heads * packed.tokens());
  forward.heads = c.heads;
  forward.dropout = dropout;
  forward.tokens = packed.on(at);
  at.device().attention_forward(0, forward);
  trainer::device::AttentionBackward backward;
  backward.qkv = forward.qkv;
  backward.out = forward.out;
  backward.lse = forward.lse;
  backward.dout = at.activations(dout);
  backward.dqkv = at.activation_output(packed.tokens() * 3 * hidden);
  backward.heads = c.heads;
  backward.dropout = dropout;
  backward.tokens = forward.tokens;
  at.device().attention_backward(0, backward);

  const auto exact = reference::attention<double>(packed, dropout, c.heads, as<double>(qkv));
  const auto naive = reference::attention<float>(packed, dropout, c.heads, qkv, at.precision());
  expect_close(at, forward.out, exact.out, naive.out, "out");
  expect_close(at, forward.lse, exact.lse, naive.lse, "lse");
  expect_close(
      at, backward.dqkv,
      reference::attention_backward<double>(packed, dropout, c.heads, as<double>(qkv),
                                            as<double>(dout)),
      reference::attention_backward<float>(packed, dropout, c.heads, qkv, dout, at.precision()),
      "dqkv");
}

TEST_P(DeviceOps, AttentionMatchesItsFormula) {
  for (const AttentionCase& c : kCases) check_attention(at(), c);
}

TEST_P(DeviceOps, AttentionOfTheLongestSamples) {
  check_attention(at(), {{512, 3}, 1, 32, 0.1, 1});
}

// What BERT-large trains with: one token behind four stages of 64 keys, whole stages that are no
// power of two, and the longest. A test each, so that each is known where another ends the process.
AttentionCase bert_large(int tokens, int heads) { return {{tokens}, heads, 64, 0.1, 1}; }
TEST_P(DeviceOps, AttentionOfBertLargeAt257Tokens) {
  check_attention(at(), bert_large(257, GetParam().large_heads));
}
TEST_P(DeviceOps, AttentionOfBertLargeAt384Tokens) {
  check_attention(at(), bert_large(384, GetParam().large_heads));
}
TEST_P(DeviceOps, AttentionOfBertLargeAt512Tokens) {
  check_attention(at(), bert_large(512, GetParam().large_heads));
}

// Equal scores and one-hot values show the mask: out[i, j] = factor(i, j) / L. The pattern of zeros
// must be the contract's.
TEST_P(DeviceOps, AttentionDropoutMasksAreThoseOfTheContract) {
  const Packed packed({100, 1, 61});
  const int heads = 2;
  const std::int64_t size = 104;
  const std::int64_t hidden = heads * size;
  const trainer::device::Dropout dropout = some_dropout(0.3, 68);
  std::vector<float> qkv(static_cast<std::size_t>(packed.tokens() * 3 * hidden));
  for (std::int64_t t = 0; t < packed.tokens(); ++t) {
    for (int head = 0; head < heads; ++head) {
      const std::int64_t one = packed.position[static_cast<std::size_t>(t)];
      qkv[reference::at(t, 3 * hidden, 2 * hidden + head * size + one)] = 1;
    }
  }
  trainer::device::AttentionForward op;
  op.qkv = at().activations(qkv);
  op.out = at().activation_output(packed.tokens() * hidden);
  op.lse = at().output(heads * packed.tokens());
  op.heads = heads;
  op.dropout = dropout;
  op.tokens = packed.on(at());
  device().attention_forward(0, op);
  const std::vector<float> out = at().read(op.out);
  for (std::int64_t sample = 0; sample < packed.samples(); ++sample) {
    for (int head = 0; head < heads; ++head) {
      const reference::HeadIndex index = reference::head_of(packed, hidden, heads, sample, head);
      for (std::int64_t i = 0; i < index.length; ++i) {
        for (std::int64_t j = 0; j < index.length; ++j) {
          const float factor = attention_factor(packed, dropout, sample, head, i, j);
          ASSERT_EQ(out[index.out(i, j)] != 0, factor != 0) << sample << " " << i << " " << j;
          // Two roundings of 16-bit types at most: of the probability and of the output.
          const double exact = static_cast<double>(factor) / static_cast<double>(index.length);
          const double storing = is_sixteen_bit(compute()) ? 2 * half_ulp(compute(), exact) : 0.0;
          ASSERT_NEAR(static_cast<double>(out[index.out(i, j)]), exact, 1e-6 + storing);
        }
      }
    }
  }
}

// A sample's result does not depend on its neighbours or its place in the batch.
TEST_P(DeviceOps, AttentionOfASampleIgnoresTheOthers) {
  const std::int64_t hidden = 64;
  Numbers numbers(6);
  const std::vector<float> sample = numbers.floats(37 * 3 * hidden);
  const std::vector<float> other = numbers.floats(50 * 3 * hidden);
  std::vector<float> together = other;
  together.insert(together.end(), sample.begin(), sample.end());
  const auto run = [&](const std::vector<int>& lengths, const std::vector<float>& qkv) {
    const Packed packed(lengths);
    trainer::device::AttentionForward op;
    op.qkv = at().activations(qkv);
    op.out = at().activation_output(packed.tokens() * hidden);
    op.lse = at().output(2 * packed.tokens());
    op.heads = 2;
    op.tokens = packed.on(at());
    device().attention_forward(0, op);
    return at().read(op.out);
  };
  const std::vector<float> alone = run({37}, sample);
  const std::vector<float> both = run({50, 37}, together);
  expect_same({both.end() - 37 * hidden, both.end()}, alone, "out");
}

// Scores of ±1e4 must not overflow: the largest key takes everything.
TEST_P(DeviceOps, AttentionSurvivesHugeScores) {
  const Packed packed({5});
  std::vector<float> qkv(5 * 3 * 16, 0.0F);
  for (std::int64_t t = 0; t < 5; ++t) {
    qkv[reference::at(t, 48, 0)] = 200.0F;
    qkv[reference::at(t, 48, 16)] = 200.0F * static_cast<float>(t - 2);
    qkv[reference::at(t, 48, 32)] = static_cast<float>(t);
  }
  trainer::device::AttentionForward op;
  op.qkv = at().activations(qkv);
  op.out = at().activation_output(5 * 16);
  op.lse = at().output(5);
  op.heads = 1;
  op.tokens = packed.on(at());
  device().attention_forward(0, op);
  const std::vector<float> out = at().read(op.out);
  for (std::int64_t t = 0; t < 5; ++t) EXPECT_EQ(out[reference::at(t, 16, 0)], 4.0F);
  EXPECT_EQ(at().read(op.lse)[0], 20000.0F);
}

}  // namespace
}  // namespace regatta::tests
