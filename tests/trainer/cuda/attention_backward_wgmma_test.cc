// Backward attention of warpgroup products, on the emulated device: against its formula at every
// edge of its tiles, against the other kernels, and what no tolerance may hide.
#include <gtest/gtest.h>

#include <array>

#include "tests/trainer/cuda/attention_gradients.h"
#include "tests/trainer/cuda/emulation/block.h"
#include "trainer/cuda/attention/attention_wgmma.h"

namespace regatta::tests {
namespace {

using trainer::cuda::DeviceFacts;
using trainer::cuda::KernelLaunch;
using trainer::cuda::LengthClass;
using trainer::device::AttentionBackward;
using trainer::device::Dtype;

constexpr std::array<Dtype, 2> kTypes{Dtype::BFloat16, Dtype::Float16};
constexpr DeviceFacts kHopper{90, 1, 227 * 1024};

class AttentionWgmmaTest : public testing::Test {
 protected:
  ~AttentionWgmmaTest() override { emulation::set_order({}); }

  [[nodiscard]] KernelLaunch at(const DeviceFacts& facts = kHopper) {
    KernelLaunch launch;
    launch.facts = facts;
    launch.scratch = scratch_.data();
    launch.scratch_bytes = static_cast<std::int64_t>(scratch_.size() * sizeof(Scratch));
    return launch;
  }
  void run(GradientProblem& problem, const LengthClass& which = {}) {
    trainer::cuda::attention_backward_wgmma(at(), problem.op(), which);
  }

 private:
  struct alignas(256) Scratch {
    unsigned char bytes[256];
  };
  std::vector<Scratch> scratch_ = std::vector<Scratch>(1024);
};

const AttentionShape kShapes[] = {
    {{1}, 1, 64, 0},          {{1, 7, 129}, 2, 64, 0.1}, {{63, 64, 65}, 3, 64, 0.1},
    {{127, 128}, 1, 64, 0.5}, {{128, 128}, 1, 64, 0, 3}, {{200, 16, 15, 17}, 1, 64, 0.1, 2, 5, 2},
    {{97}, 1, 64, 0.9},       {{256}, 1, 64, 0},         {{383, 33}, 1, 64, 0.1},
};

TEST_F(AttentionWgmmaTest, MatchesItsFormula) {
  for (const AttentionShape& shape : kShapes) {
    for (const Dtype dtype : kTypes) {
      SCOPED_TRACE(name_of(shape));
      GradientProblem problem(shape, dtype);
      run(problem);
      expect_formula(problem, "wgmma");
    }
  }
}

TEST_F(AttentionWgmmaTest, MatchesItsFormulaForTheLongestSamples) {
  for (const double dropout : {0.0, 0.1}) {
    GradientProblem problem({{512, 3}, 1, 64, dropout}, Dtype::BFloat16);
    run(problem);
    expect_formula(problem, "512");
  }
}

// With q = 0 every p is 2⁻⁸, and with dout_i = 2^(i / 64) in column i mod 64 and 0 elsewhere,
// element c of dv_j is 2⁻⁸ times the bits of the four queries c, 64 + c, 128 + c and 192 + c that
// keep j.
TEST_F(AttentionWgmmaTest, DrawsTheMasksOfTheContract) {
  constexpr int kLength = 256;
  constexpr int kHeads = 2;
  GradientProblem problem({{kLength}, kHeads, 64, 0.3}, Dtype::BFloat16);
  const Half half = problem.problem.half();
  std::fill(problem.dout.begin(), problem.dout.end(), half.bits(0));
  for (int i = 0; i < kLength; ++i) {
    for (int head = 0; head < kHeads; ++head) {
      for (int c = 0; c < 64; ++c) problem.problem.qkv()[problem.problem.at(0, i, head, c)] = 0;
      problem.dout[problem.problem.out_at(i, head, i % 64)] =
          half.bits(static_cast<float>(1 << i / 64));
    }
  }
  problem.run_again();
  run(problem);
  const float scale = trainer::contract::dropout_scale(problem.problem.dropout().threshold);
  for (int head = 0; head < kHeads; ++head) {
    for (int j = 0; j < kLength; ++j) {
      for (int c = 0; c < 64; ++c) {
        int bits = 0;
        for (int n = 0; n < 4; ++n) {
          bits |= problem.problem.kept(0, head, 64 * n + c, j) ? 1 << n : 0;
        }
        ASSERT_EQ(half.value(problem.dqkv[problem.problem.at(2, j, head, c)]),
                  half.rounded(static_cast<float>(bits) * 0x1p-8F * scale))
            << head << " " << j << " " << c;
      }
    }
  }
}

// Scores so negative that e^−lse overflows: keys that fill up a square must not make NaN of it.
TEST_F(AttentionWgmmaTest, SurvivesScoresFarBelowZero) {
  GradientProblem problem({{37, 70}, 1, 64, 0.1}, Dtype::BFloat16);
  for (int token = 0; token < 107; ++token) {
    problem.problem.qkv()[problem.problem.at(0, token, 0, 0)] = problem.problem.half().bits(-64);
    problem.problem.qkv()[problem.problem.at(1, token, 0, 0)] = problem.problem.half().bits(64);
  }
  problem.run_again();
  ASSERT_LT(problem.problem.lse()[0], -200);
  run(problem);
  expect_formula(problem, "far below zero");
}

TEST_F(AttentionWgmmaTest, WritesZerosForTokensOfNoSample) {
  for (const int padding : {1, 128, 300}) {
    GradientProblem problem({{30, 77}, 2, 64, 0.1, 1, padding, 3, {}}, Dtype::BFloat16);
    run(problem);
    for (std::size_t i = problem.problem.at(0, 107, 0, 0); i < problem.dqkv.size(); ++i) {
      ASSERT_EQ(problem.dqkv[i], 0) << i;
    }
  }
}

TEST_F(AttentionWgmmaTest, DoesNotDependOnTheOrderOfThreadsAndBlocks) {
  const AttentionShape shape{{3, 265, 65, 129}, 1, 64, 0.1, 4, 70, 1, {}};
  GradientProblem expected(shape, Dtype::BFloat16);
  run(expected);
  for (const char* order : {"forward", "reverse", "random:1", "random:2"}) {
    GradientProblem problem(shape, Dtype::BFloat16);
    emulation::set_order(emulation::parse_order(order));
    run(problem);
    emulation::set_order({});
    EXPECT_EQ(problem.dqkv, expected.dqkv) << order;
  }
}

TEST_F(AttentionWgmmaTest, GivesASampleTheSameBitsInAnyCompany) {
  for (const int length : {20, 64, 150}) {
    GradientProblem alone({{length}, 1, 64, 0.1, 2, 0, 0, {5}}, Dtype::BFloat16);
    GradientProblem among({{3, 270, length, 7}, 1, 64, 0.1, 2, 9, 2, {1, 2, 5, 9}},
                          Dtype::BFloat16);
    const int first = among.problem.first_of(2);
    const auto row = static_cast<std::ptrdiff_t>(3 * alone.problem.hidden());
    std::copy(alone.problem.qkv().begin(), alone.problem.qkv().end(),
              among.problem.qkv().begin() + first * row);
    std::copy(alone.dout.begin(), alone.dout.end(), among.dout.begin() + first * row / 3);
    among.run_again();
    run(alone);
    run(among);
    EXPECT_TRUE(std::equal(alone.dqkv.begin(), alone.dqkv.end(), among.dqkv.begin() + first * row))
        << length;
  }
}

TEST_F(AttentionWgmmaTest, ReadsLengthsFromTheDeviceOnly) {
  GradientProblem problem({{73, 73, 73, 73}, 1, 64, 0.1}, Dtype::BFloat16);
  AttentionBackward op = problem.op();
  op.tokens.max_length = 289;
  trainer::cuda::attention_backward_wgmma(at(), op, {});
  expect_formula(problem, "289");
}

// Samples beyond its limit are somebody else's.
TEST_F(AttentionWgmmaTest, ItsClassAndTheRestAreTheWhole) {
  GradientProblem problem({{3, 530, 128, 65}, 1, 64, 0.1, 2, 70, 1, {}}, Dtype::BFloat16);
  const std::int64_t limit = trainer::cuda::attention_backward_wgmma_limit(kHopper);
  ASSERT_EQ(limit, 512);
  run(problem, {0, limit, true});
  trainer::cuda::attention_backward_class(at(), problem.op(), {limit, 4095, false});
  expect_formula(problem, "classes");
}

TEST(AttentionWgmma, IsForHopperAndHeadsOf64) {
  using trainer::cuda::attention_backward_has_wgmma;
  EXPECT_TRUE(attention_backward_has_wgmma(kHopper, Dtype::BFloat16, 64));
  EXPECT_TRUE(attention_backward_has_wgmma(kHopper, Dtype::Float16, 64));
  EXPECT_FALSE(attention_backward_has_wgmma(kHopper, Dtype::Float32, 64));
  EXPECT_FALSE(attention_backward_has_wgmma(kHopper, Dtype::BFloat16, 32));
  EXPECT_FALSE(attention_backward_has_wgmma(kHopper, Dtype::BFloat16, 128));
  for (const int architecture : {80, 86, 89, 100, 103, 120}) {
    EXPECT_FALSE(attention_backward_has_wgmma({architecture, 1, 227 * 1024}, Dtype::BFloat16, 64));
  }
}

using AttentionWgmmaDeathTest = AttentionWgmmaTest;
TEST_F(AttentionWgmmaDeathTest, RefusesWhatItIsNotFor) {
  GradientProblem problem({{30}, 1, 64, 0}, Dtype::BFloat16);
  EXPECT_DEATH(trainer::cuda::attention_backward_wgmma(at({80, 1, 163 * 1024}), problem.op(), {}),
               "capability 9.0");
  GradientProblem longer({{513}, 1, 64, 0}, Dtype::BFloat16);
  EXPECT_DEATH(run(longer), "room for all of a head");
}

}  // namespace
}  // namespace regatta::tests
