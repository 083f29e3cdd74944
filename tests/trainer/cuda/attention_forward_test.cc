// The fused attention, forward, on the emulated device: against its formula, and what no tolerance
// may hide (masks, independence of neighbours, tokens of no sample).
#include <gtest/gtest.h>

#include <array>
#include <set>

#include "tests/trainer/cuda/attention_problem.h"
#include "tests/trainer/cuda/emulation/block.h"
#include "trainer/cuda/attention/attention_work.h"

namespace regatta::tests {
namespace {

using trainer::cuda::AttentionTile;
using trainer::cuda::ForwardWay;
using trainer::cuda::KernelLaunch;
using trainer::cuda::LengthClass;
using trainer::device::Dtype;

constexpr std::array<Dtype, 2> kTypes{Dtype::BFloat16, Dtype::Float16};

class AttentionForwardTest : public testing::TestWithParam<ForwardWay> {
 protected:
  ~AttentionForwardTest() override { emulation::set_order({}); }

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

// The kernel may err by twice what the formula with the same roundings errs, plus four roundings of
// the largest value, the rule of op_cases.h. Exponentials are good to 2 units of float32.
void expect_near(const std::vector<double>& actual, const std::vector<double>& exact,
                 const std::vector<double>& naive, double unit, const std::string& what) {
  double largest = 0;
  double naive_error = 0;
  double error = 0;
  std::size_t worst = 0;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    largest = std::max(largest, std::abs(exact[i]));
    naive_error = std::max(naive_error, std::abs(naive[i] - exact[i]));
    const double mine = std::abs(actual[i] - exact[i]);
    if (!(mine <= error)) {
      error = mine;
      worst = i;
    }
  }
  EXPECT_LE(error, 2 * naive_error + 4 * unit * largest)
      << what << "[" << worst << "] is " << actual[worst] << ", exactly " << exact[worst];
}

void expect_formula(AttentionProblem& problem) {
  const Half half = problem.half();
  const auto exact =
      attention_by_formula<double>(problem, problem.qkv(), [](double x) { return x; });
  const auto naive =
      attention_by_formula<float>(problem, problem.qkv(), [&](float x) { return half.rounded(x); });
  std::vector<double> out;
  for (const std::uint16_t bits : problem.out()) out.push_back(half.value(bits));
  const auto doubles = [](const std::vector<float>& x) {
    return std::vector<double>(x.begin(), x.end());
  };
  expect_near(out, exact.out, doubles(naive.out), static_cast<double>(half.unit()), "out");
  expect_near(doubles(problem.lse()), exact.lse, doubles(naive.lse), 0x1p-24, "lse");
}

std::string name_of(const AttentionShape& shape) {
  std::string name = "head size " + std::to_string(shape.head_size) + ", dropout " +
                     std::to_string(shape.dropout) + ", lengths";
  for (const int length : shape.lengths) name += " " + std::to_string(length);
  return name;
}

TEST_P(AttentionForwardTest, MatchesItsFormula) {
  const AttentionShape cases[] = {
      {{1}, 1, 64, 0},           {{7}, 2, 64, 0.1},           {{1, 7, 129}, 2, 64, 0.1},
      {{129}, 2, 32, 0},         {{31, 32, 33}, 1, 32, 0.25}, {{64, 65, 63}, 1, 128, 0.5},
      {{200}, 1, 128, 0.1, 3},   {{128, 128}, 1, 64, 0.1, 3}, {{300, 17}, 2, 64, 0.1},
      {{40, 2}, 3, 32, 0.1, 10}, {{97}, 1, 64, 0.9},          {{16, 1, 48}, 1, 128, 0},
  };
  for (const AttentionShape& shape : cases) {
    for (const Dtype dtype : kTypes) {
      SCOPED_TRACE(name_of(shape));
      AttentionProblem problem(shape, dtype);
      trainer::cuda::attention_forward_fused(at(), problem.forward(), GetParam());
      expect_formula(problem);
    }
  }
}

// A growing row: each key's score is above all before it, so that references move at every step.
TEST_P(AttentionForwardTest, FollowsScoresThatGrowAndDoesNotOverflow) {
  for (const Dtype dtype : kTypes) {
    for (const float growth : {0.5F, -0.5F, 40.0F, -40.0F}) {
      SCOPED_TRACE(growth);
      AttentionProblem problem({{200}, 1, 64, 0.1}, dtype);
      for (int token = 0; token < 200; ++token) {
        for (int c = 0; c < 64; ++c) {
          problem.qkv()[problem.at(0, token, 0, c)] = problem.half().bits(c == 0 ? 8.0F : 0.0F);
          problem.qkv()[problem.at(1, token, 0, c)] =
              problem.half().bits(c == 0 ? growth * static_cast<float>(token) : 1.0F);
        }
      }
      trainer::cuda::attention_forward_fused(at(), problem.forward(), GetParam());
      expect_formula(problem);
    }
    AttentionProblem large({{70}, 2, 64, 0.1, 200.0F}, dtype);
    trainer::cuda::attention_forward_fused(at(), large.forward(), GetParam());
    expect_formula(large);
  }
}

// With q = 0 all probabilities are equal, and one-hot values show which of 64 keys were kept.
TEST_P(AttentionForwardTest, DrawsTheMasksOfTheContract) {
  const int length = 203;
  for (const int head_size : {32, 64, 128}) {
    for (int begin = 0; begin < length; begin += head_size) {
      AttentionProblem problem({{50, length}, 2, head_size, 0.3}, Dtype::Float16);
      for (int token = 0; token < 50 + length; ++token) {
        for (int head = 0; head < 2; ++head) {
          for (int c = 0; c < head_size; ++c) {
            problem.qkv()[problem.at(0, token, head, c)] = 0;
            problem.qkv()[problem.at(2, token, head, c)] =
                problem.half().bits(token - 50 == begin + c ? 1.0F : 0.0F);
          }
        }
      }
      trainer::cuda::attention_forward_fused(at(), problem.forward(), GetParam());
      for (int query = 0; query < length; ++query) {
        for (int head = 0; head < 2; ++head) {
          for (int c = 0; c < head_size && begin + c < length; ++c) {
            ASSERT_EQ(problem.out()[problem.out_at(50 + query, head, c)] != 0,
                      problem.kept(1, head, query, begin + c))
                << "head size " << head_size << " query " << query << " key " << begin + c;
          }
        }
      }
    }
  }
}

// Copies a sample's bits from one problem to another.
void copy_sample(AttentionProblem& from, std::size_t from_sample, AttentionProblem& to,
                 std::size_t to_sample) {
  const int row = 3 * from.hidden();
  std::copy_n(from.qkv().begin() + from.first_of(from_sample) * row,
              from.shape().lengths[from_sample] * row,
              to.qkv().begin() + to.first_of(to_sample) * row);
}
void expect_same_sample(const AttentionProblem& a, std::size_t a_sample, const AttentionProblem& b,
                        std::size_t b_sample) {
  for (int token = 0; token < a.shape().lengths[a_sample]; ++token) {
    const int at_a = a.first_of(a_sample) + token;
    const int at_b = b.first_of(b_sample) + token;
    for (int head = 0; head < a.shape().heads; ++head) {
      ASSERT_EQ(a.lse()[a.lse_at(at_a, head)], b.lse()[b.lse_at(at_b, head)]);
      for (int c = 0; c < a.shape().head_size; ++c) {
        ASSERT_EQ(a.out()[a.out_at(at_a, head, c)], b.out()[b.out_at(at_b, head, c)]);
      }
    }
  }
}

TEST_P(AttentionForwardTest, GivesASampleTheSameBitsInAnyCompany) {
  for (const int head_size : {32, 64, 128}) {
    for (const int length : {20, 64, 100}) {
      AttentionProblem alone({{length}, 2, head_size, 0.1, 4, 0, 0, {5}}, Dtype::BFloat16);
      AttentionProblem among({{3, 290, length, 70}, 2, head_size, 0.1, 4, 9, 2, {1, 2, 5, 9}},
                             Dtype::BFloat16);
      copy_sample(alone, 0, among, 2);
      trainer::cuda::attention_forward_fused(at(), alone.forward(), GetParam());
      trainer::cuda::attention_forward_fused(at(), among.forward(), GetParam());
      expect_same_sample(alone, 0, among, 2);
    }
  }
}

TEST_P(AttentionForwardTest, DoesNotDependOnTheOrderOfThreadsAndBlocks) {
  const AttentionShape shape{{3, 290, 100, 65}, 2, 64, 0.1, 4, 70, 1, {}};
  AttentionProblem expected(shape, Dtype::BFloat16);
  trainer::cuda::attention_forward_fused(at(), expected.forward(), GetParam());
  for (const char* order : {"reverse", "random:1", "random:2", "random:3"}) {
    emulation::set_order(emulation::parse_order(order));
    AttentionProblem problem(shape, Dtype::BFloat16);
    trainer::cuda::attention_forward_fused(at(), problem.forward(), GetParam());
    EXPECT_EQ(problem.out(), expected.out()) << order;
    EXPECT_EQ(problem.lse(), expected.lse()) << order;
  }
}

TEST_P(AttentionForwardTest, WritesZerosForTokensOfNoSample) {
  for (const int padding : {1, 127, 128, 300}) {
    AttentionProblem problem({{30, 77}, 3, 64, 0.1, 1, padding, 3, {}}, Dtype::BFloat16);
    trainer::cuda::attention_forward_fused(at(), problem.forward(), GetParam());
    for (int token = 107; token < 107 + padding; ++token) {
      for (int head = 0; head < 3; ++head) {
        ASSERT_EQ(problem.lse()[problem.lse_at(token, head)], 0.0F) << token;
        for (int c = 0; c < 64; ++c) ASSERT_EQ(problem.out()[problem.out_at(token, head, c)], 0);
      }
    }
    expect_formula(problem);
  }
}

// A graph captured for one batch is replayed for others of the same T and B.
TEST_P(AttentionForwardTest, ReadsLengthsFromTheDeviceOnly) {
  AttentionProblem first({{200, 1, 1, 90}, 1, 64, 0.1, 1, 0, 0, {4, 3, 2, 1}}, Dtype::BFloat16);
  AttentionProblem second({{73, 73, 73, 73}, 1, 64, 0.1, 1, 0, 0, {4, 3, 2, 1}}, Dtype::BFloat16);
  trainer::device::AttentionForward op = second.forward();
  op.tokens.max_length = first.forward().tokens.max_length;
  trainer::cuda::attention_forward_fused(at(), op, GetParam());
  expect_formula(second);
}

TEST_P(AttentionForwardTest, ClassesTogetherAreTheWhole) {
  const AttentionShape shape{{3, 290, 128, 129, 100, 256, 65}, 1, 64, 0.1, 2, 70, 1, {}};
  AttentionProblem expected(shape, Dtype::BFloat16);
  trainer::cuda::attention_forward_fused(at(), expected.forward(), GetParam());
  AttentionProblem problem(shape, Dtype::BFloat16);
  for (const LengthClass& which :
       {LengthClass{0, 128, true}, LengthClass{128, 256, false}, LengthClass{256, 4095, false}}) {
    trainer::cuda::attention_forward_class(at(), problem.forward(), which, GetParam());
  }
  EXPECT_EQ(problem.out(), expected.out());
  EXPECT_EQ(problem.lse(), expected.lse());
}

TEST_P(AttentionForwardTest, NeedsNoMoreSharedMemoryThanAnyArchitectureHas) {
  for (const int head_size : {32, 64, 128}) {
    AttentionProblem problem({{150}, 1, head_size, 0.1}, Dtype::Float16);
    trainer::cuda::attention_forward_fused(at(99 * 1024), problem.forward(), GetParam());
    expect_formula(problem);
  }
}

struct ListCase {
  std::vector<int> lengths;
  int padding, rows;
  LengthClass which;
};

// The list by the plainest means: samples sorted by length, stably.
std::vector<std::array<int, 4>> plain_list(const ListCase& c) {
  std::vector<std::array<int, 3>> samples;  // −length, sample, begin
  int begin = 0;
  for (std::size_t s = 0; s < c.lengths.size(); ++s) {
    samples.push_back({-c.lengths[s], static_cast<int>(s), begin});
    begin += c.lengths[s];
  }
  if (samples.size() <= trainer::cuda::kSortedSamples) std::sort(samples.begin(), samples.end());
  std::vector<std::array<int, 4>> list;
  for (const auto& [length, sample, first] : samples) {
    if (-length <= c.which.longer_than || -length > c.which.up_to) continue;
    for (int row = 0; row < -length; row += c.rows) list.push_back({first, -length, row, sample});
  }
  for (int row = 0; c.which.padding && row < c.padding; row += c.rows) {
    list.push_back({begin, c.padding, row, -1});
  }
  return list;
}

TEST_P(AttentionForwardTest, ListsTilesLongestSamplesFirst) {
  std::vector<int> many;
  for (int i = 0; i < 1000; ++i) many.push_back(i * 7919 % 513);
  std::vector<int> too_many(trainer::cuda::kSortedSamples + 1, 2);
  too_many[5] = 9;
  const ListCase cases[] = {
      {{1}, 0, 64, {}},
      {{5, 5, 5}, 3, 2, {}},
      {{0, 128, 0, 129, 127, 128, 0}, 200, 128, {}},
      {{3, 290, 128, 129, 100, 256, 65}, 70, 128, {128, 256, false}},
      {{3, 290, 128, 129, 100, 256, 65}, 70, 64, {0, 128, true}},
      {{3, 290}, 0, 64, {300, 400, true}},
      {{0, 0}, 70, 64, {}},
      {many, 5, 64, {}},
      {many, 5, 128, {384, 4095, true}},
      {too_many, 0, 64, {}},
      {{4095, 1, 4094}, 1, 16, {}},
  };
  for (const ListCase& c : cases) {
    std::vector<std::int32_t> cumulative{0};
    for (const int length : c.lengths) cumulative.push_back(cumulative.back() + length);
    const std::int64_t tokens = cumulative.back() + c.padding;
    const trainer::device::View view{cumulative.data(),
                                     static_cast<std::int64_t>(cumulative.size()), Dtype::Int32};
    const auto list = trainer::cuda::build_tiles(at(), view, tokens, c.rows, c.which);
    const auto expected = plain_list(c);
    if (list.bound == 0) {
      EXPECT_TRUE(expected.empty());
      continue;
    }
    ASSERT_EQ(static_cast<std::size_t>(*list.count), expected.size());
    ASSERT_LE(*list.count, list.bound);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const AttentionTile& tile = list.tiles[i];
      EXPECT_EQ((std::array<int, 4>{tile.begin, tile.length, tile.row, tile.sample}), expected[i]);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ways, AttentionForwardTest,
                         testing::Values(ForwardWay::Streamed, ForwardWay::Resident),
                         [](const auto& way) {
                           return way.param == ForwardWay::Streamed ? "Streamed" : "Resident";
                         });

class ResidentForwardTest : public AttentionForwardTest {};

// Lengths around stages and tiles of queries; with 227 KiB and 163 KiB up to 512 tokens stay, with
// 99 KiB up to 256.
TEST_P(ResidentForwardTest, GivesTheBitsOfStreaming) {
  const AttentionShape shapes[] = {
      {{1, 33, 64, 65, 129}, 2, 64, 0.1, 1, 5, 1},
      {{512, 130, 511}, 1, 64, 0.1, 3},
      {{385, 257, 300}, 2, 64, 0, 1, 0, 2},
      {{449, 20, 700}, 1, 64, 0.3, 1, 4200},
      {{512, 256, 31}, 1, 32, 0.1},
      {{300, 90}, 1, 128, 0.1},
  };
  for (const AttentionShape& shape : shapes) {
    for (const Dtype dtype : kTypes) {
      SCOPED_TRACE(name_of(shape));
      AttentionProblem streamed(shape, dtype);
      trainer::cuda::attention_forward_fused(at(), streamed.forward(), ForwardWay::Streamed);
      for (const std::int64_t shared : {227, 163, 99}) {
        AttentionProblem resident(shape, dtype);
        trainer::cuda::attention_forward_fused(at(shared * 1024), resident.forward(), GetParam());
        EXPECT_EQ(resident.out(), streamed.out()) << shared;
        EXPECT_EQ(resident.lse(), streamed.lse()) << shared;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ways, ResidentForwardTest, testing::Values(ForwardWay::Resident),
                         [](const auto&) { return "Resident"; });

}  // namespace
}  // namespace regatta::tests
