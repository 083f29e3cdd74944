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

}  // namespace

HttpAnswer ask(const Place& place, const Call& call) {
  const base::UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(place.port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const timeval patience{30, 0};
  ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  if (::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0)
    return {};
  if (!send_all(socket.get(), text_of(place, call))) return {};
  std::string answer;
  std::array<char, 65536> part{};
  while (true) {
    const ssize_t count = ::recv(socket.get(), part.data(), part.size(), 0);
    if (count < 0) return {};
    if (count == 0) break;
    answer.append(part.data(), static_cast<std::size_t>(count));
  }
  const std::size_t blank = answer.find("\r\n\r\n");
  if (answer.size() < 12 || blank == std::string::npos) return {};
  return {static_cast<int>(base::parse_integer(answer.substr(9, 3)).value_or(0)),
          answer.substr(blank + 4)};
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
      const auto due = begin + std::chrono::duration_cast<Clock::duration>(
                                   std::chrono::duration<double>(number / load.per_second));
      std::this_thread::sleep_until(due);
      const HttpAnswer answer = ask(place, call(number));
      const double took = std::chrono::duration<double>(Clock::now() - due).count();
      const std::scoped_lock lock(mutex);
      latencies.seconds.push_back(took);
      if (answer.status == 200 || answer.status == 201 || answer.status == 304) continue;
      if (latencies.failed++ == 0) {
        latencies.failure = std::to_string(answer.status) + ": " + answer.body.substr(0, 300);
      }
    }
  };
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < std::min(load.most_at_once, count); ++i) threads.emplace_back(work);
  }
  std::sort(latencies.seconds.begin(), latencies.seconds.end());
  return latencies;
}

}  // namespace regatta::bench
