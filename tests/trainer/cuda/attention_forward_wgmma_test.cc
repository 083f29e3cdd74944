// Forward attention of warpgroup products, on the emulated device: against its formula at every
// edge of its tiles, and what no tolerance may hide.
#include <gtest/gtest.h>

#include <array>

#include "tests/trainer/cuda/attention_problem.h"
#include "tests/trainer/cuda/emulation/block.h"
#include "trainer/cuda/attention/attention_wgmma.h"

namespace regatta::tests {
namespace {

using trainer::cuda::DeviceFacts;
using trainer::cuda::KernelLaunch;
using trainer::device::Dtype;

constexpr std::array<Dtype, 2> kTypes{Dtype::BFloat16, Dtype::Float16};
constexpr DeviceFacts kHopper{90, 1, 227 * 1024};

class AttentionForwardWgmmaTest : public testing::Test {
 protected:
  ~AttentionForwardWgmmaTest() override { emulation::set_order({}); }

  [[nodiscard]] KernelLaunch at(const DeviceFacts& facts = kHopper) {
    KernelLaunch launch;
    launch.facts = facts;
    launch.scratch = scratch_.data();
    launch.scratch_bytes = static_cast<std::int64_t>(scratch_.size() * sizeof(Scratch));
    return launch;
  }
  void run(AttentionProblem& problem) {
    trainer::cuda::attention_forward_wgmma(at(), problem.forward(), {});
  }

 private:
  struct alignas(256) Scratch {
    unsigned char bytes[256];
  };
  std::vector<Scratch> scratch_ = std::vector<Scratch>(1024);
};

// Twice what the formula with the same roundings errs, plus four roundings of the largest value.
template <typename Actual>
void expect_near(const std::vector<Actual>& actual, const std::vector<double>& exact,
                 const std::vector<float>& naive, double unit, const char* what) {
  double largest = 0;
  double naive_error = 0;
  double error = 0;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    largest = std::max(largest, std::abs(exact[i]));
    naive_error = std::max(naive_error, std::abs(static_cast<double>(naive[i]) - exact[i]));
    const double mine = std::abs(static_cast<double>(actual[i]) - exact[i]);
    if (!(mine <= error)) error = mine;  // NaN too
  }
  EXPECT_LE(error, 2 * naive_error + 4 * unit * largest) << what << ", largest " << largest;
}

void expect_formula(AttentionProblem& problem) {
  const Half half = problem.half();
  const auto exact =
      attention_by_formula<double>(problem, problem.qkv(), [](double x) { return x; });
  const auto naive =
      attention_by_formula<float>(problem, problem.qkv(), [&](float x) { return half.rounded(x); });
  std::vector<float> out;
  for (const std::uint16_t bits : problem.out()) out.push_back(half.value(bits));
  expect_near(out, exact.out, naive.out, static_cast<double>(half.unit()), "out");
  expect_near(problem.lse(), exact.lse, naive.lse, 0x1p-24, "lse");
}

TEST_F(AttentionForwardWgmmaTest, MatchesItsFormula) {
  const AttentionShape cases[] = {
      {{1}, 1, 64, 0},     {{1, 7, 129}, 2, 64, 0.1},         {{63, 64, 65}, 3, 64, 0.1},
      {{97}, 1, 64, 0.9},  {{127, 128}, 1, 64, 0.5, 3},       {{200, 17}, 2, 64, 0.1, 2, 0, 2},
      {{256}, 1, 64, 0},   {{383, 33}, 1, 64, 0.1},           {{512, 3}, 1, 64, 0.1},
      {{600}, 1, 64, 0.1}, {{40, 16, 15, 2}, 3, 64, 0.1, 10},
  };
  for (const AttentionShape& shape : cases) {
    for (const Dtype dtype : kTypes) {
      SCOPED_TRACE(shape.lengths[0]);
      AttentionProblem problem(shape, dtype);
      run(problem);
      expect_formula(problem);
    }
  }
}

// Each key's score is far above all before it, or below: references move at every stage, or never.
TEST_F(AttentionForwardWgmmaTest, FollowsScoresThatGrowAndDoesNotOverflow) {
  for (const float growth : {0.5F, -0.5F, 40.0F, -40.0F}) {
    SCOPED_TRACE(growth);
    AttentionProblem problem({{200}, 1, 64, 0.1}, Dtype::BFloat16);
    for (int token = 0; token < 200; ++token) {
      for (int c = 0; c < 64; ++c) {
        problem.qkv()[problem.at(0, token, 0, c)] = problem.half().bits(c == 0 ? 8.0F : 0.0F);
        problem.qkv()[problem.at(1, token, 0, c)] =
            problem.half().bits(c == 0 ? growth * static_cast<float>(token) : 1.0F);
      }
    }
    run(problem);
    expect_formula(problem);
  }
}

// With q = 0 every p is 2⁻⁸, and with v_j = 2^(j / 64) in column j mod 64 and 0 elsewhere, element
// c of out_i is 2⁻⁸ times the bits of the four keys c, 64 + c, 128 + c and 192 + c that i keeps.
TEST_F(AttentionForwardWgmmaTest, DrawsTheMasksOfTheContract) {
  constexpr int kLength = 256;
  AttentionProblem problem({{50, kLength}, 2, 64, 0.3}, Dtype::BFloat16);
  const Half half = problem.half();
  for (int j = 0; j < kLength; ++j) {
    for (int head = 0; head < 2; ++head) {
      for (int c = 0; c < 64; ++c) {
        problem.qkv()[problem.at(0, 50 + j, head, c)] = 0;
        problem.qkv()[problem.at(2, 50 + j, head, c)] =
            half.bits(j % 64 == c ? static_cast<float>(1 << j / 64) : 0.0F);
      }
    }
  }
  run(problem);
  const float scale = trainer::contract::dropout_scale(problem.dropout().threshold);
  for (int i = 0; i < kLength; ++i) {
    for (int head = 0; head < 2; ++head) {
      for (int c = 0; c < 64; ++c) {
        int bits = 0;
        for (int n = 0; n < 4; ++n) bits |= problem.kept(1, head, i, 64 * n + c) ? 1 << n : 0;
        ASSERT_EQ(half.value(problem.out()[problem.out_at(50 + i, head, c)]),
                  half.rounded(static_cast<float>(bits) * (scale / kLength)))
            << i << " " << head << " " << c;
      }
    }
  }
}

TEST_F(AttentionForwardWgmmaTest, WritesZerosForTokensOfNoSample) {
  for (const int padding : {1, 128, 300}) {
    AttentionProblem problem({{30, 77}, 2, 64, 0.1, 1, padding, 3, {}}, Dtype::BFloat16);
    run(problem);
    for (int token = 107; token < 107 + padding; ++token) {
      for (int head = 0; head < 2; ++head) {
        ASSERT_EQ(problem.lse()[problem.lse_at(token, head)], 0);
        for (int c = 0; c < 64; ++c) ASSERT_EQ(problem.out()[problem.out_at(token, head, c)], 0);
      }
    }
  }
}

TEST_F(AttentionForwardWgmmaTest, DoesNotDependOnTheOrderOfThreadsAndBlocks) {
  const AttentionShape shape{{3, 265, 65, 129}, 1, 64, 0.1, 4, 70, 1, {}};
  AttentionProblem expected(shape, Dtype::BFloat16);
  run(expected);
  for (const char* order : {"forward", "reverse", "random:1", "random:2"}) {
    AttentionProblem problem(shape, Dtype::BFloat16);
    emulation::set_order(emulation::parse_order(order));
    run(problem);
    emulation::set_order({});
    EXPECT_EQ(problem.out(), expected.out()) << order;
    EXPECT_EQ(problem.lse(), expected.lse()) << order;
  }
}

TEST_F(AttentionForwardWgmmaTest, GivesASampleTheSameBitsInAnyCompany) {
  for (const int length : {20, 64, 150}) {
    AttentionProblem alone({{length}, 1, 64, 0.1, 2, 0, 0, {5}}, Dtype::BFloat16);
    AttentionProblem among({{3, 270, length, 7}, 1, 64, 0.1, 2, 9, 2, {1, 2, 5, 9}},
                           Dtype::BFloat16);
    const int first = among.first_of(2);
    std::copy(alone.qkv().begin(), alone.qkv().end(), among.qkv().begin() + first * 192);
    run(alone);
    run(among);
    EXPECT_TRUE(
        std::equal(alone.out().begin(), alone.out().end(), among.out().begin() + first * 64))
        << length;
    EXPECT_TRUE(std::equal(alone.lse().begin(), alone.lse().end(), among.lse().begin() + first));
  }
}

using AttentionForwardWgmmaDeathTest = AttentionForwardWgmmaTest;
TEST_F(AttentionForwardWgmmaDeathTest, RefusesWhatItIsNotFor) {
  using trainer::cuda::attention_forward_has_wgmma;
  EXPECT_TRUE(attention_forward_has_wgmma(kHopper, Dtype::BFloat16, 64));
  EXPECT_FALSE(attention_forward_has_wgmma(kHopper, Dtype::Float32, 64));
  EXPECT_FALSE(attention_forward_has_wgmma(kHopper, Dtype::Float16, 128));
  EXPECT_FALSE(attention_forward_has_wgmma({100, 1, 227 * 1024}, Dtype::Float16, 64));
  AttentionProblem problem({{30}, 1, 64, 0}, Dtype::BFloat16);
  EXPECT_DEATH(
      trainer::cuda::attention_forward_wgmma(at({80, 1, 163 * 1024}), problem.forward(), {}),
      "capability 9.0");
}

}  // namespace
}  // namespace regatta::tests
