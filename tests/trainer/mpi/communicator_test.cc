// Run on several ranks by mpirun (CMakeLists.txt): every rank runs every test.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>
#include <vector>

#include "tests/trainer/mpi/ranks.h"

namespace regatta::tests {
namespace {

using trainer::Communicator;
using trainer::Pending;
using trainer::View;

View view_of(std::vector<float>* values) {
  return {values->data(), static_cast<std::int64_t>(values->size()), trainer::Dtype::Float32};
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

const std::size_t kSizes[] = {0, 1, 2, 3, 5, 64, 1000, 262147};

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
    const auto part = static_cast<std::size_t>(ranks().part_size(static_cast<std::int64_t>(size)));
    const auto mine = static_cast<std::size_t>(ranks().rank()) * part;
    for (std::size_t i = mine; i < std::min(size, mine + part); ++i) {
      ASSERT_EQ(values[i], sum_of(i)) << size << " " << i;
    }
  }
}

TEST(Communicator, AllGatherCollectsTheParts) {
  for (const std::size_t size : kSizes) {
    std::vector<float> values = numbers(size);
    ranks().finish(0, ranks().all_gather(0, view_of(&values)));
    const auto part = static_cast<std::size_t>(ranks().part_size(static_cast<std::int64_t>(size)));
    for (std::size_t i = 0; i < size; ++i) {
      ASSERT_EQ(values[i], number(static_cast<int>(i / part), i)) << size << " " << i;
    }
  }
}

TEST(Communicator, BroadcastComesFromItsRoot) {
  for (int root = 0; root < ranks().ranks(); ++root) {
    std::vector<float> values = numbers(1000);
    ranks().finish(0, ranks().broadcast(0, view_of(&values), root));
    for (std::size_t i = 0; i < values.size(); ++i) ASSERT_EQ(values[i], number(root, i));
    int bytes[2] = {ranks().rank(), 7};
    ranks().broadcast_host(bytes, sizeof bytes, root);
    EXPECT_EQ(bytes[0], root);
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
        ranks().all_reduce_sum_host(values, 2);
        const int count = ranks().ranks();
        EXPECT_EQ(values[0], count);
        EXPECT_EQ(values[1], count * (count - 1) / 2);
      }
    }
    ranks().barrier();
    for (const Pending one : pending) ranks().finish(0, one);
    for (std::size_t i = 0; i < buffers.size(); i += 4) {
      for (std::size_t e = 0; e < buffers[i].size(); ++e) ASSERT_EQ(buffers[i][e], sum_of(e));
    }
    for (std::size_t e = 0; e < buffers[3].size(); ++e) ASSERT_EQ(buffers[3][e], number(0, e));
  }
}

}  // namespace
}  // namespace regatta::tests
