#include "base/socket.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <chrono>
#include <thread>
#include <utility>

#include "base/error.h"

namespace regatta::base {
namespace {

using std::chrono::milliseconds;

// No test waits so long unless it fails.
Deadline generous() { return deadline_in(60); }

Socket accept_one(Listener& listener) {
  for (;;) {
    pollfd waiting{listener.fd(), POLLIN, 0};
    if (!poll_until({&waiting, 1}, generous())) throw Error(Code::Retry, "nobody came");
    if (auto socket = listener.accept_some()) return std::move(*socket);
  }
}

struct Pair {
  explicit Pair(const std::string& host = "127.0.0.1") {
    Listener listener(host, 0);
    near = Socket::connect({host}, listener.port(), generous());
    far = accept_one(listener);
  }
  Socket near, far;
};

std::vector<std::byte> bytes(std::size_t count) {
  std::vector<std::byte> all(count);
  for (std::size_t i = 0; i < count; ++i) all[i] = static_cast<std::byte>(i * 7 + i / 251);
  return all;
}

template <typename Body>
Error error_of(const Body& body) {
  try {
    body();
  } catch (const Error& error) {
    return error;
  }
  return {Code::Developer, "nothing was thrown"};
}

bool has_ipv6() {
  try {
    const Listener listener("::1", 0);
    return true;
  } catch (const Error&) {
    return false;
  }
}

TEST(Socket, CarriesBytesBothWays) {
  Pair pair;
  const std::vector<std::byte> sent = bytes(1000);
  pair.near.send_all(sent, generous());
  std::vector<std::byte> got(1000);
  pair.far.receive_all(got, generous());
  EXPECT_EQ(got, sent);
  pair.far.send_all(std::span(sent).first(10), generous());
  got.assign(10, {});
  pair.near.receive_all(got, generous());
  EXPECT_EQ(got, bytes(10));
  EXPECT_EQ(pair.near.peer().substr(0, 10), "127.0.0.1:");
}

TEST(Socket, CarriesMoreThanItsBuffersHold) {
  Pair pair;
  const std::vector<std::byte> sent = bytes(32 << 20);
  std::jthread sender([&] { pair.near.send_all(sent, generous()); });
  std::vector<std::byte> got(sent.size());
  pair.far.receive_all(got, generous());
  EXPECT_TRUE(got == sent);
}

TEST(Socket, OverIpv6) {
  if (!has_ipv6()) GTEST_SKIP() << "this machine has no IPv6";
  Pair pair("::1");
  pair.near.send_all(bytes(5), generous());
  std::vector<std::byte> got(5);
  pair.far.receive_all(got, generous());
  EXPECT_EQ(got, bytes(5));
  EXPECT_EQ(pair.near.peer().substr(0, 6), "[::1]:");
}

TEST(Socket, AllAddressesTakeBothFamilies) {
  Listener listener("", 0);
  for (const char* host : {"127.0.0.1", "::1"}) {
    if (std::string(host) == "::1" && !has_ipv6()) continue;
    Socket near = Socket::connect({host}, listener.port(), generous());
    Socket far = accept_one(listener);
    near.send_all(bytes(1), generous());
    std::vector<std::byte> got(1);
    far.receive_all(got, generous());
  }
}

TEST(Socket, TriesTheNextHost) {
  Listener listener("127.0.0.1", 0);
  const Socket socket = Socket::connect({"127.0.0.2", "127.0.0.1"}, listener.port(), generous());
  EXPECT_TRUE(socket.valid());
}

TEST(Socket, WaitsForAPeerThatIsLate) {
  int port = 0;
  {
    const Listener listener("127.0.0.1", 0);
    port = listener.port();
  }
  std::jthread late([&] {
    std::this_thread::sleep_for(milliseconds(300));
    Listener listener("127.0.0.1", port);
    static_cast<void>(accept_one(listener));
  });
  EXPECT_TRUE(Socket::connect({"127.0.0.1"}, port, generous()).valid());
}

TEST(Socket, NobodyListens) {
  int port = 0;
  {
    const Listener listener("127.0.0.1", 0);
    port = listener.port();
  }
  const Error error =
      error_of([&] { static_cast<void>(Socket::connect({"127.0.0.1"}, port, deadline_in(0.3))); });
  EXPECT_EQ(error.code(), Code::Retry);
  EXPECT_NE(std::string(error.what()).find("127.0.0.1:" + std::to_string(port)), std::string::npos)
      << error.what();
}

TEST(Socket, ReceivesUntilThePeerCloses) {
  Pair pair;
  pair.near.send_all(bytes(3), generous());
  pair.near = Socket();
  std::vector<std::byte> got(3);
  pair.far.receive_all(got, generous());
  EXPECT_EQ(got, bytes(3));
  const Error error = error_of([&] { pair.far.receive_all(got, generous()); });
  EXPECT_EQ(error.code(), Code::Retry);
  EXPECT_NE(std::string(error.what()).find("closed"), std::string::npos) << error.what();
}

TEST(Socket, FinishedSendingMayStillReceive) {
  Pair pair;
  pair.near.finish_sending();
  pair.far.send_all(bytes(4), generous());
  std::vector<std::byte> got(4);
  pair.near.receive_all(got, generous());
  EXPECT_EQ(error_of([&] { pair.far.receive_all(got, generous()); }).code(), Code::Retry);
}

TEST(Socket, SendingToAClosedPeerThrows) {
  Pair pair;
  pair.far = Socket();
  const std::vector<std::byte> much = bytes(1 << 20);
  const Error error = error_of([&] {
    for (int i = 0; i < 1000; ++i) pair.near.send_all(much, generous());
  });
  EXPECT_EQ(error.code(), Code::Retry) << error.what();
}

TEST(Socket, DeadlinesEndReceivingAndSending) {
  Pair pair;
  std::vector<std::byte> got(1);
  Error error = error_of([&] { pair.near.receive_all(got, deadline_in(0.2)); });
  EXPECT_EQ(error.code(), Code::Retry);
  EXPECT_NE(std::string(error.what()).find("in time"), std::string::npos) << error.what();
  const std::vector<std::byte> much = bytes(64 << 20);
  error = error_of([&] { pair.near.send_all(much, deadline_in(0.2)); });
  EXPECT_EQ(error.code(), Code::Retry);
  EXPECT_NE(std::string(error.what()).find("in time"), std::string::npos) << error.what();
}

TEST(Socket, ShutDownEndsAnotherThreadsWait) {
  Pair pair;
  std::jthread other([&] {
    std::this_thread::sleep_for(milliseconds(100));
    pair.near.shut_down();
  });
  std::vector<std::byte> got(1);
  EXPECT_EQ(error_of([&] { pair.near.receive_all(got, generous()); }).code(), Code::Retry);
}

TEST(Socket, SomeMeansWhatThereIs) {
  Pair pair;
  std::vector<std::byte> got(8);
  EXPECT_EQ(pair.near.receive_some(got), 0U);
  pair.far.send_all(bytes(3), generous());
  pollfd waiting{pair.near.fd(), POLLIN, 0};
  ASSERT_TRUE(poll_until({&waiting, 1}, generous()));
  EXPECT_EQ(pair.near.receive_some(got), 3U);
  const std::vector<std::byte> much = bytes(64 << 20);
  const std::size_t sent = pair.near.send_some(much);
  EXPECT_GT(sent, 0U);
  EXPECT_LT(sent, much.size());
}

TEST(Socket, PortInUse) {
  const Listener listener("127.0.0.1", 0);
  const Error error = error_of([&] { const Listener second("127.0.0.1", listener.port()); });
  EXPECT_EQ(error.code(), Code::Operator);
  EXPECT_NE(std::string(error.what()).find(std::to_string(listener.port())), std::string::npos);
}

TEST(Socket, HostOfAnotherMachine) {
  EXPECT_EQ(error_of([] { const Listener listener("192.0.2.1", 0); }).code(), Code::Operator);
}

TEST(Socket, DeadlinesAreBounded) {
  const Deadline now = std::chrono::steady_clock::now();
  for (const double seconds : {-5.0, 0.0, 1e300, std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_GE(deadline_in(seconds), now) << seconds;
  }
  EXPECT_LT(deadline_in(1e300), now + std::chrono::hours(24 * 366 * 101));
}

TEST(Socket, OwnAddressesAreNotLoopback) {
  const std::vector<std::string> all = own_addresses();
  EXPECT_LE(all.size(), 16U);
  for (const std::string& address : all) {
    EXPECT_NE(address, "127.0.0.1");
    EXPECT_NE(address, "::1");
    EXPECT_FALSE(address.empty());
  }
}

struct EndpointCase {
  const char* text;
  const char* host;  // null: refused
  int port;
};
class Endpoints : public testing::TestWithParam<EndpointCase> {};
TEST_P(Endpoints, AreParsedStrictly) {
  const EndpointCase& one = GetParam();
  if (one.host == nullptr) {
    EXPECT_EQ(error_of([&] { static_cast<void>(parse_endpoint(one.text)); }).code(), Code::User);
    return;
  }
  const Endpoint endpoint = parse_endpoint(one.text);
  EXPECT_EQ(endpoint.host, one.host);
  EXPECT_EQ(endpoint.port, one.port);
}
INSTANTIATE_TEST_SUITE_P(
    Table, Endpoints,
    testing::Values(EndpointCase{"node1:20000", "node1", 20000},
                    EndpointCase{"10.1.2.3:1", "10.1.2.3", 1},
                    EndpointCase{"[::1]:65535", "::1", 65535},
                    EndpointCase{"[fe80::1%eth0]:5", "fe80::1%eth0", 5},
                    EndpointCase{"a-b.c_d:0", "a-b.c_d", 0}, EndpointCase{"", nullptr, 0},
                    EndpointCase{":80", nullptr, 0}, EndpointCase{"node1", nullptr, 0},
                    EndpointCase{"node1:", nullptr, 0}, EndpointCase{"node1:x", nullptr, 0},
                    EndpointCase{"node1:-1", nullptr, 0}, EndpointCase{"node1:65536", nullptr, 0},
                    EndpointCase{"node1:80 ", nullptr, 0}, EndpointCase{"::1:80", nullptr, 0},
                    EndpointCase{"[]:80", nullptr, 0}, EndpointCase{"a b:80", nullptr, 0},
                    EndpointCase{"a\n:80", nullptr, 0},
                    EndpointCase{"node1:99999999999999999999", nullptr, 0}));

}  // namespace
}  // namespace regatta::base
