#include "trainer/samples/batch_prefetcher.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <mutex>
#include <numeric>
#include <semaphore>
#include <stdexcept>
#include <thread>
#include <vector>

#include "base/clock.h"

namespace regatta::tests {
namespace {

namespace samples = trainer::samples;
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

// All of a step is made when it is begun.
BatchPrefetcher::Begin at_once(std::function<StepBatches(const StepPlace&)> make) {
  return [make = std::move(make)](const StepPlace& place) {
    return [step = make(place)] { return step; };
  };
}

// With those up to `ahead` steps behind it.
BatchPrefetcher::Taken take(BatchPrefetcher* prefetcher, std::int64_t step, std::int64_t last,
                            std::int64_t ahead = 1) {
  std::vector<StepPlace> next;
  for (std::int64_t i = step + 1; i <= std::min(last, step + ahead); ++i) {
    next.push_back(place_of(i));
  }
  return prefetcher->take(place_of(step), next);
}

TEST(BatchPrefetcher, GivesEveryStepItsOwnBatchesInAnyOrder) {
  BatchPrefetcher prefetcher(
      base::system_clock(), at_once([](const StepPlace& place) { return batches_of(place.step); }));
  for (const std::int64_t step : {1, 2, 3, 7, 8, 2, 3, 9, 9}) {
    EXPECT_EQ(take(&prefetcher, step, 9).step.batches[0].ids[0], step);
  }
}

// What was made of other samples is no step's.
TEST(BatchPrefetcher, MakesAStepAgainThatHasOtherSamplesThanWereMade) {
  BatchPrefetcher prefetcher(
      base::system_clock(), at_once([](const StepPlace& place) {
        return batches_of(1000 * place.batch + 10 * place.first + place.step);
      }));
  const auto made = [&](const StepPlace& place, const std::vector<StepPlace>& next) {
    return prefetcher.take(place, next).step.batches[0].ids[0];
  };
  EXPECT_EQ(made({1, 2, 0}, {{2, 2, 2}}), 2001);
  EXPECT_EQ(made({2, 4, 2}, {{3, 4, 6}}), 4022) << "another batch";
  EXPECT_EQ(made({3, 4, 8}, {{4, 4, 12}, {5, 4, 16}, {6, 4, 20}}), 4083) << "other samples";
  EXPECT_EQ(made({4, 4, 12}, {{5, 4, 16}, {6, 2, 20}}), 4124);
  EXPECT_EQ(made({5, 4, 16}, {{6, 2, 20}}), 4165);
  EXPECT_EQ(made({6, 2, 20}, {}), 2206) << "the one behind the next had other samples";
}

// What they are made of may change between two steps.
TEST(BatchPrefetcher, ForgetsWhatItMadeAndMakesOneStepAtATime) {
  std::atomic<int> together = 0;
  std::atomic<int> most = 0;
  int of = 0;  // changed only while nothing is being made
  BatchPrefetcher prefetcher(base::system_clock(), at_once([&](const StepPlace& place) {
                               most = std::max(most.load(), ++together);
                               std::this_thread::sleep_for(std::chrono::milliseconds(5));
                               StepBatches batches = batches_of(100 * of + place.step);
                               --together;
                               return batches;
                             }));
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
  BatchPrefetcher prefetcher(base::system_clock(), at_once([&](const StepPlace& place) {
                               if (place.step == 2) released.wait();
                               StepBatches batches = batches_of(place.step);
                               if (place.step == 3) third_is_made = true;
                               return batches;
                             }));
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

// Steps are begun in their order, one at a time, and not more of them than were asked for; the rest
// of them is made side by side.
TEST(BatchPrefetcher, MakesStepsAheadOnSeveralThreads) {
  for (const int workers : {1, 3}) {
    std::mutex mutex;
    std::vector<std::int64_t> begun;
    std::atomic<int> beginning = 0, making = 0, most_making = 0;
    std::atomic<bool> overlaps = false;
    std::counting_semaphore<100> release(0);
    BatchPrefetcher prefetcher(base::system_clock(), [&](const StepPlace& place) {
      overlaps = overlaps || ++beginning > 1;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      {
        const std::lock_guard<std::mutex> lock(mutex);
        begun.push_back(place.step);
      }
      --beginning;
      return [&, step = place.step] {
        const int now = ++making;
        for (int most = most_making; now > most && !most_making.compare_exchange_weak(most, now);) {
        }
        if (step > 1) release.acquire();
        --making;
        return batches_of(step);
      };
    });
    prefetcher.set_workers(workers);
    EXPECT_EQ(take(&prefetcher, 1, 100, 5).step.batches[0].ids[0], 1);
    const auto count = [&] {
      const std::lock_guard<std::mutex> lock(mutex);
      return std::ssize(begun);
    };
    while (count() < 1 + workers) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_EQ(count(), 1 + workers) << "as many as there are threads";
    EXPECT_EQ(most_making, workers);
    release.release(100);
    while (count() < 6) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_EQ(count(), 6) << "five steps ahead";
    for (std::int64_t step = 2; step <= 20; ++step) {
      EXPECT_EQ(take(&prefetcher, step, 20, 5).step.batches[0].ids[0], step);
      if (step == 7) prefetcher.set_workers(1);
      if (step == 9) prefetcher.set_workers(4);
    }
    EXPECT_FALSE(overlaps);
    std::vector<std::int64_t> all(20);
    std::iota(all.begin(), all.end(), 1);
    EXPECT_EQ(begun, all);
  }
}

// Other ranks may wait for this one in begin(): all that was ordered is begun, whoever leaves when.
TEST(BatchPrefetcher, MakesWhatWasOrderedBeforeItForgetsOrEnds) {
  std::atomic<int> begun = 0;
  const auto slowly = at_once([&](const StepPlace& place) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    ++begun;
    return batches_of(place.step);
  });
  {
    BatchPrefetcher prefetcher(base::system_clock(), slowly);
    (void)take(&prefetcher, 1, 100, 6);
    prefetcher.forget();
    EXPECT_EQ(begun, 7);
    (void)take(&prefetcher, 1, 100, 6);
  }
  EXPECT_EQ(begun, 14);
}

// Of the step that could not be made, and of no other.
TEST(BatchPrefetcher, ThrowsWithTheStepThatFailed) {
  BatchPrefetcher prefetcher(base::system_clock(), [](const StepPlace& place) {
    if (place.step == 3) throw std::runtime_error("not begun");
    return [step = place.step] {
      if (step == 5) throw std::runtime_error("not made");
      return batches_of(step);
    };
  });
  prefetcher.set_workers(2);
  for (std::int64_t step = 1; step <= 8; ++step) {
    if (step == 3 || step == 5) {
      EXPECT_THROW((void)take(&prefetcher, step, 8, 4), std::runtime_error) << step;
    } else {
      EXPECT_EQ(take(&prefetcher, step, 8, 4).step.batches[0].ids[0], step);
    }
  }
}

TEST(BatchPrefetcher, TellsHowLongAStepTookToMakeAndHowLargeItIs) {
  BatchPrefetcher prefetcher(base::system_clock(), at_once([](const StepPlace& place) {
                               std::this_thread::sleep_for(std::chrono::milliseconds(20));
                               return batches_of(place.step);
                             }));
  const BatchPrefetcher::Taken taken = take(&prefetcher, 1, 1);
  EXPECT_GE(taken.making_seconds, 0.020);
  EXPECT_EQ(samples::bytes_of(taken.step), 4);
  StepBatches step;
  step.batches = {samples::collate({{{1, 2, 3}, {0, 0, 1}, {1}, {2}}}, {0})};
  // Four numbers a token and a place in `sorted`; a mask, its label; two ends; first row, label,
  // value and two of an answer.
  EXPECT_EQ(samples::bytes_of(step), 4 * (5 * 3 + 2 + 2 + 3 + 2));
  step.half = step.batches;
  EXPECT_EQ(samples::bytes_of(step), 2 * 4 * (5 * 3 + 2 + 2 + 3 + 2));
}

TEST(BatchPrefetcher, MakesNothingBeyondTheLastStepAndPassesErrorsOn) {
  std::atomic<std::int64_t> highest = 0;
  {
    BatchPrefetcher prefetcher(base::system_clock(), at_once([&](const StepPlace& place) {
                                 highest = std::max(highest.load(), place.step);
                                 if (place.step == 3) throw std::runtime_error("no sample");
                                 return batches_of(place.step);
                               }));
    EXPECT_EQ(take(&prefetcher, 2, 3).step.batches[0].ids[0], 2);
    EXPECT_THROW((void)take(&prefetcher, 3, 3), std::runtime_error);
  }
  EXPECT_EQ(highest, 3);
}

}  // namespace
}  // namespace regatta::tests
