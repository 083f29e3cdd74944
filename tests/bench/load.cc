#include "tests/bench/load.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>

#include "base/text.h"
#include "base/unique_fd.h"

namespace regatta::bench {
namespace {

using Clock = std::chrono::steady_clock;

std::string text_of(const Place& place, const Call& call) {
  std::string text = call.method + " /api/v1" + call.target +
                     " HTTP/1.1\r\nHost: 127.0.0.1:" + std::to_string(place.port) +
                     "\r\nAuthorization: Bearer " + place.token + "\r\n" + call.headers;
  if (call.method != "GET") {
    text +=
        "Content-Type: application/json\r\nContent-Length: " + std::to_string(call.body.size()) +
        "\r\n";
  }
  return text + "\r\n" + call.body;
}

bool send_all(int socket, const std::string& text) {
  std::size_t sent = 0;
  while (sent < text.size()) {
    const ssize_t count = ::send(socket, text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
    if (count <= 0) return false;
    sent += static_cast<std::size_t>(count);
  }
  return true;
}

// Without one, -1.
base::UniqueFd connected(const Place& place) {
  base::UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(place.port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const timeval patience{30, 0};
  ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  if (::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
    return base::UniqueFd();
  }
  return socket;
}

HttpAnswer exchange(int socket, const Place& place, const Call& call) {
  if (!send_all(socket, text_of(place, call))) return {};
  std::string answer;
  std::array<char, 65536> part{};
  while (true) {
    const ssize_t count = ::recv(socket, part.data(), part.size(), 0);
    if (count < 0) return {};
    if (count == 0) break;
    answer.append(part.data(), static_cast<std::size_t>(count));
  }
  const std::size_t blank = answer.find("\r\n\r\n");
  if (answer.size() < 12 || blank == std::string::npos) return {};
  return {static_cast<int>(base::parse_integer(answer.substr(9, 3)).value_or(0)),
          answer.substr(blank + 4)};
}

void take(const HttpAnswer& answer, double took, Latencies* latencies) {
  latencies->seconds.push_back(took);
  if (answer.status == 200 || answer.status == 201 || answer.status == 304) return;
  if (latencies->failed++ == 0) {
    latencies->failure = std::to_string(answer.status) + ": " + answer.body.substr(0, 300);
  }
}

Clock::duration duration_of(double seconds) {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

}  // namespace

HttpAnswer ask(const Place& place, const Call& call) {
  const base::UniqueFd socket = connected(place);
  return !socket.valid() ? HttpAnswer{} : exchange(socket.get(), place, call);
}

double Latencies::at(double share) const {
  if (seconds.empty()) return 0;
  return seconds[static_cast<std::size_t>(share * static_cast<double>(seconds.size() - 1))];
}

Latencies put_load(const Place& place, const Load& load,
                   const std::function<Call(int number)>& call) {
  const int count = static_cast<int>(load.per_second * load.seconds);
  const auto begin = Clock::now() + std::chrono::milliseconds(20);
  std::atomic<int> next = 0;
  std::mutex mutex;
  Latencies latencies;
  const auto work = [&] {
    for (int number = next++; number < count; number = next++) {
      const auto due = begin + duration_of(number / load.per_second);
      std::this_thread::sleep_until(due);
      const HttpAnswer answer = ask(place, call(number));
      const double took = std::chrono::duration<double>(Clock::now() - due).count();
      const std::scoped_lock lock(mutex);
      take(answer, took, &latencies);
    }
  };
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < std::min(load.most_at_once, count); ++i) threads.emplace_back(work);
  }
  std::sort(latencies.seconds.begin(), latencies.seconds.end());
  return latencies;
}

Viewed put_viewers(const Place& place, const Viewers& viewers,
                   const std::function<Call(int viewer)>& call) {
  const auto begin = Clock::now() + std::chrono::seconds(1);  // until when all have connected
  const auto end = begin + duration_of(viewers.seconds);
  std::atomic<int> open = 0;
  std::mutex mutex;
  Viewed viewed;
  const auto view = [&](int viewer) {
    const double share = static_cast<double>(viewer) / viewers.count;
    for (int turn = 0;; ++turn) {
      const base::UniqueFd socket = connected(place);
      if (socket.valid()) ++open;
      const auto due = begin + duration_of((turn + share) * viewers.period_seconds);
      std::this_thread::sleep_until(std::min(due, end));
      const bool over = due >= end;
      if (!over) {
        const HttpAnswer answer =
            !socket.valid() ? HttpAnswer{} : exchange(socket.get(), place, call(viewer));
        const std::scoped_lock lock(mutex);
        take(answer, std::chrono::duration<double>(Clock::now() - due).count(), &viewed.latencies);
      }
      if (socket.valid()) --open;
      if (over) return;
    }
  };
  {
    std::vector<std::jthread> threads;
    for (int viewer = 0; viewer < viewers.count; ++viewer) threads.emplace_back(view, viewer);
    std::this_thread::sleep_until(begin);
    viewed.most_open = viewed.least_open = open;
    // Before the first of them leaves.
    while (Clock::now() + std::chrono::milliseconds(10) < end) {
      const int now = open;
      viewed.most_open = std::max(viewed.most_open, now);
      viewed.least_open = std::min(viewed.least_open, now);
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }
  std::sort(viewed.latencies.seconds.begin(), viewed.latencies.seconds.end());
  return viewed;
}

}  // namespace regatta::bench
