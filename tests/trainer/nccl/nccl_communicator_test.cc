// EMULATED: what the NCCL communicator makes of NCCL, streams and events that the CPU plays. Suites
// say so in their names; nothing here ran on a GPU.
#include "trainer/nccl/nccl_communicator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <thread>

#include "base/clock.h"
#include "tests/trainer/nccl/nccl_ranks.h"

namespace regatta::tests {
namespace {

using trainer::ranks::Communicator;
using trainer::ranks::Pending;

constexpr int kSizes[] = {1, 2, 63, 64, 65, 127, 128, 192, 193, 256, 257, 1000, 3 * 64 * 4 + 5};

// Whole numbers whose sums are exact in float32.
float number(int rank, std::size_t i) {
  return static_cast<float>((static_cast<std::size_t>(rank) * 31 + i * 7) % 1009 + 1);
}
std::vector<float> numbers(int rank, std::size_t count) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = number(rank, i);
  return values;
}
std::vector<float> sums(int ranks, std::size_t count) {
  std::vector<float> values(count);
  for (int r = 0; r < ranks; ++r) {
    for (std::size_t i = 0; i < count; ++i) values[i] += number(r, i);
  }
  return values;
}
std::vector<float> own_part(const Communicator& ranks, const std::vector<float>& values) {
  const auto begin = values.begin() + ranks.part_begin(static_cast<std::int64_t>(values.size()));
  return {begin, begin + ranks.part_count(static_cast<std::int64_t>(values.size()))};
}

struct Layout {
  const char* name;
  int ranks;
  int ranks_per_node;
};
const Layout kLayouts[] = {{"Flat1", 1, 0},    {"Flat2", 2, 0},    {"Flat3", 3, 0},
                           {"Flat4", 4, 0},    {"Nodes2x2", 4, 2}, {"Nodes3x1", 3, 1},
                           {"Nodes1x3", 3, 3}, {"Nodes2x3", 6, 3}};

class EmulatedNcclCollectives : public testing::TestWithParam<Layout> {
 protected:
  static NcclSetup setup() {
    NcclSetup setup;
    setup.ranks = GetParam().ranks;
    setup.options.ranks_per_node = GetParam().ranks_per_node;
    setup.delays.random_start = 0.3;
    setup.delays.random_transfer = 0.3;
    return setup;
  }
};

TEST_P(EmulatedNcclCollectives, AllReduceOfIntegersIsExact) {
  on_ranks(setup(), [](NcclRank& rank) {
    for (const int size : kSizes) {
      const auto count = static_cast<std::size_t>(size);
      LentMemory x(rank.nccl, rank.rank, numbers(rank.rank, count));
      rank.finish(0, rank.ranks->all_reduce_sum(0, x.view()));
      EXPECT_EQ(x.values(), sums(rank.ranks->ranks(), count)) << size;
      EXPECT_TRUE(x.is_intact()) << size;
    }
  });
}

TEST_P(EmulatedNcclCollectives, ReduceScatterSumsItsOwnPart) {
  on_ranks(setup(), [](NcclRank& rank) {
    for (const int size : kSizes) {
      const auto count = static_cast<std::size_t>(size);
      LentMemory x(rank.nccl, rank.rank, numbers(rank.rank, count));
      rank.finish(0, rank.ranks->reduce_scatter_sum(0, x.view()));
      EXPECT_EQ(own_part(*rank.ranks, x.values()),
                own_part(*rank.ranks, sums(rank.ranks->ranks(), count)))
          << size;
      EXPECT_TRUE(x.is_intact()) << size;
    }
  });
}

// Ranks of the same place hold the same part, as a reduce-scatter leaves it.
TEST_P(EmulatedNcclCollectives, AllGatherCollectsTheParts) {
  on_ranks(setup(), [](NcclRank& rank) {
    for (const int size : kSizes) {
      const auto count = static_cast<std::size_t>(size);
      LentMemory x(rank.nccl, rank.rank, numbers(rank.ranks->part(), count));
      rank.finish(0, rank.ranks->all_gather(0, x.view()));
      const auto part = static_cast<std::size_t>(rank.ranks->part_size(size));
      std::vector<float> expected(count);
      for (std::size_t i = 0; i < count; ++i) {
        expected[i] = number(static_cast<int>(i / part), i);
      }
      EXPECT_EQ(x.values(), expected) << size;
      EXPECT_TRUE(x.is_intact()) << size;
    }
  });
}

TEST_P(EmulatedNcclCollectives, BroadcastComesFromItsRoot) {
  on_ranks(setup(), [](NcclRank& rank) {
    for (int root = 0; root < rank.ranks->ranks(); ++root) {
      LentMemory x(rank.nccl, rank.rank, numbers(rank.rank, 77));
      rank.finish(1, rank.ranks->broadcast(1, x.view(), root));
      EXPECT_EQ(x.values(), numbers(root, 77));
    }
  });
}

// NCCL's own calls where parts are equal, one for each part elsewhere.
TEST_P(EmulatedNcclCollectives, EqualPartsAreOneCall) {
  on_ranks(setup(), [](NcclRank& rank) {
    const std::int64_t parts = rank.ranks->parts();
    for (const std::int64_t size : {parts * 128, parts * 128 - 1, parts * 64 + 1}) {
      const int reduces = rank.nccl.calls(rank.rank, "reduce");
      const int broadcasts = rank.nccl.calls(rank.rank, "broadcast");
      const int scatters = rank.nccl.calls(rank.rank, "reduce_scatter");
      const int gathers = rank.nccl.calls(rank.rank, "all_gather");
      LentMemory x(rank.nccl, rank.rank, numbers(rank.rank, static_cast<std::size_t>(size)));
      rank.finish(0, rank.ranks->reduce_scatter_sum(0, x.view()));
      rank.finish(0, rank.ranks->all_gather(0, x.view()));
      const bool equal = size == rank.ranks->part_size(size) * parts;
      const auto part = rank.ranks->part_size(size);
      const int rooted = equal ? 0 : static_cast<int>((size + part - 1) / part);
      EXPECT_EQ(rank.nccl.calls(rank.rank, "reduce_scatter") - scatters, equal ? 1 : 0);
      EXPECT_EQ(rank.nccl.calls(rank.rank, "all_gather") - gathers, equal ? 1 : 0);
      EXPECT_EQ(rank.nccl.calls(rank.rank, "reduce") - reduces, rooted);
      EXPECT_EQ(rank.nccl.calls(rank.rank, "broadcast") - broadcasts, rooted);
    }
  });
}

TEST_P(EmulatedNcclCollectives, NothingIsDoneAtOnce) {
  on_ranks(setup(), [](NcclRank& rank) {
    LentMemory x(rank.nccl, rank.rank, {});
    EXPECT_EQ(rank.ranks->all_reduce_sum(0, x.view()), 0);
    EXPECT_EQ(rank.ranks->reduce_scatter_sum(0, x.view()), 0);
    EXPECT_EQ(rank.ranks->all_gather(0, x.view()), 0);
    EXPECT_EQ(rank.ranks->broadcast(0, x.view(), 0), 0);
    rank.finish(0, 0);
    EXPECT_EQ(rank.nccl.calls(rank.rank, "group_start"), 0);
  });
}

INSTANTIATE_TEST_SUITE_P(Layouts, EmulatedNcclCollectives, testing::ValuesIn(kLayouts),
                         [](const auto& each) { return each.param.name; });

TEST(EmulatedNcclParts, FollowThePlaceInTheNode) {
  NcclSetup setup;
  setup.ranks = 6;
  setup.options.ranks_per_node = 3;
  on_ranks(setup, [](NcclRank& rank) {
    EXPECT_EQ(rank.ranks->rank(), rank.rank);
    EXPECT_EQ(rank.ranks->ranks(), 6);
    EXPECT_EQ(rank.ranks->part(), rank.rank % 3);
    EXPECT_EQ(rank.ranks->parts(), 3);
  });
}

// The stream is slow before the collective, NCCL is slow to launch it, and the transfer is slow.
TEST(EmulatedNcclOrder, CollectivesSeeWhatTheirStreamWroteAndLaterWorkSeesTheSum) {
  NcclSetup setup;
  setup.ranks = 3;
  setup.delays = {2, 5, 4, 0, 7};
  on_ranks(setup, [](NcclRank& rank) {
    for (const trainer::device::Stream stream : {0, 2}) {
      LentMemory x(rank.nccl, rank.rank, std::vector<float>(200, 0));
      std::vector<float> seen;
      rank.nccl.enqueue(rank.rank, stream, [&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(5 * (rank.rank + 1)));
        std::fill(x.view().floats(), x.view().floats() + 200, static_cast<float>(rank.rank + 1));
      });
      const Pending pending = rank.ranks->all_reduce_sum(stream, x.view());
      rank.ranks->finish(stream, pending);
      rank.nccl.enqueue(rank.rank, stream, [&] { seen = x.values(); });
      rank.nccl.synchronize(rank.rank, stream);
      EXPECT_EQ(seen, std::vector<float>(200, 1 + 2 + 3));
    }
  });
}

// Rank 1 joins only when rank 0's stream has gone on past the collective.
TEST(EmulatedNcclOrder, TheCallersStreamGoesOnMeanwhile) {
  std::atomic<bool> has_gone_on = false;
  on_ranks({}, [&](NcclRank& rank) {
    LentMemory x(rank.nccl, rank.rank, numbers(rank.rank, 100));
    if (rank.rank == 1) {
      for (int i = 0; i < 20000 && !has_gone_on; ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      EXPECT_TRUE(has_gone_on);
    }
    const Pending pending = rank.ranks->all_reduce_sum(0, x.view());
    rank.nccl.enqueue(rank.rank, 0, [&] { has_gone_on = true; });
    rank.finish(0, pending);
    EXPECT_EQ(x.values(), sums(2, 100));
  });
}

// Buckets of one arena, finished in another order, on another stream, and not one by one.
TEST(EmulatedNcclOrder, ManyAtOnceStayApart) {
  for (const unsigned seed : {1U, 2U, 3U}) {
    NcclSetup setup;
    setup.ranks = 4;
    setup.options.ranks_per_node = seed == 3 ? 2 : 0;
    setup.delays = {0.5, 0.5, seed == 2 ? 0.2 : 0, 1, seed};
    on_ranks(setup, [](NcclRank& rank) {
      std::vector<LentMemory> buckets;
      for (std::size_t i = 0; i < 16; ++i) {
        buckets.emplace_back(rank.nccl, rank.rank, numbers(rank.rank, 50 + 37 * i));
      }
      std::vector<Pending> pending;
      for (std::size_t i = 0; i < buckets.size(); ++i) {
        const trainer::device::Stream stream = static_cast<int>(i % 3);
        if (i % 4 == 0) {
          pending.push_back(rank.ranks->broadcast(stream, buckets[i].view(), 1));
        } else if (i % 4 == 1) {
          pending.push_back(rank.ranks->reduce_scatter_sum(stream, buckets[i].view()));
          rank.ranks->finish(3, pending.back());
          pending.back() = rank.ranks->all_gather(3, buckets[i].view());
        } else {
          pending.push_back(rank.ranks->all_reduce_sum(stream, buckets[i].view()));
        }
        if (i == 5) rank.ranks->host().barrier();
      }
      for (std::size_t i = buckets.size(); i-- > 0;) rank.ranks->finish(3, pending[i]);
      rank.nccl.synchronize(rank.rank, 3);
      for (std::size_t i = 0; i < buckets.size(); ++i) {
        const std::size_t count = buckets[i].values().size();
        EXPECT_EQ(buckets[i].values(), i % 4 == 0 ? numbers(1, count) : sums(4, count)) << i;
        EXPECT_TRUE(buckets[i].is_intact());
      }
    });
  }
}

// Whoever sends first and whoever receives first: nobody waits for the other.
TEST(EmulatedNcclMessages, OrderDoesNotMatter) {
  NcclSetup setup;
  setup.ranks = 3;
  setup.delays = {1, 1, 0.2, 0, 5};
  on_ranks(setup, [](NcclRank& rank) {
    const int right = (rank.rank + 1) % 3, left = (rank.rank + 2) % 3;
    LentMemory out(rank.nccl, rank.rank, numbers(rank.rank, 300));
    LentMemory in(rank.nccl, rank.rank, std::vector<float>(300));
    LentMemory other(rank.nccl, rank.rank, numbers(rank.rank, 10));
    Pending sent = 0, received = 0;
    if (rank.rank == 1) received = rank.ranks->receive(0, in.view(), left);
    sent = rank.ranks->send(1, out.view(), right);
    const Pending sum = rank.ranks->all_reduce_sum(2, other.view());
    if (rank.rank != 1) received = rank.ranks->receive(0, in.view(), left);
    rank.finish(0, received);
    rank.finish(1, sent);
    rank.finish(2, sum);
    EXPECT_EQ(in.values(), numbers(left, 300));
    EXPECT_EQ(other.values(), sums(3, 10));
    EXPECT_GT(rank.ranks->done_at(received), 0);
    EXPECT_EQ(rank.nccl.calls(rank.rank, "group_start"), 1);
  });
}

TEST(EmulatedNcclMessages, ArriveInTheirOrder) {
  on_ranks({}, [](NcclRank& rank) {
    std::vector<LentMemory> pieces;
    for (std::size_t i = 0; i < 5; ++i) {
      pieces.emplace_back(
          rank.nccl, rank.rank,
          rank.rank == 0 ? numbers(static_cast<int>(i), 70) : std::vector<float>(70));
    }
    std::vector<Pending> pending;
    for (std::size_t i = 0; i < 5; ++i) {
      pending.push_back(rank.rank == 0 ? rank.ranks->send(0, pieces[i].view(), 1)
                                       : rank.ranks->receive(0, pieces[i].view(), 0));
      if (i == 2) rank.finish(0, pending.back());  // the rest goes by itself
    }
    for (const Pending each : pending) rank.finish(0, each);
    for (std::size_t i = 0; i < 5; ++i) {
      EXPECT_EQ(pieces[i].values(), numbers(static_cast<int>(i), 70)) << i;
    }
  });
}

TEST(EmulatedNcclDoneTimes, LieWhereTheHostSawThem) {
  NcclSetup setup;
  setup.delays.random_transfer = 5;
  on_ranks(setup, [](NcclRank& rank) {
    const base::Clock& clock = base::system_clock();
    LentMemory x(rank.nccl, rank.rank, numbers(rank.rank, 100));
    std::vector<Pending> pending;
    std::vector<double> befores;
    for (int i = 0; i < 10; ++i) {
      if (i == 5)
        std::this_thread::sleep_for(std::chrono::milliseconds(1100));  // another comparison
      befores.push_back(clock.monotonic_seconds());
      pending.push_back(rank.ranks->all_reduce_sum(0, x.view()));
      rank.ranks->finish(0, pending.back());
    }
    rank.nccl.synchronize(rank.rank, 0);
    const double after = clock.monotonic_seconds();
    // How exact they are is done_times_test's question: here the machine may be busy.
    const double slack = 0.5;
    double last = 0;
    for (std::size_t i = 0; i < pending.size(); ++i) {
      const double at = rank.ranks->done_at(pending[i]);
      EXPECT_GE(at, befores[i] - slack);
      EXPECT_LE(at, after + slack);
      EXPECT_GE(at, last - slack);
      EXPECT_EQ(at, rank.ranks->done_at(pending[i]));
      last = at;
    }
    EXPECT_EQ(rank.ranks->done_at(0), 0);
  });
}

TEST(EmulatedNcclDoneTimes, AreKeptForTheLastThousands) {
  NcclSetup setup;
  setup.ranks = 1;
  on_ranks(setup, [](NcclRank& rank) {
    LentMemory x(rank.nccl, rank.rank, {1, 2, 3});
    Pending first = 0, last = 0;
    for (int i = 0; i < 4096; ++i) {
      last = rank.ranks->all_reduce_sum(0, x.view());
      if (first == 0) first = last;
    }
    rank.finish(0, last);
    EXPECT_GT(rank.ranks->done_at(first), 0);
    EXPECT_GE(rank.ranks->done_at(last), rank.ranks->done_at(first));
  });
}

TEST(EmulatedNcclHost, HasTheHostsValuesAndChannels) {
  NcclSetup setup;
  setup.ranks = 3;
  on_ranks(setup, [](NcclRank& rank) {
    double values[2] = {1, static_cast<double>(rank.rank)};
    rank.ranks->host().all_reduce_sum(values, 2);
    EXPECT_EQ(values[0], 3);
    EXPECT_EQ(values[1], 3);
    const auto channel = rank.ranks->open_channel();
    int word = rank.rank == 2 ? 42 : 0;
    channel->broadcast(&word, sizeof word, 2);
    EXPECT_EQ(word, 42);
    int all[3] = {};
    rank.ranks->host().all_gather(&rank.rank, sizeof rank.rank, all);
    EXPECT_THAT(all, testing::ElementsAre(0, 1, 2));
  });
}

// What is under way at the end is over before memory and device may go.
TEST(EmulatedNcclEnd, WaitsForWhatIsUnderWay) {
  NcclSetup setup;
  setup.ranks = 3;
  setup.delays = {3, 10, 0, 0, 3};
  on_ranks(setup, [](NcclRank& rank) {
    LentMemory x(rank.nccl, rank.rank, numbers(rank.rank, 100));
    LentMemory y(rank.nccl, rank.rank, numbers(rank.rank, 64 * 3));
    rank.ranks->finish(0, rank.ranks->all_reduce_sum(0, x.view()));
    static_cast<void>(rank.ranks->all_reduce_sum(0, y.view()));
    rank.ranks.reset();
    EXPECT_EQ(x.values(), sums(3, 100));
    EXPECT_EQ(y.values(), sums(3, 64 * 3));
    EXPECT_EQ(rank.nccl.calls(rank.rank, "comm_abort"), 0);
  });
}

}  // namespace
}  // namespace regatta::tests
