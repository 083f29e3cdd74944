#include "orchestrator/files/name_locks.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <optional>
#include <thread>

#include "base/error.h"

namespace regatta::orchestrator {
namespace {

double seconds_of(const std::function<void()>& act) {
  const auto begin = std::chrono::steady_clock::now();
  act();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

TEST(NameLocks, OfOtherNamesAreNoHindrance) {
  files::NameLocks locks;
  const auto first = locks.take({"a", "b"}, 0);
  EXPECT_LT(seconds_of([&] { const auto second = locks.take({"c"}, 200); }), 60);
  const auto nothing = locks.take({}, 0);
}

TEST(NameLocks, AreWaitedForAndGivenUp) {
  files::NameLocks locks;
  const auto first = locks.take({"a"}, 0);
  try {
    const auto second = locks.take({"b", "a"}, 0.05);
    FAIL() << "both have it";
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), base::Code::Retry);
  }
  // What was wanted together with it was not taken.
  EXPECT_NO_THROW((void)locks.take({"b"}, 0));
}

TEST(NameLocks, AreToldToBeTakenWhereWanted) {
  files::NameLocks locks;
  {
    const auto first = locks.try_take({"a"}, 0);
    EXPECT_TRUE(first);
    EXPECT_FALSE(locks.try_take({"a"}, 0.05));
  }
  EXPECT_TRUE(locks.try_take({"a"}, 0));
}

TEST(NameLocks, LetOneInAtATime) {
  files::NameLocks locks;
  std::atomic<int> inside = 0;
  std::atomic<int> most = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] {
      for (int round = 0; round < 50; ++round) {
        // In either order: whoever waits for two has none of them meanwhile.
        const auto held = locks.take(
            i % 2 == 0 ? std::vector<std::string>{"x", "y"} : std::vector<std::string>{"y", "x"},
            60);
        most = std::max(most.load(), ++inside);
        std::this_thread::yield();
        --inside;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(most, 1);
}

}  // namespace
}  // namespace regatta::orchestrator
