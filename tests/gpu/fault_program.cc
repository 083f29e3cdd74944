// Tests that fault on the emulated GPU, for check.py: what becomes of those before and behind.
#include <gtest/gtest.h>

#include "tests/gpu/gpu.h"
#include "tests/trainer/cuda/emulation/facts.h"

namespace regatta::tests {
namespace {

TEST(Faults, Before) { make_gpu({})->synchronize(); }
// A kernel runs behind its test's back: the test itself sees nothing.
TEST(Faults, Unseen) {
  const auto device = make_gpu({});
  emulation::fault(cudaErrorIllegalAddress);
}
TEST(Faults, Between) { make_gpu({})->synchronize(); }
TEST(Faults, Thrown) {
  const auto device = make_gpu({});
  emulation::fault(cudaErrorLaunchFailure);
  device->synchronize();
}
TEST(Faults, Ordinary) { EXPECT_EQ(1, 2) << "no fault"; }
TEST(Faults, Behind) { make_gpu({})->synchronize(); }

}  // namespace
}  // namespace regatta::tests
