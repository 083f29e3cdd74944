// The timed choice between the two ways of forward attention.
#include "trainer/cuda/forward_choice.h"

#include <gtest/gtest.h>

#include "tests/trainer/cuda/attention_problem.h"

namespace regatta::tests {
namespace {

using trainer::cuda::ForwardChoice;
using trainer::cuda::ForwardWay;
using trainer::cuda::KernelLaunch;
using trainer::device::Dtype;

class ForwardChoiceTest : public testing::Test {
 protected:
  [[nodiscard]] KernelLaunch at() {
    KernelLaunch launch;
    launch.facts.shared_bytes = 227 * 1024;
    launch.scratch = scratch_.data();
    launch.scratch_bytes = static_cast<std::int64_t>(scratch_.size() * sizeof(Scratch));
    return launch;
  }
  // Runs `choice` on a problem, and expects the bits of streaming.
  void expect_bits(ForwardChoice& choice, const AttentionShape& shape, bool capturing = false) {
    AttentionProblem expected(shape, Dtype::BFloat16);
    trainer::cuda::attention_forward_fused(at(), expected.forward(), ForwardWay::Streamed);
    AttentionProblem problem(shape, Dtype::BFloat16);
    choice.run(at(), problem.forward(), capturing);
    EXPECT_EQ(problem.out(), expected.out());
    EXPECT_EQ(problem.lse(), expected.lse());
  }

 private:
  struct alignas(256) Scratch {
    unsigned char bytes[256];
  };
  std::vector<Scratch> scratch_ = std::vector<Scratch>(1024);
};

const AttentionShape kShape{{200, 30}, 1, 64, 0.1, 2};

TEST_F(ForwardChoiceTest, IsMadeOnceForAShapeAndChangesNoBit) {
  ForwardChoice choice(true);
  EXPECT_EQ(choice.description(), "");
  expect_bits(choice, kShape);
  EXPECT_TRUE(choice.description() == "resident for 0 of 1 shapes" ||
              choice.description() == "resident for 1 of 1 shapes")
      << choice.description();
  const std::string first = choice.description();
  for (int i = 0; i < 5; ++i) expect_bits(choice, kShape);
  EXPECT_EQ(choice.description(), first) << "timed again";
  expect_bits(choice, {{130, 100}, 1, 64, 0.1, 2});  // the same tokens, fewer stages
  EXPECT_NE(choice.description().find("of 2 shapes"), std::string::npos);
}

// Events cannot be timed in a capture, so a shape that is first met there is chosen another time.
TEST_F(ForwardChoiceTest, IsNotMadeInACapture) {
  ForwardChoice choice(true);
  expect_bits(choice, kShape, true);
  EXPECT_EQ(choice.description(), "");
  expect_bits(choice, kShape);
  const std::string made = choice.description();
  EXPECT_NE(made, "");
  expect_bits(choice, kShape, true);
  EXPECT_EQ(choice.description(), made);
}

TEST_F(ForwardChoiceTest, IsNotMadeWhereThereIsOneWay) {
  ForwardChoice choice(true);
  expect_bits(choice, {{128, 5}, 1, 64, 0.1, 2});   // the streamed way keeps all keys, too
  expect_bits(choice, {{200, 5}, 1, 128, 0.1, 2});  // no room for heads of 128
  ForwardChoice untimed(false);
  expect_bits(untimed, kShape);
  EXPECT_EQ(choice.description() + untimed.description(), "");
}

}  // namespace
}  // namespace regatta::tests
