// TCP connections with deadlines, over IPv4 and IPv6.
#pragma once

#include <poll.h>

#include <chrono>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/unique_fd.h"

namespace regatta::base {

using Deadline = std::chrono::steady_clock::time_point;
// So many seconds from now. Any number is allowed: it is cut to the range from 0 to a century.
[[nodiscard]] Deadline deadline_in(double seconds);

struct Endpoint {
  std::string host;
  int port = 0;
};
// "node1:20000", "[::1]:20000"; Code::User when the text is something else.
[[nodiscard]] Endpoint parse_endpoint(std::string_view text);

// Waits until one of the descriptors is ready; false if the deadline passed first.
[[nodiscard]] bool poll_until(std::span<pollfd> waiting, Deadline deadline);

// One connection. A peer that closed it, a broken network and a deadline that passed throw
// Code::Retry; after that the connection is good for nothing but destruction. One thread may send
// while another receives; shut_down() may come from any thread and ends what waits.
class Socket {
 public:
  Socket() = default;
  // Takes over a connected descriptor.
  explicit Socket(UniqueFd fd);
  // Tries every address of every host in turn, and again, until one answers: the peer may only be
  // about to listen. Resolving a name may outlast the deadline (it is the system's).
  [[nodiscard]] static Socket connect(const std::vector<std::string>& hosts, int port,
                                      Deadline deadline);

  void send_all(std::span<const std::byte> bytes, Deadline deadline);
  void receive_all(std::span<std::byte> bytes, Deadline deadline);
  // Do not wait: move what can be moved at once, and return how many bytes that was, possibly 0.
  [[nodiscard]] std::size_t send_some(std::span<const std::byte> bytes);
  [[nodiscard]] std::size_t receive_some(std::span<std::byte> bytes);

  // Closes the sending half: the peer reads what was sent, then the end; receiving goes on.
  void finish_sending() noexcept;
  // Closes both halves, so that calls that wait on other threads end.
  void shut_down() noexcept;

  [[nodiscard]] bool valid() const { return fd_.valid(); }
  [[nodiscard]] int fd() const { return fd_.get(); }
  [[nodiscard]] const std::string& peer() const { return peer_; }  // "10.0.0.3:41288"

 private:
  UniqueFd fd_;
  std::string peer_;
};

class Listener {
 public:
  // host: empty for all of this machine's addresses; port: 0 for a free one. Code::Operator when
  // the port is taken or the host is not this machine.
  Listener(const std::string& host, int port);

  [[nodiscard]] int port() const { return port_; }
  [[nodiscard]] int fd() const { return fd_.get(); }
  // Nothing when nobody is waiting; Code::Operator when there are no descriptors left.
  [[nodiscard]] std::optional<Socket> accept_some();

 private:
  UniqueFd fd_;
  int port_ = 0;
};

// This machine, as others may reach it: its name, then the addresses of its interfaces (at most 16;
// neither loopback nor link-local ones).
[[nodiscard]] std::vector<std::string> own_addresses();

}  // namespace regatta::base
