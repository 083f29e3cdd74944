// Host values on several ranks: run by mpirun, every rank runs every test.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/trainer/mpi/ranks.h"
#include "trainer/ranks/node_layout.h"

namespace regatta::tests {
namespace {

using trainer::ranks::HostCollectives;
using trainer::ranks::Parcels;

// What rank `from` sends to rank `to`: of every length, also none, and far more than MPI sends
// ahead.
std::vector<std::byte> parcel(int from, int to) {
  const int size = (from + 2 * to) % 3 == 0 ? 0 : 1 + 70001 * ((from * 5 + to) % 4);
  return std::vector<std::byte>(static_cast<std::size_t>(size),
                                static_cast<std::byte>(16 * from + to + 1));
}
void expect_parcels(HostCollectives& host) {
  Parcels out;
  for (int r = 0; r < host.ranks(); ++r) out.push_back(parcel(host.rank(), r));
  const Parcels in = host.all_to_all(out);
  ASSERT_EQ(in.size(), out.size());
  for (int r = 0; r < host.ranks(); ++r) {
    EXPECT_EQ(in[static_cast<std::size_t>(r)], parcel(r, host.rank())) << "from " << r;
  }
}
void expect_sum(HostCollectives& host, double value) {
  double values[2] = {1, value * (host.rank() + 1)};
  host.all_reduce_sum(values, 2);
  EXPECT_EQ(values[0], host.ranks());
  EXPECT_EQ(values[1], value * host.ranks() * (host.ranks() + 1) / 2);
}

TEST(HostCollectives, KnowTheirRanks) {
  EXPECT_EQ(ranks().host().rank(), ranks().rank());
  EXPECT_EQ(ranks().host().ranks(), ranks().ranks());
}

// Thirds are not exact: every rank must have added them in the same order.
TEST(HostCollectives, SumsHaveTheSameBitsOnAllRanks) {
  HostCollectives& host = ranks().host();
  std::vector<double> mine(100);
  for (std::size_t i = 0; i < mine.size(); ++i) {
    mine[i] = std::pow(10.0, 5.0 * host.rank()) * std::sin(static_cast<double>(i)) / 3.0;
  }
  std::vector<double> expected(mine.size());
  for (std::size_t i = 0; i < mine.size(); ++i) {
    for (int r = 0; r < host.ranks(); ++r) {
      expected[i] += std::pow(10.0, 5.0 * r) * std::sin(static_cast<double>(i)) / 3.0;
    }
  }
  host.all_reduce_sum(mine.data(), static_cast<int>(mine.size()));
  EXPECT_EQ(mine, expected);
  host.all_reduce_sum(nullptr, 0);
}

TEST(HostCollectives, BroadcastComesFromItsRoot) {
  for (int root = 0; root < ranks().ranks(); ++root) {
    std::vector<int> values(70001, ranks().rank());
    ranks().host().broadcast(values.data(), static_cast<std::int64_t>(4 * values.size()), root);
    EXPECT_EQ(values, std::vector<int>(70001, root));
  }
  ranks().host().broadcast(nullptr, 0, 0);
}

TEST(HostCollectives, AllGatherIsInRankOrder) {
  const std::string mine = "rank " + std::to_string(ranks().rank());
  std::string all(mine.size() * static_cast<std::size_t>(ranks().ranks()), ' ');
  ranks().host().all_gather(mine.data(), static_cast<std::int64_t>(mine.size()), all.data());
  std::string expected;
  for (int r = 0; r < ranks().ranks(); ++r) expected += "rank " + std::to_string(r);
  EXPECT_EQ(all, expected);
}

TEST(HostCollectives, AllToAllTakesAnySizes) {
  for (int round = 0; round < 3; ++round) expect_parcels(ranks().host());
  const Parcels empty(static_cast<std::size_t>(ranks().ranks()));
  EXPECT_EQ(ranks().host().all_to_all(empty), empty);
}

// Nobody leaves before the last has come, which is rank 0 here.
TEST(HostCollectives, BarrierWaitsForTheLast) {
  using Clock = std::chrono::steady_clock;  // one for all processes of a host
  ranks().host().barrier();
  std::int64_t begun = 0;
  if (ranks().rank() == 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    begun = Clock::now().time_since_epoch().count();
  }
  ranks().host().barrier();
  const std::int64_t left = Clock::now().time_since_epoch().count();
  ranks().host().broadcast(&begun, sizeof begun, 0);
  EXPECT_GE(left, begun);
}

// Rank 0 makes its calls one after the other. On the others a thread has been waiting for the
// second of them when the first begins, and a sum of views has been waiting longer than both:
// if a call kept others from going on, all would wait for ever.
TEST(Channels, CallsOfOneDoNotWaitForAnother) {
  const auto first = ranks().open_channel();
  const auto second = ranks().open_channel();
  std::vector<float> values(1000, 1.0F);
  const trainer::device::View view{values.data(), 1000, trainer::device::Dtype::Float32};
  for (int round = 0; round < 5; ++round) {
    const bool in_turn = ranks().rank() == 0;
    trainer::ranks::Pending sum = 0;
    std::jthread beside;
    if (!in_turn) {
      sum = ranks().all_reduce_sum(0, view);
      beside = std::jthread([&] { expect_parcels(*second); });
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    expect_sum(*first, round);
    if (in_turn) expect_parcels(*second);
    ranks().host().barrier();
    if (in_turn) sum = ranks().all_reduce_sum(0, view);
    ranks().finish(0, sum);
  }
  EXPECT_EQ(values[999], std::pow(ranks().ranks(), 5));
}

// Three threads of each rank, each at its own pace.
TEST(Channels, ThreadsOutOfStepStayApart) {
  const auto first = ranks().open_channel();
  const auto second = ranks().open_channel();
  const auto dawdle = [](int seed) {
    std::this_thread::sleep_for(std::chrono::microseconds(200 * (seed % 4)));
  };
  const std::jthread sums([&] {
    for (int i = 0; i < 60; ++i) {
      dawdle(i + ranks().rank());
      expect_sum(*first, i);
    }
  });
  const std::jthread parcels([&] {
    for (int i = 0; i < 15; ++i) {
      dawdle(3 * i + ranks().rank());
      expect_parcels(*second);
      second->barrier();
    }
  });
  std::vector<float> values(5000);
  const trainer::device::View view{values.data(), 5000, trainer::device::Dtype::Float32};
  for (int i = 0; i < 40; ++i) {
    dawdle(i * (ranks().rank() + 1));
    values.assign(5000, static_cast<float>(ranks().rank() + i));
    const trainer::ranks::Pending sum = ranks().all_reduce_sum(0, view);
    expect_sum(ranks().host(), 100 + i);
    ranks().finish(0, sum);
    const int count = ranks().ranks();
    ASSERT_EQ(values[4999], static_cast<float>(count * i + count * (count - 1) / 2));
  }
}

TEST(Channels, AreOpenedBesideOtherWork) {
  const std::jthread beside([&] {
    for (int i = 0; i < 50; ++i) expect_sum(ranks().host(), i);
  });
  for (int i = 0; i < 5; ++i) expect_sum(*ranks().open_channel(), i);
}

TEST(NodeLayout, RanksOfOneHostAreANode) {
  EXPECT_EQ(trainer::ranks::ranks_per_node(ranks().host()), ranks().ranks());
}

}  // namespace
}  // namespace regatta::tests
