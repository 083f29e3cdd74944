#include "base/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

namespace regatta::base {
namespace {

using Ranges = std::set<std::pair<std::int64_t, std::int64_t>>;

TEST(ThreadPool, CoversTheCountOnceWhateverTheThreads) {
  for (const auto& [count, grain] : {std::pair<std::int64_t, std::int64_t>{1, 1},
                                     {7, 3},
                                     {9, 3},
                                     {1000, 1},
                                     {1000, 64},
                                     {5, 100}}) {
    Ranges expected;
    for (std::int64_t begin = 0; begin < count; begin += grain) {
      expected.emplace(begin, std::min(count, begin + grain));
    }
    for (const int threads : {1, 2, 5}) {
      ThreadPool pool(threads);
      Ranges seen;
      std::mutex mutex;
      pool.parallel_for(count, grain, [&](std::int64_t begin, std::int64_t end) {
        const std::lock_guard lock(mutex);
        EXPECT_TRUE(seen.emplace(begin, end).second);
      });
      EXPECT_EQ(seen, expected) << count << " by " << grain << " on " << threads;
    }
  }
}

TEST(ThreadPool, EmptyLoopCallsNothing) {
  ThreadPool pool(3);
  pool.parallel_for(0, 1, [](std::int64_t, std::int64_t) { FAIL(); });
  pool.parallel_for(-5, 1, [](std::int64_t, std::int64_t) { FAIL(); });
}

TEST(ThreadPool, ManyShortLoopsSeeEachOthersWrites) {
  ThreadPool pool(4);
  std::vector<std::int64_t> values(64, 0);
  for (int loop = 0; loop < 2000; ++loop) {
    pool.parallel_for(64, 1, [&](std::int64_t begin, std::int64_t) {
      ++values[static_cast<std::size_t>(begin)];
    });
  }
  EXPECT_EQ(values, std::vector<std::int64_t>(64, 2000));
}

TEST(ThreadPool, LoopsAfterASleepWork) {
  ThreadPool pool(2);
  std::atomic<int> calls{0};
  for (int loop = 0; loop < 3; ++loop) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));  // past the spinning
    pool.parallel_for(10, 1, [&](std::int64_t, std::int64_t) { ++calls; });
  }
  EXPECT_EQ(calls, 30);
}

TEST(ThreadPool, RethrowsAndGoesOn) {
  for (const int threads : {1, 4}) {
    ThreadPool pool(threads);
    EXPECT_THROW(pool.parallel_for(100, 1,
                                   [](std::int64_t begin, std::int64_t) {
                                     if (begin == 42) throw std::runtime_error("42");
                                   }),
                 std::runtime_error);
    std::atomic<int> calls{0};
    EXPECT_NO_THROW(pool.parallel_for(100, 1, [&](std::int64_t, std::int64_t) { ++calls; }));
    EXPECT_EQ(calls, 100);
  }
}

TEST(ThreadPool, StartsAndStopsWithoutWork) {
  for (int i = 0; i < 50; ++i) ThreadPool pool(3);
}

TEST(ThreadPoolDeathTest, RefusesNonsense) {
  EXPECT_DEATH(ThreadPool(0), "at least one thread");
  EXPECT_DEATH(ThreadPool(1).parallel_for(1, 0, [](std::int64_t, std::int64_t) {}), "ranges");
}

}  // namespace
}  // namespace regatta::base
