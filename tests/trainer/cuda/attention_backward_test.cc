// The fused attention, backward, on the emulated device: against its formula along each of its ways
// (a head in one block, or tile by tile), against the reference attention, and what no tolerance
// may hide. The tables of op_attention_test.cc run besides.
#include <gtest/gtest.h>

#include <array>

#include "tests/trainer/cuda/attention_gradients.h"
#include "tests/trainer/cuda/emulation/block.h"
#include "trainer/cuda/attention/attention_work.h"

namespace regatta::tests {
namespace {

using trainer::cuda::KernelLaunch;
using trainer::cuda::LengthClass;
using trainer::device::AttentionBackward;
using trainer::device::Dtype;

constexpr std::array<Dtype, 2> kTypes{Dtype::BFloat16, Dtype::Float16};
// What a block may have on any architecture, on A100 and on H100: so much that one block has a head
// of 64 of samples up to 128, 256 and 512 tokens, and longer ones go tile by tile.
constexpr std::array<std::int64_t, 3> kSharedBytes{99 * 1024, 163 * 1024, 227 * 1024};

class AttentionBackwardTest : public testing::Test {
 protected:
  ~AttentionBackwardTest() override { emulation::set_order({}); }

  [[nodiscard]] KernelLaunch at(std::int64_t shared_bytes = 227 * 1024) {
    KernelLaunch launch;
    launch.facts.shared_bytes = shared_bytes;
    launch.scratch = scratch_.data();
    launch.scratch_bytes = static_cast<std::int64_t>(scratch_.size() * sizeof(Scratch));
    return launch;
  }

 private:
  struct alignas(256) Scratch {
    unsigned char bytes[256];
  };
  std::vector<Scratch> scratch_ = std::vector<Scratch>(1024);
};

const AttentionShape kShapes[] = {
    {{1}, 1, 64, 0},
    {{1, 7, 129}, 2, 64, 0.1},
    {{128, 128}, 1, 64, 0.1, 3},
    {{16, 1, 48, 33}, 1, 32, 0.25},
    {{64, 65, 63}, 1, 128, 0.5},
    {{200}, 1, 128, 0},
    {{300, 17}, 1, 64, 0.1, 2, 5, 2},
    {{40, 2}, 3, 32, 0.1, 10},
    {{97}, 1, 64, 0.9},
    {{260}, 1, 32, 0.1, 1, 1, 0},
};

TEST_F(AttentionBackwardTest, MatchesItsFormula) {
  for (const AttentionShape& shape : kShapes) {
    for (const Dtype dtype : kTypes) {
      SCOPED_TRACE(name_of(shape));
      for (const std::int64_t bytes : kSharedBytes) {
        GradientProblem problem(shape, dtype);
        trainer::cuda::attention_backward_fused(at(bytes), problem.op());
        expect_formula(problem, std::to_string(bytes));
      }
      GradientProblem problem(shape, dtype);
      ReferenceAttention(kReferenceBytes).backward(problem.op());
      expect_formula(problem, "reference");
    }
  }
}

TEST_F(AttentionBackwardTest, MatchesItsFormulaForTheLongestSamples) {
  for (const std::int64_t bytes : kSharedBytes) {
    GradientProblem problem({{512, 3}, 1, 64, 0.1}, Dtype::BFloat16);
    trainer::cuda::attention_backward_fused(at(bytes), problem.op());
    expect_formula(problem, std::to_string(bytes));
  }
  GradientProblem problem({{530}, 1, 64, 0.1}, Dtype::Float16);  // too long for one block
  trainer::cuda::attention_backward_fused(at(), problem.op());
  expect_formula(problem, "530");
}

// Scores so negative that e^−lse overflows: keys that fill up a tile must not make NaN of it.
TEST_F(AttentionBackwardTest, SurvivesScoresFarBelowZero) {
  for (const int head_size : {32, 64, 128}) {
    for (const std::int64_t bytes : kSharedBytes) {
      GradientProblem problem({{37, 70}, 1, head_size, 0.1}, Dtype::BFloat16);
      for (int token = 0; token < 107; ++token) {
        problem.problem.qkv()[problem.problem.at(0, token, 0, 0)] =
            problem.problem.half().bits(-64);
        problem.problem.qkv()[problem.problem.at(1, token, 0, 0)] = problem.problem.half().bits(64);
      }
      problem.run_again();
      ASSERT_LT(problem.problem.lse()[0], -200);
      trainer::cuda::attention_backward_fused(at(bytes), problem.op());
      expect_formula(problem, std::to_string(bytes));
    }
  }
}

TEST_F(AttentionBackwardTest, WritesZerosForTokensOfNoSample) {
  for (const int head_size : {32, 64, 128}) {
    for (const int padding : {1, 128, 300}) {
      for (const std::int64_t bytes : kSharedBytes) {
        GradientProblem problem({{30, 77}, 2, head_size, 0.1, 1, padding, 3, {}}, Dtype::BFloat16);
        trainer::cuda::attention_backward_fused(at(bytes), problem.op());
        for (std::size_t i = problem.problem.at(0, 107, 0, 0); i < problem.dqkv.size(); ++i) {
          ASSERT_EQ(problem.dqkv[i], 0) << i;
        }
      }
    }
  }
}

TEST_F(AttentionBackwardTest, DoesNotDependOnTheOrderOfThreadsAndBlocks) {
  for (const int head_size : {64, 128}) {
    for (const std::int64_t bytes : kSharedBytes) {
      const AttentionShape shape{{3, 265, 65}, 1, head_size, 0.1, 4, 70, 1, {}};
      GradientProblem expected(shape, Dtype::BFloat16);
      trainer::cuda::attention_backward_fused(at(bytes), expected.op());
      for (const char* order : {"reverse", "random:1"}) {
        GradientProblem problem(shape, Dtype::BFloat16);
        emulation::set_order(emulation::parse_order(order));
        trainer::cuda::attention_backward_fused(at(bytes), problem.op());
        emulation::set_order({});
        EXPECT_EQ(problem.dqkv, expected.dqkv) << order;
      }
    }
  }
}

TEST_F(AttentionBackwardTest, GivesASampleTheSameBitsInAnyCompany) {
  for (const int head_size : {32, 64, 128}) {
    for (const std::int64_t bytes : kSharedBytes) {
      for (const int length : {20, 150}) {
        GradientProblem alone({{length}, 1, head_size, 0.1, 2, 0, 0, {5}}, Dtype::BFloat16);
        GradientProblem among({{3, 270, length, 7}, 1, head_size, 0.1, 2, 9, 2, {1, 2, 5, 9}},
                              Dtype::BFloat16);
        const int first = among.problem.first_of(2);
        const auto row = static_cast<std::ptrdiff_t>(3 * alone.problem.hidden());
        std::copy(alone.problem.qkv().begin(), alone.problem.qkv().end(),
                  among.problem.qkv().begin() + first * row);
        std::copy(alone.dout.begin(), alone.dout.end(), among.dout.begin() + first * row / 3);
        among.run_again();
        trainer::cuda::attention_backward_fused(at(bytes), alone.op());
        trainer::cuda::attention_backward_fused(at(bytes), among.op());
        EXPECT_TRUE(
            std::equal(alone.dqkv.begin(), alone.dqkv.end(), among.dqkv.begin() + first * row))
            << head_size << " " << bytes << " " << length;
      }
    }
  }
}

// A graph captured for one batch is replayed for others of the same T and B.
TEST_F(AttentionBackwardTest, ReadsLengthsFromTheDeviceOnly) {
  for (const std::int64_t bytes : kSharedBytes) {
    GradientProblem problem({{73, 73, 73, 73}, 1, 64, 0.1}, Dtype::BFloat16);
    AttentionBackward op = problem.op();
    op.tokens.max_length = 289;
    trainer::cuda::attention_backward_fused(at(bytes), op);
    expect_formula(problem, std::to_string(bytes));
  }
}

TEST_F(AttentionBackwardTest, ClassesTogetherAreTheWhole) {
  const AttentionShape shape{{3, 290, 128, 129, 100, 256, 65}, 1, 64, 0.1, 2, 70, 1, {}};
  for (const std::int64_t bytes : kSharedBytes) {
    GradientProblem expected(shape, Dtype::BFloat16);
    trainer::cuda::attention_backward_fused(at(bytes), expected.op());
    GradientProblem problem(shape, Dtype::BFloat16);
    for (const LengthClass& which :
         {LengthClass{0, 128, true}, LengthClass{128, 200, false}, LengthClass{200, 4095, false}}) {
      trainer::cuda::attention_backward_class(at(bytes), problem.op(), which);
    }
    EXPECT_EQ(problem.dqkv, expected.dqkv) << bytes;
  }
}

}  // namespace
}  // namespace regatta::tests
