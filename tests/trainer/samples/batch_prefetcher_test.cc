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
using trainer::samples::StepPlace;

// A batch that says which step it is for.
StepBatches batches_of(std::int64_t step) {
  StepBatches made;
  made.batches.resize(1);
  made.batches[0].ids = {static_cast<std::int32_t>(step)};
  return made;
}

// Of a run whose steps have two samples.
StepPlace place_of(std::int64_t step) { return {step, 2, 2 * (step - 1)}; }

BatchPrefetcher::Taken take(BatchPrefetcher* prefetcher, std::int64_t step, std::int64_t last) {
  return prefetcher->take(place_of(step),
                          step < last ? std::optional(place_of(step + 1)) : std::nullopt);
}

TEST(BatchPrefetcher, GivesEveryStepItsOwnBatchesInAnyOrder) {
  BatchPrefetcher prefetcher([](const StepPlace& place) { return batches_of(place.step); });
  for (const std::int64_t step : {1, 2, 3, 7, 8, 2, 3, 9, 9}) {
    EXPECT_EQ(take(&prefetcher, step, 9).step.batches[0].ids[0], step);
  }
}

// What was made of other samples is no step's.
TEST(BatchPrefetcher, MakesAStepAgainThatHasOtherSamplesThanWereMade) {
  BatchPrefetcher prefetcher([](const StepPlace& place) {
    return batches_of(1000 * place.batch + 10 * place.first + place.step);
  });
  const auto made = [&](const StepPlace& place, const std::optional<StepPlace>& next) {
    return prefetcher.take(place, next).step.batches[0].ids[0];
  };
  EXPECT_EQ(made({1, 2, 0}, StepPlace{2, 2, 2}), 2001);
  EXPECT_EQ(made({2, 4, 2}, StepPlace{3, 4, 6}), 4022) << "another batch";
  EXPECT_EQ(made({3, 4, 8}, StepPlace{4, 4, 12}), 4083) << "other samples";
  EXPECT_EQ(made({4, 4, 12}, std::nullopt), 4124);
}

// What they are made of may change between two steps.
TEST(BatchPrefetcher, ForgetsWhatItMadeAndMakesOneStepAtATime) {
  std::atomic<int> at_once = 0;
  std::atomic<int> most = 0;
  int of = 0;  // changed only while nothing is being made
  BatchPrefetcher prefetcher([&](const StepPlace& place) {
    most = std::max(most.load(), ++at_once);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    StepBatches batches = batches_of(100 * of + place.step);
    --at_once;
    return batches;
  });
  EXPECT_EQ(take(&prefetcher, 3, 9).step.batches[0].ids[0], 3);
  prefetcher.forget();
  of = 1;
  EXPECT_EQ(take(&prefetcher, 4, 9).step.batches[0].ids[0], 104) << "as the next step";
  EXPECT_EQ(take(&prefetcher, 2, 9).step.batches[0].ids[0], 102) << "as a step of before";
  EXPECT_EQ(most, 1);
}

// Whether taking steps 1, 2 and 3 stalled, where the second is held back for `pause` after it was
// asked for, and the third is asked for `pause` after it was made.
std::array<bool, 3> stalls_among(std::chrono::milliseconds pause) {
  std::promise<void> release;
  const std::shared_future<void> released = release.get_future().share();
  std::atomic<bool> third_is_made = false;
  BatchPrefetcher prefetcher([&](const StepPlace& place) {
    if (place.step == 2) released.wait();
    StepBatches batches = batches_of(place.step);
    if (place.step == 3) third_is_made = true;
    return batches;
  });
  std::array<bool, 3> stalls{};
  stalls[0] = take(&prefetcher, 1, 3).stalled;
  std::atomic<bool> asks = false;
  std::thread late([&] {
    while (!asks) std::this_thread::yield();
    std::this_thread::sleep_for(pause);
    release.set_value();
  });
  asks = true;
  stalls[1] = take(&prefetcher, 2, 3).stalled;
  late.join();
  while (!third_is_made) std::this_thread::yield();
  std::this_thread::sleep_for(pause);  // for its future to be ready
  stalls[2] = take(&prefetcher, 3, 3).stalled;
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
    BatchPrefetcher prefetcher([&](const StepPlace& place) {
      highest = std::max(highest.load(), place.step);
      if (place.step == 3) throw std::runtime_error("no sample");
      return batches_of(place.step);
    });
    EXPECT_EQ(take(&prefetcher, 2, 3).step.batches[0].ids[0], 2);
    EXPECT_THROW((void)take(&prefetcher, 3, 3), std::runtime_error);
  }
  EXPECT_EQ(highest, 3);
}

}  // namespace
}  // namespace regatta::tests
