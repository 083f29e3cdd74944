#include "trainer/watch/watchdog.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <limits>
#include <mutex>
#include <numeric>
#include <thread>

#include "base/error.h"
#include "tests/trainer/ranks/tcp_ranks.h"

namespace regatta::tests {
namespace {

using trainer::contract::HeartbeatRecord;
using trainer::ranks::TcpHost;
using trainer::watch::Phase;
using trainer::watch::Watchdog;
using trainer::watch::WatchdogOptions;

constexpr auto kPatience = std::chrono::seconds(60);  // of tests that fail

// A rank's clock: the time of all, which stands until the test moves it. stop() holds whoever asks
// for the time, as stopping the process would.
class RankClock final : public base::Clock {
 public:
  explicit RankClock(const std::atomic<double>& time) : time_(time) {}
  [[nodiscard]] double monotonic_seconds() const override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !stopped_; });
    ++reads_;
    changed_.notify_all();
    return time_;
  }
  [[nodiscard]] double utc_seconds() const override { return 0; }
  void sleep(std::chrono::duration<double>) override {}
  void stop(bool stopped) {
    const std::scoped_lock lock(mutex_);
    stopped_ = stopped;
    changed_.notify_all();
  }
  [[nodiscard]] bool is_stopped() const {
    const std::scoped_lock lock(mutex_);
    return stopped_;
  }
  [[nodiscard]] std::int64_t reads() const {
    const std::scoped_lock lock(mutex_);
    return reads_;
  }

 private:
  const std::atomic<double>& time_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  mutable std::int64_t reads_ = 0;
  bool stopped_ = false;
};

struct Rank {
  explicit Rank(const std::atomic<double>& time) : clock(time) {}
  RankClock clock;
  std::unique_ptr<TcpHost> host;
  std::mutex mutex;
  std::vector<std::string> trips;
  trainer::watch::Trip last;
  std::vector<HeartbeatRecord> reports;
  std::unique_ptr<Watchdog> dog;  // last: it calls back into the above

  [[nodiscard]] std::vector<std::string> tripped() {
    const std::scoped_lock lock(mutex);
    return trips;
  }
  [[nodiscard]] std::vector<HeartbeatRecord> reported() {
    const std::scoped_lock lock(mutex);
    return reports;
  }
};

// Ranks with a watchdog each, on a time that only the test moves.
class World {
 public:
  explicit World(int ranks, WatchdogOptions options = {}) {
    options.beat_seconds = 0.002;
    Star star(ranks);
    for (int rank = 0; rank < ranks; ++rank) ranks_.push_back(std::make_unique<Rank>(time_));
    const Ends ends = each_rank(ranks, [&](int r) {
      Rank& rank = *ranks_[static_cast<std::size_t>(r)];
      rank.host = star.connect(r);
      rank.dog = std::make_unique<Watchdog>(
          *rank.host, rank.clock, options,
          [&rank](const trainer::watch::Trip& trip) {
            const std::scoped_lock lock(rank.mutex);
            rank.trips.push_back(trip.why);
            rank.last = trip;
          },
          [&rank](const HeartbeatRecord& record) {
            const std::scoped_lock lock(rank.mutex);
            rank.reports.push_back(record);
          });
    });
    for (const auto& end : ends) EXPECT_FALSE(end) << end->what();
  }
  ~World() {
    for (const auto& rank : ranks_) rank->clock.stop(false);
    each_rank(size(), [&](int r) { (*this)[r].dog.reset(); });
  }
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  [[nodiscard]] int size() const { return static_cast<int>(ranks_.size()); }
  [[nodiscard]] Rank& operator[](int rank) { return *ranks_[static_cast<std::size_t>(rank)]; }
  void beat(std::int64_t step, Phase phase) {
    for (const auto& rank : ranks_) rank->dog->beat(step, phase);
  }
  // Moves the time on by `seconds` in pieces, each after every watchdog has looked several times:
  // no rank is late by the clock, however slow the machine is.
  void pass(double seconds, double piece = 1) {
    for (double left = seconds; left > 0; left -= piece) {
      time_ = time_ + std::min(left, piece);
      look();
    }
  }
  void look() {
    std::vector<std::int64_t> goals;
    for (const auto& rank : ranks_) goals.push_back(rank->clock.reads() + 8);
    wait([&] {
      for (std::size_t r = 0; r < ranks_.size(); ++r) {
        Rank& rank = *ranks_[r];
        const bool watches = !rank.clock.is_stopped() && rank.dog && rank.tripped().empty();
        if (watches && rank.clock.reads() < goals[r]) return false;
      }
      return true;
    });
  }
  // Several steps of a second per phase, so that the phases are known.
  void learn(int steps = 3) {
    for (int step = 1; step <= steps; ++step) {
      for (const Phase phase :
           {Phase::Data, Phase::Forward, Phase::Backward, Phase::Reduce, Phase::Optimizer}) {
        beat(step, phase);
        pass(1);
      }
    }
  }
  [[nodiscard]] double time() const { return time_; }
  void jump(double seconds) { time_ = time_ + seconds; }
  [[nodiscard]] bool nobody_tripped() {
    return std::all_of(ranks_.begin(), ranks_.end(),
                       [](const auto& rank) { return rank->tripped().empty(); });
  }
  // That whoever tripped knows whom to blame, and for what.
  void expect_blames(int rank, Phase phase, bool hangs, int except = -1) {
    for (int r = 0; r < size(); ++r) {
      if (r == except) continue;
      const std::scoped_lock lock((*this)[r].mutex);
      const trainer::watch::Trip& trip = (*this)[r].last;
      EXPECT_EQ(trip.rank, rank) << "told by rank " << r;
      EXPECT_EQ(trip.phase, phase) << "told by rank " << r;
      EXPECT_EQ(trip.hangs, hangs) << "told by rank " << r;
    }
  }
  // That all but `except` trip, once, with these words.
  void expect_trips(const std::string& words, int except = -1) {
    for (int r = 0; r < size(); ++r) {
      if (r == except) continue;
      wait([&] { return !(*this)[r].tripped().empty(); });
      const std::vector<std::string> trips = (*this)[r].tripped();
      ASSERT_EQ(trips.size(), 1U) << "rank " << r;
      EXPECT_NE(trips[0].find(words), std::string::npos) << "rank " << r << ": " << trips[0];
      EXPECT_EQ(trips[0].find('\n'), std::string::npos) << trips[0];
    }
  }
  template <typename Condition>
  static void wait(const Condition& condition) {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (!condition()) {
      ASSERT_LT(std::chrono::steady_clock::now(), deadline) << "waited too long";
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

 private:
  std::atomic<double> time_ = 1000;
  std::vector<std::unique_ptr<Rank>> ranks_;
};

TEST(Watchdog, OrderlyRunNeverTrips) {
  World world(3);
  world.learn(10);
  EXPECT_TRUE(world.nobody_tripped());
}

TEST(Watchdog, SlowPhaseThatIsKnownMayBeSlow) {
  World world(2);
  world.learn();
  for (int i = 0; i < 2; ++i) {
    world.beat(4 + i, Phase::Evaluating);
    world.pass(100, 5);  // not yet known
    world.beat(4 + i, Phase::Data);
  }
  world.beat(6, Phase::Evaluating);
  world.pass(450, 5);  // up to five times what it took
  EXPECT_TRUE(world.nobody_tripped());
  world.pass(100, 5);
  world.expect_trips("stands still in evaluating of step 6");
}

TEST(Watchdog, RankThatStandsStillIsNamedByAll) {
  World world(4);
  world.learn();
  world.beat(4, Phase::Backward);
  world.pass(1);
  for (const int rank : {0, 1, 3}) world[rank].dog->beat(4, Phase::Reduce);
  world.pass(18);
  EXPECT_TRUE(world.nobody_tripped());
  const double still = world.time() - 19;
  for (int i = 0; i < 60 && world.nobody_tripped(); ++i) world.pass(0.5, 0.5);
  EXPECT_LT(world.time() - still, 30);  // the whole chain, by the clock
  world.expect_trips("rank 2 stands still in backward of step 4");
  world.expect_blames(2, Phase::Backward, true);
  const std::string text = world[1].tripped()[0];
  for (const char* part : {"0 (4 reduce ", "1 (4 reduce ", "2 (4 backward ", "3 (4 reduce "}) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  }
}

TEST(Watchdog, RankZeroStandsStill) {
  World world(3);
  world.learn();
  world.beat(4, Phase::Reduce);
  world[0].dog->beat(4, Phase::Data);
  world.pass(25);
  world.expect_trips("rank 0 stands still in data of step 4");
}

TEST(Watchdog, OthersMayWaitForARankWithinItsLimit) {
  World world(3);
  world.learn();
  world[0].dog->beat(3, Phase::Checkpointing);  // for the first time
  for (const int rank : {1, 2}) world[rank].dog->beat(4, Phase::Reduce);
  world.pass(100, 5);
  EXPECT_TRUE(world.nobody_tripped());
}

TEST(Watchdog, SilentRankIsLost) {
  World world(3);
  world.learn();
  world.beat(4, Phase::Forward);
  world.pass(1);
  world[2].clock.stop(true);
  world.pass(10);
  EXPECT_TRUE(world.nobody_tripped());
  world.pass(5);
  world.expect_trips("rank 2 has not been heard of for ", 2);
  EXPECT_NE(world[0].tripped()[0].find("forward of step 4"), std::string::npos);
}

TEST(Watchdog, SilentRankZeroIsLost) {
  World world(3);
  world.learn();
  world.look();
  world[0].clock.stop(true);
  world.pass(10);
  EXPECT_TRUE(world.nobody_tripped());
  world.pass(5);
  world.expect_trips("rank 0 has not been heard of for ", 0);
  world.expect_blames(0, Phase::Optimizer, true, 0);
  EXPECT_NE(world[1].tripped()[0].find("optimizer of step 3"), std::string::npos)
      << world[1].tripped()[0];
}

TEST(Watchdog, SuspendedJobGoesOn) {
  // All ranks are stopped, as by a scheduler, and go on together an hour later.
  World world(3);
  world.learn();
  world.beat(4, Phase::Forward);
  world.look();
  for (int rank = 0; rank < 3; ++rank) world[rank].clock.stop(true);
  world.jump(3600);
  for (int rank = 0; rank < 3; ++rank) world[rank].clock.stop(false);
  world.look();
  world.pass(15);
  EXPECT_TRUE(world.nobody_tripped());
  // What was learned is not an hour, either.
  world.beat(4, Phase::Backward);
  world.beat(5, Phase::Forward);
  world.pass(100, 5);
  world.expect_trips("stands still in forward of step 5");
}

TEST(Watchdog, EndsInAnyOrder) {
  std::vector<int> order = {0, 1, 2};
  do {
    World world(3);
    world.beat(1, Phase::Reduce);
    world.look();
    for (const int rank : order) {
      world[rank].dog.reset();
      // Rank 0's end ends the watch of the others: nobody looks at the clock then.
      if (world[0].dog) world.pass(5);
      world.jump(5);
      EXPECT_TRUE(world.nobody_tripped());
    }
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST(Watchdog, RankThatHasEndedIsNotWaitedFor) {
  World world(3);
  world.learn();
  world[1].dog.reset();
  for (int step = 4; step < 8; ++step) {
    for (const int rank : {0, 2}) world[rank].dog->beat(step, Phase::Forward);
    world.pass(15);
  }
  EXPECT_TRUE(world.nobody_tripped());
}

TEST(Watchdog, RankThatFailsIsNamed) {
  for (const int failing : {0, 2}) {
    World world(3);
    world.learn();
    std::jthread([&] {
      try {
        const std::unique_ptr<Watchdog> dog = std::move(world[failing].dog);
        throw base::Error(base::Code::Operator, "the disk is full");
      } catch (const base::Error&) {
      }
    }).join();
    world.look();
    EXPECT_TRUE(world.nobody_tripped());  // the others may be about to fail likewise
    world.pass(4);
    world.expect_trips("rank " + std::to_string(failing) + " ended with an error", failing);
    world.expect_blames(failing, Phase::Optimizer, false, failing);
  }
}

TEST(Watchdog, ReportsWhoIsFurthestBehind) {
  World world(4);
  world.beat(7, Phase::Reduce);
  world[2].dog->beat(7, Phase::Forward);
  world.pass(3);
  const std::size_t before = world[0].reported().size();
  World::wait([&] { return world[0].reported().size() >= before + 2; });
  const HeartbeatRecord record = world[0].reported().back();
  EXPECT_EQ(record.step, 7);
  EXPECT_EQ(record.rank, 2);
  EXPECT_EQ(record.phase, "forward");
  EXPECT_NEAR(record.phase_seconds, 3, 0.01);
  for (int rank = 1; rank < 4; ++rank) EXPECT_TRUE(world[rank].reported().empty());
}

TEST(Watchdog, OneRankWatchesItself) {
  World world(1);
  world.learn();
  world.pass(15);
  EXPECT_TRUE(world.nobody_tripped());
  world.pass(15);
  world.expect_trips("rank 0 stands still in optimizer of step 3");
  EXPECT_TRUE(world[0].reported().empty());
}

TEST(Watchdog, ReportThatThrowsDoesNoHarm) {
  Star star(2);
  std::atomic<int> trips = 0;
  std::atomic<int> reports = 0;
  const Ends ends = each_rank(2, [&](int rank) {
    const std::unique_ptr<TcpHost> host = star.connect(rank);
    Watchdog dog(
        *host, base::system_clock(), {}, [&](const trainer::watch::Trip&) { ++trips; },
        [&](const HeartbeatRecord&) {
          ++reports;
          throw base::Error(base::Code::Operator, "the disk is full");
        });
    World::wait([&] { return reports.load() > 0; });
    host->barrier();
  });
  for (const auto& end : ends) EXPECT_FALSE(end) << end->what();
  EXPECT_EQ(trips, 0);
  EXPECT_EQ(reports, 1);
}

TEST(Watchdog, AddressThatIsNoHost) {
  Star star(2);
  WatchdogOptions options;
  options.address = "node 1; reboot";
  const Ends ends = each_rank(2, [&](int rank) {
    const std::unique_ptr<TcpHost> host = star.connect(rank);
    const Watchdog dog(*host, base::system_clock(), options, {}, {});
  });
  for (const auto& end : ends) {
    ASSERT_TRUE(end);
    EXPECT_EQ(end->code(), base::Code::Operator) << end->what();
  }
}

TEST(Watchdog, ListensWhereToldTo) {
  Star star(2);
  WatchdogOptions options;
  options.address = "127.0.0.1";
  const Ends ends = each_rank(2, [&](int rank) {
    const std::unique_ptr<TcpHost> host = star.connect(rank);
    Watchdog dog(*host, base::system_clock(), options, {}, {});
    dog.beat(1, Phase::Data);
  });
  for (const auto& end : ends) EXPECT_FALSE(end) << end->what();
}

}  // namespace
}  // namespace regatta::tests
