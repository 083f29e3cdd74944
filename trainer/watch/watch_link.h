// One connection of the watchdog: short messages in frames (kind, size, bytes), in the machine's
// order, that never block.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/socket.h"
#include "trainer/watch/rank_progress.h"

namespace regatta::trainer::watch {

enum class WatchKind : std::uint32_t { Beat = 1, Answer, Trip, Goodbye, Failed };

struct WatchMessage {
  WatchKind kind = WatchKind::Beat;
  RankProgress progress{};  // of a Beat or an Answer; without its rank
  Trip trip{};              // of a Trip
};

class WatchLink {
 public:
  static constexpr std::size_t kMostText = 2000;  // of what a Trip says

  WatchLink() = default;
  explicit WatchLink(base::Socket socket) : socket_(std::move(socket)) {}

  // What came next, if it is there. Code::Retry when the other end closed, or sends what is no
  // message.
  [[nodiscard]] std::optional<WatchMessage> receive();
  // Sends what can be sent now. While an earlier message waits, a Beat or an Answer is left out: a
  // later one says more. Code::Retry when the other end closed.
  void send(const WatchMessage& message);
  void flush();
  [[nodiscard]] bool is_flushed() const { return out_.empty(); }

  [[nodiscard]] base::Socket& socket() { return socket_; }
  void close() { socket_ = {}; }
  [[nodiscard]] bool is_open() const { return socket_.valid(); }

 private:
  base::Socket socket_;
  std::string in_, out_;
};

}  // namespace regatta::trainer::watch
