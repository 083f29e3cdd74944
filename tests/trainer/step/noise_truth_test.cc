// The noise scale that a run tells, beside Monte-Carlo of independent batches at the same weights,
// for every way of balancing.
#include "tests/trainer/step/frozen_run.h"

namespace regatta::tests {
namespace {

using namespace regatta::trainer;  // the subject

BalanceConfig dealt(Balance strategy, Deal deal) { return {strategy, deal, ExchangeWay::Reread}; }

// These three have other samples, or other halves of them.
TEST_F(FrozenRun, EveryBalanceTellsTheTruth) {
  constexpr int kWindows = 6;
  constexpr std::int64_t kSteps = 120;
  const Truths truths = find_truth(531);
  const StepRecord alone =
      compare({"one rank", 1, dealt(Balance::None, Deal::LongestFirst)}, truths, kWindows, kSteps);
  (void)compare({"stratified", 3, dealt(Balance::Stratified, Deal::LongestFirst)}, truths, kWindows,
                kSteps);
  (void)compare({"stratified, snake", 4, dealt(Balance::Stratified, Deal::Snake)}, truths, kWindows,
                kSteps);
  // The other ways deal the same samples otherwise, so they tell what one rank does.
  const FrozenLayout layouts[] = {
      {"in turn", 3, dealt(Balance::None, Deal::LongestFirst)},
      {"stride", 3, dealt(Balance::GlobalPresort, Deal::Stride)},
      {"snake", 3, dealt(Balance::GlobalPresort, Deal::Snake)},
      {"longest first", 3, dealt(Balance::GlobalPresort, Deal::LongestFirst)},
      {"longest first, LAMB", 3, dealt(Balance::GlobalPresort, Deal::LongestFirst),
       OptimizerKind::Lamb},
      {"exchange", 3, {Balance::Exchange, Deal::LongestFirst, ExchangeWay::Move}},
      {"packed", 3, dealt(Balance::Packed, Deal::LongestFirst)},
  };
  for (const FrozenLayout& layout : layouts) {
    const StepRecord record = compare(layout, truths, 1, kSteps);
    ASSERT_TRUE(record.raw_noise_scale && record.noise_scale);
    EXPECT_NEAR(*record.raw_noise_scale, *alone.raw_noise_scale, 1e-3 * *alone.raw_noise_scale)
        << layout.name;
    EXPECT_NEAR(*record.noise_scale, *alone.noise_scale, 1e-2 * *alone.noise_scale) << layout.name;
  }
}

}  // namespace
}  // namespace regatta::tests
