// The noise scale that a run tells, beside Monte-Carlo of independent batches at the same weights,
// for every way of balancing.
#include "tests/trainer/step/frozen_run.h"

namespace regatta::tests {
namespace {

using namespace regatta::trainer;  // the subject

contract::BalanceConfig dealt(contract::Balance strategy, contract::Deal deal) {
  return {strategy, deal, contract::ExchangeWay::Reread};
}

// These three have other samples, or other halves of them.
TEST_F(FrozenRun, EveryBalanceTellsTheTruth) {
  constexpr int kWindows = 6;
  constexpr std::int64_t kSteps = 120;
  const Truths truths = find_truth(531);
  const contract::StepRecord alone =
      compare({"one rank", 1, dealt(contract::Balance::None, contract::Deal::LongestFirst)}, truths,
              kWindows, kSteps);
  (void)compare(
      {"stratified", 3, dealt(contract::Balance::Stratified, contract::Deal::LongestFirst)}, truths,
      kWindows, kSteps);
  (void)compare(
      {"stratified, snake", 4, dealt(contract::Balance::Stratified, contract::Deal::Snake)}, truths,
      kWindows, kSteps);
  // The other ways deal the same samples otherwise, so they tell what one rank does.
  const FrozenLayout layouts[] = {
      {"in turn", 3, dealt(contract::Balance::None, contract::Deal::LongestFirst)},
      {"stride", 3, dealt(contract::Balance::GlobalPresort, contract::Deal::Stride)},
      {"snake", 3, dealt(contract::Balance::GlobalPresort, contract::Deal::Snake)},
      {"longest first", 3, dealt(contract::Balance::GlobalPresort, contract::Deal::LongestFirst)},
      {"longest first, LAMB", 3,
       dealt(contract::Balance::GlobalPresort, contract::Deal::LongestFirst),
       contract::OptimizerKind::Lamb},
      {"exchange",
       3,
       {contract::Balance::Exchange, contract::Deal::LongestFirst, contract::ExchangeWay::Move}},
      {"packed", 3, dealt(contract::Balance::Packed, contract::Deal::LongestFirst)},
  };
  for (const FrozenLayout& layout : layouts) {
    const contract::StepRecord record = compare(layout, truths, 1, kSteps);
    ASSERT_TRUE(record.raw_noise_scale && record.noise_scale);
    EXPECT_NEAR(*record.raw_noise_scale, *alone.raw_noise_scale, 1e-3 * *alone.raw_noise_scale)
        << layout.name;
    EXPECT_NEAR(*record.noise_scale, *alone.noise_scale, 1e-2 * *alone.noise_scale) << layout.name;
  }
}

}  // namespace
}  // namespace regatta::tests
