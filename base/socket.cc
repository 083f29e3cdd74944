#include "base/socket.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <memory>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/host.h"
#include "base/text.h"

namespace regatta::base {
namespace {

// One address that does not answer (a firewall that drops) must not use up the others' time.
constexpr double kAttemptSeconds = 2;
constexpr auto kBetweenAttempts = std::chrono::milliseconds(50);
constexpr std::size_t kMostOwnAddresses = 16;
// A machine that vanished is noticed after 10 + 3·5 seconds, if nothing was on its way to it.
constexpr int kKeepAliveIdle = 10;
constexpr int kKeepAliveInterval = 5;
constexpr int kKeepAliveCount = 3;

using Addresses = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

// `failure` gets the words when there are none.
Addresses resolve(const std::string& host, int port, bool passive, std::string* failure) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | (passive ? AI_PASSIVE : 0);
  addrinfo* found = nullptr;
  const int status = ::getaddrinfo(host.empty() ? nullptr : host.c_str(),
                                   std::to_string(port).c_str(), &hints, &found);
  if (status != 0) *failure = status == EAI_SYSTEM ? std::strerror(errno) : ::gai_strerror(status);
  return {status == 0 ? found : nullptr, &::freeaddrinfo};
}

void set(int fd, int level, int option, int value) {
  // Options that make failures quicker to see; a system without one of them still works.
  static_cast<void>(::setsockopt(fd, level, option, &value, sizeof value));
}

std::string numeric(const sockaddr* address, socklen_t size) {
  char host[NI_MAXHOST] = "";
  char port[NI_MAXSERV] = "";
  if (::getnameinfo(address, size, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
    return "somebody";
  }
  const std::string text = host;
  return (text.find(':') == std::string::npos ? text : "[" + text + "]") + ":" + port;
}

[[noreturn]] void lost(const std::string& peer, const std::string& why) {
  throw Error(Code::Retry, "the connection with " + peer + " is lost (" + why + ")");
}

bool would_block(int reason) { return reason == EAGAIN || reason == EWOULDBLOCK; }

// While nobody listens, the system may choose as our port the very port that we ask for, and
// connect us with ourselves: none, then.
UniqueFd other_end(UniqueFd fd, std::string* failure) {
  sockaddr_storage own{};
  sockaddr_storage peer{};
  socklen_t own_size = sizeof own;
  socklen_t peer_size = sizeof peer;
  if (::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&own), &own_size) == 0 &&
      ::getpeername(fd.get(), reinterpret_cast<sockaddr*>(&peer), &peer_size) == 0 &&
      (own_size != peer_size || std::memcmp(&own, &peer, own_size) != 0)) {
    return fd;
  }
  *failure = "nobody listens";
  return {};
}

// A connected socket, or none with the reason in `failure`.
UniqueFd attempt(const addrinfo& address, Deadline deadline, std::string* failure) {
  UniqueFd fd(::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) {
    *failure = std::strerror(errno);
    return {};
  }
  if (::connect(fd.get(), address.ai_addr, address.ai_addrlen) == 0)
    return other_end(std::move(fd), failure);
  if (errno != EINPROGRESS && errno != EINTR) {
    *failure = std::strerror(errno);
    return {};
  }
  pollfd waiting{fd.get(), POLLOUT, 0};
  if (!poll_until({&waiting, 1}, std::min(deadline, deadline_in(kAttemptSeconds)))) {
    *failure = "no answer";
    return {};
  }
  int reason = 0;
  socklen_t size = sizeof reason;
  if (::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &reason, &size) != 0) reason = errno;
  if (reason == 0) return other_end(std::move(fd), failure);
  *failure = std::strerror(reason);
  return {};
}

UniqueFd bound(const addrinfo& address, int* reason) {
  UniqueFd fd(::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (fd.valid()) {
    set(fd.get(), SOL_SOCKET, SO_REUSEADDR, 1);
    if (address.ai_family == AF_INET6) set(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, 0);
    if (::bind(fd.get(), address.ai_addr, address.ai_addrlen) == 0 &&
        ::listen(fd.get(), SOMAXCONN) == 0) {
      return fd;
    }
  }
  *reason = errno;
  return {};
}

}  // namespace

Deadline deadline_in(double seconds) {
  constexpr double kCentury = 100.0 * 365 * 86400;
  const double bounded = std::isnan(seconds) ? 0 : std::clamp(seconds, 0.0, kCentury);
  return std::chrono::steady_clock::now() +
         std::chrono::duration_cast<std::chrono::steady_clock::duration>(
             std::chrono::duration<double>(bounded));
}

Endpoint parse_endpoint(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  std::string_view host = text.substr(0, colon == std::string_view::npos ? 0 : colon);
  const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (bracketed) host = host.substr(1, host.size() - 2);
  const std::string_view digits = colon == std::string_view::npos ? "" : text.substr(colon + 1);
  const std::int64_t port = parse_integer(digits).value_or(-1);
  const bool odd = !std::all_of(host.begin(), host.end(), [&](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' ||
           c == '-' || c == '_' || (bracketed && (c == ':' || c == '%'));
  });
  if (host.empty() || host.size() > 253 || odd || port < 0 || port > 65535) {
    throw Error(Code::User, "\"" + printable(text.substr(0, 100)) +
                                "\" is not an address; write host:port, such as node1:20000 or "
                                "[::1]:20000");
  }
  return {std::string(host), static_cast<int>(port)};
}

bool poll_until(std::span<pollfd> waiting, Deadline deadline) {
  for (;;) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now())
            .count();
    constexpr long long kLongest = 60'000;  // then it looks again
    const int ready = ::poll(waiting.data(), static_cast<nfds_t>(waiting.size()),
                             static_cast<int>(std::clamp<long long>(left, 0, kLongest)));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) throw_errno(errno, "cannot wait for connections");
    if (left <= 0) return false;
  }
}

Socket::Socket(UniqueFd fd) : fd_(std::move(fd)) {
  set(fd_.get(), IPPROTO_TCP, TCP_NODELAY, 1);
  set(fd_.get(), SOL_SOCKET, SO_KEEPALIVE, 1);
  set(fd_.get(), IPPROTO_TCP, TCP_KEEPIDLE, kKeepAliveIdle);
  set(fd_.get(), IPPROTO_TCP, TCP_KEEPINTVL, kKeepAliveInterval);
  set(fd_.get(), IPPROTO_TCP, TCP_KEEPCNT, kKeepAliveCount);
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  peer_ = ::getpeername(fd_.get(), generic, &size) == 0 ? numeric(generic, size) : "somebody";
}

Socket Socket::connect(const std::vector<std::string>& hosts, int port, Deadline deadline) {
  check(!hosts.empty(), "there is a host to connect to");
  std::string failure;
  std::string last_host;
  do {
    for (const std::string& host : hosts) {
      last_host = host;
      const Addresses addresses = resolve(host, port, false, &failure);
      for (const addrinfo* address = addresses.get(); address != nullptr;
           address = address->ai_next) {
        if (UniqueFd fd = attempt(*address, deadline, &failure); fd.valid()) {
          return Socket(std::move(fd));
        }
      }
    }
    std::this_thread::sleep_until(
        std::min(deadline, std::chrono::steady_clock::now() + kBetweenAttempts));
  } while (std::chrono::steady_clock::now() < deadline);
  throw Error(Code::Retry, "cannot connect to " + printable(last_host) + ":" +
                               std::to_string(port) + " (" + failure +
                               "); see whether the other process runs and no firewall is between");
}

std::size_t Socket::send_some(std::span<const std::byte> bytes) {
  for (;;) {
    const ssize_t sent = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) return static_cast<std::size_t>(sent);
    if (would_block(errno)) return 0;
    if (errno != EINTR) lost(peer_, std::strerror(errno));
  }
}

std::size_t Socket::receive_some(std::span<std::byte> bytes) {
  if (bytes.empty()) return 0;
  for (;;) {
    const ssize_t got = ::recv(fd_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (got > 0) return static_cast<std::size_t>(got);
    if (got == 0) lost(peer_, "it was closed at the other end");
    if (would_block(errno)) return 0;
    if (errno != EINTR) lost(peer_, std::strerror(errno));
  }
}

void Socket::send_all(std::span<const std::byte> bytes, Deadline deadline) {
  for (;;) {
    bytes = bytes.subspan(send_some(bytes));
    if (bytes.empty()) return;
    pollfd waiting{fd_.get(), POLLOUT, 0};
    if (!poll_until({&waiting, 1}, deadline)) lost(peer_, "it took nothing in time");
  }
}

void Socket::receive_all(std::span<std::byte> bytes, Deadline deadline) {
  for (;;) {
    bytes = bytes.subspan(receive_some(bytes));
    if (bytes.empty()) return;
    pollfd waiting{fd_.get(), POLLIN, 0};
    if (!poll_until({&waiting, 1}, deadline)) lost(peer_, "it sent nothing in time");
  }
}

void Socket::finish_sending() noexcept { ::shutdown(fd_.get(), SHUT_WR); }
void Socket::shut_down() noexcept { ::shutdown(fd_.get(), SHUT_RDWR); }

Listener::Listener(const std::string& host, int port) {
  std::string failure = "no address";
  const Addresses addresses = resolve(host, port, true, &failure);
  // Of "all addresses", the IPv6 one also takes IPv4 connections: tried first where it exists.
  std::vector<const addrinfo*> order;
  for (const addrinfo* a = addresses.get(); a != nullptr; a = a->ai_next) order.push_back(a);
  std::stable_sort(order.begin(), order.end(), [&](const addrinfo* a, const addrinfo* b) {
    return host.empty() && a->ai_family == AF_INET6 && b->ai_family != AF_INET6;
  });
  for (const addrinfo* address : order) {
    int reason = 0;
    fd_ = bound(*address, &reason);
    if (fd_.valid()) break;
    failure = std::strerror(reason);
  }
  if (!fd_.valid()) {
    throw Error(Code::Operator, "cannot listen on port " + std::to_string(port) + " of " +
                                    (host.empty() ? "this machine" : printable(host)) + " (" +
                                    failure +
                                    "); end what holds the port or choose another address");
  }
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  if (::getsockname(fd_.get(), generic, &size) != 0) throw_errno(errno, "cannot find the port");
  port_ = ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(generic)->sin6_port
                                              : reinterpret_cast<sockaddr_in*>(generic)->sin_port);
}

std::optional<Socket> Listener::accept_some() {
  for (;;) {
    UniqueFd fd(::accept4(fd_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (fd.valid()) return Socket(std::move(fd));
    if (would_block(errno)) return std::nullopt;
    if (errno == EBADF || errno == EINVAL || errno == EMFILE || errno == ENFILE ||
        errno == ENOBUFS || errno == ENOMEM) {
      throw_errno(errno, "cannot accept a connection (raise the limit of open files, ulimit -n)");
    }
    // Anything else is about a connection that ended before it was taken.
  }
}

std::vector<std::string> own_addresses() {
  std::vector<std::string> all;
  const std::string name = host_name();
  if (!name.empty()) all.push_back(name);
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return all;
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, &::freeifaddrs);
  for (const ifaddrs* i = list; i != nullptr && all.size() < kMostOwnAddresses; i = i->ifa_next) {
    if (i->ifa_addr == nullptr) continue;
    char text[INET6_ADDRSTRLEN] = "";
    if (i->ifa_addr->sa_family == AF_INET) {
      const auto* address = reinterpret_cast<const sockaddr_in*>(i->ifa_addr);
      const std::uint32_t bits = ntohl(address->sin_addr.s_addr);
      if (bits >> 24U == 127 || bits >> 16U == 0xA9FE) continue;
      ::inet_ntop(AF_INET, &address->sin_addr, text, sizeof text);
    } else if (i->ifa_addr->sa_family == AF_INET6) {
      const auto* address = reinterpret_cast<const sockaddr_in6*>(i->ifa_addr);
      if (IN6_IS_ADDR_LOOPBACK(&address->sin6_addr) || IN6_IS_ADDR_LINKLOCAL(&address->sin6_addr)) {
        continue;
      }
      ::inet_ntop(AF_INET6, &address->sin6_addr, text, sizeof text);
    }
    if (text[0] != '\0') all.emplace_back(text);
  }
  return all;
}

}  // namespace regatta::base
