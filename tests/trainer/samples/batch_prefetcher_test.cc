#include "trainer/samples/batch_prefetcher.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <future>
#include <stdexcept>
#include <thread>

namespace regatta::tests {
namespace {

using trainer::samples::BatchPrefetcher;
using trainer::samples::StepBatches;

// A batch that says which step it is for.
StepBatches batches_of(std::int64_t step) {
  StepBatches made;
  made.batches.resize(1);
  made.batches[0].ids = {static_cast<std::int32_t>(step)};
  return made;
}

TEST(BatchPrefetcher, GivesEveryStepItsOwnBatchesInAnyOrder) {
  BatchPrefetcher prefetcher(batches_of, 9);
  for (const std::int64_t step : {1, 2, 3, 7, 8, 2, 3, 9, 9}) {
    EXPECT_EQ(prefetcher.take(step).step.batches[0].ids[0], step);
  }
}

// What they are made of may change between two steps.
TEST(BatchPrefetcher, ForgetsWhatItMadeAndMakesOneStepAtATime) {
  std::atomic<int> at_once = 0;
  std::atomic<int> most = 0;
  int of = 0;  // changed only while nothing is being made
  BatchPrefetcher prefetcher(
      [&](std::int64_t step) {
        most = std::max(most.load(), ++at_once);
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
        StepBatches batches = batches_of(100 * of + step);
        --at_once;
        return batches;
      },
      9);
  EXPECT_EQ(prefetcher.take(3).step.batches[0].ids[0], 3);
  prefetcher.forget();
  of = 1;
  EXPECT_EQ(prefetcher.take(4).step.batches[0].ids[0], 104) << "as the next step";
  EXPECT_EQ(prefetcher.take(2).step.batches[0].ids[0], 102) << "as a step of before";
  EXPECT_EQ(most, 1);
}

// Whether taking steps 1, 2 and 3 stalled, where the second is held back for `pause` after it was
// asked for, and the third is asked for `pause` after it was made.
std::array<bool, 3> stalls_among(std::chrono::milliseconds pause) {
  std::promise<void> release;
  const std::shared_future<void> released = release.get_future().share();
  std::atomic<bool> third_is_made = false;
  BatchPrefetcher prefetcher(
      [&](std::int64_t step) {
        if (step == 2) released.wait();
        StepBatches batches = batches_of(step);
        if (step == 3) third_is_made = true;
        return batches;
      },
      3);
  std::array<bool, 3> stalls{};
  stalls[0] = prefetcher.take(1).stalled;
  std::atomic<bool> asks = false;
  std::thread late([&] {
    while (!asks) std::this_thread::yield();
    std::this_thread::sleep_for(pause);
    release.set_value();
  });
  asks = true;
  stalls[1] = prefetcher.take(2).stalled;
  late.join();
  while (!third_is_made) std::this_thread::yield();
  std::this_thread::sleep_for(pause);  // for its future to be ready
  stalls[2] = prefetcher.take(3).stalled;
  return stalls;
}

TEST(BatchPrefetcher, CountsAStallOnlyWhenItHadToWait) {
  // Nobody could have made the first one before, so that is none.
  const std::array<bool, 3> wanted{false, true, false};
  std::array<bool, 3> found{};
  for (const int milliseconds : {200, 2000, 10000}) {  // a busy machine needs the longer ones
    found = stalls_among(std::chrono::milliseconds(milliseconds));
    if (found == wanted) break;
  }
  EXPECT_EQ(found, wanted);
}

TEST(BatchPrefetcher, MakesNothingBeyondTheLastStepAndPassesErrorsOn) {
  std::atomic<std::int64_t> highest = 0;
  {
    BatchPrefetcher prefetcher(
        [&](std::int64_t step) {
          highest = std::max(highest.load(), step);
          if (step == 3) throw std::runtime_error("no sample");
          return batches_of(step);
        },
        3);
    EXPECT_EQ(prefetcher.take(2).step.batches[0].ids[0], 2);
    EXPECT_THROW((void)prefetcher.take(3), std::runtime_error);
  }
  EXPECT_EQ(highest, 3);
}

}  // namespace
}  // namespace regatta::tests
