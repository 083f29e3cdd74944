// Attention in launches per class of lengths: the bits of the single launch, eagerly and from a
// graph.
#include "trainer/cuda/attention/attention_grouped.h"

#include <gtest/gtest.h>

#include "tests/trainer/cuda/attention_problem.h"
#include "tests/trainer/cuda/emulation/facts.h"

namespace regatta::tests {
namespace {

using trainer::cuda::ForwardWay;
using trainer::cuda::GroupedAttention;
using trainer::cuda::KernelLaunch;
using trainer::cuda::length_classes;
using trainer::device::Dtype;

struct Gradient {
  std::vector<std::uint16_t> dout, dqkv;
  trainer::device::AttentionBackward op;
};
// Backward of a problem whose forward has run.
Gradient gradient_of(AttentionProblem& problem) {
  const trainer::device::AttentionForward forward = problem.forward();
  Gradient gradient;
  gradient.dout = problem.qkv();
  gradient.dout.resize(problem.out().size());
  gradient.dqkv.assign(problem.qkv().size(), 0x7FFF);
  gradient.op.qkv = forward.qkv;
  gradient.op.out = forward.out;
  gradient.op.lse = forward.lse;
  gradient.op.heads = forward.heads;
  gradient.op.dropout = forward.dropout;
  gradient.op.tokens = forward.tokens;
  gradient.op.dout = {gradient.dout.data(), forward.out.size, forward.out.dtype};
  gradient.op.dqkv = {gradient.dqkv.data(), forward.qkv.size, forward.qkv.dtype};
  return gradient;
}

class GroupedAttentionTest : public testing::Test {
 protected:
  [[nodiscard]] KernelLaunch at(cudaStream_t stream = nullptr) {
    KernelLaunch launch;
    launch.stream = stream;
    launch.facts.shared_bytes = 227 * 1024;
    launch.scratch = scratch_.data();
    launch.scratch_bytes = static_cast<std::int64_t>(scratch_.size() * sizeof(Scratch));
    return launch;
  }

 private:
  struct alignas(256) Scratch {
    unsigned char bytes[256];
  };
  std::vector<Scratch> scratch_ = std::vector<Scratch>(4096);
};

const std::vector<int> kBatches[] = {
    {100}, {128, 129}, {600, 3, 300, 128, 256, 385, 512, 513, 90}, {400, 1}};

TEST_F(GroupedAttentionTest, GivesTheBitsOfOneLaunch) {
  for (const std::vector<int>& lengths : kBatches) {
    const AttentionShape shape{lengths, 1, 64, 0.1, 2, 30};
    AttentionProblem expected(shape, Dtype::BFloat16);
    trainer::cuda::attention_forward_fused(at(), expected.forward(), ForwardWay::Streamed);
    Gradient expected_gradient = gradient_of(expected);
    trainer::cuda::attention_backward_fused(at(), expected_gradient.op);

    GroupedAttention grouped;
    AttentionProblem problem(shape, Dtype::BFloat16);
    grouped.forward(at(), problem.forward());
    EXPECT_EQ(problem.out(), expected.out());
    EXPECT_EQ(problem.lse(), expected.lse());
    Gradient gradient = gradient_of(problem);
    grouped.backward(at(), gradient.op);
    EXPECT_EQ(gradient.dqkv, expected_gradient.dqkv);
  }
}

TEST_F(GroupedAttentionTest, MayBeCapturedAndReplayedForOtherLengths) {
  const trainer::cuda::OwnStream stream;
  GroupedAttention grouped;
  AttentionProblem problem({{300, 20, 200}, 2, 64, 0.1, 1, 0, 0, {3, 4, 5}}, Dtype::Float16);
  ASSERT_EQ(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeThreadLocal), cudaSuccess);
  grouped.forward(at(stream.get()), problem.forward());
  cudaGraph_t graph = nullptr;
  ASSERT_EQ(cudaStreamEndCapture(stream.get(), &graph), cudaSuccess);
  cudaGraphExec_t executable = nullptr;
  ASSERT_EQ(cudaGraphInstantiate(&executable, graph, 0), cudaSuccess);
  EXPECT_NE(problem.lse()[0], problem.lse()[0]) << "nothing has run yet";

  AttentionProblem expected({{130, 140, 250}, 2, 64, 0.1, 1, 0, 0, {3, 4, 5}}, Dtype::Float16);
  std::copy_n(expected.forward().tokens.cumulative.ints(), 4,
              problem.forward().tokens.cumulative.ints());
  std::copy_n(expected.forward().tokens.ordinal.ints(), expected.tokens(),
              problem.forward().tokens.ordinal.ints());
  ASSERT_EQ(cudaGraphLaunch(executable, stream.get()), cudaSuccess);
  trainer::cuda::attention_forward_fused(at(), expected.forward(), ForwardWay::Streamed);
  EXPECT_EQ(problem.out(), expected.out());
  EXPECT_EQ(problem.lse(), expected.lse());
  EXPECT_EQ(cudaGraphExecDestroy(executable), cudaSuccess);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
}

TEST_F(GroupedAttentionTest, FreesItsStreamsAndEvents) {
  const emulation::Live before = emulation::live();
  {
    const GroupedAttention grouped;
    EXPECT_GT(emulation::live().streams, before.streams);
  }
  EXPECT_EQ(emulation::live().streams, before.streams);
  EXPECT_EQ(emulation::live().events, before.events);
}

TEST(LengthClasses, CoverEveryLengthOnce) {
  for (const std::int64_t longest : {1, 128, 129, 384, 385, 512, 513, 4095}) {
    const auto classes = length_classes(longest);
    for (std::int64_t length = 1; length <= longest; ++length) {
      int members = 0;
      for (const auto& which : classes) {
        if (length > which.longer_than && length <= which.up_to) ++members;
      }
      ASSERT_EQ(members, 1) << length << " of " << longest;
    }
    int padding = 0;
    for (const auto& which : classes) padding += which.padding ? 1 : 0;
    EXPECT_EQ(padding, 1);
    EXPECT_LT(classes.front().longer_than, longest) << "a class that no sample can be of";
  }
}

}  // namespace
}  // namespace regatta::tests
