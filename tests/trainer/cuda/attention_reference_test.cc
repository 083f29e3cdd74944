// The reference attention on the emulated device: what its tables of cases (op_attention_test.cc,
// in every type) cannot ask. Chunks, their ends, graphs, and a library that refuses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "tests/trainer/cuda/attention_problem.h"
#include "tests/trainer/cuda/emulation/block.h"
#include "tests/trainer/cuda/emulation/facts.h"
#include "tests/trainer/cuda/reference_attention.h"
#include "trainer/cuda/handles.h"

namespace regatta::tests {
namespace {

using testing::HasSubstr;
using trainer::device::Dtype;
using trainer::device::View;

constexpr Dtype kTypes[] = {Dtype::Float32, Dtype::BFloat16, Dtype::Float16};
constexpr std::int64_t kPlenty = std::int64_t{16} << 20;  // one chunk for every case here

// A tensor of an activation type in host memory.
class Tensor {
 public:
  Tensor(Dtype dtype, const std::vector<float>& values) : dtype_(dtype) {
    for (const float x : values) {
      if (dtype == Dtype::Float32) {
        floats_.push_back(x);
      } else {
        halves_.push_back(Half(dtype).bits(x));
      }
    }
  }
  [[nodiscard]] View view() {
    if (dtype_ == Dtype::Float32) {
      return {floats_.data(), static_cast<std::int64_t>(floats_.size()), dtype_};
    }
    return {halves_.data(), static_cast<std::int64_t>(halves_.size()), dtype_};
  }
  [[nodiscard]] std::vector<float> values() const {
    std::vector<float> values = floats_;
    for (const std::uint16_t x : halves_) values.push_back(Half(dtype_).value(x));
    return values;
  }

 private:
  Dtype dtype_;
  std::vector<float> floats_;
  std::vector<std::uint16_t> halves_;
};

// Forward and backward of a problem. Results start as NaN.
class Attention {
 public:
  Attention(const AttentionShape& shape, Dtype dtype)
      : problem_(shape, Dtype::BFloat16),
        qkv(dtype, values_of(problem_.qkv())),
        dout(dtype, dout_of(problem_)),
        out(dtype, std::vector<float>(problem_.out().size(), NAN)),
        dqkv(dtype, std::vector<float>(problem_.qkv().size(), NAN)) {
    forward = problem_.forward();
    forward.qkv = qkv.view();
    forward.out = out.view();
    backward.qkv = forward.qkv;
    backward.out = forward.out;
    backward.lse = forward.lse;
    backward.heads = forward.heads;
    backward.dropout = forward.dropout;
    backward.tokens = forward.tokens;
    backward.dout = dout.view();
    backward.dqkv = dqkv.view();
  }
  void run(ReferenceAttention& reference, cudaStream_t stream = nullptr) {
    reference.forward(forward, stream);
    reference.backward(backward, stream);
  }
  [[nodiscard]] AttentionProblem& problem() { return problem_; }
  [[nodiscard]] const std::vector<float>& lse() const { return problem_.lse(); }

 private:
  static std::vector<float> values_of(const std::vector<std::uint16_t>& bits) {
    std::vector<float> values;
    for (const std::uint16_t x : bits) values.push_back(Half(Dtype::BFloat16).value(x));
    return values;
  }
  static std::vector<float> dout_of(AttentionProblem& problem) {
    std::vector<float> values = values_of(problem.qkv());
    values.resize(problem.out().size());
    std::reverse(values.begin(), values.end());
    return values;
  }

  AttentionProblem problem_;

 public:
  Tensor qkv, dout, out, dqkv;
  trainer::device::AttentionForward forward;
  trainer::device::AttentionBackward backward;
};

Attention finished(const AttentionShape& shape, Dtype dtype, std::int64_t scratch_bytes) {
  ReferenceAttention reference(scratch_bytes);
  Attention attention(shape, dtype);
  attention.run(reference);
  return attention;
}

void expect_same(const Attention& actual, const Attention& expected) {
  EXPECT_EQ(actual.out.values(), expected.out.values());
  EXPECT_EQ(actual.lse(), expected.lse());
  EXPECT_EQ(actual.dqkv.values(), expected.dqkv.values());
}

float largest_of(const std::vector<float>& values) {
  float largest = 0;
  for (const float x : values) largest = std::max(largest, std::abs(x));
  return largest;
}

class ReferenceAttentionTest : public testing::Test {
 protected:
  ReferenceAttentionTest() {
    emulation::configure({});
    emulation::library() = {};
  }
  ~ReferenceAttentionTest() override {
    emulation::set_order({});
    emulation::library() = {};
  }
};

TEST_F(ReferenceAttentionTest, TakesAsManyPairsAtOnceAsFit) {
  for (const int head_size : {5, 24, 80}) {
    const AttentionShape shape{{40, 64, 3, 17, 1}, 3, head_size, 0.1, 1, 5, 1};
    for (const Dtype dtype : kTypes) {
      emulation::library().calls = 0;
      const Attention whole = finished(shape, dtype, kPlenty);
      EXPECT_EQ(emulation::library().calls, 2 + 5) << "one chunk";
      for (const std::int64_t bytes : {400 << 10, 250 << 10, 180 << 10}) {
        emulation::library().calls = 0;
        const Attention parts = finished(shape, dtype, bytes);
        EXPECT_GT(emulation::library().calls, 2 + 5);
        expect_same(parts, whole);
      }
    }
  }
}

// Scratch memory is halved until it does not suffice: then it says so.
TEST_F(ReferenceAttentionTest, TakesQueriesInPartsWhereOnePairDoesNotFit) {
  for (const int head_size : {5, 24, 80}) {
    const AttentionShape shape{{190, 1, 70}, 2, head_size, 0.1, 1, 5};
    for (const Dtype dtype : kTypes) {
      SCOPED_TRACE(head_size);
      const Attention whole = finished(shape, dtype, kPlenty);
      const std::vector<float> expected = whole.dqkv.values();
      std::int64_t most_calls = 0;
      std::string message;
      for (std::int64_t bytes = 1 << 20; message.empty(); bytes = bytes * 3 / 4 / 256 * 256) {
        emulation::library().calls = 0;
        try {
          const Attention parts = finished(shape, dtype, bytes);
          most_calls = std::max(most_calls, emulation::library().calls);
          EXPECT_EQ(parts.out.values(), whole.out.values());
          EXPECT_EQ(parts.lse(), whole.lse());
          // dk and dv are rounded to float32 after each part, none of which is much above the sum,
          // and all are rounded to the type at last: an ulp is up to four of its units.
          const std::vector<float> actual = parts.dqkv.values();
          const float unit = dtype == Dtype::Float32 ? 0x1p-24F : Half(dtype).unit();
          const float parts_error = 24 * 0x1p-24F * 4 * largest_of(expected);
          for (std::size_t i = 0; i < expected.size(); ++i) {
            ASSERT_LE(std::abs(actual[i] - expected[i]),
                      parts_error + 4 * unit * std::abs(expected[i]));
          }
        } catch (const base::Error& error) {
          EXPECT_EQ(error.code(), base::Code::User);
          message = error.what();
        }
      }
      EXPECT_GE(most_calls, 6 * 7 * 2) << "all pairs one by one, queries in two parts at least";
      EXPECT_THAT(message, HasSubstr("192 tokens with " + std::to_string(head_size) + " features"));
    }
  }
}

TEST_F(ReferenceAttentionTest, DrawsTheMasksOfTheFusedKernels) {
  const int length = 64;
  const AttentionShape shape{{50, length}, 2, length, 0.3};
  Attention reference(shape, Dtype::BFloat16);
  AttentionProblem& problem = reference.problem();
  std::vector<float> qkv(problem.qkv().size(), 0.0F);  // equal scores, one-hot values
  for (int token = 0; token < 50 + length; ++token) {
    for (int head = 0; head < 2; ++head) {
      qkv[problem.at(2, token, head, token < 50 ? token : token - 50)] = 1;
    }
  }
  reference.qkv = Tensor(Dtype::BFloat16, qkv);
  reference.forward.qkv = reference.qkv.view();
  ReferenceAttention(kPlenty).forward(reference.forward);

  Tensor fused(Dtype::BFloat16, std::vector<float>(problem.out().size(), NAN));
  trainer::device::AttentionForward op = reference.forward;
  op.out = fused.view();
  std::vector<float> lse(problem.lse().size());
  op.lse.data = lse.data();
  std::vector<unsigned char> scratch(1 << 20);
  auto* const aligned =
      reinterpret_cast<void*>((reinterpret_cast<std::uintptr_t>(scratch.data()) + 255) / 256 * 256);
  trainer::cuda::attention_forward_fused({nullptr, {90, 1, 227 * 1024}, aligned, 1 << 19}, op,
                                         trainer::cuda::ForwardWay::Streamed);
  const std::vector<float> expected = fused.values();
  const std::vector<float> actual = reference.out.values();
  std::size_t dropped = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    ASSERT_EQ(actual[i] == 0, expected[i] == 0) << i;
    if (actual[i] == 0) ++dropped;
  }
  EXPECT_GT(dropped, expected.size() / 5);
}

TEST_F(ReferenceAttentionTest, WritesZerosForTokensOfNoSample) {
  for (const Dtype dtype : kTypes) {
    const AttentionShape shape{{30, 77}, 3, 24, 0.1, 1, 70, 3, {}};
    Attention it = finished(shape, dtype, 400 << 10);
    const std::vector<float> out = it.out.values();
    const std::vector<float> dqkv = it.dqkv.values();
    for (std::size_t i = it.problem().out_at(107, 0, 0); i < out.size(); ++i) {
      ASSERT_EQ(out[i], 0.0F);
    }
    for (std::size_t i = it.problem().at(0, 107, 0, 0); i < dqkv.size(); ++i) {
      ASSERT_EQ(dqkv[i], 0.0F);
    }
    for (int head = 0; head < 3; ++head) {
      for (int token = 0; token < 177; ++token) {
        const float lse = it.lse()[it.problem().lse_at(token, head)];
        ASSERT_EQ(lse == 0.0F, token >= 107) << token;
      }
    }
  }
}

TEST_F(ReferenceAttentionTest, DoesNotDependOnTheOrderOfThreadsAndBlocks) {
  const AttentionShape shape{{3, 190, 65}, 2, 24, 0.1, 4, 7, 1, {}};
  for (const Dtype dtype : kTypes) {
    const Attention expected = finished(shape, dtype, 300 << 10);
    for (const char* order : {"reverse", "random:1"}) {
      emulation::set_order(emulation::parse_order(order));
      expect_same(finished(shape, dtype, 300 << 10), expected);
      emulation::set_order({});
    }
  }
}

// Else a sample's bits would depend on how many are beside it.
TEST_F(ReferenceAttentionTest, AsksTheLibraryForShapesThatDoNotKnowTheBatch) {
  ReferenceAttention reference(kPlenty);
  Attention first({{60}, 1, 24, 0.1}, Dtype::Float32);
  first.run(reference);
  EXPECT_EQ(emulation::library().heuristics, 2 + 3) << "s and dp have one shape, and so dk and dv";
  for (const std::vector<int>& lengths : {std::vector<int>{64}, {3, 40, 1}, {33, 33}}) {
    Attention next({lengths, 5, 20, 0, 1, 40, 1}, Dtype::Float32);
    next.run(reference);
  }
  EXPECT_EQ(emulation::library().heuristics, 2 + 3);
}

TEST_F(ReferenceAttentionTest, MayBeCapturedAndReplayedForOtherLengths) {
  const trainer::cuda::OwnStream stream;
  for (const Dtype dtype : kTypes) {
    ReferenceAttention reference(300 << 10);  // several chunks, queries in parts
    Attention it({{130, 20, 100}, 2, 40, 0.1, 1, 0, 0, {3, 4, 5}}, dtype);
    ASSERT_EQ(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeThreadLocal), cudaSuccess);
    it.run(reference, stream.get());
    cudaGraph_t graph = nullptr;
    ASSERT_EQ(cudaStreamEndCapture(stream.get(), &graph), cudaSuccess);
    cudaGraphExec_t executable = nullptr;
    ASSERT_EQ(cudaGraphInstantiate(&executable, graph, 0), cudaSuccess);
    EXPECT_NE(it.lse()[0], it.lse()[0]) << "nothing has run yet";

    Attention expected({{75, 90, 85}, 2, 40, 0.1, 1, 0, 0, {3, 4, 5}}, dtype);
    expected.forward.tokens.max_length = expected.backward.tokens.max_length = 130;
    std::copy_n(expected.forward.tokens.cumulative.ints(), 4, it.forward.tokens.cumulative.ints());
    std::copy_n(expected.forward.tokens.ordinal.ints(), 250, it.forward.tokens.ordinal.ints());
    ASSERT_EQ(cudaGraphLaunch(executable, stream.get()), cudaSuccess);
    ReferenceAttention again(300 << 10);
    expected.run(again);
    expect_same(it, expected);
    EXPECT_EQ(cudaGraphExecDestroy(executable), cudaSuccess);
    EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  }
}

TEST_F(ReferenceAttentionTest, DoesWithoutALibraryThatRefuses) {
  const AttentionShape shape{{30, 70}, 2, 20, 0.1, 1, 3};
  const Attention expected = finished(shape, Dtype::Float32, 300 << 10);
  emulation::library().refuses_products = true;
  emulation::library().calls = 0;
  const Attention actual = finished(shape, Dtype::Float32, 300 << 10);
  EXPECT_EQ(emulation::library().calls, 0);
  const std::vector<float> a = actual.dqkv.values();
  const std::vector<float> b = expected.dqkv.values();
  for (std::size_t i = 0; i < a.size(); ++i) {
    ASSERT_NEAR(a[i], b[i],
                200 * 0x1p-24 * largest_of(b));  // sums of up to 128 products, in float32
  }
}

TEST_F(ReferenceAttentionTest, NamesTheProductThatFails) {
  emulation::library().fails_first_algorithm = true;
  try {
    static_cast<void>(finished({{3}, 1, 8, 0}, Dtype::Float32, kPlenty));
    FAIL() << "the library failed";
  } catch (const base::Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("cuBLASLt failed on 1 products 64x64x8"));
  }
}

}  // namespace
}  // namespace regatta::tests
