// Run on several ranks by mpirun (CMakeLists.txt): every rank runs every test.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "tests/trainer/mpi/ranks.h"

namespace regatta::tests {
namespace {

using trainer::device::View;
using trainer::ranks::Communicator;
using trainer::ranks::Pending;

View view_of(std::vector<float>* values) {
  return {values->data(), static_cast<std::int64_t>(values->size()),
          trainer::device::Dtype::Float32};
}

// Whole numbers whose sums are exact in float32.
float number(int rank, std::size_t i) {
  return static_cast<float>((static_cast<std::size_t>(rank) * 31 + i * 7) % 1009);
}
float sum_of(std::size_t i) {
  float sum = 0;
  for (int r = 0; r < ranks().ranks(); ++r) sum += number(r, i);
  return sum;
}
std::vector<float> numbers(std::size_t count) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = number(ranks().rank(), i);
  return values;
}

const std::size_t kSizes[] = {0, 1, 2, 3, 5, 64, 65, 129, 1000, 262147};

TEST(Communicator, AllReduceOfIntegersIsExact) {
  for (const std::size_t size : kSizes) {
    std::vector<float> values = numbers(size);
    ranks().finish(0, ranks().all_reduce_sum(0, view_of(&values)));
    for (std::size_t i = 0; i < size; ++i) ASSERT_EQ(values[i], sum_of(i)) << size << " " << i;
  }
}

TEST(Communicator, ReduceScatterSumsItsOwnPart) {
  for (const std::size_t size : kSizes) {
    std::vector<float> values = numbers(size);
    ranks().finish(0, ranks().reduce_scatter_sum(0, view_of(&values)));
    const auto mine = static_cast<std::size_t>(ranks().part_begin(static_cast<std::int64_t>(size)));
    const auto part = static_cast<std::size_t>(ranks().part_count(static_cast<std::int64_t>(size)));
    for (std::size_t i = mine; i < mine + part; ++i) {
      ASSERT_EQ(values[i], sum_of(i)) << size << " " << i;
    }
  }
}

TEST(Communicator, PartsBeginAtMultiplesOf64) {
  for (const std::size_t size : kSizes) {
    const auto count = static_cast<std::int64_t>(size);
    EXPECT_EQ(ranks().part_size(count) % 64, 0) << size;
    EXPECT_GE(ranks().part_size(count) * ranks().parts(), count);
    double all = static_cast<double>(ranks().part_count(count));
    ranks().host().all_reduce_sum(&all, 1);
    EXPECT_EQ(all, static_cast<double>(count * (ranks().ranks() / ranks().parts()))) << size;
  }
}

// Hierarchical, the ranks of a node hold the parts; flat, all ranks are one node.
TEST(Communicator, RanksHoldThePartOfTheirPlaceInTheNode) {
  // Here all ranks are on one host, so what is found is one node.
  EXPECT_EQ(ranks().parts(), ranks_per_node() <= 0 ? ranks().ranks() : ranks_per_node());
  EXPECT_EQ(ranks().part(), ranks().rank() % ranks().parts());
}

TEST(Communicator, AllGatherCollectsTheParts) {
  const int first = ranks().rank() - ranks().part();  // of this rank's node
  for (const std::size_t size : kSizes) {
    std::vector<float> values = numbers(size);
    ranks().finish(0, ranks().all_gather(0, view_of(&values)));
    const auto part = static_cast<std::size_t>(ranks().part_size(static_cast<std::int64_t>(size)));
    for (std::size_t i = 0; i < size; ++i) {
      ASSERT_EQ(values[i], number(first + static_cast<int>(i / part), i)) << size << " " << i;
    }
  }
}

TEST(Communicator, BroadcastComesFromItsRoot) {
  for (int root = 0; root < ranks().ranks(); ++root) {
    std::vector<float> values = numbers(1000);
    ranks().finish(0, ranks().broadcast(0, view_of(&values), root));
    for (std::size_t i = 0; i < values.size(); ++i) ASSERT_EQ(values[i], number(root, i));
  }
}

// Fractions: each element is added in rank order, whatever the slice it comes in.
TEST(Communicator, SumsHaveTheSameBitsInAnyBucket) {
  const std::size_t size = 10007;
  std::vector<float> whole(size);
  for (std::size_t i = 0; i < size; ++i) {
    whole[i] = std::sin(static_cast<float>(i + 1) * static_cast<float>(ranks().rank() + 1)) * 1e3F;
  }
  std::vector<float> pieces = whole;
  ranks().finish(0, ranks().all_reduce_sum(0, view_of(&whole)));
  std::vector<Pending> pending;
  std::size_t begin = 0;
  for (std::size_t piece = 1; begin < size; piece = piece * 3 % 1013 + 1) {
    const std::size_t count = std::min(piece, size - begin);
    pending.push_back(
        ranks().all_reduce_sum(0, view_of(&pieces).slice(static_cast<std::int64_t>(begin),
                                                         static_cast<std::int64_t>(count))));
    begin += count;
  }
  for (const Pending one : pending) ranks().finish(0, one);
  EXPECT_EQ(whole, pieces);
}

// Many under way at once, of every kind, with host collectives between, and ranks out of step.
TEST(Communicator, ManyAtOnceStayApart) {
  for (int round = 0; round < 20; ++round) {
    std::this_thread::sleep_for(std::chrono::microseconds(300 * ((ranks().rank() + round) % 3)));
    std::vector<std::vector<float>> buffers;
    for (int i = 0; i < 12; ++i)
      buffers.push_back(numbers(100 + 997 * static_cast<std::size_t>(i)));
    std::vector<Pending> pending;
    for (std::size_t i = 0; i < buffers.size(); ++i) {
      const View view = view_of(&buffers[i]);
      pending.push_back(i % 4 == 0   ? ranks().all_reduce_sum(0, view)
                        : i % 4 == 1 ? ranks().reduce_scatter_sum(0, view)
                        : i % 4 == 2 ? ranks().all_gather(0, view)
                                     : ranks().broadcast(0, view, 0));
      if (i == 5) {
        double values[2] = {1, static_cast<double>(ranks().rank())};
        ranks().host().all_reduce_sum(values, 2);
        const int count = ranks().ranks();
        EXPECT_EQ(values[0], count);
        EXPECT_EQ(values[1], count * (count - 1) / 2);
      }
    }
    ranks().host().barrier();
    for (const Pending one : pending) ranks().finish(0, one);
    for (std::size_t i = 0; i < buffers.size(); i += 4) {
      for (std::size_t e = 0; e < buffers[i].size(); ++e) ASSERT_EQ(buffers[i][e], sum_of(e));
    }
    for (std::size_t e = 0; e < buffers[3].size(); ++e) ASSERT_EQ(buffers[3][e], number(0, e));
  }
}

int neighbour(int distance) {
  return (ranks().rank() + distance + ranks().ranks()) % ranks().ranks();
}

// Small ones, which MPI sends ahead, and large ones, which wait for their receiver.
TEST(Communicator, SendAndReceiveGoRoundARing) {
  if (ranks().ranks() == 1) return;  // nobody to send to
  for (const std::size_t size : kSizes) {
    const std::vector<float> all = numbers(size);
    std::vector<float> out = all;
    std::vector<float> in(size);
    const Pending sent = ranks().send(0, view_of(&out), neighbour(1));
    const Pending received = ranks().receive(0, view_of(&in), neighbour(-1));
    ranks().finish(0, received);
    ranks().finish(0, sent);
    EXPECT_EQ(out, all);
    for (std::size_t i = 0; i < size; ++i) ASSERT_EQ(in[i], number(neighbour(-1), i)) << size;
  }
}

// Even ranks send all and then receive, odd ranks the other way round: neither waits for the other
// before both have begun, and what one rank sends another arrives in order.
TEST(Communicator, SendsAndReceivesMayCrossAndKeepTheirOrder) {
  const int peer = ranks().rank() ^ 1;
  if (peer >= ranks().ranks()) return;
  std::vector<std::vector<float>> out;
  std::vector<std::vector<float>> in;
  for (std::size_t i = 0; i < 8; ++i) {
    const std::size_t size = i % 2 == 0 ? 262147 : 3;
    out.emplace_back(size, static_cast<float>(10 * ranks().rank()) + static_cast<float>(i));
    in.emplace_back(size);
  }
  std::vector<Pending> pending;
  const auto send_all = [&] {
    for (auto& values : out) pending.push_back(ranks().send(0, view_of(&values), peer));
  };
  const auto receive_all = [&] {
    for (auto& values : in) pending.push_back(ranks().receive(0, view_of(&values), peer));
  };
  if (ranks().rank() % 2 == 0) send_all();
  receive_all();
  if (ranks().rank() % 2 == 1) send_all();
  for (const Pending one : pending) ranks().finish(0, one);
  for (std::size_t i = 0; i < in.size(); ++i) {
    const std::vector<float> expected(in[i].size(), static_cast<float>(10 * peer + int(i)));
    EXPECT_EQ(in[i], expected) << i;
  }
}

// What is received later does not hold up what was begun after it.
TEST(Communicator, APendingReceiveHoldsUpNothingElse) {
  if (ranks().ranks() == 1) return;
  std::vector<float> in(5);
  std::vector<float> out = numbers(5);
  const Pending received = ranks().receive(0, view_of(&in), neighbour(-1));
  std::vector<float> values = numbers(100);
  ranks().finish(0, ranks().all_reduce_sum(0, view_of(&values)));
  ranks().host().barrier();
  EXPECT_EQ(ranks().done_at(received), 0) << "nothing was sent yet";
  ranks().host().barrier();
  ranks().finish(0, ranks().send(0, view_of(&out), neighbour(1)));
  ranks().finish(0, received);
  EXPECT_EQ(in[4], number(neighbour(-1), 4));
}

// Rank 0 begins a while after the others, so nothing is over before that; of several at once any
// may be over first.
TEST(Communicator, KnowsWhenCollectivesWereDone) {
  const base::Clock& clock = base::system_clock();  // one for all processes of a host
  std::vector<float> values = numbers(1000);
  double begun = 0;
  for (int round = 0; round < 3; ++round) {
    ranks().host().barrier();
    if (ranks().rank() == 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      const double now = clock.monotonic_seconds();
      EXPECT_GE(now, begun);
      begun = now;
    }
    std::vector<Pending> pending;
    for (int i = 0; i < 4; ++i) {
      pending.push_back(ranks().all_reduce_sum(0, view_of(&values).slice(250 * i, 250)));
    }
    for (const Pending one : pending) ranks().finish(0, one);
    const double finished = clock.monotonic_seconds();
    ranks().host().broadcast(&begun, sizeof begun, 0);
    for (const Pending one : pending) {
      EXPECT_GE(ranks().done_at(one), begun);
      EXPECT_LE(ranks().done_at(one), finished);
    }
    begun = finished;  // and what comes next is over later
  }
  EXPECT_EQ(ranks().done_at(0), 0);
}

TEST(Communicator, KeepsTheLast4096Times) {
  std::vector<float> values = numbers(1);
  const Pending first = ranks().broadcast(0, view_of(&values), 0);
  ranks().finish(0, first);
  Pending last = first;
  for (int batch = 0; batch < 16; ++batch) {
    for (int i = 0; i < 256; ++i) last = ranks().broadcast(0, view_of(&values), 0);
    ranks().finish(0, last);
  }
  EXPECT_EQ(last, first + 4096);
  EXPECT_EQ(ranks().done_at(first), 0);
  EXPECT_GT(ranks().done_at(first + 1), 0);
}

}  // namespace
}  // namespace regatta::tests
