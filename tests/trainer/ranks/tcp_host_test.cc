#include "trainer/ranks/tcp_host.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <future>
#include <thread>

#include "tests/trainer/ranks/tcp_ranks.h"

namespace regatta::tests {
namespace {

using base::Code;
using base::Socket;
using trainer::ranks::Parcels;
using trainer::ranks::TcpHost;

void expect_no_errors(const Ends& ends) {
  for (const auto& end : ends) EXPECT_FALSE(end) << end->what();
}
void expect_lost(const std::optional<base::Error>& end, const std::string& word) {
  ASSERT_TRUE(end);
  EXPECT_EQ(end->code(), Code::Retry) << end->what();
  EXPECT_NE(std::string(end->what()).find(word), std::string::npos) << end->what();
}

std::vector<std::byte> parcel(int from, int to, std::size_t size) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) {
    bytes[i] = static_cast<std::byte>(i * 31 + static_cast<std::size_t>(from * 5 + to));
  }
  return bytes;
}
std::size_t parcel_size(int from, int to) {
  if (from == 1 && to == 2) return 3'000'000;
  return (from + 2 * to) % 3 == 0 ? 0 : static_cast<std::size_t>(from * 1000 + to * 7 + 1);
}

class TcpRanks : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, TcpRanks, testing::Values(1, 2, 5));

TEST_P(TcpRanks, SumInRankOrder) {
  const int ranks = GetParam();
  // Sums of these depend on their order.
  const auto value = [](int rank, int i) { return 1.0 / (rank * 7 + i + 3) * (i % 2 ? 1e9 : 1); };
  expect_no_errors(run_ranks(ranks, [&](TcpHost& host) {
    std::vector<double> values;
    for (int i = 0; i < 100; ++i) values.push_back(value(host.rank(), i));
    host.all_reduce_sum(values.data(), 100);
    for (int i = 0; i < 100; ++i) {
      double sum = value(0, i);
      for (int rank = 1; rank < ranks; ++rank) sum += value(rank, i);
      EXPECT_EQ(values[static_cast<std::size_t>(i)], sum) << i;
    }
    host.all_reduce_sum(nullptr, 0);
  }));
}

TEST_P(TcpRanks, BroadcastFromEveryRank) {
  const int ranks = GetParam();
  expect_no_errors(run_ranks(ranks, [&](TcpHost& host) {
    for (int root = 0; root < ranks; ++root) {
      for (const std::size_t size : {std::size_t{0}, std::size_t{5}, std::size_t{2'500'000}}) {
        std::vector<std::byte> bytes(size);
        if (host.rank() == root) bytes = parcel(root, 0, size);
        host.broadcast(bytes.data(), static_cast<std::int64_t>(size), root);
        EXPECT_TRUE(bytes == parcel(root, 0, size)) << root << " " << size;
      }
    }
  }));
}

TEST_P(TcpRanks, GatherInRankOrder) {
  const int ranks = GetParam();
  expect_no_errors(run_ranks(ranks, [&](TcpHost& host) {
    const std::vector<std::byte> own = parcel(host.rank(), 9, 700);
    std::vector<std::byte> all(700 * static_cast<std::size_t>(ranks));
    host.all_gather(own.data(), 700, all.data());
    for (int rank = 0; rank < ranks; ++rank) {
      const auto from = all.begin() + rank * 700;
      EXPECT_EQ(std::vector<std::byte>(from, from + 700), parcel(rank, 9, 700)) << rank;
    }
    host.all_gather(nullptr, 0, nullptr);
  }));
}

TEST_P(TcpRanks, UnevenExchange) {
  const int ranks = GetParam();
  expect_no_errors(run_ranks(ranks, [&](TcpHost& host) {
    for (int round = 0; round < 3; ++round) {
      Parcels to;
      for (int rank = 0; rank < ranks; ++rank) {
        to.push_back(parcel(host.rank(), rank, parcel_size(host.rank(), rank)));
      }
      const Parcels from = host.all_to_all(to);
      ASSERT_EQ(from.size(), to.size());
      for (int rank = 0; rank < ranks; ++rank) {
        EXPECT_TRUE(from[static_cast<std::size_t>(rank)] ==
                    parcel(rank, host.rank(), parcel_size(rank, host.rank())))
            << rank << " to " << host.rank();
      }
    }
  }));
}

TEST_P(TcpRanks, BarrierHoldsUntilAllHaveCome) {
  const int ranks = GetParam();
  std::atomic<int> arrived = 0;
  expect_no_errors(run_ranks(ranks, [&](TcpHost& host) {
    for (int round = 1; round <= 20; ++round) {
      if (host.rank() == round % ranks) std::this_thread::sleep_for(std::chrono::milliseconds(2));
      ++arrived;
      host.barrier();
      EXPECT_GE(arrived.load(), round * ranks);
      host.barrier();
    }
  }));
}

TEST_P(TcpRanks, ChannelsDoNotWaitForOneAnother) {
  const int ranks = GetParam();
  expect_no_errors(run_ranks(ranks, [&](TcpHost& host) {
    const std::unique_ptr<TcpHost> first = host.open_channel();
    const std::unique_ptr<TcpHost> second = host.open_channel();
    EXPECT_EQ(first->rank(), host.rank());
    EXPECT_EQ(second->ranks(), ranks);
    // Each rank uses the two in another order; that must not matter.
    const auto use = [&](TcpHost& channel, double factor) {
      for (int i = 0; i < 50; ++i) {
        double value = factor * host.rank();
        channel.all_reduce_sum(&value, 1);
        EXPECT_EQ(value, factor * ranks * (ranks - 1) / 2);
      }
    };
    std::jthread other(
        [&] { use(host.rank() % 2 == 0 ? *first : *second, host.rank() % 2 ? 3 : 2); });
    use(host.rank() % 2 == 0 ? *second : *first, host.rank() % 2 ? 2 : 3);
    other.join();
    host.barrier();
  }));
}

TEST(TcpHost, RankThatDiesIsLostToAll) {
  for (const int dying : {0, 1, 3}) {
    std::atomic<bool> dead = false;
    const Ends ends = run_ranks(4, [&](TcpHost& host) {
      host.barrier();
      if (host.rank() == dying) throw base::Error(Code::Operator, "died");
      double value = 1;
      host.all_reduce_sum(&value, 1);
    });
    for (int rank = 0; rank < 4; ++rank) {
      if (rank == dying) continue;
      expect_lost(ends[static_cast<std::size_t>(rank)], "rank " + std::to_string(dying));
    }
  }
}

TEST(TcpHost, RankThatDiesIsNoticedThoughAnotherIsLate) {
  // Rank 1 takes very long; rank 2 dies; 0 and 3 must not wait for rank 1 to find out.
  std::promise<void> others_know;
  std::atomic<int> knowing = 0;
  const Ends ends = run_ranks(4, [&](TcpHost& host) {
    host.barrier();
    if (host.rank() == 2) throw base::Error(Code::Operator, "died");
    if (host.rank() == 1) {
      others_know.get_future().wait_for(std::chrono::seconds(100));
      EXPECT_EQ(knowing.load(), 2);
    }
    try {
      host.barrier();
    } catch (const base::Error&) {
      if (host.rank() != 1 && ++knowing == 2) others_know.set_value();
      throw;
    }
  });
  for (const std::size_t rank : {0U, 1U, 3U}) expect_lost(ends[rank], "rank 2");
}

TEST(TcpHost, LostStaysLost) {
  const Ends ends = run_ranks(2, [](TcpHost& host) {
    if (host.rank() == 1) return;
    for (int i = 0; i < 3; ++i) EXPECT_THROW(host.barrier(), base::Error);
    host.barrier();
  });
  expect_lost(ends[0], "rank 1");
}

TEST(TcpHost, AbandoningEndsWaits) {
  const Ends ends = run_ranks(3, [](TcpHost& host) {
    std::jthread other;
    if (host.rank() == 2) {
      other = std::jthread([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
        host.abandon();
      });
      double value = 0;
      host.broadcast(&value, 8, 1);
    } else if (host.rank() == 1) {
      double value = 0;
      host.broadcast(&value, 8, 2);  // never meant to work
    } else {
      host.barrier();
    }
  });
  for (const auto& end : ends) EXPECT_TRUE(end && end->code() == Code::Retry);
}

TEST(TcpHost, EarlyEndOfARankThatIsDone) {
  // The root of a broadcast is done when its bytes are on their way.
  expect_no_errors(run_ranks(3, [](TcpHost& host) {
    if (host.rank() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(100));
    double value = host.rank() == 1 ? 42 : 0;
    host.broadcast(&value, 8, 1);
    EXPECT_EQ(value, 42);
  }));
}

TEST(TcpHost, CallsThatDifferAreAnError) {
  const Ends ends = run_ranks(3, [](TcpHost& host) {
    std::vector<double> values(4);
    host.all_reduce_sum(values.data(), host.rank() == 2 ? 3 : 4);
  });
  for (const auto& end : ends) expect_lost(end, "rank 2");
}

TEST(TcpHost, RankThatNeverComes) {
  Star star(4);
  star.options.connect_seconds = 4;
  const Ends ends = each_rank(4, [&](int rank) {
    if (rank != 2) static_cast<void>(star.connect(rank));
  });
  expect_lost(ends[0], "rank 2");
  EXPECT_TRUE(ends[1] && ends[1]->code() == Code::Retry);
  EXPECT_TRUE(ends[3] && ends[3]->code() == Code::Retry);
}

TEST(TcpHost, RankZeroNeverComes) {
  Star star(3);
  star.options.connect_seconds = 0.5;
  const Ends ends = each_rank(3, [&](int rank) {
    if (rank != 0) static_cast<void>(star.connect(rank));
  });
  EXPECT_TRUE(ends[1] && ends[1]->code() == Code::Retry);
  EXPECT_TRUE(ends[2] && ends[2]->code() == Code::Retry);
}

TEST(TcpHost, RankThatDiesWhileOthersGather) {
  Star star(3);
  const Ends ends = each_rank(3, [&](int rank) {
    if (rank == 1) {
      // Joins, is known, confirms, and goes. Rank 2 comes only after.
      std::jthread dying([port = star.options.port] {
        Socket socket = Socket::connect({"127.0.0.1"}, port, base::deadline_in(60));
        const std::uint64_t hello[] = {0x316f6c6c65684752, kSecret, std::uint64_t{1} << 32U, 3};
        socket.send_all(std::as_bytes(std::span(hello)), base::deadline_in(60));
        std::uint64_t known = 0;
        socket.receive_all(std::as_writable_bytes(std::span(&known, 1)), base::deadline_in(60));
        const std::uint64_t confirm = 0x316d72666e634752;
        socket.send_all(std::as_bytes(std::span(&confirm, 1)), base::deadline_in(60));
      });
    }
    if (rank == 0) static_cast<void>(star.connect(rank));
  });
  expect_lost(ends[0], "rank 1");
}

TEST(TcpHost, CallThatWaitsTooLong) {
  Star star(3);
  star.options.call_seconds = 3;
  std::promise<void> over;
  auto waiting = over.get_future().share();
  std::atomic<int> ended = 0;
  const Ends ends = each_rank(3, [&](int rank) {
    const std::unique_ptr<TcpHost> host = star.connect(rank);
    if (rank == 2) {
      waiting.wait_for(std::chrono::seconds(100));
      return;
    }
    try {
      host->barrier();
    } catch (const base::Error&) {
      if (++ended == 2) over.set_value();
      throw;
    }
  });
  expect_lost(ends[0], "rank 2 did not come to a barrier");
  EXPECT_TRUE(ends[1] && ends[1]->code() == Code::Retry);
}

// What somebody may send who found the port.
std::vector<std::string> rubbish(int ranks) {
  const auto hello = [](std::uint64_t mark, std::uint64_t secret, std::int32_t channel,
                        std::int32_t rank, std::int32_t count) {
    std::string text(32, '\0');
    std::memcpy(text.data(), &mark, 8);
    std::memcpy(text.data() + 8, &secret, 8);
    std::memcpy(text.data() + 16, &channel, 4);
    std::memcpy(text.data() + 20, &rank, 4);
    std::memcpy(text.data() + 24, &count, 4);
    return text;
  };
  constexpr std::uint64_t kMark = 0x316f6c6c65684752;
  // Goes through with it, were it not turned away for its hello.
  const auto whole = [&](std::uint64_t mark, std::uint64_t secret, std::int32_t channel,
                         std::int32_t rank, std::int32_t count) {
    constexpr std::uint64_t kConfirm = 0x316d72666e634752;
    return hello(mark, secret, channel, rank, count) +
           std::string(reinterpret_cast<const char*>(&kConfirm), 8);
  };
  return {"",
          "x",
          "GET / HTTP/1.1\r\nHost: node1\r\n\r\n" + std::string(500, 'a'),
          std::string(100'000, '\xff'),
          std::string(32, '\0'),
          whole(kMark, kSecret + 1, 0, 1, ranks),
          whole(kMark + 1, kSecret, 0, 1, ranks),
          whole(kMark, kSecret, 7, 1, ranks),
          whole(kMark, kSecret, 0, 0, ranks),
          whole(kMark, kSecret, 0, -1, ranks),
          whole(kMark, kSecret, 0, ranks, ranks),
          whole(kMark, kSecret, 0, 1, ranks + 1),
          hello(kMark, kSecret, 0, 1, ranks),                         // and never confirms
          hello(kMark, kSecret, 0, 1, ranks) + std::string(8, 'x')};  // confirms wrongly
}

TEST(TcpHost, StrangersAreTurnedAwayWithoutDisturbing) {
  constexpr int kRanks = 3;
  Star star(kRanks);
  const int port = star.options.port;
  std::vector<Socket> strangers;
  const auto come = [&] {
    for (const std::string& text : rubbish(kRanks)) {
      strangers.push_back(Socket::connect({"127.0.0.1"}, port, base::deadline_in(60)));
      static_cast<void>(strangers.back().send_some(std::as_bytes(std::span(text))));
    }
  };
  come();  // before any rank
  for (int i = 0; i < 3; ++i) strangers[static_cast<std::size_t>(i) * 2] = Socket();  // some go
  std::atomic<bool> done = false;
  const Ends ends = each_rank(kRanks, [&](int rank) {
    if (rank == 2) {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      come();  // while ranks gather
    }
    const std::unique_ptr<TcpHost> host = star.connect(rank);
    if (rank == 2) come();  // later
    double value = rank;
    host->all_reduce_sum(&value, 1);
    EXPECT_EQ(value, 3);
    const std::unique_ptr<TcpHost> channel = host->open_channel();  // past those who came later
    channel->barrier();
    host->barrier();
  });
  expect_no_errors(ends);
}

TEST(TcpHost, MoreStrangersThanMayWait) {
  Star star(2);
  const int port = star.options.port;
  std::vector<Socket> strangers;
  const Ends ends = each_rank(2, [&](int rank) {
    if (rank == 1) {
      for (int i = 0; i < 200; ++i) {
        strangers.push_back(Socket::connect({"127.0.0.1"}, port, base::deadline_in(60)));
      }
    }
    star.connect(rank)->barrier();
  });
  expect_no_errors(ends);
}

TEST(TcpHost, AnotherServiceAtOneOfTheAddresses) {
  // Something that answers rubbish at the first address: the rank goes on to the second.
  Star star(2);
  base::Listener other("127.0.0.2", star.options.port);
  std::jthread service([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      pollfd waiting{other.fd(), POLLIN, 0};
      if (!base::poll_until({&waiting, 1}, base::deadline_in(0.05))) continue;
      if (auto guest = other.accept_some()) {
        const std::string text = "220 mail.example.org ESMTP\r\n";
        static_cast<void>(guest->send_some(std::as_bytes(std::span(text))));
      }
    }
  });
  star.options.hosts = {"127.0.0.2", "127.0.0.1"};
  expect_no_errors(each_rank(2, [&](int rank) { star.connect(rank)->barrier(); }));
}

// A rank 1 that knows the secret, and then sends what no rank sends: rank 0 must end with an error.
void garbled_call(const std::string& text) {
  Star star(2);
  const int port = star.options.port;
  const Ends ends = each_rank(2, [&](int rank) {
    if (rank == 0) {
      const std::unique_ptr<TcpHost> host = star.connect(0);
      static_cast<void>(host->all_to_all(Parcels(2)));
      return;
    }
    const base::Deadline deadline = base::deadline_in(60);
    Socket socket = Socket::connect({"127.0.0.1"}, port, deadline);
    const std::uint64_t hello[] = {0x316f6c6c65684752, kSecret, std::uint64_t{1} << 32U, 2};
    socket.send_all(std::as_bytes(std::span(hello)), deadline);
    std::uint64_t answer = 0;
    socket.receive_all(std::as_writable_bytes(std::span(&answer, 1)), deadline);
    const std::uint64_t confirm = 0x316d72666e634752;
    socket.send_all(std::as_bytes(std::span(&confirm, 1)), deadline);
    socket.receive_all(std::as_writable_bytes(std::span(&answer, 1)), deadline);
    static_cast<void>(socket.send_some(std::as_bytes(std::span(text))));
    socket.finish_sending();
    std::vector<std::byte> rest(1);
    try {
      for (;;) socket.receive_all(rest, deadline);
    } catch (const base::Error&) {
    }
  });
  expect_lost(ends[0], "rank 1");
}
std::string call_header(std::uint32_t operation, std::uint64_t call, std::uint64_t bytes) {
  const std::uint32_t start[] = {0x32486352, operation};
  const std::uint64_t end[] = {call, bytes};
  return std::string(reinterpret_cast<const char*>(start), 8) +
         std::string(reinterpret_cast<const char*>(end), 16);
}
std::string numbers(const std::vector<std::uint64_t>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * 8};
}

TEST(TcpHost, GarbledCallsAreErrors) {
  constexpr std::uint32_t kExchange = 3;
  for (const std::string& text : {
           std::string(), std::string("hello"), std::string(1000, '\xff'),
           call_header(kExchange, 2, 16) + numbers({0, 0}),            // another call
           call_header(0, 1, 16) + numbers({0, 0}),                    // another operation
           call_header(77, 1, 16) + numbers({0, 0}),                   // no operation
           call_header(kExchange, 1, ~std::uint64_t{0}),               // absurd size
           call_header(kExchange, 1, std::uint64_t{1} << 30) + "abc",  // large size, few bytes
           call_header(kExchange, 1, 0), call_header(kExchange, 1, 8) + numbers({0}),
           call_header(kExchange, 1, 16) + numbers({1, 0}),
           call_header(kExchange, 1, 16) + numbers({~std::uint64_t{0}, 1}),
           call_header(kExchange, 1, 24) + numbers({0, 0, 7}),  // more than its sizes say
       }) {
    SCOPED_TRACE(testing::PrintToString(text.substr(0, 40)));
    garbled_call(text);
  }
}

TEST(TcpHost, TooMuchForACallIsRefused) {
  const Ends ends = run_ranks(1, [](TcpHost& host) {
    double nothing = 0;
    host.broadcast(&nothing, static_cast<std::int64_t>(TcpHost::kMostBytes) + 1, 0);
  });
  ASSERT_TRUE(ends[0]);
  EXPECT_EQ(ends[0]->code(), Code::User);
}

TEST(TcpHost, ListensByItself) {
  const int port = [] {
    const base::Listener free("127.0.0.1", 0);
    return free.port();
  }();
  const Ends ends = each_rank(3, [&](int rank) {
    trainer::ranks::TcpHostOptions options;
    options.rank = rank;
    options.ranks = 3;
    options.hosts = {"localhost"};
    options.port = port;
    options.secret = 5;
    TcpHost(options).barrier();
  });
  expect_no_errors(ends);
}

}  // namespace
}  // namespace regatta::tests
