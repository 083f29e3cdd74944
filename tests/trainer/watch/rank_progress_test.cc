#include "trainer/watch/rank_progress.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "base/error.h"
#include "trainer/watch/watch_link.h"

namespace regatta::tests {
namespace {

using trainer::watch::furthest_behind;
using trainer::watch::Phase;
using trainer::watch::PhaseLimits;
using trainer::watch::Presence;
using trainer::watch::RankProgress;
using trainer::watch::verdict;
using trainer::watch::WatchKind;
using trainer::watch::WatchLink;
using trainer::watch::WatchMessage;

RankProgress at(int rank, std::int64_t step, Phase phase, double seconds, double limit = 20) {
  RankProgress progress;
  progress.rank = rank;
  progress.step = step;
  progress.phase = phase;
  progress.seconds = seconds;
  progress.limit = limit;
  return progress;
}
RankProgress absent(RankProgress progress, Presence presence, double seconds) {
  progress.presence = presence;
  progress.absent_seconds = seconds;
  return progress;
}
RankProgress silent(RankProgress progress, double seconds) {
  progress.silent_seconds = seconds;
  return progress;
}
bool has(const std::optional<trainer::watch::Trip>& trip, const std::string& part) {
  return trip && trip->why.find(part) != std::string::npos;
}

TEST(PhaseLimits, AreLearned) {
  PhaseLimits limits(20);
  EXPECT_EQ(limits.limit(Phase::Backward), 1800);
  limits.observe(Phase::Backward, 1);
  EXPECT_EQ(limits.limit(Phase::Backward), 1800);  // seen once
  limits.observe(Phase::Backward, 2);
  EXPECT_EQ(limits.limit(Phase::Backward), 20);
  limits.observe(Phase::Backward, 30);
  limits.observe(Phase::Backward, 1);
  EXPECT_EQ(limits.limit(Phase::Backward), 150);
  EXPECT_EQ(limits.limit(Phase::Forward), 1800);
  for (int i = 0; i < 3; ++i) limits.observe(Phase::Loading, 1);
  EXPECT_EQ(limits.limit(Phase::Loading), 1800);
  EXPECT_EQ(PhaseLimits(5000).limit(Phase::Loading), 5000);
}

TEST(Phases, HaveTheirNames) {
  EXPECT_STREQ(trainer::watch::name_of(Phase::Loading), "loading");
  EXPECT_STREQ(trainer::watch::name_of(Phase::Data), "data");
  EXPECT_STREQ(trainer::watch::name_of(Phase::Reduce), "reduce");
  EXPECT_STREQ(trainer::watch::name_of(Phase::Checkpointing), "checkpointing");
}

TEST(RankProgress, LowestStepThenEarliestPhaseThenLongest) {
  struct Case {
    std::vector<RankProgress> ranks;
    int expected;
  };
  const Case cases[] = {
      {{at(0, 5, Phase::Reduce, 9), at(1, 4, Phase::Optimizer, 1)}, 1},
      {{at(0, 5, Phase::Reduce, 9), at(1, 5, Phase::Backward, 1), at(2, 6, Phase::Data, 50)}, 1},
      {{at(0, 5, Phase::Reduce, 9), at(1, 5, Phase::Reduce, 10)}, 1},
      {{at(0, 5, Phase::Reduce, 9), at(1, 5, Phase::Reduce, 9)}, 0},
      {{absent(at(0, 1, Phase::Data, 9), Presence::Left, 1), at(1, 5, Phase::Reduce, 9)}, 1},
      {{absent(at(0, 1, Phase::Data, 9), Presence::Closed, 1), at(1, 5, Phase::Reduce, 9)}, 1}};
  for (const Case& one : cases) EXPECT_EQ(furthest_behind(one.ranks)->rank, one.expected);
  EXPECT_EQ(furthest_behind({}), nullptr);
  EXPECT_EQ(furthest_behind({absent(at(0, 1, Phase::Data, 9), Presence::Left, 1)}), nullptr);
}

TEST(Verdict, NothingWhileAllMoveOn) {
  EXPECT_FALSE(verdict({}, 12, 2));
  EXPECT_FALSE(verdict({at(0, 5, Phase::Reduce, 20), at(1, 5, Phase::Backward, 19)}, 12, 2));
  EXPECT_FALSE(verdict({silent(at(0, 5, Phase::Reduce, 1), 12)}, 12, 2));
  EXPECT_FALSE(verdict({absent(at(0, 5, Phase::Reduce, 99), Presence::Left, 99)}, 12, 2));
  // Within the grace.
  EXPECT_FALSE(verdict({absent(at(0, 5, Phase::Reduce, 99), Presence::Closed, 1)}, 12, 2));
  EXPECT_FALSE(verdict({absent(at(0, 5, Phase::Reduce, 99), Presence::Failed, 1)}, 12, 2));
}
TEST(Verdict, BlamesWhoIsFurthestBehind) {
  const auto trip = verdict({at(0, 118, Phase::Reduce, 20.9), at(1, 118, Phase::Reduce, 20.8),
                             at(2, 118, Phase::Backward, 21)},
                            12, 2);
  ASSERT_TRUE(trip);
  EXPECT_EQ(trip->rank, 2);
  EXPECT_EQ(trip->phase, Phase::Backward);
  EXPECT_EQ(trip->seconds, 21);
  EXPECT_TRUE(trip->hangs);
  EXPECT_EQ(trip->why,
            "rank 2 stands still in backward of step 118 for 21.0 s (limit 20.0 s); ranks: "
            "2 (118 backward 21.0 s), 0 (118 reduce 20.9 s), 1 (118 reduce 20.8 s); start again "
            "from the last checkpoint");
}
TEST(Verdict, WhoWaitsForARankWithinItsLimitIsNotBlamed) {
  // Rank 0 writes its first checkpoint; the others are through the next step and wait.
  EXPECT_FALSE(verdict({at(0, 117, Phase::Checkpointing, 60, 1800), at(1, 118, Phase::Reduce, 59),
                        at(2, 118, Phase::Reduce, 59)},
                       12, 2));
}
TEST(Verdict, GoneBeforeSilentBeforeStanding) {
  const RankProgress progress = at(0, 5, Phase::Data, 50);
  const RankProgress mute = silent(at(1, 6, Phase::Forward, 1), 13);
  const RankProgress closed = absent(at(2, 6, Phase::Reduce, 1), Presence::Closed, 3);
  const RankProgress failed = absent(at(3, 6, Phase::Optimizer, 1), Presence::Failed, 3);
  EXPECT_TRUE(has(verdict({progress}, 12, 2), "rank 0 stands still in data"));
  EXPECT_TRUE(has(verdict({progress, mute}, 12, 2), "rank 1 has not been heard of for 13.0 s"));
  EXPECT_TRUE(has(verdict({progress, mute, closed}, 12, 2), "rank 2 is gone"));
  EXPECT_TRUE(has(verdict({progress, mute, closed, failed}, 12, 2), "rank 3 ended with an error"));
  EXPECT_TRUE(has(verdict({mute, mute, mute}, 12, 2), "rank 1 (and 2 more)"));
  EXPECT_TRUE(verdict({progress}, 12, 2)->hangs);
  EXPECT_EQ(verdict({progress, mute}, 12, 2)->seconds, 13);
  EXPECT_TRUE(verdict({progress, mute}, 12, 2)->hangs);
  EXPECT_FALSE(verdict({progress, mute, closed}, 12, 2)->hangs) << "it is gone";
  EXPECT_FALSE(verdict({progress, mute, closed, failed}, 12, 2)->hangs) << "it said so itself";
}
TEST(Verdict, ListsEightRanksThenCounts) {
  std::vector<RankProgress> all;
  for (int rank = 0; rank < 1000; ++rank) {
    all.push_back(at(rank, rank == 700 ? 4 : 5, Phase::Reduce, 30 + rank % 7));
  }
  const auto trip = verdict(all, 12, 2);
  EXPECT_TRUE(has(trip, "ranks: 700 (4 reduce 30.0 s), "));
  EXPECT_TRUE(has(trip, ", 992 more;"));
  EXPECT_LT(trip->why.size(), 400U);
  all.resize(8);
  EXPECT_FALSE(has(verdict(all, 12, 2), "more"));
}

// Two ends of a connection of the watchdog.
struct Links {
  Links() {
    base::Listener listener("127.0.0.1", 0);
    near = WatchLink(base::Socket::connect({"127.0.0.1"}, listener.port(), base::deadline_in(60)));
    pollfd waiting{listener.fd(), POLLIN, 0};
    EXPECT_TRUE(base::poll_until({&waiting, 1}, base::deadline_in(60)));
    far = std::move(*listener.accept_some());
  }
  std::optional<WatchMessage> receive() {
    for (;;) {
      if (auto message = near.receive()) return message;
      pollfd waiting{near.socket().fd(), POLLIN, 0};
      if (!base::poll_until({&waiting, 1}, base::deadline_in(60))) return std::nullopt;
    }
  }
  void send(const std::string& bytes) {
    far.send_all(std::as_bytes(std::span(bytes)), base::deadline_in(60));
  }
  WatchLink near;
  base::Socket far;
};

std::string frame(std::uint32_t kind, std::uint32_t size, const std::string& body) {
  const std::uint32_t header[] = {kind, size};
  return std::string(reinterpret_cast<const char*>(header), 8) + body;
}
std::string beat(std::int64_t step, std::int64_t phase, double seconds, double limit) {
  std::string body(32, '\0');
  std::memcpy(body.data(), &step, 8);
  std::memcpy(body.data() + 8, &phase, 8);
  std::memcpy(body.data() + 16, &seconds, 8);
  std::memcpy(body.data() + 24, &limit, 8);
  return body;
}

std::string trip_head(std::int64_t rank, std::int64_t phase, double seconds, std::int64_t hangs) {
  std::string body(32, '\0');
  std::memcpy(body.data(), &rank, 8);
  std::memcpy(body.data() + 8, &phase, 8);
  std::memcpy(body.data() + 16, &seconds, 8);
  std::memcpy(body.data() + 24, &hangs, 8);
  return body;
}

TEST(WatchLink, MessagesArriveInPiecesAndTogether) {
  Links links;
  const std::string two = frame(1, 32, beat(7, 3, 1.5, 20)) +
                          frame(3, 37,
                                trip_head(9, 3, 12.5, 1) +
                                    "a\x1b"
                                    "b c") +
                          frame(4, 0, "");
  for (const char byte : two) links.send(std::string(1, byte));
  const auto first = links.receive();
  ASSERT_TRUE(first);
  EXPECT_EQ(first->kind, WatchKind::Beat);
  EXPECT_EQ(first->progress.step, 7);
  EXPECT_EQ(first->progress.phase, Phase::Backward);
  EXPECT_EQ(first->progress.seconds, 1.5);
  EXPECT_EQ(first->progress.limit, 20);
  const auto second = links.receive();
  ASSERT_TRUE(second);
  EXPECT_EQ(second->kind, WatchKind::Trip);
  EXPECT_EQ(second->trip.why, "a\\x1bb c");
  EXPECT_EQ(second->trip.rank, 9);
  EXPECT_EQ(second->trip.phase, Phase::Backward);
  EXPECT_EQ(second->trip.seconds, 12.5);
  EXPECT_TRUE(second->trip.hangs);
  EXPECT_EQ(links.receive()->kind, WatchKind::Goodbye);
  EXPECT_FALSE(links.near.receive());
}

TEST(WatchLink, RefusesWhatIsNoMessage) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const std::string& bytes :
       {frame(0, 0, ""), frame(6, 0, ""), frame(1, 31, ""), frame(1, 33, ""), frame(3, 2033, ""),
        frame(3, 31, ""), frame(3, 32, trip_head(-1, 1, 0, 0)), frame(3, 32, trip_head(1, 8, 0, 0)),
        frame(3, 32, trip_head(1, 1, nan, 0)), frame(3, 0xFFFFFFFF, ""), frame(4, 1, "x"),
        std::string("GET / HTTP/1.1\r\n"), frame(1, 32, beat(1, 8, 0, 0)),
        frame(1, 32, beat(1, -1, 0, 0)), frame(1, 32, beat(1, 1, nan, 0)),
        frame(2, 32, beat(1, 1, 0, nan))}) {
    Links links;
    links.send(bytes);
    EXPECT_THROW(static_cast<void>(links.receive()), base::Error)
        << testing::PrintToString(bytes.substr(0, 20));
  }
}

TEST(WatchLink, BeatsNeverPileUp) {
  Links links;
  WatchMessage message;
  message.kind = WatchKind::Beat;
  for (int i = 0; i < 300'000; ++i) links.near.send(message);  // the far end reads nothing
  message.kind = WatchKind::Goodbye;
  links.near.send(message);
  SUCCEED();
}

}  // namespace
}  // namespace regatta::tests
