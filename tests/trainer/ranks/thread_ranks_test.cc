#include "tests/trainer/ranks/thread_ranks.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"

namespace regatta::tests {
namespace {

using trainer::device::View;
using trainer::ranks::Communicator;
using trainer::ranks::Parcels;
using trainer::ranks::Pending;

struct Shape {
  int ranks, node_ranks;
};
const Shape kShapes[] = {{1, 0}, {2, 0}, {3, 0}, {4, 0}, {4, 2}, {6, 3}, {2, 1}};
const std::size_t kSizes[] = {0, 1, 63, 64, 65, 300, 1000};

std::string name_of(const Shape& shape) {
  return std::to_string(shape.ranks) + " ranks, " + std::to_string(shape.node_ranks) + " a node";
}
View view_of(std::vector<float>& values) {
  return {values.data(), static_cast<std::int64_t>(values.size()), trainer::device::Dtype::Float32};
}
// Whole numbers, so that sums are exact.
float number(int rank, std::size_t i) {
  return static_cast<float>(rank * 31 + static_cast<int>(i));
}
std::vector<float> numbers(int rank, std::size_t size) {
  std::vector<float> values(size);
  for (std::size_t i = 0; i < size; ++i) values[i] = number(rank, i);
  return values;
}
std::vector<float> sums(int ranks, std::size_t size) {
  std::vector<float> values(size);
  for (std::size_t i = 0; i < size; ++i) {
    for (int r = 0; r < ranks; ++r) values[i] += number(r, i);
  }
  return values;
}

TEST(ThreadRanks, SumsAreExactAndEverywhere) {
  for (const Shape& shape : kShapes) {
    ThreadRanks(shape.ranks, shape.node_ranks).run([&](Communicator& at) {
      for (const std::size_t size : kSizes) {
        std::vector<float> x = numbers(at.rank(), size);
        at.finish(0, at.all_reduce_sum(0, view_of(x)));
        EXPECT_EQ(x, sums(shape.ranks, size)) << name_of(shape);
      }
    });
  }
}

// Scatter, then gather: the sum is everywhere, and nothing but the own part was in between.
TEST(ThreadRanks, PartsAreSummedAndGathered) {
  for (const Shape& shape : kShapes) {
    ThreadRanks(shape.ranks, shape.node_ranks).run([&](Communicator& at) {
      ASSERT_EQ(at.parts(), shape.node_ranks == 0 ? shape.ranks : shape.node_ranks);
      for (const std::size_t size : kSizes) {
        const std::vector<float> expected = sums(shape.ranks, size);
        std::vector<float> x = numbers(at.rank(), size);
        at.finish(0, at.reduce_scatter_sum(0, view_of(x)));
        const auto begin = static_cast<std::size_t>(at.part_begin(view_of(x).size));
        const std::size_t end = begin + static_cast<std::size_t>(at.part_count(view_of(x).size));
        for (std::size_t i = 0; i < size; ++i) {
          if (i >= begin && i < end) {
            EXPECT_EQ(x[i], expected[i]) << name_of(shape);
          } else {
            EXPECT_TRUE(std::isnan(x[i])) << name_of(shape);
          }
        }
        at.finish(0, at.all_gather(0, view_of(x)));
        EXPECT_EQ(x, expected) << name_of(shape);
      }
    });
  }
}

TEST(ThreadRanks, BroadcastsComeFromTheirRoot) {
  ThreadRanks(3).run([](Communicator& at) {
    for (int root = 0; root < 3; ++root) {
      std::vector<float> x = numbers(at.rank(), 100);
      at.finish(0, at.broadcast(0, view_of(x), root));
      EXPECT_EQ(x, numbers(root, 100));
    }
  });
}

// Around a ring, the two calls in either order, two letters to each rank.
TEST(ThreadRanks, LettersArriveInTheirOrder) {
  ThreadRanks(3).run([](Communicator& at) {
    const int next = (at.rank() + 1) % 3;
    const int before = (at.rank() + 2) % 3;
    std::vector<float> out[2] = {numbers(at.rank(), 10), numbers(at.rank() + 7, 20)};
    std::vector<float> in[2] = {std::vector<float>(10), std::vector<float>(20)};
    std::vector<Pending> pending;
    const auto send = [&] {
      for (std::vector<float>& x : out) pending.push_back(at.send(0, view_of(x), next));
    };
    const auto receive = [&] {
      for (std::vector<float>& x : in) pending.push_back(at.receive(0, view_of(x), before));
    };
    if (at.rank() == 0) send();
    receive();
    if (at.rank() != 0) send();
    EXPECT_TRUE(std::isnan(in[0][0]));
    // The second is finished before the first.
    for (auto one = pending.rbegin(); one != pending.rend(); ++one) at.finish(0, *one);
    EXPECT_EQ(in[0], numbers(before, 10));
    EXPECT_EQ(in[1], numbers(before + 7, 20));
    EXPECT_EQ(out[0], numbers(at.rank(), 10));
  });
}

// Several under way at once, finished in another order, views unreadable meanwhile.
TEST(ThreadRanks, ManyAtOnceStayApart) {
  ThreadRanks(4).run([](Communicator& at) {
    std::vector<std::vector<float>> x;
    std::vector<Pending> pending;
    for (std::size_t i = 0; i < 20; ++i) x.push_back(numbers(at.rank(), 50 + i));
    for (std::vector<float>& one : x) pending.push_back(at.all_reduce_sum(0, view_of(one)));
    at.host().barrier();
    for (std::size_t i = 20; i-- > 0;) {
      EXPECT_TRUE(std::isnan(x[i][0]));
      at.finish(0, pending[i]);
      EXPECT_EQ(x[i], sums(4, 50 + i));
      EXPECT_GT(at.done_at(pending[i]), 0);
      EXPECT_GE(at.done_at(pending.back()), at.done_at(pending[i]));
    }
  });
}

TEST(ThreadRanks, FractionsHaveTheSameBitsEverywhere) {
  for (const Shape& shape : kShapes) {
    std::vector<std::vector<float>> results(static_cast<std::size_t>(shape.ranks));
    ThreadRanks(shape.ranks, shape.node_ranks).run([&](Communicator& at) {
      std::vector<float> x(500);
      for (std::size_t i = 0; i < x.size(); ++i) {
        x[i] = std::sin(static_cast<float>(i + 1) * static_cast<float>(at.rank() + 1));
      }
      std::vector<float> parts = x;
      at.finish(0, at.all_reduce_sum(0, view_of(x)));
      at.finish(0, at.reduce_scatter_sum(0, view_of(parts)));
      at.finish(0, at.all_gather(0, view_of(parts)));
      EXPECT_EQ(parts, x);
      results[static_cast<std::size_t>(at.rank())] = x;
    });
    for (const std::vector<float>& one : results) EXPECT_EQ(one, results[0]) << name_of(shape);
  }
}

void check_host(trainer::ranks::HostCollectives& at) {
  double values[2] = {static_cast<double>(at.rank()), 0.1 * at.rank()};
  at.all_reduce_sum(values, 2);
  EXPECT_EQ(values[0], 3);
  EXPECT_EQ(values[1], 0.0 + 0.1 * 0 + 0.1 * 1 + 0.1 * 2);
  std::int32_t word = at.rank() + 5;
  at.broadcast(&word, sizeof word, 2);
  EXPECT_EQ(word, 7);
  std::vector<std::int32_t> all(3);
  const std::int32_t mine = at.rank() * at.rank();
  at.all_gather(&mine, sizeof mine, all.data());
  EXPECT_EQ(all, (std::vector<std::int32_t>{0, 1, 4}));
  Parcels to(3);
  for (int r = 0; r < 3; ++r) {
    to[static_cast<std::size_t>(r)].assign(static_cast<std::size_t>(r * 10 + at.rank()),
                                           static_cast<std::byte>(at.rank()));
  }
  const Parcels from = at.all_to_all(to);
  ASSERT_EQ(from.size(), 3U);
  for (int r = 0; r < 3; ++r) {
    EXPECT_EQ(from[static_cast<std::size_t>(r)],
              std::vector<std::byte>(static_cast<std::size_t>(at.rank() * 10 + r),
                                     static_cast<std::byte>(r)));
  }
  at.barrier();
}

TEST(ThreadRanks, HostValuesOnEveryChannel) {
  ThreadRanks(3).run([](Communicator& at) {
    const std::unique_ptr<trainer::ranks::HostCollectives> channel = at.open_channel();
    const std::unique_ptr<trainer::ranks::HostCollectives> other = at.open_channel();
    for (int round = 0; round < 3; ++round) {
      check_host(at.host());
      check_host(*other);
      check_host(*channel);
    }
  });
}

// A thread waits on a channel while the ranks meet elsewhere.
TEST(ThreadRanks, ChannelsDoNotWaitForOneAnother) {
  ThreadRanks(2).run([](Communicator& at) {
    const std::unique_ptr<trainer::ranks::HostCollectives> channel = at.open_channel();
    if (at.rank() == 0) {
      std::jthread waiting([&] { channel->barrier(); });
      at.host().barrier();
    } else {
      at.host().barrier();
      channel->barrier();
    }
  });
}

template <typename Body>
std::string failure_of(int ranks, base::Code code, Body body) {
  try {
    ThreadRanks(ranks).run(body);
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

TEST(ThreadRanks, ALostRankIsSaidEverywhere) {
  std::atomic<int> retries = 0;
  const auto lost = [&](Communicator& at, const std::function<void()>& call) {
    try {
      call();
      ADD_FAILURE() << at.rank() << " did not notice";
    } catch (const base::Error& error) {
      if (error.code() == base::Code::Retry) ++retries;
    }
  };
  EXPECT_THROW(ThreadRanks(4).run([&](Communicator& at) {
    std::vector<float> x(10);
    if (at.rank() == 0) throw std::runtime_error("broken");
    if (at.rank() == 1) lost(at, [&] { at.finish(0, at.all_reduce_sum(0, view_of(x))); });
    if (at.rank() == 2) lost(at, [&] { at.host().barrier(); });
    if (at.rank() == 3) lost(at, [&] { at.finish(0, at.receive(0, view_of(x), 0)); });
  }),
               std::runtime_error);
  EXPECT_EQ(retries, 3);
}

TEST(ThreadRanks, WhoAbandonsOrLeavesIsLost) {
  for (const bool abandons : {false, true}) {
    const std::string text = failure_of(2, base::Code::Retry, [&](Communicator& at) {
      if (at.rank() == 0 && abandons) at.abandon();
      if (at.rank() == 1) at.host().barrier();
    });
    EXPECT_NE(text.find("rank 0 was lost"), std::string::npos) << text;
  }
}

TEST(ThreadRanks, DifferentCallsAreRefused) {
  const std::string sizes = failure_of(2, base::Code::Developer, [](Communicator& at) {
    std::vector<float> x(at.rank() == 0 ? 10 : 11);
    at.finish(0, at.all_reduce_sum(0, view_of(x)));
  });
  EXPECT_NE(sizes.find("all_reduce_sum of 1"), std::string::npos) << sizes;
  failure_of(2, base::Code::Developer, [](Communicator& at) {
    std::vector<float> x(10);
    at.finish(0, at.broadcast(0, view_of(x), at.rank()));
  });
  failure_of(2, base::Code::Developer, [](Communicator& at) {
    std::vector<float> x(10);
    at.finish(0, at.rank() == 0 ? at.all_gather(0, view_of(x)) : at.all_reduce_sum(0, view_of(x)));
  });
  failure_of(2, base::Code::Developer, [](Communicator& at) {
    double value = 0;
    if (at.rank() == 0) at.host().barrier();
    if (at.rank() == 1) at.host().all_reduce_sum(&value, 1);
  });
  failure_of(2, base::Code::Developer, [](Communicator& at) {
    std::vector<float> x(at.rank() == 0 ? 10 : 11);
    at.finish(0, at.rank() == 0 ? at.send(0, view_of(x), 1) : at.receive(0, view_of(x), 0));
  });
}

}  // namespace
}  // namespace regatta::tests
