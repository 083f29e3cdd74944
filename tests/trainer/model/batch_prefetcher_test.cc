#include "trainer/batch_prefetcher.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <stdexcept>
#include <thread>

namespace regatta::tests {
namespace {

using trainer::BatchPrefetcher;
using trainer::StepBatches;

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

TEST(BatchPrefetcher, CountsAStallOnlyWhenItHadToWait) {
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
  EXPECT_FALSE(prefetcher.take(1).stalled) << "nobody could have made the first one before";
  std::thread late([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    release.set_value();
  });
  EXPECT_TRUE(prefetcher.take(2).stalled);
  late.join();
  while (!third_is_made) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(200));  // for its future to be ready
  EXPECT_FALSE(prefetcher.take(3).stalled);
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
