// Attention of warpgroup products under the race check: no option selects it, so the table
// of operations does not reach it.
#include "tests/trainer/cuda/attention_gradients.h"
#include "tests/trainer/cuda/emulation/block.h"
#include "trainer/cuda/attention_wgmma.h"

namespace regatta::tests {
namespace {

TEST(WgmmaRaces, ThereAreNone) {
  struct alignas(256) Scratch {
    unsigned char bytes[65536];
  } scratch;
  trainer::cuda::Launch at;
  at.facts = {90, 1, 227 * 1024};
  at.scratch = &scratch;
  at.scratch_bytes = sizeof(scratch);
  emulation::set_order({});
  GradientProblem problem(at, {{200, 40}, 1, 64, 0.1, 1, 3}, trainer::Dtype::BFloat16);
  trainer::AttentionForward forward = problem.problem.forward();
  trainer::cuda::attention_forward_wgmma(at, forward, {});
  trainer::cuda::attention_backward_wgmma(at, problem.op(), {});
  expect_formula(problem, "watched");
}

}  // namespace
}  // namespace regatta::tests
