// The fused attention, backward, on the emulated device: against its formula along each of its ways
// (a head in one block, or tile by tile), against the reference attention, and what no tolerance
// may hide. The tables of op_attention_test.cc run besides.
#include <gtest/gtest.h>

#include <array>

#include "tests/trainer/cuda/attention_problem.h"
#include "tests/trainer/cuda/emulation/block.h"
#include "tests/trainer/cuda/reference_attention.h"
#include "trainer/cuda/attention_work.h"

namespace regatta::tests {
namespace {

using trainer::AttentionBackward;
using trainer::Dtype;
using trainer::cuda::Launch;
using trainer::cuda::LengthClass;

constexpr std::array<Dtype, 2> kTypes{Dtype::BFloat16, Dtype::Float16};
// What a block may have on any architecture, on A100 and on H100: so much that one block has a head
// of 64 of samples up to 128, 256 and 512 tokens, and longer ones go tile by tile.
constexpr std::array<std::int64_t, 3> kSharedBytes{99 * 1024, 163 * 1024, 227 * 1024};
constexpr std::int64_t kReferenceBytes = std::int64_t{4} << 20;  // scratch of the reference

class AttentionBackwardTest : public testing::Test {
 protected:
  ~AttentionBackwardTest() override { emulation::set_order({}); }

  [[nodiscard]] Launch at(std::int64_t shared_bytes = 227 * 1024) {
    Launch launch;
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

// A problem with its forward results, by the reference attention, and gradients that start as NaN.
class GradientProblem {
 public:
  GradientProblem(const Launch& at, const AttentionShape& shape, Dtype dtype)
      : problem(shape, dtype), forward_(problem.forward()) {
    run_again(at);
    std::mt19937 generator(43);
    for (std::size_t i = 0; i < problem.out().size(); ++i) {
      const double unit = static_cast<double>(generator()) / 4294967296.0;
      dout.push_back(problem.half().bits(static_cast<float>(2 * unit - 1)));
    }
    dqkv.assign(problem.qkv().size(), 0x7FFF);
  }
  [[nodiscard]] AttentionBackward op() {
    AttentionBackward op;
    op.qkv = forward_.qkv;
    op.out = forward_.out;
    op.lse = forward_.lse;
    op.heads = forward_.heads;
    op.dropout = forward_.dropout;
    op.tokens = forward_.tokens;
    op.dout = {dout.data(), static_cast<std::int64_t>(dout.size()), op.out.dtype};
    op.dqkv = {dqkv.data(), static_cast<std::int64_t>(dqkv.size()), op.out.dtype};
    return op;
  }
  [[nodiscard]] std::vector<double> values() const {
    std::vector<double> result;
    for (const std::uint16_t bits : dqkv) {
      result.push_back(static_cast<double>(problem.half().value(bits)));
    }
    return result;
  }
  void run_again(const Launch&) { ReferenceAttention(kReferenceBytes).forward(forward_); }

  AttentionProblem problem;
  std::vector<std::uint16_t> dout, dqkv;

 private:
  trainer::AttentionForward forward_;
};

// One head's rows, as Real.
template <typename Real>
struct HeadRows {
  int length, size;
  std::vector<Real> q, k, v, dout, out;
  HeadRows(GradientProblem& at, std::size_t sample, int head)
      : length(at.problem.shape().lengths[sample]), size(at.problem.shape().head_size) {
    const int first = at.problem.first_of(sample);
    AttentionProblem& problem = at.problem;
    for (int t = 0; t < length; ++t) {
      for (int c = 0; c < size; ++c) {
        const auto value = [&](std::uint16_t bits) { return Real(problem.half().value(bits)); };
        q.push_back(value(problem.qkv()[problem.at(0, first + t, head, c)]));
        k.push_back(value(problem.qkv()[problem.at(1, first + t, head, c)]));
        v.push_back(value(problem.qkv()[problem.at(2, first + t, head, c)]));
        dout.push_back(value(at.dout[problem.out_at(first + t, head, c)]));
        out.push_back(value(problem.out()[problem.out_at(first + t, head, c)]));
      }
    }
  }
  [[nodiscard]] Real dot(const std::vector<Real>& a, int i, const std::vector<Real>& b,
                         int j) const {
    Real sum = 0;
    for (int c = 0; c < size; ++c) {
      sum += a[static_cast<std::size_t>(i * size + c)] * b[static_cast<std::size_t>(j * size + c)];
    }
    return sum;
  }
  void add(std::vector<Real>& to, int i, Real factor, const std::vector<Real>& from, int j) const {
    for (int c = 0; c < size; ++c) {
      to[static_cast<std::size_t>(i * size + c)] +=
          factor * from[static_cast<std::size_t>(j * size + c)];
    }
  }
};

// dqkv by the formula in Real; round16 is applied where a 16-bit kernel must round: p, ds, results.
// `stored_out`: D is that of the stored, rounded out, else that of the formula.
template <typename Real, typename Round>
std::vector<Real> gradients_by_formula(GradientProblem& at, bool stored_out, Round round16) {
  const AttentionShape& shape = at.problem.shape();
  const Real scale = 1 / std::sqrt(Real(shape.head_size));
  std::vector<Real> result(at.dqkv.size(), Real(0));
  for (std::size_t s = 0; s < shape.lengths.size(); ++s) {
    for (int head = 0; head < shape.heads; ++head) {
      const HeadRows<Real> rows(at, s, head);
      std::vector<Real> dq(rows.q.size(), Real(0));
      std::vector<Real> dk = dq;
      std::vector<Real> dv = dq;
      const Real keep = Real(trainer::dropout_scale(at.problem.dropout().threshold));
      for (int i = 0; i < rows.length; ++i) {
        std::vector<Real> p;
        for (int j = 0; j < rows.length; ++j) p.push_back(rows.dot(rows.q, i, rows.k, j) * scale);
        const Real most = *std::max_element(p.begin(), p.end());
        Real total = 0;
        for (Real& x : p) total += x = std::exp(x - most);
        std::vector<Real> dp;
        Real inner = 0;
        for (int j = 0; j < rows.length; ++j) {
          Real& x = p[static_cast<std::size_t>(j)];
          x /= total;
          const bool kept = at.problem.kept(s, head, i, j);
          dp.push_back(kept ? rows.dot(rows.dout, i, rows.v, j) * keep : Real(0));
          inner += x * dp.back();
          if (kept) rows.add(dv, j, round16(x), rows.dout, i);
        }
        if (stored_out) inner = rows.dot(rows.dout, i, rows.out, i);
        for (int j = 0; j < rows.length; ++j) {
          const auto place = static_cast<std::size_t>(j);
          const Real ds = round16(p[place] * (dp[place] - inner));
          rows.add(dq, i, ds, rows.k, j);
          rows.add(dk, j, ds, rows.q, i);
        }
      }
      for (int t = 0; t < rows.length; ++t) {
        for (int c = 0; c < rows.size; ++c) {
          const auto from = static_cast<std::size_t>(t * rows.size + c);
          const int token = at.problem.first_of(s) + t;
          result[at.problem.at(0, token, head, c)] = round16(dq[from] * scale);
          result[at.problem.at(1, token, head, c)] = round16(dk[from] * scale);
          result[at.problem.at(2, token, head, c)] = round16(dv[from] * keep);
        }
      }
    }
  }
  return result;
}

// dq, dk and dv apart, since their sizes differ: each may err by twice what the formula with the
// same roundings errs, plus four roundings of its largest value, plus four float32 roundings of the
// largest of all: ds is a difference, which can be 0.
void expect_formula(GradientProblem& at, const std::string& what) {
  const Half half = at.problem.half();
  const std::vector<double> actual = at.values();
  const auto exact = gradients_by_formula<double>(at, false, [](double x) { return x; });
  const auto naive =
      gradients_by_formula<float>(at, true, [&](float x) { return half.rounded(x); });
  struct Third {
    double largest = 0, naive_error = 0, error = 0;
  };
  std::array<Third, 3> thirds;
  double largest = 0;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    Third& third = thirds[i / static_cast<std::size_t>(at.problem.hidden()) % 3];
    third.largest = std::max(third.largest, std::abs(exact[i]));
    third.naive_error =
        std::max(third.naive_error, std::abs(static_cast<double>(naive[i]) - exact[i]));
    const double mine = std::abs(actual[i] - exact[i]);
    if (!(mine <= third.error)) third.error = mine;  // NaN too
    largest = std::max(largest, std::abs(exact[i]));
  }
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_LE(thirds[i].error, 2 * thirds[i].naive_error +
                                   4 * static_cast<double>(half.unit()) * thirds[i].largest +
                                   4 * 0x1p-24 * largest)
        << what << ", " << std::array{"dq", "dk", "dv"}[i] << ", largest " << thirds[i].largest;
  }
}

std::string name_of(const AttentionShape& shape) {
  std::string name = "head size " + std::to_string(shape.head_size) + ", dropout " +
                     std::to_string(shape.dropout) + ", lengths";
  for (const int length : shape.lengths) name += " " + std::to_string(length);
  return name;
}

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
        GradientProblem problem(at(), shape, dtype);
        trainer::cuda::attention_backward_fused(at(bytes), problem.op());
        expect_formula(problem, std::to_string(bytes));
      }
      GradientProblem problem(at(), shape, dtype);
      ReferenceAttention(kReferenceBytes).backward(problem.op());
      expect_formula(problem, "reference");
    }
  }
}

TEST_F(AttentionBackwardTest, MatchesItsFormulaForTheLongestSamples) {
  for (const std::int64_t bytes : kSharedBytes) {
    GradientProblem problem(at(), {{512, 3}, 1, 64, 0.1}, Dtype::BFloat16);
    trainer::cuda::attention_backward_fused(at(bytes), problem.op());
    expect_formula(problem, std::to_string(bytes));
  }
  GradientProblem problem(at(), {{530}, 1, 64, 0.1}, Dtype::Float16);  // too long for one block
  trainer::cuda::attention_backward_fused(at(), problem.op());
  expect_formula(problem, "530");
}

// Scores so negative that e^−lse overflows: keys that fill up a tile must not make NaN of it.
TEST_F(AttentionBackwardTest, SurvivesScoresFarBelowZero) {
  for (const int head_size : {32, 64, 128}) {
    for (const std::int64_t bytes : kSharedBytes) {
      GradientProblem problem(at(), {{37, 70}, 1, head_size, 0.1}, Dtype::BFloat16);
      for (int token = 0; token < 107; ++token) {
        problem.problem.qkv()[problem.problem.at(0, token, 0, 0)] =
            problem.problem.half().bits(-64);
        problem.problem.qkv()[problem.problem.at(1, token, 0, 0)] = problem.problem.half().bits(64);
      }
      problem.run_again(at());
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
        GradientProblem problem(at(), {{30, 77}, 2, head_size, 0.1, 1, padding, 3, {}},
                                Dtype::BFloat16);
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
      GradientProblem expected(at(), shape, Dtype::BFloat16);
      trainer::cuda::attention_backward_fused(at(bytes), expected.op());
      for (const char* order : {"reverse", "random:1"}) {
        GradientProblem problem(at(), shape, Dtype::BFloat16);
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
        GradientProblem alone(at(), {{length}, 1, head_size, 0.1, 2, 0, 0, {5}}, Dtype::BFloat16);
        GradientProblem among(at(), {{3, 270, length, 7}, 1, head_size, 0.1, 2, 9, 2, {1, 2, 5, 9}},
                              Dtype::BFloat16);
        const int first = among.problem.first_of(2);
        const auto row = static_cast<std::ptrdiff_t>(3 * alone.problem.hidden());
        std::copy(alone.problem.qkv().begin(), alone.problem.qkv().end(),
                  among.problem.qkv().begin() + first * row);
        std::copy(alone.dout.begin(), alone.dout.end(), among.dout.begin() + first * row / 3);
        among.run_again(at());
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
    GradientProblem problem(at(), {{73, 73, 73, 73}, 1, 64, 0.1}, Dtype::BFloat16);
    AttentionBackward op = problem.op();
    op.tokens.max_length = 289;
    trainer::cuda::attention_backward_fused(at(bytes), op);
    expect_formula(problem, std::to_string(bytes));
  }
}

TEST_F(AttentionBackwardTest, ClassesTogetherAreTheWhole) {
  const AttentionShape shape{{3, 290, 128, 129, 100, 256, 65}, 1, 64, 0.1, 2, 70, 1, {}};
  for (const std::int64_t bytes : kSharedBytes) {
    GradientProblem expected(at(), shape, Dtype::BFloat16);
    trainer::cuda::attention_backward_fused(at(bytes), expected.op());
    GradientProblem problem(at(), shape, Dtype::BFloat16);
    for (const LengthClass& which :
         {LengthClass{0, 128, true}, LengthClass{128, 200, false}, LengthClass{200, 4095, false}}) {
      trainer::cuda::attention_backward_class(at(bytes), problem.op(), which);
    }
    EXPECT_EQ(problem.dqkv, expected.dqkv) << bytes;
  }
}

}  // namespace
}  // namespace regatta::tests
